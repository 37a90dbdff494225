// Faults: D1 down, slow, or lost after it committed; a message's own constraint error; calls that throw; an isolate
// that dies. Nothing is acknowledged without a row, and no event comes twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DEAD, QUEUE, movement } from "./lib/apps.mjs";
import { removeFolder, temporaryFolder } from "./lib/deployable.mjs";
import { scenario } from "./lib/scenario.mjs";
import { start, until } from "./lib/workerd.mjs";

const batchOf = (count, changes = {}) =>
  Array.from({ length: count }, (_, index) => ({ body: JSON.stringify(movement(index + 1)), ...changes }));
const events = (running) => running.query("SELECT seq, key FROM jadpo_events ORDER BY seq");
const LOST = "D1_ERROR: Network connection lost.";

test("while D1 is down each message is retried on the schedule, and kept once it is back", async (t) => {
  const { running } = await scenario(t, { faults: true });
  running.faults.d1Down();
  const down = await running.dispatch(QUEUE, batchOf(3, { attempts: 4 }));
  assert.deepEqual([down.outcome, down.explicitAcks], ["ok", []]);
  assert.deepEqual(down.retryMessages.map(({ delaySeconds }) => delaySeconds), [80, 80, 80]);
  const [{ code, count, queue }] = running.entries("queue.retried");
  assert.deepEqual({ code, count, queue }, { code: "store_unavailable", count: 3, queue: QUEUE });

  running.faults.d1Up();
  assert.equal((await running.dispatch(QUEUE, batchOf(3, { attempts: 5 }))).explicitAcks.length, 3);
  assert.equal((await events(running)).length, 3);
});

test("a dead letter that cannot be parked now is retried, not lost", async (t) => {
  const { running } = await scenario(t, { faults: true });
  running.faults.d1Down();
  const { explicitAcks, retryMessages } = await running.dispatch(DEAD, [{ body: "x", attempts: 2 }]);
  assert.deepEqual([explicitAcks, retryMessages], [[], [{ msgId: "m1", delaySeconds: 20 }]]);
});

test("when D1 committed and its answer was lost, the messages come again and are no second event", async (t) => {
  const { running, ledger } = await scenario(t, { faults: true });
  running.faults.d1 = () => ({ lost: LOST });
  const lost = await running.dispatch(QUEUE, batchOf(10));
  assert.deepEqual([lost.explicitAcks.length, lost.retryMessages.length], [0, 10]);
  assert.equal((await events(running)).length, 10);

  running.faults.d1Up();
  const again = await running.dispatch(QUEUE, batchOf(10, { attempts: 2 }));
  assert.deepEqual([again.explicitAcks.length, again.retryMessages.length], [10, 0]);
  assert.equal((await events(running)).length, 10);
  // The deliveries were claimed by the run that never heard of them; the tick takes them up when the claim ends.
  assert.equal(ledger.calls.length, 0);
  await running.makeDue();
  await running.tick();
  await until(() => ledger.calls.length === 10, { what: "all are delivered once" });
});

test("while D1 is slow nothing is answered before it has committed", async (t) => {
  const { running } = await scenario(t, { faults: true });
  running.faults.d1 = () => ({ slowMs: 1500 });
  let answered = false;
  const dispatched = running.dispatch(QUEUE, batchOf(2)).finally(() => (answered = true));
  await until(() => running.faults.d1Batches.length === 1);
  assert.equal(answered, false);
  assert.equal((await events(running)).length, 0);
  assert.equal((await dispatched).explicitAcks.length, 2);
  assert.equal((await events(running)).length, 2);
});

test("a constraint error that is one message's fault retries that one and keeps the other nine", async (t) => {
  const { running } = await scenario(t, { faults: true });
  const text = "D1_ERROR: CHECK constraint failed: x: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)";
  running.faults.d1 = ({ statements }) => (JSON.stringify(statements).includes("mv-7") ? { fail: text } : undefined);
  const { explicitAcks, retryMessages } = await running.dispatch(QUEUE, batchOf(10));
  assert.deepEqual(explicitAcks, ["m1", "m2", "m3", "m4", "m5", "m6", "m8", "m9", "m10"]);
  assert.deepEqual(retryMessages, [{ msgId: "m7", delaySeconds: 10 }]);
  assert.deepEqual((await events(running)).map(({ key }) => key).sort(), ["mv-1", "mv-10", "mv-2", "mv-3", "mv-4", "mv-5", "mv-6", "mv-8", "mv-9"]);
});

