// Durable Objects: what they store is on disk.

import assert from "node:assert/strict";
import { test } from "node:test";
import { run } from "./lib/dev.mjs";
import { until, workerdOf } from "./lib/processes.mjs";

const COUNTS = {
	name: "counts",
	durable_objects: {
		bindings: [
			{ name: "SQL", class_name: "Sql" },
			{ name: "KV", class_name: "Plain" },
		],
	},
	migrations: [{ tag: "v1", new_sqlite_classes: ["Sql"], new_classes: ["Plain"] }],
	script: `
		import { DurableObject } from "cloudflare:workers";
		export class Sql extends DurableObject {
			constructor(ctx, env) {
				super(ctx, env);
				ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS seen (at INTEGER)");
			}
			async count() {
				this.ctx.storage.sql.exec("INSERT INTO seen VALUES (1)");
				return this.ctx.storage.sql.exec("SELECT count(*) AS n FROM seen").one().n;
			}
			async wake(ms) { await this.ctx.storage.setAlarm(Date.now() + ms); }
			async alarm() { console.log("awake", await this.count()); }
		}
		export class Plain extends DurableObject {
			async count() {
				const n = ((await this.ctx.storage.get("n")) ?? 0) + 1;
				await this.ctx.storage.put("n", n);
				return n;
			}
			async hasSql() {
				try { this.ctx.storage.sql.exec("SELECT 1"); return true; } catch (error) { return error.message; }
			}
		}
		export default {
			async fetch(request, env) {
				const { pathname, searchParams } = new URL(request.url);
				const [, binding, method] = pathname.split("/");
				const object = env[binding].get(env[binding].idFromName(searchParams.get("name") ?? "one"));
				return Response.json((await object[method](Number(searchParams.get("ms")))) ?? null);
			},
		};`,
};

test("what objects store, by SQL or by keys, outlasts a restart and a kill", async (t) => {
	const server = await run(t, [COUNTS]);
	for (const [expected, end] of [[1, "SIGTERM"], [2, "SIGKILL"], [3, undefined]]) {
		assert.equal(await server.ask("counts", "/SQL/count"), expected);
		assert.equal(await server.ask("counts", "/KV/count"), expected);
		if (end) {
			await server.stop(end);
			await server.start([COUNTS]);
		}
	}
	assert.equal(await server.ask("counts", "/SQL/count?name=other"), 1, "each name is an object of its own");
	assert.match(await server.ask("counts", "/KV/hasSql"), /SQL is not enabled/i);
});

test("an alarm that was set before a restart, or before workerd died, goes off after it", async (t) => {
	const server = await run(t, [COUNTS]);
	await server.ask("counts", "/SQL/wake?ms=1500");
	await server.stop();
	await server.start([COUNTS]);
	const line = await server.logged("worker.log", (it) => it.text === "awake 1");
	assert.equal(line.during, "alarm");
	await server.ask("counts", "/SQL/wake?ms=1500");
	process.kill(await until(() => workerdOf(server.child), "workerd runs"), "SIGKILL");
	await server.logged("worker.log", (it) => it.text === "awake 2");
});

test("an alarm that fell due while nothing ran goes off at the next start", async (t) => {
	const server = await run(t, [COUNTS]);
	await server.ask("counts", "/SQL/wake?ms=300");
	await server.stop("SIGKILL");
	await new Promise((resolve) => setTimeout(resolve, 600));
	await server.start([COUNTS]);
	await server.logged("worker.log", (it) => it.text === "awake 1");
});

test("a Worker reaches the objects of another", async (t) => {
	const other = {
		name: "other",
		durable_objects: { bindings: [{ name: "SQL", class_name: "Sql", script_name: "counts" }] },
		script: `export default {
			fetch: async (request, env) => Response.json(await env.SQL.get(env.SQL.idFromName("one")).count()),
		};`,
	};
	const server = await run(t, [COUNTS, other]);
	assert.equal(await server.ask("counts", "/SQL/count"), 1);
	assert.equal(await server.ask("other", "/"), 2);
});

test("objects keep what they stored when the code changes", async (t) => {
	const server = await run(t, [COUNTS]);
	assert.equal(await server.ask("counts", "/SQL/count"), 1);
	server.write({ ...COUNTS, script: COUNTS.script.replace("return this.ctx.storage.sql", "return 100 + this.ctx.storage.sql") });
	await server.logged("worker.reloaded");
	assert.equal(await server.ask("counts", "/SQL/count"), 102);
});
