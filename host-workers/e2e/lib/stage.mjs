// A Worker in workerd as a stage of the behaviour suite: real D1, real HTTP subscribers, batches handed over past the
// queue. It is used again for scenarios with the same app, emptied between them.

import assert from "node:assert/strict";
import { dirname } from "node:path";
import { TOKEN } from "./apps.mjs";
import { build, removeFolder, temporaryFolder } from "./deployable.mjs";
import { messagesOf, seenQuery, wrong } from "./scenarios.mjs";
import { subscriber } from "./subscriber.mjs";
import { start, until } from "./workerd.mjs";

/** `due_at` of a delivery that has failed. */
const NEVER_MS = Number.MAX_SAFE_INTEGER;
const LOST = "D1_ERROR: Network connection lost.";
/** How long to look for what must be seen. */
const PATIENCE_MS = 5_000;
/** How long a claim may stay before it is taken for one whose holder is gone. */
const CLAIM_PATIENCE_MS = 3_000;
/** The same where a subscriber hangs: it is given up after 15 s. */
const HANGING_PATIENCE_MS = 25_000;

const STORE = {
  well: () => undefined,
  down: () => ({ fail: LOST }),
  rolls_back: () => ({ fail: "D1_ERROR: Internal error while starting up D1 DB storage caused object to be reset." }),
  loses_answers: () => ({ lost: LOST }),
};

export class Stage {
  #folders = [];
  #subscribers = new Map();
  #logFrom = 0;

  /** Starts the app of a scenario. */
  static async start({ app, env }) {
    const stage = new Stage();
    stage.app = app;
    stage.env = { ...env, JADPO_ADMIN_TOKEN: TOKEN };
    stage.state = await temporaryFolder("state");
    await stage.#deploy(app);
    return stage;
  }

