// Bodies of every kind, in real workerd on real D1: what arrives is what was sent, or is parked whole.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { QUEUE, movement } from "./lib/apps.mjs";
import { scenario } from "./lib/scenario.mjs";
import { until } from "./lib/workerd.mjs";

const fixture = (name) => readFileSync(new URL(`./fixtures/${name}`, import.meta.url));
/** The app with an event that is any JSON, any text or any bytes, and the message's id as its key. */
const whole = (event) => ({ app: { event, id: null } });

async function kept(running, count) {
  await until(async () => (await running.query("SELECT seq FROM jadpo_events")).length === count, {
    what: `${count} events are kept`,
  });
}

async function delivered(ledger, count) {
  await until(() => ledger.calls.length === count, { what: `${count} calls` });
  return ledger.calls.map(({ body }) => body);
}

async function parked(running, count = 1) {
  const rows = () => running.query("SELECT *, hex(body) AS bytes, typeof(body) AS type FROM jadpo_parked_messages ORDER BY id");
  return until(async () => (await rows()).length >= count && rows(), { what: `${count} are parked` });
}

test("each content type of the queue carries an event", async (t) => {
  const { running, ledger } = await scenario(t);
  await running.send(QUEUE, movement(1), "json");
  await running.send(QUEUE, JSON.stringify(movement(2)), "text");
  await running.send(QUEUE, new TextEncoder().encode(JSON.stringify(movement(3))), "bytes");
  await running.send(QUEUE, movement(4), "v8");
  const bodies = await delivered(ledger, 4);
  const numbers = bodies.map((body) => JSON.parse(body).quantity).sort();
  assert.deepEqual(numbers, [1, 2, 3, 4]);
  assert.equal((await running.query("SELECT id FROM jadpo_parked_messages")).length, 0);
});

test("bytes that are no UTF-8 are parked as unreadable with their bytes unchanged", async (t) => {
  const { running } = await scenario(t);
  await running.send(QUEUE, new Uint8Array([0x7b, 0x80, 0x00, 0xff]), "bytes");
  const [message] = await parked(running);
  assert.equal(message.reason, "unreadable");
  assert.equal(message.detail, "the body is not UTF-8: byte 0x80 at offset 1");
  assert.deepEqual([message.type, message.bytes], ["blob", "7B8000FF"]);
});

test("bytes are kept as bytes, down to none at all", async (t) => {
  const { running, ledger } = await scenario(t, whole("Bytes"));
  await running.send(QUEUE, new Uint8Array([0x00, 0x80, 0xff]), "bytes");
  assert.deepEqual([...(await delivered(ledger, 1))[0]], [0x00, 0x80, 0xff]);
  await running.send(QUEUE, new Uint8Array(0), "bytes");
  assert.equal((await delivered(ledger, 2))[1].length, 0);
  const stored = await running.query("SELECT hex(body) AS bytes FROM jadpo_events ORDER BY seq");
  assert.deepEqual(stored, [{ bytes: "0080FF" }, { bytes: "" }]);
});

test("v8 values that JSON would lose are parked as unreadable, shown whole, with the place named", async (t) => {
  const { running } = await scenario(t);
  await running.send(QUEUE, { ...movement(1), tags: new Map([["colour", new Set([10n])]]) }, "v8");
  const [message] = await parked(running);
  assert.equal(message.reason, "unreadable");
  assert.equal(message.detail, "JSON cannot carry a Map at $.tags");
  const shown = JSON.parse(message.body);
  assert.deepEqual(shown.tags, { $map: [["colour", { $set: [{ $bigint: "10" }] }]] });
  assert.equal(shown.sku, "SKU-1");
});

test("a v8 value with a date and an absent field is kept as its JSON", async (t) => {
  const { running, ledger } = await scenario(t);
  await running.send(QUEUE, { ...movement(1), moved_at: new Date(0), note: undefined }, "v8");
  const [body] = await delivered(ledger, 1);
  assert.equal(body.toString(), '{"movement_id":"mv-1","sku":"SKU-1","quantity":1,"moved_at":"1970-01-01T00:00:00.000Z"}');
});

test("a producer's Map that became {} on its way is rejected with what it lacks, not kept empty", async (t) => {
  const { running } = await scenario(t);
  await running.send(QUEUE, {}, "json");
  const [message] = await parked(running);
  assert.equal(message.reason, "rejected");
  assert.match(message.detail, /sku: /);
});

test("numbers past 2^53 in a text body are kept digit for digit", async (t) => {
  const { running, ledger } = await scenario(t);
  const text = JSON.stringify(movement(1)).replace('"quantity":1', '"quantity":9007199254740993');
  const wide = text.replace("{", '{"serial":12345678901234567890.12345678901234567890,');
  await running.send(QUEUE, wide, "text");
  assert.equal((await delivered(ledger, 1))[0].toString(), wide);
});

