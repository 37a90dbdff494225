// What a handler says of its messages, and what becomes of them: every row of the table of what workerd records and of
// what Cloudflare's documentation makes of it, on the real workerd.
//
// Three messages go to a queue as one batch. The first delivery is handled as the row says, later ones are acknowledged.
// A retry without a delay waits for the consumer's two seconds; the rows' own delays are others, so that a time tells
// which of them was meant.

import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./lib/dev.mjs";
import { meets } from "./lib/differences.mjs";

/** The consumer's `retry_delay`. */
const DEFAULT_S = 2;

/** Rows: what the handler does, and for each of the three when it comes again, in seconds; or that it does not. */
const ROWS = {
	"no call is an ack": [``, "done", "done", "done"],
	"an ack before a retry of one message stands": [`a.ack(); a.retry({ delaySeconds: 1 });`, "done", "done", "done"],
	"a retry before an ack of one message stands": [`a.retry({ delaySeconds: 1 }); a.ack();`, 1, "done", "done"],
	"two acks are one": [`a.ack(); a.ack();`, "done", "done", "done"],
	"a second retry without a delay takes the first one's away": [
		`a.retry({ delaySeconds: 5 }); a.retry();`,
		DEFAULT_S,
		"done",
		"done",
	],
	"of two retries the last one's delay counts": [
		`a.retry({ delaySeconds: 5 }); a.retry({ delaySeconds: 1 });`,
		1,
		"done",
		"done",
	],
	"an ack after ackAll changes nothing": [`batch.ackAll(); a.ack();`, "done", "done", "done"],
	"a retry after ackAll is dropped": [`batch.ackAll(); a.retry({ delaySeconds: 1 });`, "done", "done", "done"],
	"retryAll after ackAll is dropped": [`batch.ackAll(); batch.retryAll({ delaySeconds: 1 });`, "done", "done", "done"],
	"ackAll after retryAll is dropped": [`batch.retryAll({ delaySeconds: 1 }); batch.ackAll();`, 1, 1, 1],
	"an ack after retryAll is dropped": [`batch.retryAll({ delaySeconds: 1 }); a.ack();`, 1, 1, 1],
	"a message's retry after retryAll has its own delay": [
		`batch.retryAll({ delaySeconds: 1 }); a.retry({ delaySeconds: 4 });`,
		4,
		1,
		1,
	],
	"a second retryAll without a delay leaves the first one's": [
		`batch.retryAll({ delaySeconds: 4 }); batch.retryAll();`,
		4,
		4,
		4,
	],
	"a second retryAll with a delay replaces the first one's": [
		`batch.retryAll({ delaySeconds: 4 }); batch.retryAll({ delaySeconds: 1 });`,
		1,
		1,
		1,
	],
	"retryAll without a delay waits for the consumer's": [`batch.retryAll();`, DEFAULT_S, DEFAULT_S, DEFAULT_S],
	"retryAll with no seconds waits for none, whatever the consumer's": [
		`batch.retryAll({ delaySeconds: 0 });`,
		0,
		0,
		0,
	],
	"an ack before retryAll stands": [`a.ack(); batch.retryAll({ delaySeconds: 1 });`, "done", 1, 1],
	"a retry before ackAll stands": [`a.retry({ delaySeconds: 1 }); batch.ackAll();`, 1, "done", "done"],
	"an ack before ackAll is one": [`a.ack(); batch.ackAll();`, "done", "done", "done"],
	"a throw retries all": [`throw new Error("no");`, DEFAULT_S, DEFAULT_S, DEFAULT_S],
	"a rejection retries all": [`await Promise.reject(new Error("no"));`, DEFAULT_S, DEFAULT_S, DEFAULT_S],
	"what was acknowledged before a throw stays so": [`a.ack(); throw new Error("no");`, "done", DEFAULT_S, DEFAULT_S],
	"ackAll before a throw stays so": [`batch.ackAll(); throw new Error("no");`, "done", "done", "done"],
	"a retry before a throw keeps its delay": [
		`a.retry({ delaySeconds: 4 }); throw new Error("no");`,
		4,
		DEFAULT_S,
		DEFAULT_S,
	],
	"retryAll before a throw keeps its delay": [
		`batch.retryAll({ delaySeconds: 1 }); throw new Error("no");`,
		1,
		1,
		1,
	],
	"what the handler returns is nothing": [`return { retry: true };`, "done", "done", "done"],
	"a promise that can never settle is a failure, and acks before it count": [
		`a.ack(); await new Promise(() => {});`,
		"done",
		DEFAULT_S,
		DEFAULT_S,
	],
	"ctx.abort is a failure, and acks before it count": [
		`a.ack(); ctx.abort(new Error("no")); await new Promise(() => {});`,
		"done",
		DEFAULT_S,
		DEFAULT_S,
	],
	"a rejection that nobody waits for is none": [`Promise.reject(new Error("no"));`, "done", "done", "done"],
	"a call in waitUntil counts": [
		`ctx.waitUntil(sleep(300).then(() => a.retry({ delaySeconds: 1 })));`,
		1,
		"done",
		"done",
	],
	"a rejection in waitUntil retries what was not acknowledged": [
		`a.ack(); ctx.waitUntil(sleep(300).then(() => { throw new Error("no"); }));`,
		"done",
		DEFAULT_S,
		DEFAULT_S,
	],
	"a call by a timer that nobody waits for is not waited for": [
		`setTimeout(() => a.retry({ delaySeconds: 1 }), 300);`,
		"done",
		"done",
		"done",
	],
	"no options are no delay": [`a.retry(null);`, DEFAULT_S, "done", "done"],
	"a delay of null is none": [`a.retry({ delaySeconds: null });`, 0, "done", "done"],
	"a delay that is no number is none": [`a.retry({ delaySeconds: NaN });`, 0, "done", "done"],
	"a delay's fraction goes": [`a.retry({ delaySeconds: 1.9 });`, 1, "done", "done"],
	"a delay may be a text": [`a.retry({ delaySeconds: "1" });`, 1, "done", "done"],
	"a delay below zero is none": [`a.retry({ delaySeconds: -5 });`, 0, "done", "done"],
	"a delay past 32 bits throws": [`a.retry({ delaySeconds: 1e12 });`, DEFAULT_S, DEFAULT_S, DEFAULT_S],
};

