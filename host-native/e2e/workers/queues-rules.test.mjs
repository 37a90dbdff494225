// When messages come, how often, and where they go in the end.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { run } from "./lib/dev.mjs";

/**
 * A Worker that sends what it is posted, `[[queue binding, messages, options], …]`, and tells when it got what. A body's
 * `fail` says how many of its deliveries fail, and how: by a throw of the whole batch, or a retry with options.
 */
const SCRIPT = `
const told = [];
export default {
	async fetch(request, env) {
		if (request.method !== "POST") return Response.json(told);
		for (const [binding, messages, options] of await request.json()) await env[binding].sendBatch(messages, options);
		return Response.json(Date.now());
	},
	async queue(batch) {
		const at = Date.now();
		told.push({ queue: batch.queue, at, messages: batch.messages.map(({ body, id, attempts }) => ({ body, id, attempts })) });
		for (const message of batch.messages) {
			const { body: { fail = 0, retry, ack }, attempts } = message;
			if (ack) message.ack();
			if (attempts > fail) continue;
			if (retry) message.retry(retry === true ? undefined : retry);
			else throw new Error("as it was told to");
		}
	},
};`;

const NOW = { max_batch_timeout: 0 };
const send = (server, ...sends) => server.ask("w", "/", { method: "POST", body: JSON.stringify(sends) });
const one = (name, more) => ({ body: { name, ...more } });
const producers = (...queues) => queues.map((queue) => ({ binding: queue.toUpperCase().replaceAll("-", "_"), queue }));
const worker = (consumers, more = []) => ({
	name: "w",
	script: SCRIPT,
	queues: { producers: producers(...consumers.map(({ queue }) => queue), ...more), consumers },
});
/** The deliveries of one queue, message by message: name, attempts, and seconds since a time. */
const deliveries = (told, queue, since = 0) =>
	told
		.filter((batch) => batch.queue === queue)
		.flatMap(({ at, messages }) => messages.map(({ body, attempts }) => [body.name, attempts, (at - since) / 1_000]));

test("a message's own delay stands before its batch's, and that before the binding's (R28)", async (t) => {
	const queues = {
		producers: [{ binding: "JOBS", queue: "jobs", delivery_delay: 2 }],
		consumers: [{ queue: "jobs", ...NOW }],
	};
	const server = await run(t, [{ name: "w", script: SCRIPT, queues }]);
	const start = await send(
		server,
		["JOBS", [one("A"), { ...one("B"), delaySeconds: 0 }, { ...one("C"), delaySeconds: 5 }]],
		["JOBS", [one("D"), { ...one("E"), delaySeconds: 1 }], { delaySeconds: 3 }],
	);
	const told = await server.until("w", "/", (told) => deliveries(told, "jobs").length >= 5);
	const came = Object.fromEntries(deliveries(told, "jobs", start).map(([name, , at]) => [name, at]));
	for (const [name, at] of Object.entries({ B: 0, E: 1, A: 2, D: 3, C: 5 })) {
		assert.ok(Math.abs(came[name] - at) < 0.8, `${name} came at ${came[name]} s, not ${at}`);
	}
});

test("a batch is cut when it is full and else when its wait is over (D02)", async (t) => {
	const server = await run(t, [worker([{ queue: "jobs", max_batch_size: 30, max_batch_timeout: 2 }])]);
	const names = (count, from = 0) => Array.from({ length: count }, (_, n) => one(from + n));
	const start = await send(server, ["JOBS", names(30)]);
	const [full] = await server.until("w", "/", (told) => told.length >= 1);
	assert.deepEqual([full.messages.length, full.at - start < 1_000], [30, true]);
	const again = await send(server, ["JOBS", names(29)]);
	const [, late] = await server.until("w", "/", (told) => told.length >= 2);
	assert.equal(late.messages.length, 29);
	assert.ok(Math.abs(late.at - again - 2_000) < 800, `after ${late.at - again} ms`);
});

