// The demo, run as `cargo xtask demo` runs it: what it reports is what happened.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { serialize } from "node:v8";
import { DEAD, QUEUE, movement, warehouse } from "../../../host-workers/e2e/lib/apps.mjs";
import { build, removeFolder } from "../../../host-workers/e2e/lib/deployable.mjs";
import { subscriber } from "../../../host-workers/e2e/lib/subscriber.mjs";
import { decoded, encoded } from "../demo/values.mjs";

const DEMO = fileURLToPath(new URL("../demo/main.mjs", import.meta.url));

/** Runs the demo over messages and gives what it said last of each kind: `{ report, problem, help, exit }`. */
async function demo(t, lines, { subscribers = [] } = {}) {
	const folder = await build(warehouse({ subscribers }));
	t.after(() => removeFolder(dirname(folder)));
	const messages = join(dirname(folder), "messages.ndjson");
	await writeFile(messages, lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n"));
	const child = spawn(process.execPath, [DEMO, "--folder", folder, "--deployable", "edge", "--messages", messages]);
	let text = "";
	for await (const part of child.stdout) text += part;
	return Object.assign({}, ...text.trim().split("\n").map((line) => JSON.parse(line)));
}

const json = (body, queue = QUEUE) => ({ queue, content_type: "json", body });
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

test("a subscriber on this machine is called for real, and the report counts what became of each message", async (t) => {
	const ledger = await subscriber((call, count) => (count === 1 ? 500 : 200));
	t.after(() => ledger.stop());
	const lines = [
		json(movement(1)),
		json(movement(1)),
		{ queue: QUEUE, content_type: "text", body: JSON.stringify(movement(2)) },
		{ queue: QUEUE, content_type: "bytes", body_base64: base64(JSON.stringify(movement(3))) },
		{ queue: QUEUE, content_type: "bytes", body_base64: base64([0x80]) },
		{ queue: QUEUE, content_type: "v8", body_base64: base64(serialize(new Map([["a", 1n]]))) },
		json({ ...movement(4), quantity: "four" }),
		json(movement(5), DEAD),
		{ queue: QUEUE, content_type: "text", body: "x".repeat(128_001) },
	];
	const { report } = await demo(t, lines, { subscribers: [`ledger: { on: StockMoved, call: "${ledger.url}" }`] });
	const { sent, refused, kept, repeats, parked, retried, delivered, failed, waiting, idle } = report;
	assert.deepEqual(
		{ sent, refused, kept, repeats, parked, retried, delivered, failed, waiting, idle },
		{
			...{ sent: 8, refused: 1, kept: 3, repeats: 1, parked: { dead_lettered: 1, rejected: 1, unreadable: 2 } },
			...{ retried: 0, delivered: 3, failed: 0, waiting: 0, idle: true },
		},
	);
	assert.equal(ledger.calls.length, 4, "three events, one of them twice");
	assert.equal(report.d1_batches, report.batches, "one round trip for each batch");
	assert.equal(report.operator.items.length, 4);
});

test("who is not on this machine is stood in for", async (t) => {
	const away = 'ledger: { on: StockMoved, call: "https://ledger.example.com/events" }';
	const { report } = await demo(t, [json(movement(1))], { subscribers: [away] });
	assert.deepEqual([report.kept, report.delivered, report.calls], [1, 1, 1]);
});

test("a line that is no message is named with what is wrong, before anything starts", async (t) => {
	for (const [line, problem] of [
		["{", /^line 2: not JSON/],
		[{ queue: "surprise", body: 1 }, /^line 2: the app receives no queue "surprise"/],
		[{ queue: QUEUE, content_type: "xml", body: 1 }, /^line 2: content_type "xml" is none/],
		[{ queue: QUEUE, content_type: "text", body: 1 }, /^line 2: the "body" of a text message is a string/],
		[{ queue: QUEUE, content_type: "json" }, /^line 2: needs either/],
		[{ queue: QUEUE, content_type: "bytes", body_base64: "?" }, /^line 2: "body_base64" is no base64/],
	]) {
		const said = await demo(t, [json(movement(1)), line]);
		assert.match(said.problem, problem);
		assert.equal(said.exit, 2);
	}
});

test("values that V8 carries get into a Worker as they are", () => {
	const values = [
		...[null, undefined, true, 1, -0, NaN, Infinity, "a", 2n ** 70n, [], [[1], {}], { a: [{ "": undefined }] }],
		...[new Date(5), /a+/gi, new Map([[{ a: 1 }, new Set([1n])]]), new Uint8Array([1, 2]), new Float64Array([0.5])],
		...[{ is: "date", of: 1, ":": [1] }, new Uint8Array([7]).buffer, new RangeError("far")],
	];
	for (const value of values) assert.deepEqual(decoded(JSON.parse(JSON.stringify(encoded(value)))), value);
	const circle = {};
	circle.self = circle;
	assert.throws(() => encoded(circle), /holds itself/);
	assert.throws(() => encoded(() => 1), /function/);
});
