// Batches that are cut off: by a workerd that ends under several of them, by a reload, by a stop, by a killed server.
// Whose handler did not fail loses no attempt by it.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { run } from "./lib/dev.mjs";
import { meets } from "./lib/differences.mjs";
import { workerdOf } from "./lib/processes.mjs";

const SENDER = `
export default {
	async fetch(request, env) {
		for (const [binding, body] of await request.json()) await env[binding].send(body);
		return new Response(null, { status: 204 });
	},
};`;
const sender = (...queues) => ({
	name: "sender",
	script: SENDER,
	queues: { producers: queues.map((queue) => ({ binding: queue.toUpperCase(), queue })) },
});
const send = (server, ...pairs) => server.ask("sender", "/", { method: "POST", body: JSON.stringify(pairs) });

const taker = (name, queue, handle, more = {}) => ({
	name,
	script: `export default { async queue({ messages: [{ body, attempts }] }, env) { ${handle} } };`,
	vars: more.vars,
	queues: {
		consumers: [
			{ queue, max_batch_size: 1, max_batch_timeout: 0, max_retries: 0, max_concurrency: 1, dead_letter_queue: `${queue}-dead`, ...more.consumer },
		],
	},
});

/** What handlers have logged of themselves. */
const said = (server, worker) =>
	server.log.filter((it) => it.event === "worker.log" && it.worker === worker).map(({ text }) => text);
const batches = (server, of) => server.log.filter((it) => it.event === "worker.batch" && it.queue === of);

/** Kills workerd each time that this is logged. */
function killedBy(server, text) {
	server.waiting.push((it) => {
		if (it.event === "worker.log" && it.text === text) process.kill(workerdOf(server.child), "SIGKILL");
	});
}

test("who is in workerd when another's batch ends it loses nothing, and the other one dies", async (t) => {
	meets("push-cut-off");
	const server = await run(t, [
		sender("good", "bad"),
		taker("good", "good", `console.log("begins " + body + " " + attempts); await scheduler.wait(700); console.log("ends " + body);`),
		taker("bad", "bad", `console.log("kills"); await scheduler.wait(60_000);`, { consumer: { max_retries: 1 } }),
	]);
	killedBy(server, "kills");
	await send(server, ["GOOD", "a"], ["GOOD", "b"], ["GOOD", "c"], ["BAD", "x"]);
	await server.untilQueue("bad-dead", ({ messages }) => messages === 1, 30_000);
	await server.untilQueue("good", ({ messages }) => messages === 0);
	await server.logged("worker.log", ({ text }) => text === "ends c");
	const good = said(server, "good");
	assert.deepEqual(good.filter((text) => text.startsWith("ends")), ["ends a", "ends b", "ends c"], "in order, and once");
	assert.ok(good.filter((text) => text.startsWith("begins")).every((text) => text.endsWith(" 1")), good.join());
	assert.equal(server.queue("good-dead").messages, 0);
	const cut = batches(server, "bad");
	assert.deepEqual(cut.map(({ released, retried, dead }) => [released ?? 0, retried, dead]), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]);
	assert.match(cut[0].error, /nobody knows whose doing it was/);
	const [letter] = server.jadpo("queues", "dead-letters", "bad", "--json").messages;
	assert.equal(letter.dead.attempts, 2);
	assert.match(letter.dead.error, /daemonDown: .*nothing else ran in it/);
});

test("a thread that is held by one batch costs the other one no attempt", async (t) => {
	let asked = 0;
	const counter = createServer((_, response) => response.end(String((asked += 1))));
	await new Promise((resolve) => counter.listen(0, "127.0.0.1", resolve));
	t.after(() => {
		counter.closeAllConnections();
		counter.close();
	});
	const vars = { COUNTER: `http://127.0.0.1:${counter.address().port}/` };
	const server = await run(t, [
		sender("good", "bad"),
		taker("good", "good", `await scheduler.wait(3_000); console.log("ends " + attempts);`),
		taker(
			"bad",
			"bad",
			`await scheduler.wait(500); if ((await (await fetch(env.COUNTER)).text()) === "1") for (;;) {} console.log("ends " + attempts);`,
			{ vars },
		),
	]);
	await send(server, ["GOOD", "a"], ["BAD", "x"]);
	assert.equal((await server.logged("workerd.ended", undefined, { within: 60_000 })).outcome, "exceededCpu");
	for (const name of ["good", "bad"]) await server.logged("worker.log", ({ worker, text }) => worker === name && text === "ends 1");
	assert.deepEqual([said(server, "good"), said(server, "bad")], [["ends 1"], ["ends 1"]]);
});

test("what a reload cuts off is handed to the new code, and the attempt does not count", async (t) => {
	const slow = (nth) => taker("slow", "jobs", `console.log("${nth} gets " + attempts); await scheduler.wait(60_000);`);
	const server = await run(t, [sender("jobs"), slow("first")]);
	await send(server, ["JOBS", "x"]);
	await server.logged("worker.log", ({ text }) => text === "first gets 1");
	for (const nth of ["second", "third"]) {
		server.write(slow(nth));
		await server.logged("worker.log", ({ text }) => text === `${nth} gets 1`);
	}
	server.write(taker("slow", "jobs", `console.log("done " + attempts);`));
	await server.logged("worker.log", ({ text }) => text === "done 1");
	await server.untilQueue("jobs", ({ messages }) => messages === 0);
	assert.equal(server.queue("jobs-dead").messages, 0);
	const cut = batches(server, "jobs").slice(0, 3);
	assert.deepEqual(cut.map(({ outcome, released }) => [outcome, released]), Array(3).fill(["canceled", 1]));
});

for (const signal of ["SIGTERM", "SIGKILL"]) {
	test(`what runs on when the server ends by ${signal} is given back, and the attempt does not count`, async (t) => {
		const stuck = taker("stuck", "jobs", `console.log("begins"); await scheduler.wait(120_000);`);
		const server = await run(t, [sender("jobs"), stuck]);
		await send(server, ["JOBS", "x"], ["JOBS", "y"]);
		await server.logged("worker.log", ({ text }) => text === "begins");
		await server.stop(signal);
		const orderly = signal === "SIGTERM";
		const { in_flight, messages } = server.queue("jobs");
		assert.deepEqual([in_flight, messages], [orderly ? 0 : 1, 2]);
		const well = taker("stuck", "jobs", `console.log(body + " " + attempts);`);
		const again = await run(t, [sender("jobs"), well], { folder: server.folder });
		await again.untilQueue("jobs", (queue) => queue.messages === 0);
		await again.logged("worker.log", ({ text }) => text === "y 1");
		assert.deepEqual(said(again, "stuck"), ["x 1", "y 1"]);
		assert.equal(again.log.filter(({ event }) => event === "worker.reclaimed").length, orderly ? 0 : 1);
		assert.equal(again.queue("jobs-dead").messages, 0);
	});
}
