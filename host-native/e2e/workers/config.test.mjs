// Wrangler files through `wrangler deploy --dry-run` and through `jadpo check`: one verdict, or a difference that is
// written down; and one reading of what was taken.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { require } from "../lib/server.mjs";
import { BASE, CASES } from "./lib/config-cases.mjs";
import { rows } from "./lib/differences.mjs";

const BIN = process.env.JADPO_BIN;
if (!BIN) throw new Error("JADPO_BIN names no binary; run this by `cargo xtask test --only e2e`");
const WRANGLER_FOLDER = dirname(require.resolve("wrangler/package.json"));
const WRANGLER = join(WRANGLER_FOLDER, "bin/wrangler.js");
const SCHEMA = JSON.parse(readFileSync(join(WRANGLER_FOLDER, "config-schema.json"), "utf8"));
const DIFFERENCES = rows("config-");
/** At the same time; each is a process that takes a second. */
const SIDE_BY_SIDE = 3;

const folder = mkdtempSync(join(tmpdir(), "jadpo-config-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const env = {
	...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(JADPO|CLOUDFLARE|CF|WRANGLER)_/.test(name))),
	NODE_COMPILE_CACHE: join(folder, "compiled"),
	...{ WRANGLER_SEND_METRICS: "false", WRANGLER_LOG_PATH: join(folder, "logs"), CI: "true", HOME: folder, NO_COLOR: "1" },
};

/** A folder with this as its Wrangler file. */
let made = 0;
function written(file, name = "wrangler.jsonc") {
	made += 1;
	const at = join(folder, `${made}`);
	mkdirSync(at);
	writeFileSync(join(at, "w.js"), "export default { fetch() { return new Response() } };\nexport class O {}\nexport class P {}\n");
	writeFileSync(join(at, name), typeof file === "string" ? file : JSON.stringify({ ...BASE, ...file }));
	return at;
}

/** Runs a program to its end. */
function run(program, args, cwd) {
	return new Promise((resolve) => {
		execFile(program, args, { cwd, env, maxBuffer: 1 << 24 }, (error, stdout, stderr) => {
			resolve({ code: error ? (error.code ?? error.signal) : 0, stdout, said: stdout + stderr });
		});
	});
}

function wrangler(at, environment) {
	const named = environment ? ["--env", environment] : [];
	return run(process.execPath, [WRANGLER, "deploy", "--dry-run", "--outdir", "out", ...named], at);
}

/** What `jadpo check` says of the folder. It may only take (0) or refuse (2). */
async function jadpo(at, environment) {
	const { code, stdout, said } = await run(BIN, ["check", at, "--json", ...(environment ? ["--env", environment] : [])], at);
	assert.ok(code === 0 || code === 2, `${code}: ${said}`);
	const report = JSON.parse(stdout);
	assert.equal(report.ok, code === 0);
	return report;
}

test("a file is taken by jadpo and by wrangler alike, or the difference is written down", async (t) => {
	const waiting = [...CASES];
	const worker = async () => {
		for (let next = waiting.shift(); next; next = waiting.shift()) {
			const [what, file, { env: environment, differs } = {}] = next;
			await t.test(what, async () => {
				const at = written(file);
				const [ours, theirs] = [await jadpo(at, environment), await wrangler(at, environment)];
				const verdicts = `wrangler: ${theirs.said}\njadpo: ${JSON.stringify(ours, null, 1)}`;
				if (differs) {
					assert.ok(DIFFERENCES[differs], `DIFFERENCES.md has no row "${differs}"`);
					assert.deepEqual({ ours: ours.ok, theirs: theirs.code }, { ours: false, theirs: 0 }, verdicts);
				} else {
					assert.equal(ours.ok, theirs.code === 0, verdicts);
				}
				for (const { message } of ours.problems) assert.ok(message.length > 10, message);
			});
		}
	};
	await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
});

test("every difference that is written down is one that a file shows", () => {
	const shown = new Set(CASES.map(([, , more]) => more?.differs));
	for (const name of Object.keys(DIFFERENCES)) assert.ok(shown.has(name), `no file shows ${name}`);
});

