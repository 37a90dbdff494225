// Workers as they come: how their code is made, what they find in `env`, what is said when something is wrong with them,
// and what they log.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { begun, refused, run } from "./lib/dev.mjs";
import { isAlive, until, workerdOf } from "./lib/processes.mjs";

const EMPTY_WASM = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0]);
const answers = (expression) => `export default { fetch: async (request, env) => Response.json(${expression}) };`;

test("TypeScript, packages of npm, modules of Node.js and files of other kinds become one Worker", async (t) => {
	const server = await run(t, [
		{
			name: "whole",
			main: "src/index.ts",
			script: "",
			compatibility_flags: ["nodejs_compat"],
			alias: { "their-name": "./src/ours.ts" },
			define: { WORD: '"defined"' },
			rules: [{ type: "Text", globs: ["**/*.md", "**/program.json"], fallthrough: true }],
			files: {
				"src/index.ts": `
					import wasm from "./a.wasm";
					import again from "./a.wasm?module";
					import page from "./page.html";
					import readme from "./read.md";
					import query from "./q.sql";
					import bytes from "./b.bin";
					import data from "./data.json";
					import program from "../program.json";
					import old from "old";
					import ours from "their-name";
					import { Buffer as Bytes } from "buffer";
					import { join } from "node:path";
					declare const WORD: string;
					enum Kind { One = 1 }
					export default {
						async fetch(): Promise<Response> {
							return Response.json({
								wasm: [wasm, again].map((module) => module instanceof WebAssembly.Module),
								texts: [page, readme, query],
								bytes: bytes instanceof ArrayBuffer && bytes.byteLength,
								data, program, old, ours, kind: Kind.One, WORD,
								node: [Bytes.from("hi").toString("base64"), join("a", "b"), typeof process, process.env.NODE_ENV],
							});
						},
					} satisfies ExportedHandler;`,
				"src/ours.ts": "export default 'ours';",
				"src/a.wasm": EMPTY_WASM,
				"src/page.html": "<b>",
				"src/read.md": "# read",
				"src/q.sql": "SELECT 1",
				"src/b.bin": "abc",
				"src/data.json": '{"a": 1}',
				"program.json": '{"text": 1}',
				"node_modules/old/package.json": '{"name": "old", "main": "i.js"}',
				"node_modules/old/i.js": "const { EventEmitter } = require('events'); module.exports = typeof EventEmitter;",
			},
		},
	]);
	assert.deepEqual(await server.ask("whole", "/"), {
		wasm: [true, true],
		texts: ["<b>", "# read", "SELECT 1"],
		bytes: 3,
		data: { a: 1 },
		program: '{"text": 1}',
		old: "function",
		ours: "ours",
		kind: 1,
		WORD: "defined",
		node: ["aGk=", "a/b", "object", "development"],
	});
});

test("without bundling the files are modules by the rules, and names are looked up when they are needed", async (t) => {
	const server = await run(t, [
		{
			name: "plain",
			no_bundle: true,
			main: "index.mjs",
			rules: [
				{ type: "ESModule", globs: ["**/*.mjs"] },
				{ type: "CommonJS", globs: ["**/*.cjs"] },
			],
			script: "",
			files: {
				"index.mjs": `
					import { x } from "./lib/x.mjs";
					import text from "./lib/t.txt";
					import old from "./lib/old.cjs";
					export default {
						async fetch(request) {
							const { default: late } = await import("./lib/" + new URL(request.url).pathname.slice(1));
							return Response.json([x, text, old.y, late]);
						},
					};`,
				"lib/x.mjs": "export const x = 'x';",
				"lib/t.txt": "text",
				"lib/old.cjs": "exports.y = 'y';",
				"lib/late.mjs": "export default 'late';",
				"lib/ignored.js": "not a module by any rule",
			},
		},
	]);
	assert.deepEqual(await server.ask("plain", "/late.mjs"), ["x", "text", "y", "late"]);
});

test("a script that listens for events runs, with its bindings as globals", async (t) => {
	const server = await run(t, [
		{
			name: "classic",
			vars: { GREETING: "hello" },
			script: `
				addEventListener("fetch", (event) => event.respondWith(go()));
				addEventListener("queue", (event) => console.log("got " + event.messages.length));
				async function go() { await JOBS.send("x"); return Response.json(GREETING); }`,
			queues: {
				producers: [{ binding: "JOBS", queue: "jobs" }],
				consumers: [{ queue: "jobs", max_batch_timeout: 0 }],
			},
		},
	]);
	assert.equal(await server.ask("classic", "/"), "hello");
	assert.equal((await server.logged("worker.log", (it) => it.text === "got 1")).worker, "classic");
});

