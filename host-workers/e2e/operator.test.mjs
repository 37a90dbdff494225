// The operator: what is parked or has failed is seen and retried against a running Worker.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { QUEUE, TOKEN, movement, warehouse } from "./lib/apps.mjs";
import { build, removeFolder, temporaryFolder } from "./lib/deployable.mjs";
import { scenario } from "./lib/scenario.mjs";
import { start, until } from "./lib/workerd.mjs";

const run = promisify(execFile);
const env = { JADPO_ADMIN_TOKEN: TOKEN };
const message = (value) => ({ body: JSON.stringify(value) });

function ask(running, path, { token = TOKEN, ...init } = {}) {
  return running.fetch(`/.jadpo/${path}`, { ...init, headers: { authorization: `Bearer ${token}` } });
}

const retry = (running, body) => ask(running, "deliveries/retry", { method: "POST", body: JSON.stringify(body) });

test("the endpoint is off without a token, and says nothing without the right one", async (t) => {
  const { running } = await scenario(t);
  assert.equal((await ask(running, "deliveries")).status, 404);
  const on = await scenario(t, { env });
  assert.equal((await ask(on.running, "deliveries", { token: "another-token-of-length" })).status, 401);
  assert.equal((await on.running.fetch("/.jadpo/deliveries")).status, 401);
  assert.equal((await ask(on.running, "deliveries")).status, 200);
  assert.equal((await ask(on.running, "deliveries", { method: "PUT" })).status, 405);
});

test("a request that is no request of the operator's is refused in words, however large", async (t) => {
  const { running } = await scenario(t, { env });
  for (const body of ["", "{", "[]", "\0\ufffd", JSON.stringify({ ids: ["p1".repeat(200_000)] })]) {
    const answer = await ask(running, "deliveries/retry", { method: "POST", body });
    assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status} for ${body.length} characters`);
    assert.ok((await answer.json()).error.message.length > 0);
  }
  assert.equal((await ask(running, "deliveries/../../x")).status, 404);
  assert.equal((await ask(running, "deliveries?limit=many&reason=%ff%00")).status, 400);
});

test("a parked message is listed, shown whole and marked for a retry", async (t) => {
  const { running } = await scenario(t, { env });
  await running.dispatch(QUEUE, [message(movement(1, { quantity: "one" }))]);
  const { items } = await (await ask(running, "deliveries")).json();
  assert.equal(items.length, 1);
  assert.deepEqual([items[0].id, items[0].reason], ["p1", "rejected"]);
  const shown = await (await ask(running, "deliveries/p1")).json();
  assert.match(JSON.stringify(shown), /quantity: expected Int, found text/);
  assert.equal((await retry(running, { ids: ["p1"] })).status, 200);
});

test("a message parked by an old build becomes an event at the next tick of a build that can read it", async (t) => {
  const state = await temporaryFolder("state");
  t.after(() => removeFolder(state));
  const old = await scenario(t, { env, state });
  await old.running.dispatch(QUEUE, [message(movement(1, { quantity: "one" })), message(movement(2))]);
  assert.equal((await retry(old.running, { ids: ["p1"] })).status, 200);
  await old.running.tick();
  assert.equal((await old.running.query("SELECT * FROM jadpo_parked_messages")).length, 1, "the old build still cannot");
  await old.running.stop();

  const event = "{ sku: Text, quantity: Text, moved_at: Instant, note: Text? }";
  const subscribers = [`ledger: { on: StockMoved, call: "${old.ledger.url}" }`];
  const folder = await build(warehouse({ event, subscribers }));
  t.after(() => removeFolder(dirname(folder)));
  const next = await start(folder, { env, state, batchWaitS: 0 });
  t.after(() => next.stop());
  assert.equal((await retry(next, { ids: ["p1"] })).status, 200);
  await next.tick();
  assert.deepEqual(await next.query("SELECT * FROM jadpo_parked_messages"), []);
  await until(() => old.ledger.calls.length === 2, { what: "it is delivered" });
  assert.equal(JSON.parse(old.ledger.texts()[1]).quantity, "one");
});

test("a delivery that has failed is listed and delivered after a retry", async (t) => {
  const { running, ledger } = await scenario(t, { env });
  ledger.does(() => 500);
  await running.dispatch(QUEUE, [message(movement(1))]);
  await until(() => running.entries("delivery.ran").length === 1);
  await running.query("UPDATE jadpo_deliveries SET attempt = attempt_max - 1");
  await running.makeDue();
  await running.tick();
  const { items } = await (await ask(running, "deliveries")).json();
  assert.deepEqual(items.map(({ id }) => id), ["d1.ledger"]);

  ledger.does(() => 200);
  assert.equal((await retry(running, { ids: ["d1.ledger"] })).status, 200);
  await running.tick();
  assert.deepEqual((await (await ask(running, "deliveries")).json()).items, []);
  assert.equal(ledger.calls.length, 3);
});

test("jadpo deliveries lists and retries against a running Worker", async (t) => {
  const { running } = await scenario(t, { env });
  await running.dispatch(QUEUE, [message(movement(1, { sku: 7 }))]);
  const jadpo = async (...args) => {
    const url = (await running.url()).href;
    const { stdout } = await run(process.env.JADPO_BIN, ["deliveries", ...args, "--url", url], {
      env: { ...process.env, JADPO_ADMIN_TOKEN: TOKEN },
    });
    return stdout;
  };
  assert.match(await jadpo(), /p1.*rejected/s);
  assert.match(await jadpo("--json"), /"p1"/);
  assert.match(await jadpo("show", "p1"), /sku: expected Text/);
  await jadpo("retry", "p1");
  const [{ retry_at }] = await running.query("SELECT retry_at FROM jadpo_parked_messages");
  assert.notEqual(retry_at, null);
});
