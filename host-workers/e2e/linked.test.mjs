// Rust functions linked into a Worker of one's own: host-workers/examples/audit, in real workerd.

import assert from "node:assert/strict";
import { test } from "node:test";
import { QUEUE, movement } from "./lib/apps.mjs";
import { scenario } from "./lib/scenario.mjs";
import { until } from "./lib/workerd.mjs";

const worker = process.env.JADPO_EXAMPLE_WORKER_DIR;
const skip = worker ? false : "JADPO_EXAMPLE_WORKER_DIR does not say where the example's Worker is";
const runs = (name) => ({ worker, app: { subscribers: () => [`${name}: { on: StockMoved, run: ${name} }`] } });
const message = (number, changes) => ({ body: JSON.stringify(movement(number, changes)), id: `m${number}` });
const due = (running) => running.query("SELECT * FROM jadpo_deliveries ORDER BY seq");
const ran = (running, times) => until(() => running.entries("delivery.ran").length >= times, { what: `run ${times} ends` });

test("a linked function gets each event, and its Ok is a delivery done", { skip }, async (t) => {
  const { running } = await scenario(t, runs("audit"));
  await running.dispatch(QUEUE, [message(1), message(2)]);
  await ran(running, 1);
  const audits = running.entries("audit");
  assert.deepEqual(audits.map(({ sku, quantity }) => [sku, quantity]), [["SKU-1", 1], ["SKU-2", 2]]);
  assert.equal(new Set(audits.map(({ id }) => id)).size, 2);
  assert.deepEqual(await due(running), []);
});

test("a linked function's failure is tried again on the schedule, or when it says", { skip }, async (t) => {
  const { running } = await scenario(t, runs("audit"));
  await running.dispatch(QUEUE, [message(1, { quantity: 0 }), message(2, { quantity: 5000 })]);
  await ran(running, 1);
  const [nothing, much] = await due(running);
  assert.equal(nothing.error, "SKU-1: a movement of nothing");
  assert.ok(Math.abs(nothing.due_at - Date.now() - 10_000) < 5_000);
  assert.ok(Math.abs(much.due_at - Date.now() - 60_000) < 5_000);
});

test("a panic in a linked function costs an attempt and no message, and the next events are received", { skip }, async (t) => {
  const { running } = await scenario(t, runs("fragile"));
  const { outcome, explicitAcks } = await running.dispatch(QUEUE, [message(1)]);
  assert.deepEqual([outcome, explicitAcks], ["ok", ["m1"]]);
  await until(() => running.logs.some(({ message: text }) => text.includes("not on the first attempt")), { what: "it panics" });

  for (const number of [2, 3]) {
    const next = await running.dispatch(QUEUE, [message(number)]);
    assert.deepEqual([next.outcome, next.explicitAcks], ["ok", [`m${number}`]]);
  }
  assert.equal((await running.fetch("/healthz")).status, 200);
  assert.equal((await due(running)).length, 3);

  await running.makeDue();
  await running.tick();
  await until(async () => (await due(running)).length === 0, { what: "the second attempts are done" });
});

test("a function that the Worker lacks is told of in the log, and its deliveries wait", { skip }, async (t) => {
  const { running } = await scenario(t, { ...runs("audit"), program: (text) => text.replace('"run": "audit"', '"run": "gone"') });
  await running.dispatch(QUEUE, [message(1)]);
  await ran(running, 1);
  assert.equal(running.entries("start.function_not_linked")[0].function, "gone");
  assert.equal((await due(running))[0].error, "no function named gone is linked into this Worker");
});