/** The rows that are others with the flag `queue_consumer_no_wait_for_wait_until`. */
const NO_WAIT_ROWS = {
	"a call in waitUntil comes too late": [
		`ctx.waitUntil(sleep(300).then(() => a.retry({ delaySeconds: 1 })));`,
		"done",
		"done",
		"done",
	],
	"a rejection in waitUntil changes nothing": [
		`ctx.waitUntil(sleep(300).then(() => { throw new Error("no"); }));`,
		"done",
		"done",
		"done",
	],
	"what the handler itself says counts": [`a.retry({ delaySeconds: 1 });`, 1, "done", "done"],
};

/** A delivery that is due comes a little later: the machine may be busy. */
const LATE_S = 0.95;
/** All is over by then: what was to come again did, and what was not would have. */
const OVER_MS = 7_500;

function script(rows) {
	const handlers = Object.values(rows).map(([code], at) => `"row-${at}": async (batch, a, ctx) => {${code}}`);
	return `
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const seen = {};
const first = {};
const handlers = {${handlers.join(",\n")}};
export default {
	async fetch(request, env) {
		const { pathname } = new URL(request.url);
		if (pathname === "/seen") return Response.json(seen);
		for (const [name, queue] of Object.entries(env)) await queue.sendBatch(["a", "b", "c"].map((body) => ({ body })));
		return new Response(null, { status: 204 });
	},
	async queue(batch, env, ctx) {
		const all = (seen[batch.queue] ??= []);
		for (const { body, attempts } of batch.messages) all.push({ body, attempts, at: Date.now() });
		if (first[batch.queue]) return;
		first[batch.queue] = batch.messages.length;
		await handlers[batch.queue](batch, batch.messages.find(({ body }) => body === "a"), ctx);
	},
};`;
}

function worker(name, rows, flags = []) {
	const queues = Object.keys(rows).map((_, at) => `row-${at}`);
	return {
		name,
		script: script(rows),
		compatibility_flags: flags,
		queues: {
			producers: queues.map((queue, at) => ({ binding: `Q${at}`, queue })),
			consumers: queues.map((queue) => ({
				queue,
				max_batch_size: 3,
				max_batch_timeout: 0,
				max_retries: 5,
				retry_delay: DEFAULT_S,
			})),
		},
	};
}

/** When each message came again, in seconds after the first delivery of its batch; or that it did not. */
function came(deliveries) {
	const start = deliveries[0].at;
	return ["a", "b", "c"].map((name) => {
		const [first, again, ...more] = deliveries.filter(({ body }) => body === name);
		assert.deepEqual([first.attempts, again?.attempts ?? 2, more.length], [1, 2, 0]);
		return again ? (again.at - start) / 1_000 : "done";
	});
}

function check(rows, seen) {
	for (const [at, [name, [, ...expected]]] of Object.entries(rows).entries()) {
		const told = came(seen[`row-${at}`]);
		const fits = (seconds, wanted) =>
			wanted === "done" ? seconds === "done" : seconds >= wanted - 0.05 && seconds < wanted + LATE_S;
		const right = told.every((seconds, which) => fits(seconds, expected[which]));
		assert.ok(right, `${name}: ${JSON.stringify(told)}, and it should be about ${JSON.stringify(expected)}`);
	}
}

test("every row of the settle table comes out as Cloudflare documents it", async (t) => {
	meets("push-delay-range");
	const server = await run(t, [worker("rows", ROWS)]);
	await fetch(server.urls.rows, { method: "POST" });
	await new Promise((resolve) => setTimeout(resolve, OVER_MS));
	check(ROWS, await server.ask("rows", "/seen"));
	const left = server.jadpo("queues", "list", "--json").queues.filter(({ messages }) => messages > 0);
	assert.deepEqual(left, [], "all of them are acknowledged in the end");
});

test("with queue_consumer_no_wait_for_wait_until only the handler itself is waited for", async (t) => {
	const server = await run(t, [worker("rows", NO_WAIT_ROWS, ["queue_consumer_no_wait_for_wait_until"])]);
	await fetch(server.urls.rows, { method: "POST" });
	await new Promise((resolve) => setTimeout(resolve, OVER_MS));
	check(NO_WAIT_ROWS, await server.ask("rows", "/seen"));
});
