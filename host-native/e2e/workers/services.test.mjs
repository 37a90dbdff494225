// Several Workers in one server, and what they are to each other.

import assert from "node:assert/strict";
import { test } from "node:test";
import { refused, run } from "./lib/dev.mjs";

const CALLED = {
	name: "called",
	script: `
		import { WorkerEntrypoint } from "cloudflare:workers";
		export class Admin extends WorkerEntrypoint {
			add(a, b) { console.log("adds"); return { sum: a + b, props: this.ctx.props }; }
			fetch(request) { return new Response("admin " + this.ctx.props.who); }
		}
		export default { fetch: async (request) => new Response(request.method + " " + request.url + " " + (await request.text())) };`,
};

test("a Worker calls another by fetch, an entrypoint of it by its methods, and itself", async (t) => {
	const props = { who: '"\\ ü', list: [1] };
	const caller = {
		name: "caller",
		services: [
			{ binding: "OTHER", service: "called" },
			{ binding: "ADMIN", service: "called", entrypoint: "Admin", props },
			{ binding: "SELF", service: "caller", entrypoint: "Mine" },
		],
		script: `
			import { WorkerEntrypoint } from "cloudflare:workers";
			export class Mine extends WorkerEntrypoint { hello() { return "it is me"; } }
			export default {
				async fetch(request, env) {
					const post = { method: "POST", body: "body" };
					return Response.json({
						fetched: await (await env.OTHER.fetch("http://any.host/path?q", post)).text(),
						added: await env.ADMIN.add(1, 2),
						admin: await (await env.ADMIN.fetch("http://any/")).text(),
						self: await env.SELF.hello(),
					});
				},
			};`,
	};
	const server = await run(t, [caller, CALLED]);
	assert.deepEqual(await server.ask("caller", "/"), {
		fetched: "POST http://any.host/path?q body",
		added: { sum: 3, props },
		admin: `admin ${props.who}`,
		self: "it is me",
	});
	assert.equal((await server.logged("worker.log", (it) => it.text === "adds")).worker, "called");
});

test("a Worker that is called and is not given is refused by name, or stood in for", async (t) => {
	const caller = {
		name: "caller",
		services: [{ binding: "OTHER", service: "elsewhere" }],
		script: `export default {
			fetch: async (request, env) => Response.json((await env.OTHER.fetch("http://x/y", { method: "POST", body: "hi" })).status),
		};`,
	};
	const { code, said } = refused(t, [caller]);
	assert.equal(code, 2);
	assert.match(said, /`env\.OTHER` of `caller` is the Worker `elsewhere`[^]*--worker/);
	const server = await run(t, [caller], { args: ["--stand-in"] });
	assert.equal(await server.ask("caller", "/"), 200);
	const line = await server.logged("worker.log", (it) => it.worker === "elsewhere");
	assert.match(line.text, /POST http:\/\/x\/y hi/);
});

test("a stand-in has the entrypoints that are called, and whatever methods", async (t) => {
	const caller = {
		name: "caller",
		services: [
			{ binding: "PLAIN", service: "users" },
			{ binding: "ADMIN", service: "users", entrypoint: "Admin" },
		],
		script: `export default {
			async fetch(request, env) {
				const texts = await Promise.all([env.PLAIN, env.ADMIN].map(async (to) => (await to.fetch("http://x/" )).text()));
				return Response.json([...texts, (await env.ADMIN.rename("a", { b: 1 })) ?? "nothing"]);
			},
		};`,
	};
	const server = await run(t, [caller], { args: ["--stand-in"] });
	const text = "users is not here; this is a stand-in\n";
	assert.deepEqual(await server.ask("caller", "/"), [text, text, "nothing"]);
	await server.logged("worker.log", (it) => it.worker === "users" && it.text === 'rename() a {"b":1}');
});

test("two Workers of one name, or with one queue, are refused before anything starts", async (t) => {
	const consumers = { consumers: [{ queue: "jobs" }] };
	const script = "export default { fetch() {}, queue() {} };";
	const one = { name: "one", script, queues: consumers };
	const both = refused(t, [one, { ...one, name: "two" }]);
	assert.equal(both.code, 2);
	assert.match(both.said, /`one` and `two` both consume the queue `jobs`/);
	const twice = refused(t, [one], { args: ["--worker", "one"] });
	assert.equal(twice.code, 2);
	assert.match(twice.said, /two Workers are called `one`/);
});

test("a Worker hands work to another through a queue", async (t) => {
	const sends = {
		name: "sends",
		queues: { producers: [{ binding: "JOBS", queue: "jobs" }] },
		script: `export default {
			async fetch(request, env) { await env.JOBS.send({ n: 1 }); return Response.json(1); },
		};`,
	};
	const takes = {
		name: "takes",
		queues: { consumers: [{ queue: "jobs", max_batch_timeout: 0 }] },
		script: `export default {
			fetch: () => new Response("x"),
			async queue(batch) { console.log("got", batch.messages[0].body); },
		};`,
	};
	const server = await run(t, [sends, takes]);
	await server.ask("sends", "/");
	assert.equal((await server.logged("worker.log", (it) => it.text === 'got {"n":1}')).worker, "takes");
});