test("a build command makes the entry, and one that fails says why", async (t) => {
	const build = { command: "mkdir -p made && echo \"export default { fetch: () => Response.json('made') };\" > made/i.js" };
	const server = await run(t, [{ name: "made", main: "made/i.js", script: "", build }]);
	assert.equal(await server.ask("made", "/"), "made");
	const fails = { command: "echo this is why >&2; exit 3" };
	const { code, said } = refused(t, [{ name: "made", main: "made/i.js", script: "", build: fails }]);
	assert.equal(code, 2);
	assert.match(said, /build command of the Worker `made` ended with 3[^]*this is why/);
});

test("a stop while a build runs ends it with all that it started, and leaves nothing behind", async (t) => {
	const scratch = mkdtempSync(join(tmpdir(), "jadpo-build-"));
	t.after(() => rmSync(scratch, { recursive: true, force: true }));
	const command = "sleep 60 & echo $! > first; sleep 61 & echo $! > second; wait";
	const server = begun(t, [{ name: "built", script: answers("1"), build: { command } }], { env: { TMPDIR: scratch } });
	const pids = await until(() => {
		try {
			const all = ["first", "second"].map((name) => Number(readFileSync(join(server.folder, "built", name), "utf8")));
			return all.every(Boolean) && all;
		} catch {
			return undefined;
		}
	}, "the build runs");
	await server.stop();
	await until(() => !pids.some(isAlive), "what it started has ended");
	assert.deepEqual(readdirSync(scratch), []);
});

test("a Worker finds its variables as they were written, whatever they hold", async (t) => {
	const vars = {
		QUOTES: `"'\\ \${x} $(y) \`z\``,
		LINES: "a\nb\r\n\tc\u0007\u001b[31m",
		NUL: "before\0after",
		FAR: "ü 漢 \u{1f600} \u2028",
		TREE: { list: [1, "two", null, true], deep: { '"': "\\" } },
		NUMBER: 1.5,
		EMPTY: "",
	};
	const script = answers("{ vars: JSON.parse(JSON.stringify({ ...env })) }");
	const server = await run(t, [{ name: "vars", vars, script }]);
	assert.deepEqual((await server.ask("vars", "/")).vars, vars);
});

test("secrets come from .dev.vars before variables, and in production from the environment", async (t) => {
	const worker = {
		name: "secret",
		vars: { A: "file", B: "file" },
		secrets: { required: ["KEY"] },
		script: answers("[env.A, env.B, env.KEY, env.EXTRA]"),
	};
	const files = { ".dev.vars": "A=dev\nKEY='a key'\nNOT_ASKED_FOR=1\n" };
	const dev = await run(t, [{ ...worker, files }]);
	assert.deepEqual(await dev.ask("secret", "/"), ["dev", "file", "a key", null]);

	const serve = await run(t, [{ ...worker, files: { ".dev.vars": "A=dev\nKEY=dev\nEXTRA=dev\n" } }], {
		command: "serve",
		args: ["--secret", "EXTRA"],
		env: { KEY: "from outside", EXTRA: "more", JADPO_ENQUEUE_TOKEN: "0123456789abcdef" },
	});
	assert.deepEqual(await serve.ask("secret", "/"), ["file", "file", "from outside", "more"]);
	// The files of development are still there.
	assert.match((await serve.logged("worker.secrets")).file, /\.dev\.vars$/);

	const { code, said } = refused(t, [worker]);
	assert.equal(code, 2);
	assert.match(said, /requires secrets that are not there: KEY[^]*\.dev\.vars/);
	const unset = refused(t, [worker], { command: "serve", args: ["--secret", "EXTRA"], env: { KEY: "x" } });
	assert.equal(unset.code, 2);
	assert.match(unset.said, /the secret EXTRA cannot be taken from the environment/);
});

test("an environment's file of secrets replaces the other", async (t) => {
	const files = { ".dev.vars": "A=plain\nB=plain\n", ".dev.vars.stage": "A=stage\n" };
	const script = answers("[env.A, env.B]");
	const worker = { name: "named", env: { stage: { name: "named" } }, script, files };
	const server = await run(t, [worker], { args: ["--env", "stage"] });
	assert.deepEqual(await server.ask("named", "/"), ["stage", null]);
});

