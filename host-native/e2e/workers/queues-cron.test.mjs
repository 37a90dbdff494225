// Cron triggers: each occurrence is a message of a queue of its own, and the `scheduled` handler consumes it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./lib/dev.mjs";
import { meets } from "./lib/differences.mjs";

const MINUTE_MS = 60_000;
/** An occurrence is a whole minute away at most, and the machine may be busy. */
const NEXT_MS = MINUTE_MS + 15_000;

const SCRIPT = `
const told = [];
const seen = new Set();
export default {
	fetch: () => Response.json({ told, jobs: [...seen] }),
	async scheduled(controller, env, ctx) {
		const { cron, scheduledTime } = controller;
		told.push({ cron, scheduledTime, at: Date.now(), waits: typeof ctx.waitUntil });
		if (cron === "* * * * 1-7") throw new Error("as it was told to");
		if (cron === "*/1 * * * *") {
			controller.noRetry();
			throw new Error("and not again");
		}
		await env.JOBS.sendBatch([1, 2, 3].map((id) => ({ body: { id, slot: scheduledTime } })));
	},
	queue({ messages }) {
		for (const { body } of messages) seen.add(body.slot + ":" + body.id);
	},
};`;

test("an occurrence runs once, fans out, is tried again a minute later if it failed, and not if it said so", async (t) => {
	meets("push-cron-runs");
	meets("push-cron-retry");
	const server = await run(t, [
		{
			name: "clock",
			script: SCRIPT,
			triggers: { crons: ["* * * * *", "* * * * 1-7", "*/1 * * * *", "0 0 30 2-3 *"] },
			queues: { producers: [{ binding: "JOBS", queue: "jobs" }], consumers: [{ queue: "jobs", max_batch_timeout: 0 }] },
		},
	]);
	const { told, jobs } = await server.until("clock", "/", ({ told, jobs }) => jobs.length >= 3 && told.length >= 3, NEXT_MS);
	const [plain] = told.filter(({ cron }) => cron === "* * * * *");
	const of = (cron) => told.filter((it) => it.cron === cron && it.scheduledTime === plain.scheduledTime);
	assert.equal(plain.scheduledTime % MINUTE_MS, 0);
	assert.ok(plain.at - plain.scheduledTime < 10_000, `${plain.at - plain.scheduledTime} ms late`);
	assert.equal(plain.waits, "function");
	assert.deepEqual(jobs.sort(), [1, 2, 3].map((id) => `${plain.scheduledTime}:${id}`));
	assert.deepEqual(["* * * * *", "* * * * 1-7", "*/1 * * * *", "0 0 30 2-3 *"].map((cron) => of(cron).length), [1, 1, 1, 0]);
	const queue = await server.untilQueue("clock-cron", ({ delayed, messages }) => delayed === 1 && messages === 1);
	assert.equal(queue.consumer.worker, "clock");
	assert.deepEqual([queue.settings.retry_delay_s, queue.settings.max_retries, queue.dead_letter_queue], [60, 3, "clock-cron-dead"]);
	const failed = await server.logged("worker.scheduled", ({ acked, outcome }) => outcome !== "ok" && acked === 1);
	assert.match(failed.error, /not to be tried again/);
	const [waiting] = server.jadpo("queues", "peek", "clock-cron", "--full", "--json").messages;
	const body = JSON.parse(Buffer.from(waiting.body_base64, "base64"));
	assert.deepEqual(body, { cron: "* * * * 1-7", scheduledTime: plain.scheduledTime });
});

/** Fails when it is told to, and tells what it was called with. */
const BY_HAND = `
const told = [];
export default {
	fetch: (request) => Response.json(new URL(request.url).pathname === "/" ? told : { to: "the Worker" }),
	scheduled({ cron, scheduledTime }) {
		told.push([cron, scheduledTime]);
		if (cron === "fail") throw new Error("as it was told to");
	},
};`;
const byHand = { name: "hand", script: BY_HAND, triggers: { crons: ["0 9 1 1 *"] } };

test("in development a cron's handler is called at the addresses of Wrangler's own server", async (t) => {
	const server = await run(t, [byHand]);
	const call = async (path, init) => {
		const response = await fetch(new URL(path, server.urls.hand), init);
		return [response.status, await response.text()];
	};
	assert.deepEqual(await call("/cdn-cgi/handler/scheduled?cron=*+*+*+*+*&time=1700000000000"), [200, "ok"]);
	assert.deepEqual(await call("/__scheduled?cron=0+9+1+1+*"), [200, "Ran scheduled event"]);
	const [status, text] = await call("/cdn-cgi/handler/scheduled?cron=fail", { method: "POST" });
	assert.equal(status, 500);
	assert.match(text, /^exception\n.*as it was told to\n$/);
	assert.equal((await call("/cdn-cgi/handler/scheduled?time=noon"))[0], 400);
	const told = await server.ask("hand", "/");
	assert.deepEqual(told[0], ["* * * * *", 1_700_000_000_000]);
	assert.deepEqual(told.map(([cron]) => cron), ["* * * * *", "0 9 1 1 *", "fail"]);
	assert.ok(Math.abs(told[1][1] - Date.now()) < 60_000, "without a time it is now");
});

test("in production those addresses are the Worker's", async (t) => {
	const server = await run(t, [byHand], { command: "serve", env: { JADPO_ADMIN_TOKEN: "a-token-of-the-operator" } });
	assert.deepEqual(await server.ask("hand", "/__scheduled?cron=x"), { to: "the Worker" });
});

test("a message that is no occurrence dies at once, and one that is calls the handler", async (t) => {
	const server = await run(t, [byHand]);
	server.jadpo("queues", "send", "hand-cron", "hello");
	await server.untilQueue("hand-cron-dead", ({ messages }) => messages === 1);
	const [letter] = server.jadpo("queues", "dead-letters", "hand-cron", "--json").messages;
	assert.equal(letter.dead.attempts, 1);
	assert.match(letter.dead.error, /`hand-cron` is for occurrences of the Worker's crons, such as \{"cron": /);
	server.jadpo("queues", "send", "hand-cron", JSON.stringify({ cron: "0 9 1 1 *", scheduledTime: 5 }));
	const told = await server.until("hand", "/", (told) => told.length === 1);
	assert.deepEqual(told, [["0 9 1 1 *", 5]]);
});