test("text is kept byte for byte: NULs, a leading BOM, unnormalized letters, nothing at all", async (t) => {
  const { running } = await scenario(t, whole("Text"));
  const texts = ["a\0b", "\ufeffx", fixture("nasty-emoji-unicode.json").toString(), "", " "];
  await running.dispatch(QUEUE, texts.map((body) => ({ body })));
  const rows = await running.query("SELECT hex(body) AS bytes, typeof(body) AS type FROM jadpo_events ORDER BY seq");
  assert.deepEqual(
    rows.map(({ bytes, type }) => [Buffer.from(bytes, "hex").toString(), type]),
    texts.map((text) => [text, "text"]),
  );
});

test("what is kept byte for byte is delivered byte for byte", async (t) => {
  const { running, ledger } = await scenario(t, whole("Text"));
  const texts = ["a\0b", "\ufeffx", fixture("nasty-emoji-unicode.json").toString()];
  await running.dispatch(QUEUE, texts.map((body) => ({ body })));
  assert.deepEqual((await delivered(ledger, 3)).map(String).sort(), [...texts].sort());
  ledger.calls.length = 0;
  // And again from the store, as a later attempt reads it.
  ledger.does(() => 500);
  await running.dispatch(QUEUE, texts.map((body, index) => ({ body, id: `again-${index}` })));
  await delivered(ledger, 3);
  await until(() => running.entries("delivery.waiting").length === 3);
  ledger.does(() => 200);
  ledger.calls.length = 0;
  await until(() => running.entries("delivery.ran").length === 2);
  await running.makeDue();
  await running.tick();
  assert.deepEqual((await delivered(ledger, 3)).map(String).sort(), [...texts].sort());
});

test("a text with a lone surrogate is parked as unreadable, shown escaped", async (t) => {
  const { running } = await scenario(t, { ...whole("Text"), faults: true });
  await running.dispatch(QUEUE, [{ body: 'made:json:"a\\ud83d"' }, { body: "good" }]);
  const [message, ...more] = await parked(running);
  assert.deepEqual([message.reason, message.body, more.length], ["unreadable", '"a\\ud83d"', 0]);
  await kept(running, 1);
});

test("each scalar that is JSON is an event of its own", async (t) => {
  const { running, ledger } = await scenario(t, whole("Json"));
  const lines = fixture("nasty-scalars.ndjson").toString().trimEnd().split("\n");
  assert.equal(lines.length, 13);
  const { explicitAcks } = await running.dispatch(QUEUE, lines.map((body) => ({ body })));
  assert.equal(explicitAcks.length, 13);
  assert.deepEqual((await delivered(ledger, 13)).map(String).sort(), [...lines].sort());
});

test("real senders' bodies keep every byte", async (t) => {
  const { running, ledger } = await scenario(t, whole("Json"));
  const names = ["stripe-event.json", "github-push.json", "shopify-order.json", "cf-event-subscription.json", "r2-event-delete.json"];
  await running.dispatch(QUEUE, names.map((name) => ({ body: fixture(name).toString() })));
  const sorted = (list) => list.map((each) => Buffer.from(each).toString("base64")).sort();
  assert.deepEqual(sorted(await delivered(ledger, names.length)), sorted(names.map(fixture)));
});

test("200 levels are an ordinary event; 60,000 are parked, as text and as a value, and the isolate lives on", async (t) => {
  const { running, ledger } = await scenario(t, { ...whole("Json"), faults: true });
  const messages = [
    { body: fixture("nasty-deep-200.json").toString() },
    { body: "[".repeat(60_000) + "]".repeat(60_000) },
    { body: "made:deep:60000" },
    { body: '{"after":true}' },
  ];
  const { outcome, explicitAcks } = await running.dispatch(QUEUE, messages);
  assert.deepEqual([outcome, explicitAcks.length], ["ok", 4]);
  const rows = await parked(running, 2);
  assert.deepEqual(rows.map(({ reason, body }) => [reason, body.length]), [["unreadable", 120_000], ["unreadable", 120_000]]);
  assert.equal((await delivered(ledger, 2)).length, 2);
});

test("optional fields that are all missing, and all there, are both kept and read back as sent", async (t) => {
  const event = "{ account: Text, object: Json, eTag: Text?, size: Int? }";
  const { running, ledger } = await scenario(t, { app: { event, id: null } });
  const without = fixture("r2-event-delete.json").toString();
  const whole = without.replace('"uploads/old.bin"}', '"uploads/old.bin"},"eTag":"e","size":7');
  await running.dispatch(QUEUE, [{ body: without }, { body: whole }]);
  assert.deepEqual((await delivered(ledger, 2)).map(String).sort(), [without, whole].sort());
});

test("ten bodies of 127,000 bytes come through the queue, identical", async (t) => {
  const { running, ledger } = await scenario(t, whole("Json"));
  const body = fixture("nasty-size-127000.json");
  for (let index = 0; index < 10; index++) await running.send(QUEUE, body.toString(), "text");
  const bodies = await delivered(ledger, 10);
  assert.ok(bodies.every((each) => each.equals(body)));
  assert.equal((await running.query("SELECT seq FROM jadpo_events WHERE length(body) = 127000")).length, 10);
});