test("after N retries a message is in the dead-letter queue as it was, its attempts new (R46, P016, P018)", async (t) => {
	const queues = [3, 1, 0].map((max_retries) => ({
		queue: `r${max_retries}`,
		...NOW,
		max_retries,
		dead_letter_queue: `r${max_retries}-dead`,
	}));
	const bare = { queue: "bare", ...NOW, max_retries: 2 };
	const dead = { queue: "r3-dead", ...NOW };
	const server = await run(t, [worker([...queues, bare, dead])]);
	await send(server, ...["R3", "R1", "R0", "BARE"].map((queue) => [queue, [one("x", { fail: queue === "R3" ? 4 : 99 })]]));
	await server.untilQueue("r1-dead", ({ messages }) => messages === 1);
	await server.untilQueue("r0-dead", ({ messages }) => messages === 1);
	const dropped = await server.logged("queue.dropped", ({ queue }) => queue === "bare");
	const told = await server.until("w", "/", (told) => deliveries(told, "r3-dead").length > 0);
	const attempts = (queue) => deliveries(told, queue).map(([, attempts]) => attempts);
	assert.deepEqual([attempts("r3"), attempts("r1"), attempts("r0"), attempts("bare")], [[1, 2, 3, 4], [1, 2], [1], [1, 2, 3]]);
	assert.equal(attempts("r3-dead")[0], 1, "attempts begin anew");
	const ids = (queue) => new Set(told.filter((batch) => batch.queue === queue).flatMap(({ messages }) => messages.map(({ id }) => id)));
	assert.deepEqual(ids("r3-dead"), ids("r3"));
	assert.deepEqual([dropped.attempts, dropped.message], [3, [...ids("bare")][0]]);
	const batch = await server.logged("worker.batch", ({ queue, dead }) => queue === "r0" && dead === 1);
	assert.deepEqual([batch.outcome, batch.messages, batch.acked, batch.retried], ["exception", 1, 0, 0]);
});

test("zeros are settings: at once, once only, and then dead (R22)", async (t) => {
	const zeros = { max_batch_timeout: 0, max_retries: 0, retry_delay: 0, dead_letter_queue: "dead" };
	const server = await run(t, [worker([{ queue: "jobs", ...zeros }])]);
	const start = await send(server, ["JOBS", [one("x", { fail: 9, retry: true })]]);
	await server.untilQueue("dead", ({ messages }) => messages === 1);
	const told = deliveries(await server.ask("w", "/"), "jobs", start);
	assert.equal(told.length, 1);
	assert.ok(told[0][2] < 1, `after ${told[0][2]} s`);
});

test("what was acknowledged before a throw stays so, and the rest comes again (D04)", async (t) => {
	const server = await run(t, [worker([{ queue: "jobs", max_batch_size: 10, ...NOW, retry_delay: 1 }])]);
	const names = Array.from({ length: 10 }, (_, at) => one(at + 1, at < 7 ? { ack: true } : at === 7 ? { fail: 1 } : {}));
	await send(server, ["JOBS", names]);
	const told = await server.until("w", "/", (told) => deliveries(told, "jobs").length >= 13);
	await sleep(1_500);
	assert.equal(deliveries(await server.ask("w", "/"), "jobs").length, 13);
	const again = deliveries(told, "jobs").slice(10).map(([name, attempts]) => [name, attempts]);
	assert.deepEqual(again, [[8, 2], [9, 2], [10, 2]]);
});