test("a retry() that throws fails the handler once all are answered, and the rest stays answered", async (t) => {
  const { running } = await scenario(t, { faults: true });
  running.faults.throwing = { m1: ["retry"] };
  running.faults.d1Down();
  const { outcome, explicitAcks, retryMessages } = await running.dispatch(QUEUE, batchOf(3));
  assert.equal(outcome, "exception");
  assert.deepEqual(explicitAcks, []);
  assert.deepEqual(retryMessages.map(({ msgId }) => msgId), ["m2", "m3"]);
});

test("an ack() that throws fails the handler, keeps the rows, and the message comes again as a repeat", async (t) => {
  const { running, ledger } = await scenario(t, { faults: true });
  running.faults.throwing = { m2: ["ack"] };
  const first = await running.dispatch(QUEUE, batchOf(3));
  assert.deepEqual([first.outcome, first.explicitAcks], ["exception", ["m1", "m3"]]);
  running.faults.throwing = {};
  const again = await running.dispatch(QUEUE, batchOf(3, { attempts: 2 }));
  assert.deepEqual([again.outcome, again.explicitAcks], ["ok", ["m1", "m2", "m3"]]);
  assert.equal((await events(running)).length, 3);
  await until(() => ledger.calls.length === 3, { what: "each is delivered once" });
});

test("an isolate that dies between commit and answer loses nothing and makes nothing twice", async (t) => {
  const state = await temporaryFolder("state");
  t.after(() => removeFolder(state));
  const { running, ledger, folder } = await scenario(t, { faults: true, state });
  running.faults.d1 = () => ({ silent: true });
  const dying = running.dispatch(QUEUE, batchOf(10)).catch(() => "died");
  await until(async () => (await events(running)).length === 10, { what: "D1 has committed" });
  await running.stop();
  const result = await dying;
  assert.deepEqual(result.explicitAcks ?? [], []);

  const next = await start(folder, { state, batchWaitS: 0 });
  t.after(() => next.stop());
  assert.equal((await next.dispatch(QUEUE, batchOf(10, { attempts: 2 }))).explicitAcks.length, 10);
  assert.equal((await events(next)).length, 10);
  await next.makeDue();
  await next.tick();
  await until(() => ledger.calls.length === 10, { what: "all are delivered" });
});

test("a message that is retried comes back from the queue and is kept, with nothing of it lost", async (t) => {
  const { running, ledger } = await scenario(t, { faults: true });
  running.faults.d1Down();
  await running.send(QUEUE, movement(1));
  await until(() => running.entries("queue.retried").length === 1, { what: "it is retried" });
  running.faults.d1Up();
  await until(() => ledger.calls.length === 1, { what: "it comes again after 10 s", limitMs: 25_000 });
  assert.deepEqual(JSON.parse(ledger.texts()[0]), movement(1));
});

test("a message whose retries are spent is moved to the dead-letter queue and parked from there", async (t) => {
  const { running } = await scenario(t, { faults: true, maxRetries: 0 });
  running.faults.d1Down();
  await running.send(QUEUE, movement(1));
  await until(() => running.entries("queue.retried").length >= 1, { what: "it is retried" });
  running.faults.d1Up();
  const parked = await until(async () => (await running.query("SELECT * FROM jadpo_parked_messages"))[0], {
    what: "it is parked",
    limitMs: 30_000, // the dead letter too may have come while D1 was down, and comes again after 10 s
  });
  assert.deepEqual([parked.reason, parked.queue, parked.key], ["dead_lettered", DEAD, "mv-1"]);
  assert.deepEqual(JSON.parse(parked.body), movement(1));
});

test("a D1 that never answers is given up after half a minute, and the messages are retried", async (t) => {
  const { running } = await scenario(t, { faults: true });
  running.faults.d1 = () => ({ silent: true });
  const { outcome, explicitAcks, retryMessages } = await running.dispatch(QUEUE, batchOf(2));
  assert.deepEqual([outcome, explicitAcks, retryMessages.length], ["ok", [], 2]);
  assert.equal(running.entries("queue.retried")[0].code, "store_unavailable");
});
