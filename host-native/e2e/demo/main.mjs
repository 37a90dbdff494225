// The demo: an app's deployable run by `jadpo dev`, messages sent to its queues, and what became of them.
// `cargo xtask demo` runs this and shows what it prints: one JSON object a line.

import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { BadLine, calls, readMessages } from "../../../host-workers/e2e/lib/messages.mjs";
import { Tally } from "../../../host-workers/e2e/lib/tally.mjs";
import { Running, until } from "./running.mjs";
import { Subscribers } from "./subscribers.mjs";

const NEVER_MS = Number.MAX_SAFE_INTEGER;
/** The sample's first messages, which come before the store is migrated. */
const EARLY = 3;

const { values: args } = parseArgs({
	options: {
		folder: { type: "string" },
		deployable: { type: "string" },
		"own-worker": { type: "string" },
		messages: { type: "string" },
		sample: { type: "boolean", default: false },
		serve: { type: "boolean", default: false },
		"limit-s": { type: "string", default: "120" },
	},
});

const tell = (object) => process.stdout.write(`${JSON.stringify(object)}\n`);
const say = (text) => tell({ say: text });

/** Everything that one demo needs to know. */
class Demo {
	tally = new Tally();
	token = randomBytes(16).toString("hex");
	refused = [];
	sent = 0;
	skippedS = 0;

	async start(queues) {
		this.state = await mkdtemp(join(tmpdir(), "jadpo-demo-"));
		const program = JSON.parse(await readFile(join(args.folder, "program.json"), "utf8"));
		this.subscribers = await Subscribers.standIn(program, { sample: args.sample, mayListenLater: args.serve });
		const secrets = Object.values(program.subscribers ?? {}).flatMap(({ secret }) => secret?.env ?? []);
		this.running = new Running({
			program,
			queues,
			...{ folder: args.folder, deployable: args.deployable, ownWorker: args["own-worker"], state: this.state },
			migrate: !args.sample,
			env: { JADPO_ADMIN_TOKEN: this.token, ...Object.fromEntries(secrets.map((name) => [name, `demo-${name}`])) },
			onLog: (line) => this.tally.take(line),
		});
		await this.running.start();
	}

	async send(messages) {
		for (const call of calls(messages)) {
			const refusal = await this.running.sendBatch(call[0].queue, call);
			if (refusal === undefined) this.sent += call.length;
			else this.refused.push(...call.map(({ queue, bytes }) => ({ queue, bytes, why: refusal })));
		}
	}

	/** Waits until every message is in the store. */
	async received(limitMs) {
		await until(() => this.#progress() >= this.sent, { what: "every message was received", limitMs, everyMs: 100 });
	}

	#progress() {
		tell({ progress: { settled: this.tally.settled, of: this.sent } });
		return this.tally.settled;
	}

	/** Runs deliveries until each is done or has failed. What waits for its next attempt is not waited for: its time is
	 * played forward in the Worker's database, and its cron trigger fires as it would then. */
	async delivered(limitMs) {
		const end = Date.now() + limitMs;
		while (Date.now() < end) {
			const { running, waiting } = await this.#outstanding();
			if (running > 0) await new Promise((resolve) => setTimeout(resolve, 50));
			else if (waiting === 0) return true;
			else {
				await this.#playForward();
				await this.running.tick(end - Date.now());
			}
		}
		return false;
	}

