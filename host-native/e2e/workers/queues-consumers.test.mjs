// Who consumes a queue: one Worker, whatever its syntax; when nobody does; and how many batches at a time.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { run } from "./lib/dev.mjs";
import { meets, rows } from "./lib/differences.mjs";

const SENDER = `
export default {
	async fetch(request, env) {
		const { binding = "Q", bodies } = await request.json();
		await env[binding].sendBatch(bodies.map((body) => ({ body })));
		return new Response(null, { status: 204 });
	},
};`;
const TELLER = `
const told = [];
export default {
	fetch: () => Response.json(told),
	queue(batch) {
		for (const { body, attempts } of batch.messages) told.push([batch.queue, body, attempts]);
	},
};`;
const NOW = { max_batch_timeout: 0 };
const sender = (...queues) => ({
	name: "sender",
	script: SENDER,
	queues: { producers: queues.map((queue, at) => ({ binding: at === 0 ? "Q" : `Q${at}`, queue })) },
});
const taker = (name, ...queues) => ({
	name,
	script: TELLER,
	queues: { consumers: queues.map((queue) => ({ queue, ...NOW })) },
});
const send = (server, ...bodies) => server.ask("sender", "/", { method: "POST", body: JSON.stringify({ bodies }) });

function folder(t) {
	const folder = mkdtempSync(join(tmpdir(), "jadpo-workers-"));
	t.after(() => rmSync(folder, { recursive: true, force: true }));
	return folder;
}

/** Runs what is expected to be refused before anything starts; what it said. */
async function refused(t, workers, options) {
	const error = await run(t, workers, options).then(
		() => assert.fail("it runs"),
		(error) => error,
	);
	return error.message;
}

test("every row of the table of differences about queues is met by a test of theirs", () => {
	const here = new URL(".", import.meta.url);
	const files = readdirSync(here).filter((name) => /^queues.*\.test\.mjs$/.test(name));
	const tests = files.map((name) => readFileSync(new URL(name, here), "utf8")).join("\n");
	const stale = Object.keys(rows("push-")).filter((name) => !tests.includes(`meets("${name}")`));
	assert.deepEqual(stale, []);
});

test("several Workers each get their queues, and one may have many", async (t) => {
	const server = await run(t, [sender("a", "b", "c"), taker("one", "a"), taker("two", "b", "c")]);
	for (const binding of ["Q", "Q1", "Q2"]) {
		await server.ask("sender", "/", { method: "POST", body: JSON.stringify({ binding, bodies: [binding] }) });
	}
	const two = await server.until("two", "/", (told) => told.length === 2);
	assert.deepEqual(two.sort(), [["b", "Q1", 1], ["c", "Q2", 1]]);
	assert.deepEqual(await server.until("one", "/", (told) => told.length === 1), [["a", "Q", 1]]);
});

test("a queue that nobody consumes keeps its messages for the one who comes (R32)", async (t) => {
	const at = folder(t);
	const first = await run(t, [sender("jobs")], { folder: at });
	await send(first, "x", "y", "z");
	await sleep(1_500);
	assert.equal(first.queue("jobs").messages, 3);
	await first.stop();
	const second = await run(t, [sender("jobs")], { folder: at });
	const said = await second.logged("queue.no_consumer");
	assert.deepEqual([said.queue, said.messages], ["jobs", 3]);
	await second.stop();
	const third = await run(t, [sender("jobs"), taker("late", "jobs")], { folder: at });
	const told = await third.until("late", "/", (told) => told.length === 3);
	assert.deepEqual(told, [["jobs", "x", 1], ["jobs", "y", 1], ["jobs", "z", 1]]);
});