test("a retry of some leaves the others acknowledged, and waits as long as it says (D06, R56)", async (t) => {
	const server = await run(t, [worker([{ queue: "jobs", max_batch_size: 10, ...NOW, max_retries: 2, dead_letter_queue: "dead" }])]);
	const retried = { fail: 9, retry: { delaySeconds: 2 } };
	const names = Array.from({ length: 10 }, (_, at) => one(at + 1, at < 2 ? retried : {}));
	const start = await send(server, ["JOBS", names]);
	await server.untilQueue("dead", ({ messages }) => messages === 2);
	const told = deliveries(await server.ask("w", "/"), "jobs", start);
	const of = (name) => told.filter(([it]) => it === name);
	for (const name of [1, 2]) {
		of(name).forEach(([, attempts, at], which) => {
			assert.equal(attempts, which + 1);
			assert.ok(Math.abs(at - 2 * which) < 0.9, `${name}: attempt ${attempts} at ${at} s`);
		});
		assert.equal(of(name).length, 3);
	}
	assert.equal(told.length, 10 + 4, "the other eight came once");
});

test("two queues may be each other's dead letters, and a message goes round at their pace (R14)", async (t) => {
	const cycle = (queue, dead_letter_queue) => ({ queue, max_batch_timeout: 1, max_retries: 0, dead_letter_queue });
	const server = await run(t, [worker([cycle("x", "y"), cycle("y", "x")])]);
	await send(server, ["X", [one("round", { fail: 99 })]]);
	const told = await server.until("w", "/", (told) => told.length >= 4);
	assert.deepEqual(told.slice(0, 4).map(({ queue, messages }) => [queue, messages[0].attempts]), [["x", 1], ["y", 1], ["x", 1], ["y", 1]]);
	const gaps = told.slice(1, 4).map(({ at }, which) => at - told[which].at);
	assert.ok(gaps.every((gap) => gap > 900), `${gaps} ms: a batch waits for its second`);
	assert.equal(new Set(told.map(({ messages }) => messages[0].id)).size, 1);
});

test("a Worker that sends to its own queue goes on until it is empty (R30)", async (t) => {
	const script = `
const ids = new Set();
let deliveries = 0;
export default {
	async fetch(request, env) {
		if (request.method === "POST") await env.Q.send({ gen: 0, lead: true });
		return Response.json({ ids: ids.size, deliveries });
	},
	async queue(batch, env) {
		for (const { id, body } of batch.messages) {
			ids.add(id);
			deliveries += 1;
			if (!body.lead || body.gen >= 20) continue;
			await env.Q.sendBatch(Array.from({ length: 100 }, (_, at) => ({ body: { gen: body.gen + 1, lead: at === 0 } })));
		}
	},
};`;
	const queues = { producers: producers("q"), consumers: [{ queue: "q", max_batch_size: 100, ...NOW }] };
	const server = await run(t, [{ name: "own", script, queues }]);
	await server.ask("own", "/", { method: "POST" });
	await server.until("own", "/", ({ ids }) => ids === 2_001);
	await server.untilQueue("q", ({ messages }) => messages === 0);
	assert.deepEqual(await server.ask("own", "/"), { ids: 2_001, deliveries: 2_001 });
});

test("twenty thousand messages at once are all consumed, each of them once", async (t) => {
	const script = `
const seen = new Set();
let deliveries = 0;
export default {
	async fetch(request, env) {
		if (request.method === "POST") {
			let next = 0;
			const send = async () => {
				while (next < 200) {
					const from = 100 * next++;
					await env.Q.sendBatch(Array.from({ length: 100 }, (_, at) => ({ body: from + at })));
				}
			};
			await Promise.all(Array.from({ length: 20 }, send));
		}
		return Response.json({ seen: seen.size, deliveries });
	},
	queue({ messages }) {
		for (const { body } of messages) seen.add(body), (deliveries += 1);
	},
};`;
	const queues = { producers: producers("q"), consumers: [{ queue: "q", max_batch_size: 100 }] };
	const server = await run(t, [{ name: "burst", script, queues }]);
	await server.ask("burst", "/", { method: "POST" });
	await server.until("burst", "/", ({ seen }) => seen === 20_000, 60_000);
	await server.untilQueue("q", ({ messages }) => messages === 0);
	assert.deepEqual(await server.ask("burst", "/"), { seen: 20_000, deliveries: 20_000 });
});
