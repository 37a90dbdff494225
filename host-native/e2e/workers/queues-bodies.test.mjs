// What a message is when it arrives: its body by content type, its id, its time, its attempts; and what cannot arrive.

import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./lib/dev.mjs";
import { meets } from "./lib/differences.mjs";

/** What is sent, and the sender's view of what must arrive; both Workers import it. */
const VALUES = `
const cycle = { name: "cycle" };
cycle.self = cycle;
export const values = {
	json: [{ a: [1, 2.5, "x"], b: null, c: { d: true } }, null, 0, -1.5, "text", "", [], false, "ünï 🎉 \\u2028 \\u0000 end"],
	text: ["hello", "", "ünï 🎉", "\\ufeffwith a mark", "line\\nline"],
	bytes: [new Uint8Array([0, 1, 255]), new Uint16Array([1, 2, 3]), new Uint8Array(0), new DataView(new ArrayBuffer(2))],
	v8: [
		new Map([["k", 1n], [2, new Set(["a"])]]), new Date(1e12), 2n ** 70n, cycle, /x+/gi, null, NaN, -0, undefined ?? 7,
		[, 1], new Float64Array([0.5]), new Uint8Array([1]).buffer, new Error("bad", { cause: "why" }),
		new RangeError("far"), { u: undefined }, Object(1), new Int8Array([-1]), new BigInt64Array([5n]),
	],
};
/** Bytes arrive as their bytes, whichever view of them was sent. */
export const arrives = (type, value) =>
	type === "bytes" ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : value;
`;

const SENDER = `
import { values } from "./values.mjs";
export default {
	async fetch(request, env) {
		const { pathname } = new URL(request.url);
		for (const [contentType, all] of Object.entries(values)) {
			if (pathname === "/batch") await env.Q.sendBatch(all.map((body) => ({ body, contentType })));
			else for (const body of all) await env.Q.send(structuredClone(body), { contentType });
		}
		return new Response(null, { status: 204 });
	},
};`;

const TAKER = `
import assert from "node:assert";
import { values, arrives } from "./values.mjs";
const wanted = Object.entries(values).flatMap(([type, all]) => all.map((value) => [type, arrives(type, value)]));
const told = [];
export default {
	fetch: () => Response.json(told),
	queue({ messages }) {
		for (const { body } of messages) {
			const [type, value] = wanted[told.length % wanted.length];
			try {
				// Where an error was made is another place.
				const parts = (it) => it instanceof Error ? [it.constructor, it.name, it.message, it.cause] : it;
				assert.deepStrictEqual(parts(body), parts(value));
				if (type === "bytes") assert.strictEqual(body.constructor.name, "Uint8Array");
				told.push("equal");
			} catch (error) {
				told.push(type + ": " + error.message);
			}
		}
	},
};`;

const files = { "values.mjs": VALUES };
const CONSUMED = { queue: "values", max_batch_size: 100, max_batch_timeout: 0, max_concurrency: 1 };

test("every content type arrives as what it was, sent one by one or as a batch, from one Worker to another", async (t) => {
	const server = await run(t, [
		{ name: "sender", script: SENDER, files, queues: { producers: [{ binding: "Q", queue: "values" }] } },
		{
			name: "taker",
			script: TAKER,
			files,
			compatibility_flags: ["nodejs_compat"],
			queues: { consumers: [CONSUMED] },
		},
	]);
	await fetch(new URL("/one", server.urls.sender));
	const one = await server.until("taker", "/", (told) => told.length >= 36);
	assert.deepEqual([...new Set(one)], ["equal"]);
	await fetch(new URL("/batch", server.urls.sender));
	const both = await server.until("taker", "/", (told) => told.length >= 2 * one.length);
	assert.deepEqual([both.length, ...new Set(both)], [2 * one.length, "equal"]);
});

test("before json was the default, a body without a content type was v8's", async (t) => {
	const script = `
const told = [];
export default {
	async fetch(request, env) {
		if (request.method === "POST") await env.Q.send(new Map([["k", 1n]]));
		return Response.json(told);
	},
	queue({ messages }) {
		for (const { body } of messages) told.push(body.constructor.name + " " + body.get("k"));
	},
};`;
	const queues = {
		producers: [{ binding: "Q", queue: "old" }],
		consumers: [{ queue: "old", max_batch_timeout: 0 }],
	};
	const server = await run(t, [{ name: "old", script, compatibility_date: "2024-03-17", queues }]);
	await server.ask("old", "/", { method: "POST" });
	assert.deepEqual(await server.until("old", "/", (told) => told.length > 0), ["Map 1"]);
	const [pulled] = server.jadpo("queues", "list", "--json").queues;
	assert.equal(pulled.consumer.worker, "old");
});

/** Tells of every batch whole, and fails the first delivery of what says so. */
const TELLER = `
const told = [];
export default {
	async fetch(request, env) {
		const body = await request.json().catch(() => undefined);
		if (request.method === "POST") return Response.json(await env.Q.sendBatch(body.map((body) => ({ body }))));
		return Response.json(told);
	},
	queue(batch) {
		told.push({
			queue: batch.queue,
			own: Object.keys(batch),
			class: batch.constructor.name,
			metrics: batch.metadata.metrics,
			messages: batch.messages.map((m) => ({
				id: m.id, sent: m.timestamp.getTime(), isDate: m.timestamp instanceof Date, body: m.body, attempts: m.attempts,
				class: m.constructor.name,
			})),
		});
		for (const m of batch.messages) if (m.body === "again" && m.attempts < 3) m.retry({ delaySeconds: 1 });
	},
};`;