/** A value that the schema allows, as small as it can be and not empty. */
function sample(schema) {
	if (schema.$ref) return sample(SCHEMA.definitions[schema.$ref.split("/").at(-1)]);
	if (schema.const !== undefined) return schema.const;
	if (schema.enum) return schema.enum[0];
	const [first] = schema.anyOf ?? schema.oneOf ?? [];
	if (first) return sample(first);
	const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
	if (type === "boolean") return true;
	if (type === "number") return 1;
	if (type === "string") return "x";
	if (type === "array") return [sample(schema.items)];
	const required = (schema.required ?? []).map((name) => [name, sample(schema.properties[name])]);
	if (required.length > 0) return Object.fromEntries(required);
	const [name, inner] = Object.entries(schema.properties ?? {})[0] ?? [];
	return name ? { [name]: sample(inner) } : {};
}

test("every key of wrangler's schema is read, passed over, or refused by name, and none is unknown", async () => {
	const properties = Object.entries(SCHEMA.definitions.RawConfig.properties);
	assert.ok(properties.length > 80);
	for (const [key, schema] of properties) {
		if (key === "env") continue;
		const { problems, notes } = await jadpo(written({ [key]: BASE[key] ?? sample(schema) }));
		for (const { message } of [...problems, ...notes]) assert.doesNotMatch(message, /takes no/, key);
		for (const { path, message, help } of problems) {
			assert.ok(path.startsWith(key), `${key}: ${path}`);
			assert.ok(message.includes(key) || path !== key, message);
			assert.ok(help, `${key}: ${message}`);
		}
	}
	const own = Object.keys(SCHEMA.definitions.RawEnvironment.properties).filter((key) => key !== "main");
	for (const key of own) {
		const { problems, notes } = await jadpo(written({ env: { e: { [key]: null } } }), "e");
		for (const { message } of [...problems, ...notes]) assert.doesNotMatch(message, /takes no/, key);
	}
});

/** One file that says much, with environments that say some of it anew. */
const MUCH = {
	...BASE,
	compatibility_flags: ["nodejs_compat"],
	vars: { A: "a", B: { c: [1, 2.5, null] } },
	define: { X: "1" },
	alias: { a: "b" },
	minify: true,
	tsconfig: "tsconfig.w.json",
	rules: [{ type: "Text", globs: ["**/*.md"], fallthrough: true }],
	secrets: { required: ["TOKEN"] },
	queues: {
		producers: [{ binding: "JOBS", queue: "jobs" }, { binding: "LATER", queue: "later", delivery_delay: 5 }],
		consumers: [{ queue: "jobs", max_batch_size: 5, max_batch_timeout: 0, max_retries: 0, retry_delay: 0, dead_letter_queue: "bad", max_concurrency: 2 }, { queue: "bad" }],
	},
	triggers: { crons: ["*/5 * * * *"] },
	services: [{ binding: "S", service: "other", entrypoint: "E", props: { p: 1 } }],
	d1_databases: [{ binding: "D", database_name: "d", database_id: "id", migrations_dir: "m" }],
	durable_objects: { bindings: [{ name: "O", class_name: "O" }, { name: "P", class_name: "P", script_name: "other" }] },
	migrations: [{ tag: "1", new_sqlite_classes: ["O"] }],
	dev: { port: 9000 },
	env: {
		same: {},
		some: { vars: { A: "b" }, queues: { consumers: [{ queue: "jobs-some" }] }, triggers: { crons: [] }, compatibility_date: "2026-10-01" },
		named: { name: "named", main: "w.js", define: {}, services: [], minify: false, rules: [] },
	},
};

const list = (items, ...keys) => (items ?? []).map((item) => Object.fromEntries(keys.map((key) => [key, item[key] ?? null])));

