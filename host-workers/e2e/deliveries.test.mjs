// Deliveries: calls to real HTTP servers and service bindings, after the answers.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { QUEUE, movement } from "./lib/apps.mjs";
import { scenario } from "./lib/scenario.mjs";
import { subscriber } from "./lib/subscriber.mjs";
import { until } from "./lib/workerd.mjs";

const message = (number) => ({ body: JSON.stringify(movement(number)), id: `m${number}` });
const due = (running) => running.query("SELECT * FROM jadpo_deliveries ORDER BY seq, subscriber");
/** The one delivery that is left, once the run that tried it has ended. */
async function left(running, runs = 1) {
  await until(() => running.entries("delivery.ran").length >= runs, { what: `run ${runs} ends`, limitMs: 30_000 });
  const rows = await due(running);
  assert.equal(rows.length, 1);
  return rows[0];
}

async function second(t, answer) {
  const server = await subscriber(answer);
  t.after(() => server.stop());
  return server;
}

test("a subscriber that hangs is given up after fifteen seconds and delays neither answers nor others", async (t) => {
  const other = await second(t);
  const { running, ledger } = await scenario(t, {
    app: { subscribers: (url) => [`hangs: { on: StockMoved, call: "${url}" }`, `other: { on: StockMoved, call: "${other.url}" }`] },
  });
  ledger.does(() => "hang");
  const started = Date.now();
  assert.equal((await running.dispatch(QUEUE, [message(1)])).explicitAcks.length, 1);
  assert.ok(Date.now() - started < 5_000, "the answer does not wait");
  await until(() => other.calls.length === 1, { what: "the other is called" });
  const row = await left(running);
  assert.equal(row.subscriber, "hangs");
  const took = Date.now() - started;
  assert.ok(took > 14_000 && took < 25_000, `${took} ms`);
});

test("a service subscriber is called through its binding, and again when it throws", async (t) => {
  const text = `let calls = 0; export default { async fetch(request, env) {
    if (++calls === 1) throw new Error("not yet");
    console.log(JSON.stringify({ event: "reorder.got", method: request.method, name: request.headers.get("jadpo-event"),
      attempt: request.headers.get("jadpo-attempt"), body: await request.json() }));
    return new Response(null, { status: 204 });
  } };`;
  const { running } = await scenario(t, {
    app: { subscribers: () => ['reorder: { on: StockMoved, service: "reorder-worker" }'] },
    services: { "reorder-worker": text },
  });
  await running.dispatch(QUEUE, [message(1)]);
  await left(running);
  await running.makeDue();
  await running.tick();
  const [got] = running.entries("reorder.got");
  assert.deepEqual([got.method, got.name, got.attempt, got.body], ["POST", "StockMoved", "2", movement(1)]);
  assert.deepEqual(await due(running), []);
});

test("a subscriber with a secret gets a signature that the Standard Webhooks scheme verifies", async (t) => {
  const secret = Buffer.from("a secret of twenty-four b").toString("base64");
  const { running, ledger } = await scenario(t, {
    app: { subscribers: (url) => [`ledger: { on: StockMoved, call: "${url}", secret: env("LEDGER_SECRET") }`] },
    env: { LEDGER_SECRET: `whsec_${secret}` },
  });
  await running.dispatch(QUEUE, [message(1)]);
  await until(() => ledger.calls.length === 1);
  const [{ headers, body }] = ledger.calls;
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = createHmac("sha256", Buffer.from(secret, "base64")).update(signed).digest("base64");
  assert.equal(headers["webhook-signature"], `v1,${expected}`);
  assert.equal(headers["webhook-id"], headers["jadpo-event-id"]);
});

test("deliveries that do not fit into waitUntil's thirty seconds go on in invocations of their own", async (t) => {
  const { running, ledger } = await scenario(t);
  // Each call takes 4 s and a few run side by side, so 30 of them outlast the first invocation.
  ledger.does(async () => {
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    return 200;
  });
  await running.dispatch(QUEUE, Array.from({ length: 30 }, (_, index) => message(index + 1)));
  await until(async () => (await due(running)).length === 0, { what: "all are delivered", limitMs: 90_000, everyMs: 500 });
  assert.equal(ledger.calls.length, 30);
  assert.ok(running.entries("delivery.ran").length > 1, "more than one invocation delivered");
  assert.deepEqual(running.entries("deliveries.not_handed_on"), []);
});

test("a service's own words about too many subrequests are its failure, and hold back no other delivery", async (t) => {
  const throwing = 'export default { fetch() { throw new Error("Too many subrequests."); } };';
  const { running, ledger } = await scenario(t, {
    app: {
      subscribers: (url) => [
        `ledger: { on: StockMoved, call: "${url}" }`,
        'reorder: { on: StockMoved, service: "reorder-worker" }',
      ],
    },
    services: { "reorder-worker": throwing },
  });
  await running.dispatch(QUEUE, [{ body: movement(1) }, { body: movement(2) }]);
  await until(() => ledger.calls.length === 2, { what: "the other subscriber got both" });
  const waiting = () => running.query("SELECT attempt, error FROM jadpo_deliveries WHERE claim IS NULL");
  const rows = await until(async () => ((await waiting()).length === 2 ? waiting() : undefined), { what: "both wait" });
  for (const { attempt, error } of rows) {
    assert.equal(attempt, 1);
    assert.match(error, /subrequests/);
  }
});

test("bodies held for a subscriber that hangs are bounded: what is past the bound is left to the tick", async (t) => {
  const { running, ledger } = await scenario(t, {});
  ledger.does(() => "hang");
  const note = "x".repeat(127_000);
  const batch = (first) => Array.from({ length: 100 }, (_, n) => ({ id: `b${first + n}`, body: movement(first + n, { note }) }));
  await running.dispatch(QUEUE, batch(0));
  await running.dispatch(QUEUE, batch(100));
  const released = async () => (await running.query("SELECT count(*) AS n FROM jadpo_deliveries WHERE claim IS NULL"))[0].n;
  await until(async () => (await released()) === 100, { what: "the second batch's claims were given back", limitMs: 10_000 });
});
