// The demo: a deployable in workerd with its D1 and its queues, messages sent to it, and what became of them.
// `cargo xtask demo` runs this and shows what it prints: one JSON object a line.

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { BadLine, calls, readMessages } from "./lib/messages.mjs";
import { SAMPLE_LEDGER, STAND_IN, STAND_IN_NAME, outbound } from "./lib/stand-ins.mjs";
import { Tally } from "./lib/tally.mjs";
import { start, until } from "./lib/workerd.mjs";

const NEVER_MS = Number.MAX_SAFE_INTEGER;
/** The sample's first messages, which come before the store is migrated. */
const EARLY = 3;

const { values: args } = parseArgs({
  options: {
    folder: { type: "string" },
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

  async start(folder, sample) {
    const program = JSON.parse(await readFile(join(folder, "program.json"), "utf8"));
    const subscribers = Object.values(program.subscribers ?? {});
    const secrets = subscribers.flatMap(({ secret }) => (secret?.env ? [secret.env] : []));
    const services = subscribers.flatMap(({ target }) => (target.service ? [target.service] : []));
    const addresses = subscribers.flatMap(({ target }) => (target.call ? [target.call] : []));
    const standIn = sample ? SAMPLE_LEDGER : STAND_IN;
    this.running = await start(folder, {
      env: { JADPO_ADMIN_TOKEN: this.token, ...Object.fromEntries(secrets.map((name) => [name, `demo-${name}`])) },
      services: { ...Object.fromEntries(services.map((name) => [name, STAND_IN])), [STAND_IN_NAME]: standIn },
      outbound: await outbound(addresses, { mayListenLater: args.serve && !sample }),
      migrate: !sample,
      batchWaitS: 1,
      onLog: (line) => this.tally.take(line),
    });
  }

  async send(messages) {
    for (const call of calls(messages)) {
      try {
        await this.running.sendBatch(call[0].queue, call);
        this.sent += call.length;
      } catch (error) {
        this.refused.push(...call.map(({ queue, bytes }) => ({ queue, bytes, why: error.message })));
      }
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
   * played forward, and the tick runs as it would then. */
  async delivered(limitMs) {
    const end = Date.now() + limitMs;
    while (Date.now() < end) {
      const { running, waiting } = await this.#outstanding();
      if (running > 0) await new Promise((resolve) => setTimeout(resolve, 50));
      else if (waiting === 0) return true;
      else {
        await this.#playForward();
        await this.running.tick();
      }
    }
    return false;
  }

  async #outstanding() {
    const [row] = await this.running.query(
      `SELECT count(claim) AS running, count(*) - count(claim) AS waiting FROM jadpo_deliveries WHERE due_at < ?`,
      NEVER_MS,
    );
    return row;
  }

  async #playForward() {
    const [{ due }] = await this.running.query("SELECT min(due_at) AS due FROM jadpo_deliveries WHERE claim IS NULL");
    this.skippedS += Math.max(0, Math.round((due - Date.now()) / 1000));
    await this.running.query(
      "UPDATE jadpo_deliveries SET due_at = ?1 WHERE claim IS NULL AND due_at > ?1 AND due_at < ?2",
      Date.now(),
      NEVER_MS,
    );
  }

  async report(idle, startedMs) {
    const { tally } = this;
    const [{ failed, waiting }] = await this.running.query(
      "SELECT count(*) FILTER (WHERE due_at = ?1) AS failed, count(*) FILTER (WHERE due_at < ?1) AS waiting FROM jadpo_deliveries",
      NEVER_MS,
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
}

// Whoever started this ends it by closing its standard input, at any time.
let serving = false;
process.stdin.once("end", () => serving || process.exit(130)).resume();

async function main() {
  const limitMs = Number(args["limit-s"]) * 1000;
  const wrangler = JSON.parse(await readFile(join(args.folder, "wrangler.json"), "utf8"));
  const queues = (wrangler.queues?.consumers ?? []).map(({ queue }) => queue);
  const messages = args.messages ? readMessages(await readFile(args.messages, "utf8"), queues) : [];
  const demo = new Demo();
  say("starting the Worker in workerd, with D1 and its queues");
  await demo.start(args.folder, args.sample);
  try {
    const startedMs = Date.now();
    const early = args.sample ? messages.slice(0, EARLY) : [];
    if (early.length > 0) {
      say(`sending ${early.length} messages before the store is migrated: the Worker cannot keep them and puts them off`);
      await demo.send(early);
      await until(() => demo.tally.retried >= early.length, { what: "the early messages were put off", limitMs });
      say("migrating the store; the early messages come again after 10 s");
      await demo.running.migrateFrom(args.folder);
    }
    say(`sending ${messages.length - early.length} messages`);
    await demo.send(messages.slice(early.length));
    let idle = await demo.received(limitMs).then(() => true, () => false);
    say("delivering; where a subscriber is to be tried again later, time is played forward");
    idle = (await demo.delivered(limitMs)) && idle;
    tell({ report: await demo.report(idle, startedMs) });
    if (args.serve) await serve(demo, queues);
  } finally {
    await demo.running.stop();
  }
}

/** Keeps the Worker up until the demo is told to end. */
async function serve(demo, queues) {
  const url = String(await demo.running.url()).replace(/\/$/, "");
  serving = true;
  tell({ serving: { url, token: demo.token, queues } });
  const minute = setInterval(() => demo.running.tick().catch(() => {}), 60_000);
  await new Promise((resolve) => {
    process.stdin.once("end", resolve);
  });
  clearInterval(minute);
}

try {
  await main();
} catch (error) {
  if (error instanceof BadLine) tell({ problem: error.message, help: error.help, exit: 2 });
  else tell({ problem: error.message, help: "the lines above say how far it came", exit: 1, stack: error.stack });
  process.exitCode = 1;
}
process.exit(); // standard input is still open
