// What a producer is told: figures, and refusals with Cloudflare's codes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./lib/dev.mjs";
import { meets } from "./lib/differences.mjs";

/** Carries out what it is asked, and tells what came of it. */
const SCRIPT = `
const ways = {
	send: (env, n) => env.Q.send("x".repeat(n), { contentType: "text" }),
	delay: (env, n) => env.Q.send("x", { contentType: "text", delaySeconds: n }),
	type: (env) => env.Q.send("x", { contentType: "xml" }),
	number: (env) => env.Q.send(7, { contentType: "text" }),
	batch: (env, n) => env.Q.sendBatch(Array.from({ length: n }, (_, body) => ({ body }))),
	batchDelay: (env, n) => env.Q.sendBatch([{ body: 1 }], { delaySeconds: n }),
	ownDelay: (env, n) => env.Q.sendBatch([{ body: 1 }, { body: 2, delaySeconds: n }]),
	two: (env, n) => env.Q.sendBatch([1, 2].map(() => ({ body: "x".repeat(n), contentType: "text" }))),
	three: (env, n) => env.Q.sendBatch([1, 2, 3].map(() => ({ body: "x".repeat(n), contentType: "text" }))),
	metrics: (env) => env.Q.metrics(),
};
export default {
	async fetch(request, env) {
		const query = new URL(request.url).searchParams;
		if (query.has("burst")) {
			const sends = Array.from({ length: Number(query.get("burst")) }, (_, n) => env.Q.send(n));
			const ended = await Promise.allSettled(sends);
			const failed = ended.filter(({ status }) => status === "rejected").map(({ reason }) => reason.message);
			return Response.json({ kept: ended.length - failed.length, failed });
		}
		try {
			return Response.json({ done: await ways[query.get("way")](env, Number(query.get("n"))) });
		} catch (error) {
			return Response.json({ name: error.name, message: error.message });
		}
	},
};`;
const QUEUES = { producers: [{ binding: "Q", queue: "jobs" }] };

function asking(server, name = "w") {
	return (way, n = 0) => server.ask(name, `/?way=${way}&n=${n}`);
}

test("each limit has a code of its own, and a send that breaks one keeps nothing", async (t) => {
	const server = await run(t, [{ name: "w", script: SCRIPT, queues: QUEUES }]);
	const ask = asking(server);
	const refused = async (way, n, code, ...words) => {
		const { message } = await ask(way, n);
		assert.ok(message?.endsWith(`(${code})`), `${way} ${n}: ${message}`);
		for (const word of words) assert.ok(message.includes(word), `${way} ${n}: ${message}`);
	};
	await refused("batch", 101, 10_206, "101", "100");
	await refused("send", 128_001, 10_204, "128001", "128000");
	await refused("two", 128_001, 10_204, "128001", "128000");
	await refused("three", 100_000, 10_205, "300000", "256000");
	await refused("send", 5_000_000, 10_204, "5000000");
	await refused("delay", 86_401, 10_203, "86401", "86400");
	await refused("delay", -1, 10_203);
	await refused("ownDelay", 86_401, 10_203, "message 2");
	await refused("batchDelay", 86_401, 10_202, "86401");
	for (const [way, n] of [["batch", 0], ["type"], ["number"]]) {
		assert.equal((await ask(way, n)).name, "TypeError", "workerd itself refuses it");
	}
	assert.equal(server.queue("jobs").messages, 0);
	for (const [way, n] of [["batch", 100], ["send", 128_000], ["two", 128_000], ["delay", 86_400], ["send", 0]]) {
		assert.ok((await ask(way, n)).done, `${way} ${n}`);
	}
	assert.equal(server.queue("jobs").messages, 105);
});

test("before errors had codes, the reason is in the status line", async (t) => {
	const server = await run(t, [{ name: "w", script: SCRIPT, queues: QUEUES, compatibility_date: "2026-03-11" }]);
	const ask = asking(server);
	assert.match((await ask("send", 128_001)).message, /^Queue send failed: .*128001 bytes.*128000/);
	assert.match((await ask("batch", 101)).message, /^Queue sendBatch failed: .*101 messages.*100/);
});