test("a queue has one consumer: a second Worker, and whoever pulls, are refused by name (R24)", async (t) => {
	const both = await refused(t, [taker("one", "mail"), taker("two", "mail")]);
	assert.match(both, /`mail`/);
	assert.match(both, /`one`/);
	assert.match(both, /`two`/);
	const at = folder(t);
	const server = await run(t, [taker("one", "mail")], { folder: at });
	assert.equal(server.queue("mail").consumer.worker, "one");
	const pulling = () => server.jadpo("queues", "pull", "mail");
	assert.throws(pulling, /`mail` has a consumer already, the Worker `one`/);
	const { account, url, token } = server.log.find(({ event }) => event === "api.ready");
	const api = async (path, body) => {
		const init = { headers: { authorization: `Bearer ${token}`, "content-type": "application/json" } };
		const response = await fetch(`${url}/accounts/${account}${path}`, {
			...init,
			...(body ? { method: "POST", body: JSON.stringify(body) } : {}),
		});
		return await response.json();
	};
	const [queue] = (await api("/queues")).result;
	assert.deepEqual(queue.consumers.map(({ type, script_name }) => [type, script_name]), [["worker", "one"]]);
	const added = await api(`/queues/${queue.queue_id}/consumers`, { type: "http_pull" });
	assert.equal(added.errors[0].code, 11_004);
	const pulled = await api(`/queues/${queue.queue_id}/messages/pull`, {});
	assert.match(pulled.errors[0].message, /its consumer is the Worker `one`/);
	await server.stop();
	// The other way round: who pulls was first.
	const other = folder(t);
	const empty = await run(t, [sender("mail")], { folder: other });
	empty.jadpo("queues", "pull", "mail");
	await empty.stop();
	const why = await refused(t, [taker("one", "mail")], { folder: other });
	assert.match(why, /`mail` has a consumer already, an http_pull consumer/);
});

test("an app's function and a Worker cannot both have a queue", async (t) => {
	const at = folder(t);
	const app = `app: "shop"
connections: { jobs: { driver: Driver.local_queue, queue: "jobs", functions: [go] } }
functions: { go: { call: "http://127.0.0.1:9/" } }
deployables: { server: { target: Target.native, triggers: [Trigger.http] } }
`;
	writeFileSync(join(at, "app.jadpo"), app);
	const why = await refused(t, [taker("one", "jobs")], { folder: at, args: ["app.jadpo"] });
	assert.match(why, /`jobs`/);
	assert.match(why, /`go`/);
	assert.match(why, /`one`/);
});

test("a Worker without a queue handler is told of, and its messages are tried as often as any and then dead (R26)", async (t) => {
	meets("push-no-handler");
	const script = `export default { fetch: () => new Response("[]") };`;
	const queues = { consumers: [{ queue: "jobs", ...NOW, max_retries: 2, dead_letter_queue: "jobs-dead" }] };
	const server = await run(t, [sender("jobs"), { name: "mute", script, queues }]);
	const said = await server.logged("worker.no_handler");
	assert.deepEqual([said.worker, said.queue, said.code], ["mute", "jobs", 11_001]);
	await send(server, "x");
	await server.logged("worker.batch", ({ queue, dead }) => queue === "jobs" && dead === 1);
	assert.equal(server.log.filter(({ event, queue }) => event === "worker.batch" && queue === "jobs").length, 3);
	assert.equal(server.log.filter(({ event }) => event === "worker.no_handler").length, 1);
	const [letter] = server.jadpo("queues", "dead-letters", "jobs", "--json").messages;
	assert.equal(letter.dead.attempts, 3);
});

test("a class and a Worker in the old syntax consume as any other", async (t) => {
	const entrypoint = `
import { WorkerEntrypoint } from "cloudflare:workers";
const told = [];
export default class extends WorkerEntrypoint {
	fetch() { return Response.json(told); }
	queue(batch) {
		for (const m of batch.messages) {
			told.push([batch.queue, m.body, m.attempts, typeof this.env.NAME, typeof this.ctx.waitUntil]);
			if (m.attempts === 1) m.retry();
		}
	}
}`;
	const old = `
const told = [];
addEventListener("fetch", (event) => event.respondWith(Response.json(told)));
addEventListener("queue", (event) => {
	for (const m of event.messages) {
		told.push([event.queue, m.body, m.attempts]);
		if (m.attempts === 1) m.retry();
	}
	event.waitUntil(new Promise((resolve) => setTimeout(resolve, 100)));
});`;
	const queues = (queue) => ({ consumers: [{ queue, ...NOW }] });
	const server = await run(t, [
		sender("new", "old"),
		{ name: "class", script: entrypoint, vars: { NAME: "x" }, queues: queues("new") },
		{ name: "old", script: old, queues: queues("old") },
	]);
	for (const binding of ["Q", "Q1"]) {
		await server.ask("sender", "/", { method: "POST", body: JSON.stringify({ binding, bodies: ["x"] }) });
	}
	const told = await server.until("class", "/", (told) => told.length === 2);
	assert.deepEqual(told, [1, 2].map((attempt) => ["new", "x", attempt, "string", "function"]));
	assert.deepEqual(await server.until("old", "/", (told) => told.length === 2), [["old", "x", 1], ["old", "x", 2]]);
});