test("what is wrong is said with its file and line, and ends with 2", async (t) => {
	const cases = [
		[{ script: "let x = ;" }, /worker\.js:1:8:/],
		[{ script: "import x from 'not-here'; export default { fetch: () => x() };" }, /worker\.js:1:14:[^]*npm install/],
		[{ script: "import { join } from 'path'; export default { fetch: () => join() };" }, /nodejs_compat/],
		[{ main: "gone.js", script: "" }, /has no entry: there is no .*gone\.js/],
		[
			{ main: "i.ts", script: "", files: { "i.ts": "\n\nthrow new Error('at the start');\nexport default {};" } },
			/Worker wrong: Uncaught Error: at the start\n.*i\.ts:3:7/,
		],
		[{ script: "export const number = 1;" }, /Worker wrong/],
		[{ script: answers("1"), kv_namespaces: [{ binding: "KV", id: "x" }] }, /kv_namespaces/],
		[{ script: answers("1"), queues: { consumers: [{ queue: "q", max_batch: 1 }] } }, /2?.*max_batch[^]*max_batch_size/],
	];
	for (const [worker, says] of cases) {
		const { code, said } = refused(t, [{ name: "wrong", ...worker }]);
		assert.match(said, says);
		assert.equal(code, 2, said);
	}
});

test("what is not there is said, and what can be done", async (t) => {
	const script = answers("1");
	const none = refused(t, [{ name: "none" }], { write: false });
	assert.match(none.said, /there is no none[^]*--worker/);
	assert.equal(none.code, 2);
	const asApp = refused(t, [{ name: "here", script }], { args: ["here/wrangler.json"] });
	assert.match(asApp.said, /is the Wrangler file of a Worker[^]*--worker here\/wrangler\.json/);
	assert.equal(asApp.code, 2);
	const tool = refused(t, [{ name: "here", script }], { env: { JADPO_WORKERD: "/not/here" } });
	assert.match(tool.said, /there is no workerd at \/not\/here[^]*--workerd/);
	assert.equal(tool.code, 2);
	const npm = { PATH: "/not/here", JADPO_WORKERD: undefined, XDG_CACHE_HOME: "/tmp/jadpo-no-such-cache" };
	const unfetched = refused(t, [{ name: "here", script }], { env: npm });
	assert.match(unfetched.said, /workerd is not here and could not be fetched: there is no npm/);
	assert.equal(unfetched.code, 1);
});

test("what never ends and what is thrown in an object is told, too", async (t) => {
	const server = await run(t, [
		{
			name: "odd",
			durable_objects: { bindings: [{ name: "O", class_name: "Odd" }] },
			migrations: [{ tag: "v1", new_sqlite_classes: ["Odd"] }],
			script: `
				import { DurableObject } from "cloudflare:workers";
				export class Odd extends DurableObject { fail() { throw new RangeError("inside"); } }
				export default {
					async fetch(request, env) {
						if (request.url.endsWith("/never")) await new Promise(() => {});
						await env.O.get(env.O.idFromName("x")).fail();
					},
				};`,
		},
	]);
	await assert.rejects(server.ask("odd", "/never"), /500/);
	await server.logged("worker.threw", (it) => it.during === "GET /never" && /hung/.test(it.text));
	await assert.rejects(server.ask("odd", "/fail"), /500/);
	await server.logged("worker.threw", (it) => it.during === "GET /fail" && /RangeError: inside/.test(it.text));
});