	async #outstanding() {
		const [row] = await this.running.query(
			`SELECT count(claim) AS running, count(*) - count(claim) AS waiting FROM jadpo_deliveries WHERE due_at < ${NEVER_MS}`,
		);
		return row;
	}

	async #playForward() {
		const [{ due }] = await this.running.query("SELECT min(due_at) AS due FROM jadpo_deliveries WHERE claim IS NULL");
		const now = Date.now();
		this.skippedS += Math.max(0, Math.round((due - now) / 1000));
		await this.running.query(
			`UPDATE jadpo_deliveries SET due_at = ${now} WHERE claim IS NULL AND due_at > ${now} AND due_at < ${NEVER_MS}`,
		);
	}

	async report(idle, startedMs) {
		const { tally } = this;
		const [{ failed, waiting }] = await this.running.query(
			`SELECT count(*) FILTER (WHERE due_at = ${NEVER_MS}) AS failed,
				count(*) FILTER (WHERE due_at < ${NEVER_MS}) AS waiting FROM jadpo_deliveries`,
		);
		const list = await this.running.fetch("/.jadpo/deliveries?limit=1000", {
			headers: { authorization: `Bearer ${this.token}` },
		});
		return {
			sent: this.sent,
			refused: this.refused.length,
			kept: tally.kept,
			repeats: tally.repeats,
			parked: tally.parked,
			retried: tally.retried,
			delivered: tally.delivered,
			waiting,
			failed,
			batches: tally.batches,
			d1_batches: tally.receiving.d1Batches,
			d1_batches_delivering: tally.delivering.d1Batches,
			rows_written: tally.receiving.rowsWritten + tally.delivering.rowsWritten,
			rows_written_receiving: tally.receiving.rowsWritten,
			seconds: (Date.now() - startedMs) / 1000,
			seconds_played_forward: this.skippedS,
			idle,
			retried_by: tally.retriedBy,
			refusals: this.refused.slice(0, 20),
			calls: tally.calls,
			operator: await list.json(),
			trouble: idle ? [] : tally.trouble,
		};
	}

	async stop() {
		await this.running?.stop();
		this.subscribers?.stop();
		if (this.state) await rm(this.state, { recursive: true, force: true });
	}
}

const demo = new Demo();
// Whoever started this ends it by closing its standard input, at any time.
let serving = false;
process.stdin.once("end", () => serving || demo.stop().finally(() => process.exit(130))).resume();

async function main() {
	const limitMs = Number(args["limit-s"]) * 1000;
	const wrangler = JSON.parse(await readFile(join(args.folder, "wrangler.json"), "utf8"));
	const queues = (wrangler.queues?.consumers ?? []).map(({ queue }) => queue);
	const messages = args.messages ? readMessages(await readFile(args.messages, "utf8"), queues) : [];
	say(`starting it by \`jadpo dev --deployable ${args.deployable}\`: workerd, with queues and D1 on this disk`);
	await demo.start(queues);
	try {
		const startedMs = Date.now();
		const early = args.sample ? messages.slice(0, EARLY) : [];
		if (early.length > 0) {
			say(`sending ${early.length} messages before the store is migrated: the Worker cannot keep them and puts them off`);
			await demo.send(early);
			await until(() => demo.tally.retried >= early.length, { what: "the early messages were put off", limitMs });
			say("migrating the store by `jadpo d1 migrations apply`; the early messages come again after 10 s");
			await demo.running.migrate();
		}
		say(`sending ${messages.length - early.length} messages`);
		await demo.send(messages.slice(early.length));
		let idle = await demo.received(limitMs).then(
			() => true,
			() => false,
		);
		say("delivering; where a subscriber is to be tried again later, time is played forward");
		idle = (await demo.delivered(limitMs)) && idle;
		tell({ report: await demo.report(idle, startedMs) });
		if (args.serve) await serve(queues);
	} finally {
		await demo.stop();
	}
}

/** Keeps everything up until the demo is told to end. */
async function serve(queues) {
	serving = true;
	const { url, sends } = demo.running;
	tell({ serving: { url, token: demo.token, queues, sends } });
	await new Promise((resolve) => {
		process.stdin.once("end", resolve);
		demo.running.ended.then(resolve);
	});
}

try {
	await main();
} catch (error) {
	if (error instanceof BadLine) tell({ problem: error.message, help: error.help, exit: 2 });
	else tell({ problem: error.message, help: "the lines above say how far it came", exit: 1, stack: error.stack });
	process.exitCode = 1;
}
process.exit(); // standard input is still open