test("a send is answered with the figures of the queue as it was before", async (t) => {
	const server = await run(t, [{ name: "w", script: SCRIPT, queues: QUEUES }]);
	const ask = asking(server);
	const before = Date.now();
	assert.deepEqual((await ask("send", 10)).done, { metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } });
	const { oldestMessageTimestamp, ...figures } = (await ask("send", 5)).done.metadata.metrics;
	assert.deepEqual(figures, { backlogCount: 1, backlogBytes: 10 });
	const oldest = new Date(oldestMessageTimestamp).getTime();
	assert.ok(oldest >= before && oldest <= Date.now(), oldestMessageTimestamp);
	const now = (await ask("metrics")).done;
	assert.deepEqual(now, { backlogCount: 2, backlogBytes: 15, oldestMessageTimestamp });
});

test("a binding's delivery_delay holds for what says nothing, and an explicit none or another stands before it", async (t) => {
	meets("push-delivery-delay");
	const queues = { producers: [{ binding: "Q", queue: "jobs", delivery_delay: 3_600 }] };
	const server = await run(t, [{ name: "w", script: SCRIPT, queues }]);
	const ask = asking(server);
	const delayed = () => server.queue("jobs").delayed;
	for (const [way, n, now] of [["send", 1, 1], ["delay", 0, 1], ["delay", 60, 2], ["batchDelay", 0, 2], ["batch", 3, 5]]) {
		assert.ok((await ask(way, n)).done);
		assert.equal(delayed(), now, `${way} ${n}`);
	}
	assert.ok((await ask("ownDelay", 0)).done);
	assert.equal(delayed(), 6, "of two, the one that says none");
});

test("of a burst of calls every one is kept or told that it is not, with the code of who may come again", async (t) => {
	const server = await run(t, [{ name: "w", script: SCRIPT, queues: QUEUES }]);
	const { kept, failed } = await server.ask("w", "/?burst=2000");
	assert.ok(kept >= 256, `${kept} kept`);
	assert.ok(failed.every((message) => message.endsWith("(10250)")), failed[0]);
	assert.equal(server.queue("jobs").messages, kept);
});

test("a queue that is deleted while its Worker runs is made again", async (t) => {
	const server = await run(t, [{ name: "w", script: SCRIPT, queues: QUEUES }]);
	const ask = asking(server);
	await ask("send", 1);
	server.jadpo("queues", "delete", "jobs", "--force");
	const answers = [];
	for (let tries = 0; tries < 50 && !answers.at(-1)?.done; tries += 1) {
		answers.push(await ask("send", 1));
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	assert.ok(answers.at(-1).done, JSON.stringify(answers.at(-1)));
	assert.ok(answers.slice(0, -1).every(({ message }) => message.endsWith("(10104)")), JSON.stringify(answers));
});

test("a store that is full is asked again after a pause, and not as fast as it can be (D26)", async (t) => {
	const consumer = { queue: "jobs", max_batch_size: 1, max_batch_timeout: 0, max_concurrency: 2 };
	const script = SCRIPT.replace("export default {", "export default { queue() {}, ");
	// No file of theirs grows past 600 KB: to SQLite that is a disk without room.
	const before = "trap '' XFSZ; ulimit -f 1200";
	const server = await run(t, [{ name: "w", script, queues: { ...QUEUES, consumers: [consumer] } }], { before });
	server.jadpo("queues", "pause", "jobs");
	const ask = asking(server);
	for (let full = false; !full; ) full = (await ask("send", 100_000)).message !== undefined;
	server.jadpo("queues", "resume", "jobs");
	const from = server.log.length;
	const busy = (async () => {
		const ends = Date.now() + 4_000;
		while (Date.now() < ends) await ask("send", 100_000);
	})();
	await server.logged("worker.not_taken", undefined, { from });
	await busy;
	const failed = server.log.slice(from).filter(({ event }) => event === "worker.not_taken").length;
	assert.ok(failed <= 6, `${failed} takes failed`);
});