test("every line that a Worker logs has its event, and what it throws has a stack in its own files", async (t) => {
	const server = await run(t, [
		{
			name: "talks",
			main: "src/i.ts",
			script: "",
			files: {
				"src/i.ts": `
					console.log("first of all");
					export default {
						async fetch(request: Request, env: any, ctx: ExecutionContext) {
							console.log("a", { b: [1] }, 2);
							console.warn("two\\nlines");
							ctx.waitUntil(scheduler.wait(50).then(() => console.error("later")));
							await env.JOBS.send("x");
							if (request.url.endsWith("/throws")) throw new TypeError("no \\u001b[31m good");
							return Response.json(1);
						},
						async queue(batch: MessageBatch) {
							console.log("got", batch.messages[0].body);
						},
					};`,
			},
			queues: {
				producers: [{ binding: "JOBS", queue: "jobs" }],
				consumers: [{ queue: "jobs", max_batch_timeout: 0 }],
			},
		},
	]);
	await server.logged("worker.log", (it) => it.text === "first of all" && it.during === "start");
	await server.ask("talks", "/a?b=c");
	const line = await server.logged("worker.log", (it) => it.text === 'a {"b":[1]} 2');
	assert.deepEqual([line.worker, line.during, line.level], ["talks", "GET /a?b=c", "info"]);
	assert.equal((await server.logged("worker.log", (it) => it.text === "two\nlines")).level, "warn");
	assert.equal((await server.logged("worker.log", (it) => it.text === "later")).level, "error");
	const got = await server.logged("worker.log", (it) => it.text === "got x");
	assert.match(got.during, /^queue jobs [0-9a-f]{8} ×1$/);
	await assert.rejects(server.ask("talks", "/throws"), /500/);
	const threw = await server.logged("worker.threw");
	assert.equal(threw.during, "GET /throws");
	assert.match(threw.text, /^Uncaught TypeError: no .* good\n.*src\/i\.ts:9:/);
});

test("an error that is logged comes with its stack, a format is followed, and what is dropped is counted", async (t) => {
	const script = `
		export default {
			async fetch(request) {
				console.error("it failed:", new RangeError("too far"));
				console.log("%s of %d%%", "five", 5, { more: 1 });
				if (request.url.endsWith("/much")) for (let i = 0; i < 100_000; i += 1) console.log("line " + i + " " + "x".repeat(180));
				return Response.json(1);
			},
		};`;
	const server = await run(t, [{ name: "logs", script }]);
	await server.ask("logs", "/");
	const failed = await server.logged("worker.log", (it) => /it failed/.test(it.text));
	assert.match(failed.text, /^it failed: RangeError: too far\n.*worker\.js:4:/);
	await server.logged("worker.log", (it) => it.text === 'five of 5% {"more":1}');
	await server.ask("logs", "/much");
	const dropped = await server.logged("worker.log", (it) => /lines were dropped here/.test(it.text));
	const lines = () => server.log.filter((it) => /^line \d/.test(it.text)).length;
	await until(() => lines() + Number.parseInt(dropped.text, 10) >= 100_000, "every line is there or counted");
});

test("in development each request has a line, and who asks is told what was thrown", async (t) => {
	const script = `
		export default {
			async fetch(request) {
				if (request.url.includes("/throws")) throw new TypeError("no good");
				if (request.url.includes("/own")) return new Response("Internal Server Error", { status: 500 });
				return new Response("fine", { status: 201 });
			},
		};`;
	const worker = { name: "asked", script };
	const dev = await run(t, [worker]);
	await fetch(new URL("/a?b=c", dev.urls.asked), { method: "POST", body: "x" });
	const line = await dev.logged("worker.http");
	assert.deepEqual([line.worker, line.during, line.status, typeof line.ms], ["asked", "POST /a?b=c", 201, "number"]);
	const threw = await fetch(new URL("/throws?x", dev.urls.asked));
	assert.equal(threw.status, 500);
	assert.match(await threw.text(), /^Uncaught TypeError: no good\n.*worker\.js:4:/);
	assert.equal(await (await fetch(new URL("/own", dev.urls.asked))).text(), "Internal Server Error");

	const serve = await run(t, [worker], { command: "serve" });
	assert.equal(await (await fetch(new URL("/throws", serve.urls.asked))).text(), "Internal Server Error");
	assert.ok(!serve.log.some((it) => it.event === "worker.http"));
});

test("a Worker that consumes a queue or has a cron and no handler for it is told so at the start", async (t) => {
	const worker = { name: "deaf", script: answers("1"), triggers: { crons: ["0 0 1 1 *"] } };
	const server = await run(t, [{ ...worker, queues: { consumers: [{ queue: "jobs" }] } }]);
	assert.match((await server.logged("worker.no_handler", (it) => /jobs/.test(it.why))).why, /11001/);
	await server.logged("worker.no_handler", (it) => /scheduled/.test(it.why));
});

test("a workerd that dies is started again, and requests wait for it", async (t) => {
	const server = await run(t, [{ name: "up", script: answers("1") }]);
	for (let round = 0; round < 3; round += 1) {
		process.kill(await until(() => workerdOf(server.child), "workerd runs"), "SIGKILL");
		assert.equal(await server.ask("up", "/"), 1);
	}
	assert.equal(server.log.filter((it) => it.event === "workerd.ended" && it.outcome === "daemonDown").length, 3);
});

