// How fast messages get from a queue into D1, through workerd: an app's deployable beside a plain JavaScript Worker
// that only inserts them, and beside one that calls the subscribers too. All in turn, several rounds, in one run; `cargo xtask bench receive` shows the figures.

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Miniflare, convertV4MiniflareOptions as converted } from "miniflare";
import { movement } from "../lib/apps.mjs";
import { STAND_IN, STAND_IN_NAME } from "../lib/stand-ins.mjs";
import { Tally } from "../lib/tally.mjs";
import { start, until } from "../lib/workerd.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const { values: args } = parseArgs({
  options: {
    folder: { type: "string" },
    messages: { type: "string", default: "5000" },
    rounds: { type: "string", default: "3" },
  },
});
const count = Number(args.messages);
const rounds = Number(args.rounds);
process.stdin.once("end", () => process.exit(130)).resume(); // whoever started this wants it to end
const tell = (object) => process.stdout.write(`${JSON.stringify(object)}\n`);

const subscribers = Object.values(JSON.parse(await readFile(join(args.folder, "program.json"), "utf8")).subscribers);
const services = subscribers.flatMap(({ target }) => (target.service ? [target.service] : []));
const secrets = subscribers.flatMap(({ secret }) => (secret?.env ? [[secret.env, "bench"]] : []));
/** Subscribers answer 200, from a Worker beside the app's. */
const surroundings = {
  env: Object.fromEntries(secrets),
  services: Object.fromEntries([...services, STAND_IN_NAME].map((name) => [name, STAND_IN])),
  outbound: STAND_IN_NAME,
  batchWaitS: 1,
};

/** A plain Worker, with D1 and a queue of the app's settings. */
async function startPlain(file) {
  const compatibilityDate = "2026-11-01";
  const miniflare = new Miniflare(
    converted({
      workers: [
        {
          name: "plain",
          compatibilityDate,
          compatibilityFlags: ["queue_consumer_no_wait_for_wait_until"],
          modules: [{ type: "ESModule", path: file, contents: await readFile(join(here, file), "utf8") }],
          bindings: { SUBSCRIBERS: subscribers.length },
          d1Databases: { DB: "plain" },
          serviceBindings: { SUBSCRIBER: "stand-in" },
          queueProducers: { Q: { queueName: "q" } },
          queueConsumers: { q: { maxBatchSize: 10, maxBatchTimeout: 1, maxRetries: 30 } },
        },
        {
          name: "stand-in",
          compatibilityDate,
          modules: [{ type: "ESModule", path: "stand-in.js", contents: STAND_IN }],
        },
      ],
    }),
  );
  await miniflare.ready;
  const database = await miniflare.getD1Database("DB", "plain");
  await database.exec(
    "CREATE TABLE messages (id TEXT PRIMARY KEY, body TEXT NOT NULL, received_at INTEGER NOT NULL, delivered INTEGER)",
  );
  const producer = await miniflare.getQueueProducer("Q", "plain");
  return {
    send: (messages) => producer.sendBatch(messages),
    kept: async () => (await database.prepare("SELECT max(rowid) AS n FROM messages").first()).n ?? 0,
    stop: () => miniflare.dispose(),
  };
}

/** The deployable. */
async function startOurs() {
  const tally = new Tally();
  const running = await start(args.folder, { ...surroundings, onLog: (line) => tally.take(line) });
  const [queue] = running.queues;
  return {
    tally,
    subscribers: subscribers.length,
    send: (messages) => running.sendBatch(queue, messages),
    kept: async () => (await running.query("SELECT next_seq - 1 AS n FROM jadpo_schema"))[0].n,
    left: async () => (await running.query("SELECT count(*) AS n FROM jadpo_deliveries"))[0].n,
    stop: () => running.stop(),
  };
}

/** Seconds until all messages are in the store. */
async function timed(target) {
  const startedMs = performance.now();
  for (let sent = 0; sent < count; sent += 100) {
    const numbers = Array.from({ length: Math.min(100, count - sent) }, (_, index) => sent + index);
    await target.send(numbers.map((number) => ({ body: movement(number), contentType: "json" })));
  }
  await until(async () => (await target.kept()) >= count, { what: "all were kept", limitMs: 300_000, everyMs: 50 });
  return (performance.now() - startedMs) / 1000;
}

async function timedPlain(file, round) {
  const plain = await startPlain(file);
  tell({ say: `round ${round + 1} of ${rounds}: ${count} messages through ${file}` });
  const seconds = await timed(plain);
  await plain.stop();
  return seconds;
}

/** Milliseconds from the runtime's start to the first answer of a Worker. */
async function startUp(begin) {
  const startedMs = performance.now();
  const stop = await begin();
  const ms = performance.now() - startedMs;
  await stop();
  return ms;
}

const EMPTY = "export default { fetch: () => new Response('ok') };";
async function startEmpty() {
  const modules = [{ type: "ESModule", path: "empty.js", contents: EMPTY }];
  const miniflare = new Miniflare(converted({ name: "empty", compatibilityDate: "2026-11-01", modules, d1Databases: { DB: "e" } }));
  await (await miniflare.dispatchFetch("http://empty/")).text();
  return () => miniflare.dispose();
}
async function startOnly() {
  const running = await start(args.folder, { ...surroundings, migrate: false });
  await (await running.fetch("/healthz")).text();
  return () => running.stop();
}

const figures = { messages: count, rounds: [], start_up_ms: [], start_up_empty_ms: [] };
for (let round = 0; round < rounds; round++) {
  figures.start_up_empty_ms.push(await startUp(startEmpty));
  figures.start_up_ms.push(await startUp(startOnly));
  const plainS = await timedPlain("plain-worker.js", round);
  const callingS = await timedPlain("plain-calling-worker.js", round);
  const ours = await startOurs();
  tell({ say: `round ${round + 1} of ${rounds}: ${count} messages through the app` });
  const keptS = await timed(ours);
  const afterMs = performance.now();
  await until(async () => (await ours.left()) === 0, { what: "all were delivered", limitMs: 300_000, everyMs: 50 });
  const deliveredS = keptS + (performance.now() - afterMs) / 1000;
  const { receiving, delivering, kept, delivered, batches } = ours.tally;
  figures.rounds.push({
    plain_s: plainS,
    calling_s: callingS,
    kept_s: keptS,
    delivered_s: deliveredS,
    batches,
    kept,
    delivered,
    subscribers: ours.subscribers,
    d1_batches: receiving.d1Batches,
    rows_written_receiving: receiving.rowsWritten,
    rows_written_delivering: delivering.rowsWritten,
  });
  await ours.stop();
}
tell({ report: figures });
process.exit(0);
