// workerd, jadpo, or both are killed at random moments while a Worker sends and a handler acknowledges, retries and
// throws. Nothing that was answered is lost, attempts only grow, what a database answered is in it, and everything ends
// done or dead.
//
// JADPO_KILLS_S: for how many seconds it goes on; JADPO_KILLS_SEED: which moments.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { run } from "./lib/dev.mjs";
import { isAlive, until, workerdOf } from "./lib/processes.mjs";

const LOAD_MS = Number(process.env.JADPO_KILLS_S ?? 30) * 1_000;
const SEED = Number(process.env.JADPO_KILLS_SEED ?? Date.now() % 1_000_000);
/** So often that kills alone never make a message die. */
const MAX_RETRIES = 16;
const SENDERS = 4;
/** Jobs that may be under way before the senders wait, so that the end comes soon after theirs. */
const UNDER_WAY_MAX = 1_000;
const DRAIN_MS_MAX = 60_000;
const COMMAND = { command: "serve", env: { JADPO_ADMIN_TOKEN: "a-token-of-the-operator" } };

/** What is to become of a job by its number: every tenth always fails. */
const dies = (n) => n % 10 === 0;

const SCRIPT = `
const report = (env, kind, jobs) => fetch(env.COLLECTOR, { method: "POST", body: JSON.stringify({ kind, jobs }) });
const job = ({ id, attempts, body }) => ({ id, attempts, n: body.n });

export default {
	/** Answers with the numbers that were taken. */
	async fetch(request, env) {
		const numbers = await request.json();
		const [first, ...rest] = numbers.map((n) => ({ body: { n, filler: "x".repeat(n % 500) } }));
		await env.WORK.send(first.body);
		if (rest.length > 0) await env.WORK.sendBatch(rest);
		return Response.json(numbers);
	},

	async queue(batch, env) {
		const jobs = batch.messages.map(job);
		if (batch.queue === "work-dead") {
			await report(env, "dead", jobs);
			return;
		}
		await report(env, "delivered", jobs);
		const done = [];
		for (const message of batch.messages) {
			const { n } = message.body;
			if (n % 10 === 0) message.retry({ delaySeconds: message.attempts === 1 ? 1 : 0 });
			else if (n % 7 === 0 && message.attempts < 3) message.retry();
			else {
				await env.DB.prepare("INSERT INTO done (n, id) VALUES (?, ?) ON CONFLICT DO NOTHING").bind(n, message.id).run();
				done.push(job(message));
				message.ack();
			}
		}
		await report(env, "done", done);
		// Those that are acknowledged stay so.
		if (jobs.some(({ n, attempts }) => n % 13 === 0 && attempts === 1)) throw new Error("now and then");
	},
};`;

const worker = (collector) => ({
	name: "worker",
	script: SCRIPT,
	vars: { COLLECTOR: collector },
	d1_databases: [{ binding: "DB", database_name: "done", database_id: "done" }],
	queues: {
		producers: [{ binding: "WORK", queue: "work" }],
		consumers: [
			{
				queue: "work",
				max_batch_size: 10,
				max_batch_timeout: 0,
				max_retries: MAX_RETRIES,
				dead_letter_queue: "work-dead",
			},
			{ queue: "work-dead", max_batch_size: 100, max_batch_timeout: 0, max_retries: 100 },
		],
	},
	files: { "migrations/1.sql": "CREATE TABLE done (n INTEGER PRIMARY KEY, id TEXT) WITHOUT ROWID;" },
});

test(`whatever is killed, nothing that was answered is lost (seed ${SEED})`, { timeout: LOAD_MS + 180_000 }, async (t) => {
	const random = randomOf(SEED);
	const seen = await collector(t);
	const workers = [worker(seen.url)];
	const options = { ...COMMAND, args: ["--migrate"] };
	const server = await run(t, workers, options);
	const load = { ends: Date.now() + LOAD_MS, answered: [], asked: 0, down: false };
	const senders = Array.from({ length: SENDERS }, (_, at) => send(server, load, seen, at + 1));
	const kills = { workerd: 0, jadpo: 0, both: 0 };
	while (Date.now() < load.ends) {
		await sleep(400 + random(1_600));
		const what = Object.keys(kills)[random(3)];
		kills[what] += 1;
		await kill(server, what, load, () => server.start(workers, options));
	}
	await Promise.all(senders);
	await drained(server);
	check(server, load, seen);
	t.diagnostic(
		`${load.answered.length} of ${load.asked} sends answered, ${seen.deliveries} deliveries, ${seen.again} of them with ` +
			`attempts that were seen before, ${seen.dead.size} dead; killed ${JSON.stringify(kills)}`,
	);
});

