// In development what a Worker is made of is followed as it changes.

import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { run } from "./lib/dev.mjs";

const says = (word) => `export default { fetch: () => Response.json(${JSON.stringify(word)}) };`;
const worker = (script, more = {}) => ({ name: "changing", script, ...more });

/** Does something, and waits for the reload that comes of it. */
async function reloaded(server, change, event = "worker.reloaded") {
	const from = server.log.length;
	change();
	return await server.logged(event, undefined, { from });
}

test("code, what it imports, the Wrangler file and secrets are followed", async (t) => {
	const script = `import { word } from "./word.js"; export default { fetch: (r, env) => Response.json([word, env.V, env.S]) };`;
	const files = { "word.js": "export const word = 'one';" };
	const server = await run(t, [worker(script, { files, vars: { V: "v" } })]);
	const write = (path, text) => writeFileSync(join(server.folder, "changing", path), text);
	assert.deepEqual(await server.ask("changing", "/"), ["one", "v", null]);
	const code = await reloaded(server, () => write("word.js", "export const word = 'two';"));
	assert.equal(code.changed, "code");
	assert.deepEqual(await server.ask("changing", "/"), ["two", "v", null]);
	assert.equal((await reloaded(server, () => write(".dev.vars", "S=secret\n"))).changed, "secret S is new");
	assert.deepEqual(await server.ask("changing", "/"), ["two", "v", "secret"]);
	await reloaded(server, () => server.write(worker(script, { files: { "word.js": "export const word = 'two';" }, vars: { V: "w" } })));
	assert.deepEqual(await server.ask("changing", "/"), ["two", "w", "secret"]);
	await reloaded(server, () => rmSync(join(server.folder, "changing/.dev.vars")));
	assert.deepEqual(await server.ask("changing", "/"), ["two", "w", null]);
});

test("what does not build or does not start leaves the old code running, and says what is wrong", async (t) => {
	const server = await run(t, [worker(says("old"))]);
	const build = await reloaded(server, () => server.write(worker("let x = ;")), "worker.broken");
	assert.match(build.text, /worker\.js:1:8/);
	assert.match(build.runs_on, /goes on, as it was made at \d{4}-/);
	assert.equal(await server.ask("changing", "/"), "old");
	const start = await reloaded(server, () => server.write(worker("throw new Error('early'); export default {};")), "worker.broken");
	assert.match(start.text, /early/);
	assert.equal(await server.ask("changing", "/"), "old");
	const missing = await reloaded(server, () => server.write(worker("import './not-yet.js'; export default {};")), "worker.broken");
	assert.match(missing.text, /not-yet/);
	const file = await reloaded(server, () => server.write(worker(says("x"), { kv_namespaces: [{ binding: "K", id: "k" }] })), "worker.broken");
	assert.match(file.text, /kv_namespaces/);
	assert.equal(await server.ask("changing", "/"), "old");
	await reloaded(server, () => server.write(worker(says("new"))));
	assert.equal(await server.ask("changing", "/"), "new");
});

test("which settings of the Wrangler file changed is said, and what it warns of once for each change of it", async (t) => {
	const queues = (more) => ({ queues: { producers: [{ binding: "Q", queue: "jobs", delivery_delay: 1 }], consumers: [{ queue: "jobs", ...more }] } });
	const script = (word) => `export default { fetch: () => Response.json("${word}"), queue() {} };`;
	const server = await run(t, [worker(script("a"), queues({}))]);
	const warned = () => server.log.filter((it) => it.event === "worker.file");
	assert.equal(warned().length, 1);
	assert.equal(warned()[0].why.match(/delivery_delay/g).length, 1);
	for (const word of ["b", "c"]) {
		await reloaded(server, () => writeFileSync(join(server.folder, "changing/worker.js"), script(word)));
	}
	assert.equal(warned().length, 1);
	const changed = await reloaded(server, () => server.write(worker(script("c"), { ...queues({ max_retries: 7 }), vars: { V: "hidden" } })));
	assert.equal(changed.changed, "queue jobs: max_retries 3 → 7; variable V is new");
	assert.equal(warned().length, 2);
});

test("a file that appears after it was missed is seen", async (t) => {
	const server = await run(t, [worker(says("old"))]);
	const script = `import word from "./later.js"; export default { fetch: () => Response.json(word) };`;
	await reloaded(server, () => server.write(worker(script)), "worker.broken");
	await reloaded(server, () => writeFileSync(join(server.folder, "changing/later.js"), "export default 'later';"));
	assert.equal(await server.ask("changing", "/"), "later");
});

test("no request fails while the code changes again and again", async (t) => {
	const server = await run(t, [worker(says(0))]);
	let isOver = false;
	const answers = [];
	const asking = Array.from({ length: 8 }, async () => {
		while (!isOver) answers.push(await server.ask("changing", "/"));
	});
	for (let round = 1; round <= 5; round += 1) {
		await reloaded(server, () => server.write(worker(says(round))));
	}
	await sleep(100);
	isOver = true;
	await Promise.all(asking);
	assert.equal(answers.at(-1), 5);
	assert.ok(answers.length > 50);
});

test("messages outlast a change, and the new code gets them; a batch that runs may end", async (t) => {
	const code = (word) => `
		export default {
			async fetch(request, env) { await env.JOBS.send("x"); return Response.json(1); },
			async queue(batch) {
				console.log("${word} begins");
				await scheduler.wait(1000);
				console.log("${word} ends", batch.messages[0].attempts);
			},
		};`;
	const queues = {
		producers: [{ binding: "JOBS", queue: "jobs" }],
		consumers: [{ queue: "jobs", max_batch_timeout: 0, max_batch_size: 1, max_concurrency: 1 }],
	};
	const server = await run(t, [worker(code("old"), { queues })]);
	await server.ask("changing", "/");
	await server.ask("changing", "/");
	await server.logged("worker.log", (it) => it.text === "old begins");
	await reloaded(server, () => server.write(worker(code("new"), { queues })));
	await server.logged("worker.log", (it) => it.text === "old ends 1");
	await server.logged("worker.log", (it) => it.text === "new ends 1");
	assert.equal((await server.untilQueue("jobs", (queue) => queue.messages === 0)).messages, 0);
});

test("a queue that the Wrangler file now lists is consumed from then on", async (t) => {
	const script = `
		export default {
			async fetch(request, env) { await env.JOBS.send("x"); return Response.json(1); },
			async queue(batch) { console.log("got " + batch.queue); },
		};`;
	const producers = [{ binding: "JOBS", queue: "jobs" }];
	const server = await run(t, [worker(script, { queues: { producers } })]);
	await server.ask("changing", "/");
	const consumers = [{ queue: "jobs", max_batch_timeout: 0 }];
	await reloaded(server, () => server.write(worker(script, { queues: { producers, consumers } })));
	await server.logged("worker.log", (it) => it.text === "got jobs");
});

test("in production nothing is followed", async (t) => {
	const server = await run(t, [worker(says("old"))], { command: "serve", env: { JADPO_ENQUEUE_TOKEN: "0123456789abcdef" } });
	server.write(worker(says("new")));
	await sleep(1_000);
	assert.equal(await server.ask("changing", "/"), "old");
});
