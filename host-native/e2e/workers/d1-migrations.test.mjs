// Migrations by `wrangler d1 migrations apply --local` and by `jadpo d1 migrations apply`: the same ones are applied, in
// the same order, remembered in the same table, and the same is left when one fails.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { require } from "../lib/server.mjs";
import { rows } from "./lib/differences.mjs";

const BIN = process.env.JADPO_BIN;
if (!BIN) throw new Error("JADPO_BIN names no binary; run this by `cargo xtask test --only e2e`");
const WRANGLER = join(dirname(require.resolve("wrangler/package.json")), "bin/wrangler.js");
const LOOK = "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE '_cf_%' ORDER BY name; SELECT id, name FROM d1_migrations ORDER BY id; SELECT * FROM t ORDER BY a";

const GOOD = {
	"0002_rows.sql": `-- a comment; with a semicolon
INSERT INTO t VALUES (1, 'a;b'), (2, 'it''s');
INSERT INTO t VALUES (3, 'two
lines');`,
	"0001_tables.sql": `CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT); CREATE TABLE log (a);
CREATE TRIGGER tr AFTER INSERT ON t BEGIN
  INSERT INTO log VALUES (new.a);
  UPDATE log SET a = CASE a WHEN 2 THEN 20 ELSE a END;
END;
/* no statement; at all */`,
	"10_later.sql": `PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
CREATE INDEX tb ON t (b);
COMMIT;`,
	"9_before.sql": "ALTER TABLE t ADD COLUMN c DEFAULT 7;",
	"notes.md": "no migration",
	"unnumbered.sql": "CREATE VIEW v AS SELECT a FROM t;",
};

test("the same migrations are applied and remembered", async (t) => {
	const { theirs, ours } = await both(t, GOOD);
	assert.equal(theirs.code, 0, theirs.said);
	assert.equal(ours.code, 0, ours.said);
	assert.deepEqual(ours.left, theirs.left);
	assert.deepEqual(
		ours.left[1].map(({ name }) => name),
		["0001_tables.sql", "0002_rows.sql", "9_before.sql", "10_later.sql", "unnumbered.sql"],
	);
});

test("one that fails leaves nothing, and those before it stay", async (t) => {
	const bad = "CREATE TABLE half (a);\nINSERT INTO nope VALUES (1);\nCREATE TABLE never (a);";
	const { theirs, ours } = await both(t, { ...GOOD, "9_before.sql": bad });
	assert.notEqual(theirs.code, 0, theirs.said);
	assert.equal(ours.code, 1, ours.said);
	assert.deepEqual(ours.left, theirs.left);
	assert.match(theirs.said, /no such table: nope/);
	assert.match(ours.said, /`9_before.sql` failed at line 2: no such table: nope/);
});

test("a file whose last statement has no semicolon is applied here", async (t) => {
	const { theirs, ours } = await both(t, { "1.sql": GOOD["0001_tables.sql"], "2.sql": "INSERT INTO t VALUES (1, 'a')" });
	assert.match(theirs.said, /near "INSERT": syntax error/);
	assert.equal(ours.code, 0, ours.said);
	assert.deepEqual([theirs.left[1].length, ours.left[1].length], [1, 2]);
	assert.deepEqual(Object.keys(rows("migrations-")), ["migrations-semicolon"]);
});

/** Both apply the migrations, each in a folder of its own: how that ended, what was said, and what is left. */
async function both(t, migrations) {
	const folder = mkdtempSync(join(tmpdir(), "jadpo-migrations-"));
	t.after(() => rmSync(folder, { recursive: true, force: true }));
	const at = (name) => {
		const own = join(folder, name);
		mkdirSync(join(own, "migrations"), { recursive: true });
		const d1_databases = [{ binding: "DB", database_name: "db", database_id: "db" }];
		const file = { name: "w", main: "w.js", compatibility_date: "2026-08-01", d1_databases };
		writeFileSync(join(own, "wrangler.json"), JSON.stringify(file));
		writeFileSync(join(own, "w.js"), "export default {}");
		for (const [path, sql] of Object.entries(migrations)) writeFileSync(join(own, "migrations", path), sql);
		return own;
	};
	const [theirs, ours] = [at("theirs"), at("ours")];
	const wrangler = (...args) => run(process.execPath, [WRANGLER, "d1", ...args], theirs, folder);
	const jadpo = (...args) => run(BIN, ["d1", ...args], ours, folder);
	const results = (stdout) => JSON.parse(stdout.slice(stdout.indexOf("["))).map((statement) => statement.results);
	const outcome = async (ask, more) => {
		const applied = await ask("migrations", "apply", "db", ...more);
		const looked = await ask("execute", "db", ...more, "--json", "--command", LOOK);
		return { ...applied, left: results(looked.stdout) };
	};
	const [a, b] = await Promise.all([outcome(wrangler, ["--local"]), outcome(jadpo, [])]);
	return { theirs: a, ours: b };
}

function run(program, args, cwd, home) {
	const env = {
		...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(JADPO|CLOUDFLARE|CF|WRANGLER)_/.test(name))),
		...{ WRANGLER_SEND_METRICS: "false", WRANGLER_LOG_PATH: join(home, "logs"), CI: "true", HOME: home, NO_COLOR: "1" },
	};
	return new Promise((resolve) => {
		execFile(program, args, { cwd, env, maxBuffer: 1 << 24 }, (error, stdout, stderr) => {
			resolve({ code: error ? (error.code ?? error.signal) : 0, stdout, said: stdout + stderr });
		});
	});
}