test("a handler that holds the thread is ended, told, and its message is tried again", async (t) => {
	const server = await run(t, [
		{
			name: "held",
			script: `
				export default {
					async fetch(request, env) { await env.JOBS.send("x"); return Response.json(1); },
					async queue(batch) {
						if (batch.messages[0].attempts === 1) for (;;) {}
						console.log("attempt " + batch.messages[0].attempts);
					},
				};`,
			queues: {
				producers: [{ binding: "JOBS", queue: "jobs" }],
				consumers: [{ queue: "jobs", max_batch_timeout: 0 }],
			},
		},
	]);
	await server.ask("held", "/");
	const ended = await server.logged("workerd.ended", undefined, { within: 60_000 });
	assert.equal(ended.outcome, "exceededCpu");
	await server.logged("worker.log", (it) => it.text === "attempt 2");
});

test("workerd may have as many file descriptors as jadpo, from the first one on, and its files are nobody else's", async (t) => {
	const scratch = mkdtempSync(join(tmpdir(), "jadpo-umask-"));
	t.after(() => rmSync(scratch, { recursive: true, force: true }));
	const worker = { name: "w", script: answers("1") };
	const server = await run(t, [worker], { before: "umask 000; ulimit -Sn 256", env: { TMPDIR: scratch } });
	const files = (pid) => /^Max open files\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, "utf8"))[1];
	assert.equal(files(workerdOf(server.child)), files(server.child.pid));
	assert.ok(Number(files(server.child.pid)) > 256);
	const [folder] = readdirSync(scratch);
	const modes = [folder, join(folder, "b0")].map((path) => statSync(join(scratch, path)).mode & 0o777);
	assert.deepEqual(modes, [0o700, 0o700]);
});

test("workerd ends with jadpo, however that ends, and nothing is left behind", async (t) => {
	const scratch = mkdtempSync(join(tmpdir(), "jadpo-test-"));
	t.after(() => rmSync(scratch, { recursive: true, force: true }));
	const left = [];
	for (const signal of ["SIGTERM", "SIGINT", "SIGKILL", "SIGTERM"]) {
		const server = await run(t, [{ name: "gone", script: answers("1") }], { env: { TMPDIR: scratch } });
		const workerd = await until(() => workerdOf(server.child), "workerd runs");
		const { code } = await server.stop(signal);
		if (signal !== "SIGKILL") assert.equal(code, 0);
		await until(() => !isAlive(workerd), `workerd is gone after ${signal}`);
		left.push(readdirSync(scratch).length);
	}
	assert.deepEqual(left, [0, 0, 1, 0], "what a killed one could not remove, the next one does");
});

test("who stops the server is told which batches it waits for", async (t) => {
	const script = `export default {
		async fetch(request, env) { await env.JOBS.send("x"); return Response.json(1); },
		async queue() { console.log("begins"); await scheduler.wait(2000); },
	};`;
	const queues = { producers: [{ binding: "JOBS", queue: "jobs" }], consumers: [{ queue: "jobs", max_batch_timeout: 0 }] };
	const server = await run(t, [{ name: "slow", script, queues }]);
	await server.ask("slow", "/");
	await server.logged("worker.log", (it) => it.text === "begins");
	const ended = server.stop();
	const waiting = await server.logged("server.waiting");
	assert.equal(waiting.waits_for, "a batch of the Worker slow");
	await ended;
});

test("a batch that runs when the server is told to stop is finished and settled", async (t) => {
	const worker = {
		name: "slow",
		script: `
			export default {
				async fetch(request, env) { await env.JOBS.send("x"); return Response.json(1); },
				async queue(batch) {
					console.log("begins");
					await scheduler.wait(2000);
					console.log("ends");
				},
			};`,
		queues: {
			producers: [{ binding: "JOBS", queue: "jobs" }],
			consumers: [{ queue: "jobs", max_batch_timeout: 0 }],
		},
	};
	const server = await run(t, [worker]);
	await server.ask("slow", "/");
	await server.logged("worker.log", (it) => it.text === "begins");
	await server.stop();
	assert.ok(server.log.some((it) => it.event === "worker.log" && it.text === "ends"), JSON.stringify(server.log));
	assert.equal(server.queue("jobs").messages, 0);
});
