// Receiving, in real workerd on real D1: what is kept, what is parked, what is answered, as far as it is the Worker's own.
// What every host does alike is in host-test/scenarios, which behaviour.test.mjs runs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { QUEUE, movement } from "./lib/apps.mjs";
import { scenario } from "./lib/scenario.mjs";
import { until } from "./lib/workerd.mjs";

const ids = (messages) => messages.map((_, index) => `m${index + 1}`);
const text = (value) => ({ body: JSON.stringify(value) });

/** Every message was acknowledged on its own and none was retried. */
function assertAllAcknowledged(result, messages) {
  assert.equal(result.outcome, "ok");
  assert.deepEqual(result.explicitAcks, ids(messages));
  assert.deepEqual(result.retryMessages, []);
  assert.equal(result.ackAll, false);
  assert.equal(result.retryBatch.retry, false);
}

test("a message sent to the queue is kept, delivered and gone from the queue", async (t) => {
  const { running, ledger } = await scenario(t);
  await running.send(QUEUE, movement(1));
  await until(() => ledger.calls.length === 1, { what: "the ledger is called" });

  const [call] = ledger.calls;
  assert.deepEqual(JSON.parse(call.body), movement(1));
  assert.equal(call.headers["jadpo-event"], "StockMoved");
  assert.equal(call.headers["jadpo-attempt"], "1");
  assert.ok(call.headers["idempotency-key"].startsWith(call.headers["jadpo-event-id"]));
  assert.equal((await running.query("SELECT * FROM jadpo_events")).length, 1);
  await until(async () => (await running.query("SELECT * FROM jadpo_deliveries")).length === 0, {
    what: "the delivery is done",
  });
});

test("a batch of ten costs one round trip to D1, and four rows a message with one subscriber", async (t) => {
  const { running, ledger } = await scenario(t);
  const messages = Array.from({ length: 10 }, (_, index) => text(movement(index + 1)));
  assertAllAcknowledged(await running.dispatch(QUEUE, messages), messages);
  await until(() => running.entries("delivery.ran").length === 1, { what: "the deliveries end" });

  const [received] = running.entries("queue.received");
  assert.equal(received.kept, 10);
  assert.equal(received.store_batches, 1);
  const [ran] = running.entries("delivery.ran");
  assert.deepEqual([ran.done, ran.store_batches, ledger.calls.length], [10, 1, 10]);
  assert.equal(received.rows_written + ran.rows_written, 4 * 10 + 1);
});

test("a Worker whose stores are not migrated retries all and keeps nothing; once migrated it keeps", async (t) => {
  const { running, folder } = await scenario(t, { migrate: false });
  const messages = [text(movement(1)), text(movement(2))];
  const { outcome, explicitAcks, retryMessages } = await running.dispatch(QUEUE, messages);
  assert.deepEqual({ outcome, explicitAcks }, { outcome: "ok", explicitAcks: [] });
  assert.deepEqual(retryMessages, [{ msgId: "m1", delaySeconds: 10 }, { msgId: "m2", delaySeconds: 10 }]);
  assert.equal(running.entries("queue.retried")[0].code, "not_started");

  await running.migrateFrom(folder);
  assertAllAcknowledged(await running.dispatch(QUEUE, messages), messages);
});

test("a Worker whose program is of another form retries each batch and answers 503", async (t) => {
  const { running } = await scenario(t, { program: (text) => text.replace(/"format":\s*1/, '"format": 99') });
  const { outcome, retryMessages } = await running.dispatch(QUEUE, [{ ...text(movement(1)), attempts: 2 }]);
  assert.deepEqual({ outcome, retryMessages }, { outcome: "ok", retryMessages: [{ msgId: "m1", delaySeconds: 20 }] });
  assert.equal(running.entries("queue.retried")[0].code, "not_started");
  assert.equal((await running.fetch("/healthz")).status, 503);
});

test("a healthy Worker says so, and has nothing else to say", async (t) => {
  const { running } = await scenario(t);
  assert.equal((await running.fetch("/healthz")).status, 200);
  assert.equal((await running.fetch("/")).status, 404);
  assert.equal((await running.fetch("/.jadpo/deliveries")).status, 404);
});

for (const queue of ["orders-eu-1", "queue"]) {
  test(`a queue named ${queue} is received under its own name`, async (t) => {
    const { running, ledger } = await scenario(t, { app: { queue } });
    await running.send(queue, movement(1));
    await running.send(`${queue}-dead`, movement(2));
    await until(() => ledger.calls.length === 1, { what: "the ledger is called" });
    await until(() => running.entries("queue.received").length === 2, { what: "both queues are received" });
    const [parked] = await running.query("SELECT queue, reason FROM jadpo_parked_messages");
    assert.deepEqual(parked, { queue: `${queue}-dead`, reason: "dead_lettered" });
  });
}

test("a text, a JSON string and a JSON object with the same letters are each stored as they reached the Worker", async (t) => {
  const { running } = await scenario(t, { app: { event: "Json", id: null } });
  const letters = '{"a":1}';
  await running.send(QUEUE, letters, "text");
  await running.send(QUEUE, JSON.stringify(letters), "text");
  await running.send(QUEUE, JSON.parse(letters), "json");
  const stored = () => running.query("SELECT body FROM jadpo_events ORDER BY seq");
  const rows = await until(async () => (await stored()).length === 3 && stored(), { what: "three are kept" });
  assert.deepEqual(rows.map(({ body }) => body), [letters, JSON.stringify(letters), letters]);
});