test("what is read of a file and of each of its environments is what wrangler reads", async () => {
	const { unstable_readConfig: readConfig } = require("wrangler");
	const at = written(JSON.stringify(MUCH));
	for (const environment of [undefined, "same", "some", "named"]) {
		const { worker } = await jadpo(at, environment);
		const theirs = readConfig({ config: join(at, "wrangler.jsonc"), env: environment }, { hideWarnings: true });
		const consumer = ["queue", "max_batch_size", "max_batch_timeout", "max_retries", "retry_delay", "dead_letter_queue", "max_concurrency"];
		const expected = {
			name: theirs.name,
			main: theirs.main,
			compatibility_date: theirs.compatibility_date,
			compatibility_flags: theirs.compatibility_flags,
			vars: theirs.vars,
			define: theirs.define,
			alias: theirs.alias,
			minify: theirs.minify,
			rules: list(theirs.rules, "type", "globs"),
			secrets: theirs.secrets?.required ?? [],
			producers: list(theirs.queues.producers, "binding", "queue", "delivery_delay"),
			consumers: list(theirs.queues.consumers, ...consumer),
			crons: theirs.triggers.crons ?? [],
			services: list(theirs.services, "binding", "service", "entrypoint", "props"),
			databases: list(theirs.d1_databases, "binding", "database_name"),
			objects: list(theirs.durable_objects.bindings, "name", "class_name", "script_name"),
			jsx: [theirs.jsx_factory, theirs.jsx_fragment],
			port: theirs.dev.port,
		};
		const ours = {
			name: worker.name,
			main: join(at, worker.main),
			compatibility_date: worker.compatibility_date,
			compatibility_flags: worker.compatibility_flags,
			vars: worker.vars,
			define: worker.define,
			alias: worker.alias,
			minify: worker.minify,
			rules: worker.rules.slice(0, theirs.rules.length),
			secrets: worker.secrets,
			producers: worker.queues.producers,
			consumers: worker.queues.consumers,
			crons: worker.crons,
			services: worker.services,
			databases: list(worker.d1_databases, "binding", "database_name"),
			objects: worker.durable_objects,
			jsx: [worker.jsx_factory, worker.jsx_fragment],
			port: worker.port,
		};
		assert.deepEqual(ours, expected, environment);
	}
});

test("a file in TOML is the same Worker as in JSON", async () => {
	const { stringify } = await import(require.resolve("smol-toml"));
	const file = structuredClone(MUCH);
	file.vars.B.c.pop(); // TOML has no null.
	for (const environment of [undefined, "same", "some", "named"]) {
		const json = await jadpo(written(JSON.stringify(file)), environment);
		const toml = await jadpo(written(stringify(file), "wrangler.toml"), environment);
		assert.deepEqual(toml.worker, json.worker);
		assert.ok(json.ok);
	}
});

test("of a folder's files wrangler.json is the first, then wrangler.jsonc, and an app file comes before them", async () => {
	const at = written({ name: "toml-is-last" }, "wrangler.jsonc");
	writeFileSync(join(at, "wrangler.toml"), 'name = "toml"\nmain = "w.js"\ncompatibility_date = "2026-11-01"\n');
	assert.equal((await jadpo(at)).worker.name, "toml-is-last");
	writeFileSync(join(at, "wrangler.json"), JSON.stringify({ ...BASE, name: "json-is-first" }));
	assert.equal((await jadpo(at)).worker.name, "json-is-first");
	const { said } = await run(BIN, ["check"], at);
	assert.match(said, /json-is-first/);
	writeFileSync(join(at, "app.jadpo"), 'app: "shop"\n');
	assert.equal((await jadpo(at)).worker, undefined);
});

test("what is wrong is shown to a person in its place, all of it", async () => {
	const at = written(`{ "name": "w", "main": "w.js", "compatibility_date": "2026-11-01",
  "queues": { "consumers": [{ "queue": "q", "max_batch_size": 1000, "max_retrys": 3 }] },
  "kv_namespaces": [{ "binding": "K" }] }`);
	const { code, said } = await run(BIN, ["check", at], at);
	assert.equal(code, 2);
	assert.match(said, /error\[queues\.consumers\[0\]\.max_batch_size\]: .*1 to 100[^]*wrangler\.jsonc:2:63/);
	assert.match(said, /error\[queues\.consumers\[0\]\.max_retrys\][^]*did you mean `max_retries`\?/);
	assert.match(said, /error\[kv_namespaces\]: jadpo has no KV namespaces/);
	assert.match(said, /3 problems/);
});
