// A deployable running in workerd: real D1, its queues, its cron trigger, and the Workers that its services name.

import { Miniflare, convertV4MiniflareOptions as converted } from "miniflare";
import { migrations, removeFolder, temporaryFolder, workerOptions } from "./deployable.mjs";
import { Faults, withFaults } from "./faults.mjs";

const SENDER = "jadpo-sender";

/**
 * Starts a deployable folder.
 *
 * - `env`: variables and secrets, `{ NAME: "value" }`.
 * - `services`: the Workers behind service bindings, `{ "worker-name": "its module's text" }`.
 * - `state`: a folder that keeps D1 beyond this run; without it everything is new and goes when it stops.
 * - `migrate`: whether the migrations are applied first; true if not said.
 * - `batchWaitS`: seconds that a queue waits to fill a batch, in place of the file's 5.
 * - `maxRetries`: retries of a message, in place of the file's 30; a dead letter keeps its 100.
 * - `faults`: whether a test may put faults between the Worker and its surroundings (`running.faults`).
 * - `program`: changes program.json's text before it starts.
 * - `outbound`: answers the Worker's requests to the network, in place of the network.
 * - `onLog`: called with each line of the log, `{ level, message }`.
 */
export async function start(folder, settings = {}) {
  const state = settings.state ?? (await temporaryFolder("state"));
  const worker = await workerOptions(folder, settings.program);
  worker.bindings = { ...worker.bindings, ...settings.env };
  if (settings.outbound) worker.outboundService = settings.outbound;
  const queues = Object.keys(worker.queueConsumers ?? {});
  for (const consumer of Object.values(worker.queueConsumers ?? {})) {
    consumer.maxBatchTimeout = settings.batchWaitS ?? consumer.maxBatchTimeout;
    if (consumer.deadLetterQueue) consumer.maxRetries = settings.maxRetries ?? consumer.maxRetries;
  }
  const faults = settings.faults ? new Faults() : undefined;
  const logs = [];
  // Wrangler gives a Worker's options in the form of Miniflare 4, and Miniflare 5 converts that.
  const options = converted({
    workers: [
      faults ? withFaults(worker, faults) : worker,
      sender(queues, worker),
      ...Object.entries(settings.services ?? {}).map(([name, text]) => service(name, text, worker)),
    ],
    resourcePersistencePath: state,
    handleStructuredLogs: (line) => {
      logs.push(line);
      settings.onLog?.(line);
    },
  });
  const miniflare = new Miniflare(options);
  const running = new Running(miniflare, worker.name, queues, logs, faults, settings.state ? undefined : state);
  try {
    await miniflare.ready;
    if (settings.migrate ?? true) await running.migrateFrom(folder);
  } catch (error) {
    await running.stop();
    throw error;
  }
  return running;
}

/** A Worker that only has the queues' producers, by the queues' names. */
function sender(queues, { compatibilityDate }) {
  return {
    name: SENDER,
    compatibilityDate,
    modules: [{ type: "ESModule", path: "sender.js", contents: "export default {}" }],
    queueProducers: Object.fromEntries(queues.map((queue) => [queue, { queueName: queue }])),
  };
}

function service(name, text, { compatibilityDate }) {
  return { name, compatibilityDate, modules: [{ type: "ESModule", path: `${name}.js`, contents: text }] };
}

/** A started deployable. */
class Running {
  #miniflare;
  #name;
  #queues;
  #ownState;

  constructor(miniflare, name, queues, logs, faults, ownState) {
    this.#miniflare = miniflare;
    this.#name = name;
    this.#queues = queues;
    this.#ownState = ownState;
    /** Every line of the log so far. */
    this.logs = logs;
    /** What a test puts in the Worker's way, if it was started so. */
    this.faults = faults;
  }

  /** The log's structured lines of one event, as objects: `entries("queue.received")`. */
  entries(event) {
    return this.logs.flatMap(({ message }) => {
      if (!message.startsWith("{")) return [];
      try {
        const entry = JSON.parse(message);
        return entry.event === event ? [entry] : [];
      } catch {
        return [];
      }
    });
  }

  /** The names of the queues that the deployable consumes. */
  get queues() {
    return this.#queues;
  }

  /** Applies a deployable's migrations that were not applied yet, as Wrangler notes them. */
  async migrateFrom(folder) {
    const all = await migrations(folder);
    const database = await this.#database();
    await database.exec("CREATE TABLE IF NOT EXISTS d1_migrations (id INTEGER PRIMARY KEY, name TEXT UNIQUE)");
    for (const { name, sql } of all) {
      if (await database.prepare("SELECT 1 FROM d1_migrations WHERE name = ?").bind(name).first()) continue;
      const note = database.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name);
      await database.batch([database.prepare(sql), note]);
    }
  }

  /** The rows of a query, as objects. */
  async query(sql, ...params) {
    const statement = (await this.#database()).prepare(sql);
    return (await (params.length > 0 ? statement.bind(...params) : statement).all()).results;
  }

  /** Sends one message through its queue: `content_type` is json, text, bytes or v8. */
  async send(queue, body, contentType = "json", options = {}) {
    await (await this.#producer(queue)).send(body, { contentType, ...options });
  }

  /** Sends up to 100 messages at once: `[{ body, contentType }]`. */
  async sendBatch(queue, messages) {
    await (await this.#producer(queue)).sendBatch(messages);
  }

  /**
   * Hands a batch to the Worker, past the queue, and gives what the queue would be told: `{ outcome, explicitAcks,
   * retryMessages, … }`. Messages are `{ body }` with an `id`, a `timestamp` and `attempts` if they matter.
   */
  async dispatch(queue, messages) {
    const worker = await this.#miniflare.getWorker(this.#name);
    const whole = messages.map((message, index) => ({
      id: `m${index + 1}`,
      timestamp: new Date(),
      attempts: 1,
      ...message,
    }));
    return worker.queue(queue, whole);
  }

  /** Fires the cron trigger once and waits until it has ended. */
  async tick() {
    const worker = await this.#miniflare.getWorker(this.#name);
    return worker.scheduled({ cron: "* * * * *", scheduledTime: new Date() });
  }

  /** Requests a path of the Worker. */
  async fetch(path, init) {
    const worker = await this.#miniflare.getWorker(this.#name);
    return worker.fetch(`http://worker${path}`, init);
  }

  /** The address at which the Worker answers on this machine. */
  url() {
    return this.#miniflare.ready;
  }

  /** Makes every delivery that waits, or whose claim is held, due now: what time would do. */
  async makeDue() {
    await this.query("UPDATE OR IGNORE jadpo_deliveries SET due_at = 1 WHERE due_at < 9007199254740991");
  }

  /** Ends the runtime with everything it was doing. */
  async stop() {
    await this.#miniflare.dispose();
    if (this.#ownState) await removeFolder(this.#ownState);
  }

  #database() {
    return this.#miniflare.getD1Database("DB", this.#name);
  }

  #producer(queue) {
    return this.#miniflare.getQueueProducer(queue, SENDER);
  }
}

/** Waits until `condition` gives something true, and gives that. */
export async function until(condition, { what = "it", limitMs = 15_000, everyMs = 25 } = {}) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${limitMs} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