/** Tells how many of its batches ran side by side at most, and in which order they began. */
const SLOW = `
let now = 0;
let most = 0;
const order = [];
export default {
	fetch: () => Response.json({ most, order, now }),
	async queue({ messages }) {
		now += 1;
		most = Math.max(most, now);
		for (const { body } of messages) order.push(body);
		await new Promise((resolve) => setTimeout(resolve, 150));
		now -= 1;
		if (messages.some(({ body }) => body === "fail")) throw new Error("as it was told to");
	},
};`;
const slow = (max_concurrency) => ({
	name: "slow",
	script: SLOW,
	queues: { consumers: [{ queue: "jobs", max_batch_size: 2, ...NOW, max_retries: 0, max_concurrency }] },
});
const numbers = Array.from({ length: 40 }, (_, at) => at);

test("batches side by side grow with the backlog up to max_concurrency", async (t) => {
	const server = await run(t, [sender("jobs"), slow(3)]);
	await send(server, ...numbers);
	const { most, order } = await server.until("slow", "/", ({ order, now }) => order.length === 40 && now === 0);
	assert.equal(most, 3);
	assert.deepEqual(order.toSorted((a, b) => a - b), numbers);
});

test("without max_concurrency there are twenty at most", async (t) => {
	meets("push-concurrency");
	const server = await run(t, [sender("jobs"), slow(undefined)]);
	const all = Array.from({ length: 25 }, () => numbers).flat();
	for (let from = 0; from < all.length; from += 100) await send(server, ...all.slice(from, from + 100));
	const { most } = await server.until("slow", "/", ({ order, now }) => order.length === all.length && now === 0, 40_000);
	assert.equal(most, 20);
});

test("one batch at a time keeps the order in which messages were sent (D20)", async (t) => {
	const server = await run(t, [sender("jobs"), slow(1)]);
	await send(server, ...numbers.slice(0, 20));
	await send(server, ...numbers.slice(20));
	const { most, order } = await server.until("slow", "/", ({ order, now }) => order.length === 40 && now === 0);
	assert.deepEqual([most, order], [1, numbers]);
});

test("a paused queue takes messages and gives none until it goes on", async (t) => {
	const server = await run(t, [sender("jobs"), taker("one", "jobs")]);
	server.jadpo("queues", "pause", "jobs");
	await send(server, "x", "y");
	await sleep(1_200);
	assert.deepEqual(await server.ask("one", "/"), []);
	server.jadpo("queues", "resume", "jobs");
	assert.equal((await server.until("one", "/", (told) => told.length === 2)).length, 2);
});

test("a stop lets the batch that runs end, and what was not taken stays", async (t) => {
	const at = folder(t);
	const server = await run(t, [sender("jobs"), slow(1)], { folder: at });
	await send(server, 1, 2, 3, 4);
	await server.until("slow", "/", ({ now }) => now === 1);
	const { code } = await server.stop();
	assert.equal(code, 0);
	const batches = server.log.filter(({ event }) => event === "worker.batch");
	assert.deepEqual(batches.map(({ acked }) => acked), batches.map(() => 2), "whole batches, all of them settled");
	assert.equal(server.queue("jobs").messages, 4 - 2 * batches.length);
	assert.equal(server.queue("jobs").in_flight, 0);
});
