// What a handler throws is what an operator reads: in the log, and with the dead letter.

import assert from "node:assert/strict";
import { test } from "node:test";

import { run } from "./lib/dev.mjs";

const queues = {
	producers: [{ binding: "JOBS", queue: "jobs" }],
	consumers: [
		{ queue: "jobs", max_batch_size: 1, max_batch_timeout: 0, max_retries: 0, dead_letter_queue: "jobs-dead" },
	],
};
const script = `export default {
	async fetch(request, env) {
		await env.JOBS.send(await request.text(), { contentType: "text" });
		return Response.json({});
	},
	async queue(batch) {
		const [{ body }] = batch.messages;
		if (body === "retry") return batch.retryAll();
		if (body === "nothing") throw undefined;
		throw new TypeError("no such account: " + body);
	},
};`;

test("a dead letter says what its handler threw last", async (t) => {
	const server = await run(t, [{ name: "shop", queues, script }]);
	for (const body of ["a-7", "retry", "nothing"]) await server.ask("shop", "/", { method: "POST", body });
	await server.untilQueue("jobs-dead", (it) => it.messages === 3);
	const { messages } = server.jadpo("queues", "dead-letters", "jobs", "--json");
	const error = (body) => messages.find((it) => it.preview === body).dead.error;
	assert.equal(error("a-7"), "TypeError: no such account: a-7");
	assert.equal(error("retry"), undefined);
	assert.match(error("nothing"), /exception|undefined/);
	const line = await server.logged("worker.batch", (it) => it.error?.includes("a-7"));
	assert.equal(line.outcome, "exception");
});
