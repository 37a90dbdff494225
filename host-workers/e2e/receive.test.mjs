// Receiving, in real workerd on real D1: what is kept, what is parked, what is answered.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DEAD, QUEUE, movement } from "./lib/apps.mjs";
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

test("a poison message does not hold back nine good ones", async (t) => {
  const { running, ledger } = await scenario(t);
  const messages = Array.from({ length: 10 }, (_, index) => text(movement(index + 1)));
  messages[4] = text(movement(5, { quantity: "five" }));
  assertAllAcknowledged(await running.dispatch(QUEUE, messages), messages);

  const [parked, ...more] = await running.query("SELECT * FROM jadpo_parked_messages");
  assert.equal(more.length, 0);
  assert.equal(parked.reason, "rejected");
  assert.equal(parked.detail, "quantity: expected Int, found text");
  assert.equal(parked.message_id, "m5");
  await until(() => ledger.calls.length === 9, { what: "nine are delivered" });
});

test("the same id is one event, in the same batch and in a later one", async (t) => {
  const { running, ledger } = await scenario(t);
  const messages = Array.from({ length: 10 }, () => text(movement(1)));
  assertAllAcknowledged(await running.dispatch(QUEUE, messages), messages);
  assertAllAcknowledged(await running.dispatch(QUEUE, messages.slice(0, 2)), messages.slice(0, 2));

  const received = running.entries("queue.received");
  assert.deepEqual(received.map(({ kept, repeats }) => [kept, repeats]), [[1, 9], [0, 2]]);
  assert.equal((await running.query("SELECT * FROM jadpo_events")).length, 1);
  await until(() => ledger.calls.length === 1, { what: "it is delivered" });
});

test("a batch of a queue that the program does not receive is retried whole and logged", async (t) => {
  const { running } = await scenario(t);
  const result = await running.dispatch("surprise", [{ ...text(movement(1)), attempts: 1 }, { body: "b", attempts: 3 }]);
  assert.equal(result.outcome, "ok");
  assert.deepEqual(result.explicitAcks, []);
  assert.deepEqual(result.retryMessages, [
    { msgId: "m1", delaySeconds: 10 },
    { msgId: "m2", delaySeconds: 40 },
  ]);
  const [{ queue, count, code }] = running.entries("queue.retried");
  assert.deepEqual({ queue, count, code }, { queue: "surprise", count: 2, code: "not_received" });
});

test("the delay of a retry doubles with the attempts and ends at an hour", async (t) => {
  const { running } = await scenario(t);
  const messages = [1, 2, 3, 9, 10, 31].map((attempts) => ({ body: "b", attempts }));
  const { retryMessages } = await running.dispatch("surprise", messages);
  assert.deepEqual(retryMessages.map(({ delaySeconds }) => delaySeconds), [10, 20, 40, 2560, 3600, 3600]);
});

test("a dead letter is parked whole and acknowledged, whether it can be read or not", async (t) => {
  const { running, ledger } = await scenario(t);
  const messages = [text(movement(1)), { body: "no JSON {" }];
  assertAllAcknowledged(await running.dispatch(DEAD, messages), messages);
  const parked = await running.query("SELECT * FROM jadpo_parked_messages ORDER BY id");
  assert.deepEqual(parked.map(({ reason, event, key }) => [reason, event, key]), [
    ["dead_lettered", "StockMoved", "mv-1"],
    ["dead_lettered", null, null],
  ]);
  assert.equal(parked[1].body, "no JSON {");
  assert.equal((await running.query("SELECT * FROM jadpo_events")).length, 0);
  assert.equal(ledger.calls.length, 0);
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
