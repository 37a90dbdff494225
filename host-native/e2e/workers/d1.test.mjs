// The same statements through miniflare's D1 and through ours, both behind workerd's own binding: equal answers, but for
// what DIFFERENCES.md lists.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { require } from "../lib/server.mjs";
import { SCENES } from "./lib/d1-steps.mjs";
import { run } from "./lib/dev.mjs";
import { rows } from "./lib/differences.mjs";

const { Miniflare, convertV4MiniflareOptions } = require("miniflare");
const SCRIPT = readFileSync(new URL("./lib/d1-worker.js", import.meta.url), "utf8");
const BINDINGS = Object.fromEntries(Object.keys(SCENES).map((scene) => [scene.toUpperCase(), scene]));
/** What no two runs have in common, or what `d1-meta` and `d1-rows-read` are about. */
const UNLIKE = new Set(["duration", "timings", "served_by", "rows_read"]);

const met = new Set();

describe("D1", () => {
	const sides = {};
	const ends = [];

	after(() => Promise.all(ends.map((end) => end())));

	before(async () => {
		const theirs = new Miniflare(
			convertV4MiniflareOptions({
				modules: true,
				script: SCRIPT,
				compatibilityDate: "2026-08-01",
				d1Databases: BINDINGS,
				handleRuntimeStdio: (out, err) => (out.resume(), err.resume()),
			}),
		);
		const d1_databases = Object.entries(BINDINGS).map(([binding, id]) => ({
			binding,
			database_name: id,
			database_id: id,
		}));
		ends.push(() => theirs.dispose());
		const ours = await run({ after: (end) => ends.push(end) }, [{ name: "asks", script: SCRIPT, d1_databases }]);
		const asked = (binding, steps) => ({ method: "POST", body: JSON.stringify({ binding, steps }) });
		sides.theirs = async (...asks) => (await theirs.dispatchFetch("http://asks/", asked(...asks))).json();
		sides.ours = async (...asks) => ours.ask("asks", "/", asked(...asks));
	});

	for (const [scene, steps] of Object.entries(SCENES)) {
		test(scene, async () => {
			const asks = [scene.toUpperCase(), steps];
			const [theirs, ours] = await Promise.all([sides.theirs(...asks), sides.ours(...asks)]);
			const unequal = steps.flatMap((step, at) => compared(step, theirs[at], ours[at]));
			assert.deepEqual(unequal, []);
		});
	}

	test("every difference that is listed is one, and is met", () => {
		const listed = Object.keys(rows("d1-"));
		assert.deepEqual([...met].sort(), listed.sort());
	});
});

/** What is wrong with a step: nothing, if its outcomes are equal, or if they differ and are said to. */
function compared(step, theirs, ours) {
	for (const [a, b] of metas(theirs, ours)) {
		if (a.served_by !== b.served_by) met.add("d1-meta");
		if (a.rows_read !== b.rows_read) met.add("d1-rows-read");
	}
	const equal = JSON.stringify(ordered(theirs)) === JSON.stringify(ordered(ours));
	if (!equal && step.differs) met.add(step.differs);
	if (equal === (step.differs === undefined)) return [];
	const what = (step.sql ?? step.statements?.map(({ sql }) => sql).join(" | ") ?? step.verb).slice(0, 200);
	return [equal ? { what, equal: ordered(ours) } : { what, theirs: short(theirs), ours: short(ours) }];
}

function metas(theirs, ours) {
	const found = (outcome) => [outcome.value].flat().flatMap((result) => result?.meta ?? []);
	return found(theirs).map((meta, at) => [meta, found(ours)[at] ?? meta]);
}

/** The outcome with its keys in order, without what is never alike. */
function ordered(value) {
	if (Array.isArray(value)) return value.map(ordered);
	if (value === null || typeof value !== "object") return value;
	const entries = Object.entries(value).filter(([key]) => !UNLIKE.has(key));
	return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, inner]) => [key, ordered(inner)]));
}

const short = (outcome) => JSON.stringify(ordered(outcome)).slice(0, 400);
