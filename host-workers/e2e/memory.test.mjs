// Memory: the largest batches, one after the other in one instance.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { QUEUE } from "./lib/apps.mjs";
import { scenario } from "./lib/scenario.mjs";
import { until } from "./lib/workerd.mjs";

const MB = 1024 * 1024;

test("ten batches of a hundred bodies of 127,000 bytes are all kept, and memory does not climb", async (t) => {
  const { running, ledger } = await scenario(t, { app: { event: "Json", id: null }, faults: true });
  const body = readFileSync(new URL("./fixtures/nasty-size-127000.json", import.meta.url)).toString();
  const memory = async () => Number(await (await running.fetch("/wasm-memory")).text());
  const after = [];
  for (let round = 1; round <= 10; round++) {
    const messages = Array.from({ length: 100 }, (_, index) => ({ id: `r${round}-${index}`, body }));
    const { outcome, explicitAcks } = await running.dispatch(QUEUE, messages);
    assert.deepEqual([outcome, explicitAcks.length], ["ok", 100]);
    await until(() => running.entries("delivery.ran").length === round, { what: "the deliveries end", limitMs: 60_000 });
    after.push(await memory());
    ledger.calls.length = 0;
  }
  const [{ count }] = await running.query("SELECT count(*) AS count FROM jadpo_events WHERE length(body) = 127000");
  assert.equal(count, 1000);
  t.diagnostic(`Wasm memory after each batch: ${after.map((bytes) => `${Math.round(bytes / MB)} MB`).join(", ")}`);
  assert.ok(after[9] <= after[1] * 1.2, "the tenth batch needs no more than the second and a fifth");
  assert.ok(after[9] <= 48 * MB, "an isolate has 128 MB for Wasm and JavaScript together");
});