/** Kills with a signal that nobody can handle, and starts what does not start itself. */
async function kill(server, what, load, start) {
	const workerd = await until(() => workerdOf(server.child), "workerd runs", 20_000);
	if (what !== "jadpo") process.kill(workerd, "SIGKILL");
	if (what === "workerd") return;
	load.down = true;
	await server.stop("SIGKILL");
	await until(() => !isAlive(workerd), "workerd ends with its jadpo");
	await start();
	load.down = false;
}

/** Sends until it is time to end. What has no answer may have been taken or not. */
async function send(server, load, seen, first) {
	for (let round = 0; Date.now() < load.ends; round += 1) {
		while (load.answered.length - seen.done.size - seen.dead.size > UNDER_WAY_MAX && Date.now() < load.ends) await sleep(50);
		const start = (round * SENDERS + first) * 20;
		const numbers = Array.from({ length: 20 }, (_, at) => start + at);
		load.asked += numbers.length;
		try {
			const response = await fetch(server.urls.worker, {
				method: "POST",
				body: JSON.stringify(numbers),
				signal: AbortSignal.timeout(15_000),
			});
			if (response.ok) load.answered.push(...(await response.json()));
		} catch {
			// It is down, or went down.
		}
		await sleep(load.down ? 200 : 20);
	}
}

async function drained(server) {
	for (const queue of ["work", "work-dead"]) {
		await server.untilQueue(queue, ({ messages, in_flight }) => messages + (in_flight ?? 0) === 0, DRAIN_MS_MAX);
	}
}

function check(server, load, seen) {
	assert.deepEqual(seen.fallen, [], "attempts never fall");
	const ended = new Set([...seen.done.keys(), ...seen.dead.keys()]);
	const lost = load.answered.filter((n) => !ended.has(n));
	assert.deepEqual(lost, [], "what was answered is done or dead");
	assert.deepEqual([...seen.done.keys()].filter(dies), []);
	const early = [...seen.dead.entries()].filter(([n]) => !dies(n) || seen.deliveriesOf.get(n) <= MAX_RETRIES / 2);
	assert.deepEqual(early, [], "only what always fails dies, and only when its retries are spent");
	assert.ok(load.answered.length > 100, "there was a load");
	const rows = server.jadpo("d1", "execute", "done", "--worker", "worker", "--command", "SELECT n FROM done", "--json");
	const kept = new Set(rows[0].results.map(({ n }) => n));
	assert.deepEqual([...seen.done.keys()].filter((n) => !kept.has(n)), [], "what the database answered is in it");
}

/** Where handlers report to; it outlasts everything that is killed. */
async function collector(t) {
	const seen = { deliveries: 0, again: 0, fallen: [], done: new Map(), dead: new Map(), deliveriesOf: new Map() };
	const attempts = new Map();
	const take = {
		delivered({ id, n, attempts: now }) {
			const before = attempts.get(id) ?? 0;
			if (now < before) seen.fallen.push({ n, before, now });
			if (now === before) seen.again += 1;
			seen.deliveries += 1;
			attempts.set(id, now);
			seen.deliveriesOf.set(n, (seen.deliveriesOf.get(n) ?? 0) + 1);
		},
		done: ({ n, id }) => seen.done.set(n, id),
		dead: ({ n, id }) => seen.dead.set(n, id),
	};
	const server = createServer(async (request, response) => {
		let text = "";
		for await (const chunk of request) text += chunk;
		const { kind, jobs } = JSON.parse(text);
		jobs.forEach(take[kind]);
		response.end();
	});
	await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
	t.after(() => {
		server.closeAllConnections();
		server.close();
	});
	seen.url = `http://127.0.0.1:${server.address().port}/`;
	return seen;
}

/** Whole numbers below a bound, the same for the same seed. */
function randomOf(seed) {
	let state = seed + 0x9e3779b9;
	return (below) => {
		state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d);
		state = Math.imul(state ^ (state >>> 12), 0x297a2d39);
		state ^= state >>> 15;
		return (state >>> 0) % below;
	};
}
