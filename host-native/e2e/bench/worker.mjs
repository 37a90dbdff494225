// How fast messages go from a Worker's `send` through its queue to its handler and its ack: our queue, on disk, beside
// miniflare's, in memory; both in workerd, the same Worker, in turn, several rounds, in one run. `cargo xtask bench
// worker` shows the figures.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { require } from "../lib/server.mjs";
import { run } from "../workers/lib/dev.mjs";

const { Miniflare, convertV4MiniflareOptions: converted } = await import(require.resolve("miniflare"));

const { values: args } = parseArgs({
	options: {
		messages: { type: "string", default: "10000" },
		rounds: { type: "string", default: "5" },
		bytes: { type: "string", default: "1024" },
	},
});
const [count, rounds, bytes] = [args.messages, args.rounds, args.bytes].map(Number);
process.stdin.once("end", () => process.exit(130)).resume(); // whoever started this wants it to end
const tell = (object) => process.stdout.write(`${JSON.stringify(object)}\n`);

const script = readFileSync(new URL("worker.js", import.meta.url), "utf8");
const DATE = "2026-08-01";
/** Sent before what is measured, so that everything has been run once. */
const WARM_UP = 500;

/** Runs the Worker on our queue: its folder is one of its own, on disk. */
async function ours(batch) {
	const undo = [];
	const folder = mkdtempSync(join(process.env.JADPO_BENCH_DIR ?? tmpdir(), "jadpo-bench-"));
	const worker = {
		name: "bench",
		script,
		compatibility_date: DATE,
		queues: {
			producers: [{ binding: "QUEUE", queue: "bench" }],
			consumers: [{ queue: "bench", max_batch_size: batch, max_batch_timeout: 1 }],
		},
	};
	const server = await run({ after: (what) => undo.push(what) }, [worker], { folder, command: "serve" });
	return {
		url: server.urls.bench,
		stop: async () => {
			await server.stop();
			for (const what of undo) await what();
			rmSync(folder, { recursive: true });
		},
	};
}

async function miniflares(batch) {
	const miniflare = new Miniflare(
		converted({
			workers: [
				{
					name: "bench",
					compatibilityDate: DATE,
					modules: [{ type: "ESModule", path: "worker.js", contents: script }],
					queueProducers: { QUEUE: { queueName: "bench" } },
					queueConsumers: { bench: { maxBatchSize: batch, maxBatchTimeout: 1 } },
				},
			],
		}),
	);
	return { url: await miniflare.ready, stop: () => miniflare.dispose() };
}

/** One run, as the Worker itself times it. */
async function measured({ url }, batch, messages) {
	const response = await fetch(new URL(`/?count=${messages}&batch=${batch}&bytes=${bytes}`, url));
	if (!response.ok) throw new Error(await response.text());
	return await response.json();
}

const figures = [];
for (const batch of [10, 100]) {
	// Both stand ready, and only one of them has something to do at a time.
	const both = [await ours(batch), await miniflares(batch)];
	for (const one of both) await measured(one, batch, WARM_UP);
	const rows = [];
	for (let round = 0; round < rounds; round += 1) {
		tell({ say: `batches of ${batch}, round ${round + 1} of ${rounds}` });
		const [own, theirs] = [await measured(both[0], batch, count), await measured(both[1], batch, count)];
		rows.push({ ours: own, theirs });
	}
	for (const { stop } of both) await stop();
	figures.push({ batch, rows });
}
tell({ report: { messages: count, bytes, figures } });
process.exit(0);