test("a message keeps its id and its time over retries, and its attempts count from one", async (t) => {
	const queues = {
		producers: [{ binding: "Q", queue: "jobs" }],
		consumers: [{ queue: "jobs", max_batch_size: 3, max_batch_timeout: 0, max_concurrency: 1 }],
	};
	const server = await run(t, [{ name: "teller", script: TELLER, queues }]);
	const before = Date.now();
	await server.ask("teller", "/", { method: "POST", body: JSON.stringify(["again", "b", "c", "d", "e"]) });
	const after = Date.now();
	const told = await server.until("teller", "/", (told) => told.length >= 4);
	const [first, second, ...again] = told;
	assert.deepEqual(first.messages.map(({ body }) => body), ["again", "b", "c"]);
	assert.deepEqual(second.messages.map(({ body }) => body), ["d", "e"]);
	assert.deepEqual([first.queue, first.class, first.own.sort()], ["jobs", "QueueController", ["messages", "metadata", "queue"]]);
	const [message] = first.messages;
	assert.match(message.id, /^[0-9a-f]{32}$/);
	assert.ok(message.isDate && message.sent >= before && message.sent <= after, `${before} ${message.sent} ${after}`);
	assert.equal(message.class, "QueueMessage");
	assert.equal(first.metrics.backlogCount, 2, "what the queue holds beside the batch");
	assert.equal(first.metrics.backlogBytes, '"d""e"'.length);
	assert.equal(new Date(first.metrics.oldestMessageTimestamp).getTime(), second.messages[0].sent);
	assert.deepEqual(
		again.map(({ messages }) => messages),
		[2, 3].map((attempts) => [{ ...message, attempts }]),
	);
});

test("what no handler can be given takes nothing else along, is retried, and dies with the reason", async (t) => {
	meets("push-unreadable");
	const queues = {
		producers: [{ binding: "Q", queue: "jobs" }],
		consumers: [
			{ queue: "jobs", max_batch_size: 4, max_batch_timeout: 1, max_retries: 1, dead_letter_queue: "jobs-dead" },
		],
	};
	const server = await run(t, [{ name: "teller", script: TELLER, queues }]);
	const origin = server.url.replace(/\/client.*/, "");
	const post = async (body, type) => {
		const sent = await fetch(`${origin}/_queues/jobs`, { method: "POST", headers: { "content-type": type }, body });
		assert.equal(sent.status, 202, await sent.text());
	};
	await post('{"half":', "application/json");
	await post('{"whole":true}', "application/json");
	await post(`${"[".repeat(60_000)}${"]".repeat(60_000)}`, "application/json");
	await post(`${"[".repeat(200)}${"]".repeat(200)}`, "application/json");
	const dead = await server.untilQueue("jobs-dead", ({ messages }) => messages === 2);
	assert.equal(dead.messages, 2);
	const told = await server.ask("teller", "/");
	const bodies = told.flatMap(({ messages }) => messages.map(({ body }) => JSON.stringify(body).slice(0, 20)));
	assert.deepEqual(bodies, ['{"whole":true}', "[".repeat(20)]);
	const letters = server.jadpo("queues", "dead-letters", "jobs", "--json").messages;
	const errors = letters.map(({ dead }) => `${dead.attempts} ${dead.reason} ${dead.error}`).sort();
	assert.match(errors[0], /^2 failed no Worker can be given its body: Maximum call stack/);
	assert.match(errors[1], /^2 failed no Worker can be given its body: json: /);
	assert.ok(server.log.some(({ event, queue }) => event === "worker.unreadable" && queue === "jobs"));
});

test("workerd itself cuts a text at its first NUL before it reaches the queue", async (t) => {
	meets("push-text-nul");
	const script = `${TELLER.replace("export default", "const worker =")}
export default { ...worker, async fetch(request, env) {
	if (request.method === "POST") {
		await env.Q.send("before\\u0000after", { contentType: "text" });
		await env.Q.sendBatch([{ body: "before\\u0000after", contentType: "text" }]);
		await env.Q.send("before\\u0000after", { contentType: "json" });
	}
	return worker.fetch(new Request(request.url), env);
} };`;
	const queues = {
		producers: [{ binding: "Q", queue: "jobs" }],
		consumers: [{ queue: "jobs", max_batch_size: 3, max_batch_timeout: 1 }],
	};
	const server = await run(t, [{ name: "teller", script, queues }]);
	await server.ask("teller", "/", { method: "POST" });
	const told = await server.until("teller", "/", (told) => told.length > 0);
	const bodies = told.flatMap(({ messages }) => messages.map(({ body }) => body));
	assert.deepEqual(bodies, ["before", "before", "before\u0000after"]);
});

test("a full batch of the biggest messages arrives whole", async (t) => {
	const script = `
const told = [];
export default {
	async fetch(request, env) {
		const one = { body: "x".repeat(128_000), contentType: "text" };
		if (request.method === "POST") for (let sent = 0; sent < 300; sent += 2) await env.Q.sendBatch([one, one]);
		return Response.json(told);
	},
	queue({ messages }) {
		told.push([messages.length, messages.reduce((sum, { body }) => sum + body.length, 0)]);
	},
};`;
	const queues = {
		producers: [{ binding: "Q", queue: "big" }],
		consumers: [{ queue: "big", max_batch_size: 100, max_batch_timeout: 10 }],
	};
	const server = await run(t, [{ name: "big", script, queues }]);
	await server.ask("big", "/", { method: "POST" });
	const told = await server.until("big", "/", (told) => told.length === 3);
	assert.deepEqual(told, [1, 2, 3].map(() => [100, 12_800_000]));
});