  async stop() {
    await this.running?.stop();
    for (const { server } of this.#subscribers.values()) await server.stop();
    for (const folder of [this.state, ...this.#folders]) await removeFolder(folder);
  }

  /** Runs a scenario from an empty store; a failure names the step. */
  async play({ app, steps }) {
    if (app !== this.deployed) await this.#deploy(app);
    await this.#empty();
    this.abandoned = new Set();
    this.claimMs = steps.some(([what, { answers = [] }]) => what === "subscriber" && answers.includes("hangs"))
      ? HANGING_PATIENCE_MS
      : CLAIM_PATIENCE_MS;
    for (const [place, [what, how]] of steps.entries()) {
      const doing = this[`do_${what}`];
      assert.ok(doing, `the Worker has no step ${what}: say so in not_on.workers`);
      try {
        await doing.call(this, how);
      } catch (error) {
        error.message = `step ${place + 1}, ${what} ${JSON.stringify(how)}:\n${error.message}`;
        throw error;
      }
    }
  }

  do_subscriber({ name, answers = [], then = 200, only = "" }) {
    const next = [...answers];
    const { server } = this.#subscribers.get(name) ?? assert.fail(`the app has no subscriber ${name}`);
    server.does(({ body }) => (body.includes(only) ? answerOf(next.length > 0 ? next.shift() : then) : 200));
  }

  async do_store(does) {
    await this.#quiet();
    if (does === "behind") return this.running.query("UPDATE jadpo_schema SET version = version - 1");
    if (does === "migrated") return this.running.query("UPDATE jadpo_schema SET version = version + 1");
    this.running.faults.d1 = STORE[does] ?? assert.fail(`the store cannot do ${does}`);
  }

  do_store_refuses(text) {
    const fail = "D1_ERROR: CHECK constraint failed: x: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)";
    this.running.faults.d1 = ({ statements }) => (JSON.stringify(statements).includes(text) ? { fail } : undefined);
  }

  async do_hand_over({ queue, messages, answers, dies }) {
    await this.#quiet();
    const batch = messages.flatMap(messagesOf);
    const given = dies ? await this.#dying(queue, batch, dies) : await this.running.dispatch(queue, batch);
    const retried = new Map((given.retryMessages ?? []).map(({ msgId, delaySeconds }) => [msgId, delaySeconds]));
    const acked = new Set(given.explicitAcks ?? []);
    const told = dies && retried.size + acked.size === 0 ? [] : batch.map(({ id }) => (acked.has(id) ? "ack" : retried.get(id)));
    assert.deepEqual(told, Array.isArray(answers) ? answers : batch.map(() => answers), "the answers");
    if (!dies) assert.deepEqual([given.outcome, given.ackAll, given.retryBatch.retry], ["ok", false, false]);
  }

  async do_seconds_pass(seconds) {
    await this.#quiet();
    const ms = seconds * 1_000;
    await this.running.query(`UPDATE jadpo_deliveries SET due_at = due_at - ${ms} WHERE due_at < ${NEVER_MS}`);
    await this.running.query(`UPDATE jadpo_events SET received_at = received_at - ${ms}`);
    await this.running.query(`UPDATE jadpo_parked_messages SET retry_at = retry_at - ${ms}`);
  }

  async do_tick(times) {
    for (let time = 0; time < times; time++) {
      await this.#quiet();
      await this.running.tick();
    }
  }

  async do_operator({ get, post, body, status = 200, answer }) {
    await this.#quiet();
    const init = post ? { method: "POST", body: JSON.stringify(body) } : {};
    const headers = { authorization: `Bearer ${TOKEN}` };
    const response = await this.running.fetch(`/.jadpo/${post ?? get}`, { ...init, headers });
    const text = await response.text();
    assert.equal(response.status, status, text);
    if (answer) assert.equal(wrong({ answer }, { answer: JSON.parse(text) }), undefined);
  }

  async do_deploy(app) {
    await this.#quiet();
    await this.#deploy(app);
  }

  async do_see(expected) {
    await this.#quiet();
    let why;
    const right = async () => (why = wrong(expected, await this.#seen())) === undefined;
    await until(right, { limitMs: PATIENCE_MS }).catch((error) => assert.fail(why ?? error.message));
  }

  /** Builds an app, its subscribers at addresses of their own, and starts it over the same store. */
  async #deploy(app) {
    await this.running?.stop();
    this.deployed = app;
    const folder = await build(await this.#reached(app));
    this.#folders.push(dirname(folder));
    this.folder = folder;
    await this.#start();
  }

  async #start() {
    this.running = await start(this.folder, { state: this.state, batchWaitS: 0, faults: true, env: this.env });
    this.#logFrom = 0;
  }

  /** The app's text with `https://NAME.example.com` as the address of the subscriber NAME on this machine. */
  async #reached(app) {
    const address = /https:\/\/(\w+)\.example\.com\/\w+/g;
    for (const [, name] of app.matchAll(address)) {
      if (!this.#subscribers.has(name)) this.#subscribers.set(name, { server: await subscriber(), from: 0 });
    }
    return app.replace(address, (_, name) => this.#subscribers.get(name).server.url);
  }

  async #empty() {
    this.running.faults.d1Up();
    for (const subscriber of this.#subscribers.values()) {
      subscriber.server.does(() => 200);
      subscriber.from = subscriber.server.calls.length;
    }
    for (const table of ["deliveries", "events", "received", "parked_messages"]) {
      await this.running.query(`DELETE FROM jadpo_${table}`);
    }
    this.#logFrom = this.running.logs.length;
  }

  /** Hands a batch over to an isolate that dies over it, and starts the next one. */
  async #dying(queue, batch, dies) {
    this.running.faults.d1 = () => (dies === "after_commit" ? { silent: true } : { slowMs: 600_000 });
    const before = this.running.faults.d1Batches.length;
    const dying = this.running.dispatch(queue, batch).catch(() => ({}));
    await until(() => this.running.faults.d1Batches.length > before, { what: "D1 is asked" });
    if (dies === "after_commit") await until(async () => (await this.#rows("events")).length > 0, { what: "D1 has committed" });
    await this.running.stop();
    const given = await dying;
    await this.#start();
    return given;
  }

  /** Waits until no delivery runs. A claim whose holder is gone is waited for in vain, once. */
  async #quiet() {
    const name = ({ subscriber, key, attempt }) => `${subscriber} ${key} ${attempt}`;
    const claims = async () => (await this.#rows("deliveries")).filter(({ state }) => state === "running").map(name);
    const held = async () => (await claims()).filter((claim) => !this.abandoned.has(claim));
    await until(async () => (await held()).length === 0, { limitMs: this.claimMs }).catch(() => undefined);
    for (const claim of await claims()) this.abandoned.add(claim);
  }

  async #rows(what) {
    return (await this.running.query(seenQuery(what))).map(({ seen }) => JSON.parse(seen));
  }

  async #seen() {
    const calls = {};
    for (const [name, { server, from }] of this.#subscribers) calls[name] = server.calls.slice(from).map(seenCall).sort(byBody);
    const log = this.running.logs.slice(this.#logFrom).flatMap(({ message }) => entryOf(message));
    return { events: await this.#rows("events"), parked: await this.#rows("parked"), deliveries: await this.#rows("deliveries"), calls, log };
  }
}

function answerOf(does) {
  if (does === "hangs") return "hang";
  if (does === "closes") return "close";
  if (typeof does === "number") return does;
  const [status, after] = does.split(" after ");
  return { status: Number(status), headers: { "retry-after": after } };
}

function seenCall({ headers, body }) {
  return { attempt: Number(headers["jadpo-attempt"] ?? 0), body: body.toString("utf8"), headers };
}

/** Calls run side by side, so they are put in order: by body, then by attempt. */
function byBody(one, other) {
  return Buffer.compare(Buffer.from(one.body), Buffer.from(other.body)) || one.attempt - other.attempt;
}

function entryOf(message) {
  try {
    return message.startsWith("{") ? [JSON.parse(message)] : [];
  } catch {
    return [];
  }
}
