// What operators and clients of the API are told of Workers that run here, and what they may not do to their queues: the
// Wrangler file says who consumes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./lib/dev.mjs";

const WORKER = {
	name: "one",
	script: "export default { queue() {}, scheduled() {} };",
	triggers: { crons: ["0 9 1 1 *"] },
	queues: { producers: [{ binding: "OUT", queue: "out" }], consumers: [{ queue: "jobs", dead_letter_queue: "jobs-dead" }] },
};

/** Asks the API of `jadpo dev`. */
function apiOf(server) {
	const { account, url, token } = server.log.findLast(({ event }) => event === "api.ready");
	return async (method, path, body) => {
		const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
		const init = { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) };
		const response = await fetch(`${url}/accounts/${account}${path}`, init);
		return { status: response.status, ...(await response.json()) };
	};
}

test("the API says who sends and consumes, and leaves a running Worker's consumers to its Wrangler file", async (t) => {
	const server = await run(t, [WORKER]);
	const api = apiOf(server);
	const queues = Object.fromEntries((await api("GET", "/queues")).result.map((queue) => [queue.queue_name, queue]));
	assert.deepEqual(queues.out.producers, [{ type: "worker", script: "one" }]);
	assert.deepEqual([queues.out.producers_total_count, queues.jobs.producers_total_count], [1, 0]);
	const refused = ({ status, errors }) => {
		assert.equal(status, 409);
		assert.match(errors[0].message, /the Worker `one` runs here and its Wrangler file says .*`queues\.consumers` there/);
	};
	const added = { type: "worker", script_name: "one" };
	refused(await api("POST", `/queues/${queues.out.queue_id}/consumers`, added));
	const [consumer] = queues.jobs.consumers;
	refused(await api("DELETE", `/queues/${queues.jobs.queue_id}/consumers/${consumer.consumer_id}`));
	refused(await api("DELETE", `/queues/${queues.jobs.queue_id}`));
	const other = await api("POST", `/queues/${queues.out.queue_id}/consumers`, { ...added, script_name: "another" });
	assert.equal(other.status, 200, "one that does not run here");
	const deleted = await api("DELETE", `/queues/${queues.out.queue_id}`);
	assert.equal(deleted.success, true);
	assert.match(JSON.stringify(deleted.messages), /the Worker `one` runs here and sends to `out`, so it is made again/);
	await server.untilQueue("out", ({ consumer }) => consumer === undefined);
});

test("commands leave a running Worker's queues alone, and say which Workers do not run", async (t) => {
	const server = await run(t, [WORKER]);
	assert.throws(() => server.jadpo("queues", "delete", "jobs", "--force"), /ended with 2: .*its Wrangler file says that it consumes the queue `jobs`/);
	assert.throws(() => server.jadpo("queues", "delete", "one-cron", "--force"), /says that it has crons, .*`triggers\.crons` there/);
	assert.match(server.jadpo("queues", "delete", "out", "--force"), /the Worker one runs and sends to it, so it is made again/);
	await server.untilQueue("out", ({ messages }) => messages === 0);
	assert.equal(server.queue("jobs").consumer.worker_runs, true);
	// A reload tells the new file's.
	const from = server.log.length;
	server.write({ ...WORKER, queues: { consumers: [{ queue: "later" }] } });
	await server.logged("worker.reloaded", undefined, { from });
	await server.untilQueue("later", ({ consumer }) => consumer?.worker === "one");
	assert.match(server.jadpo("queues", "delete", "jobs", "--force"), /is deleted/);
	await server.stop();
	const { consumer } = server.queue("later");
	assert.deepEqual([consumer.worker, consumer.worker_runs], ["one", false]);
	assert.match(server.jadpo("queues"), /Worker one, which\s.*does not run/s);
	assert.match(server.jadpo("queues", "delete", "later", "--force"), /is deleted/);
});

test("`jadpo triggers` lists the crons of the Workers that run, with their last and next times", async (t) => {
	const server = await run(t, [{ ...WORKER, triggers: { crons: ["0 9 1 1 *", "59 23 * * SUN"] } }]);
	await server.untilQueue("jobs", () => true);
	const { triggers } = server.jadpo("triggers", "--json");
	assert.deepEqual(
		triggers.map(({ name, worker, schedule, queue, enabled }) => [name, worker, schedule, queue, enabled]),
		["0 9 1 1 *", "59 23 * * SUN"].map((cron) => [`schedule:one: ${cron}`, "one", cron, "one-cron", true]),
	);
	const next = new Date(triggers[0].next_at_ms);
	assert.deepEqual([next.getUTCMonth(), next.getUTCDate(), next.getUTCHours(), next.getUTCMinutes()], [0, 1, 9, 0]);
	assert.equal(new Date(triggers[1].next_at_ms).getUTCDay(), 0, "weekdays as Cloudflare counts them");
	assert.match(server.jadpo("triggers"), /Worker one at\s/);
	const disabled = server.jadpo("triggers", "disable", "schedule:one: 0 9 1 1 *", "--json");
	assert.deepEqual([disabled.enabled, disabled.next_at_ms], [false, undefined]);
	await server.stop();
	assert.match(server.jadpo("triggers"), /there are no triggers/);
});
