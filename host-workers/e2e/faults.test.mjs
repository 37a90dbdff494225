// Faults that only a Worker has: a slow or silent D1, calls on messages that throw, a real queue's retries. What a failing
// store means for a batch is in host-test/scenarios/failing.toml, which behaviour.test.mjs runs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DEAD, QUEUE, movement } from "./lib/apps.mjs";
import { scenario } from "./lib/scenario.mjs";
import { until } from "./lib/workerd.mjs";

const batchOf = (count, changes = {}) =>
  Array.from({ length: count }, (_, index) => ({ body: JSON.stringify(movement(index + 1)), ...changes }));
const events = (running) => running.query("SELECT seq, key FROM jadpo_events ORDER BY seq");

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
