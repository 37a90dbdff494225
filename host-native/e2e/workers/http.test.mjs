// The Workers' HTTP, as clients see it.

import assert from "node:assert/strict";
import { request as ask } from "node:http";
import { connect } from "node:net";
import { test } from "node:test";
import { refused, run } from "./lib/dev.mjs";
import { until } from "./lib/processes.mjs";

const WORKER = {
	name: "web",
	script: `
		export default {
			async fetch(request, env, ctx) {
				const url = new URL(request.url);
				switch (url.pathname) {
					case "/echo":
						return new Response(request.body, { headers: { "content-type": "x/y" } });
					case "/seen":
						return Response.json({ method: request.method, url: request.url, headers: [...request.headers], cf: request.cf });
					case "/status":
						return new Response(null, { status: Number(url.searchParams.get("is")), headers: { "x-y": "z" } });
					case "/slowly": {
						const { readable, writable } = new TransformStream();
						ctx.waitUntil((async () => {
							const writer = writable.getWriter();
							for (const part of ["one", "two", "three"]) {
								await writer.write(new TextEncoder().encode(part));
								await scheduler.wait(300);
							}
							await writer.close();
						})());
						return new Response(readable);
					}
					case "/cookies": {
						const headers = new Headers();
						headers.append("set-cookie", "a=1; Path=/");
						headers.append("set-cookie", "b=2");
						return new Response("", { headers });
					}
					case "/ws": {
						const [client, server] = Object.values(new WebSocketPair());
						server.accept();
						server.addEventListener("message", async ({ data }) => {
							if (data === "bye") server.close(4001, "as you say");
							else server.send(typeof data === "string" ? "echo " + data : await new Response(data).arrayBuffer());
						});
						return new Response(null, { status: 101, webSocket: client });
					}
					case "/cached": {
						const cache = caches.default;
						await cache.put("http://x/y", new Response("kept", { headers: { "cache-control": "max-age=100" } }));
						return Response.json([(await cache.match("http://x/y")) === undefined, await cache.delete("http://x/y")]);
					}
				}
				return Response.json(url.pathname);
			},
		};`,
};

test("bodies go through whole, in both directions, as they come", async (t) => {
	const server = await run(t, [WORKER]);
	const big = new Uint8Array(20_000_000).map((_, index) => index % 251);
	const answer = await fetch(new URL("/echo", server.urls.web), { method: "POST", body: big });
	assert.equal(answer.headers.get("content-type"), "x/y");
	assert.ok(Buffer.from(await answer.arrayBuffer()).equals(Buffer.from(big)));

	const parts = [];
	const slow = await fetch(new URL("/slowly", server.urls.web));
	const started = Date.now();
	for await (const part of slow.body) parts.push([Buffer.from(part).toString(), Date.now() - started]);
	assert.equal(parts.map(([text]) => text).join(""), "onetwothree");
	assert.ok(parts[0][1] < 250, `the first part came at once: ${JSON.stringify(parts)}`);
});

test("a Worker sees the request as it was sent, and of its client what nobody else can say", async (t) => {
	const server = await run(t, [WORKER]);
	const headers = { "x-mine": "1", "cf-connecting-ip": "6.6.6.6", "jadpo-cf": '{"colo":"FAKE"}', connection: "x-gone", "x-gone": "1" };
	const seen = await new Promise((resolve, reject) => {
		const request = ask(new URL("/seen?a=%20b", server.urls.web), { method: "PUT", headers }, async (response) => {
			let text = "";
			for await (const part of response) text += part;
			resolve(JSON.parse(text));
		});
		request.on("error", reject).end("body");
	});
	const got = Object.fromEntries(seen.headers);
	assert.equal(seen.method, "PUT");
	assert.equal(seen.url, `${server.urls.web}/seen?a=%20b`);
	assert.equal(got["x-mine"], "1");
	assert.equal(got["cf-connecting-ip"], "127.0.0.1");
	assert.equal(got["x-gone"], undefined);
	assert.equal(got["jadpo-cf"], undefined);
	assert.equal(seen.cf.colo, "DEV");
});

test("statuses without a body, HEAD and several cookies come as they were meant", async (t) => {
	const server = await run(t, [WORKER]);
	const at = (path) => new URL(path, server.urls.web);
	for (const status of [204, 304, 404, 500]) {
		const answer = await fetch(at(`/status?is=${status}`));
		assert.deepEqual([answer.status, answer.headers.get("x-y"), await answer.text()], [status, "z", ""]);
	}
	const head = await fetch(at("/any"), { method: "HEAD" });
	assert.deepEqual([head.status, await head.text()], [200, ""]);
	assert.deepEqual((await fetch(at("/cookies"))).headers.getSetCookie(), ["a=1; Path=/", "b=2"]);
	assert.deepEqual(await server.ask("web", "/cached"), [true, false]);
});

test("a WebSocket goes through, text and bytes, to its end", async (t) => {
	const server = await run(t, [WORKER]);
	const socket = new WebSocket(new URL("/ws", server.urls.web.replace("http", "ws")));
	socket.binaryType = "arraybuffer";
	const got = [];
	const closed = new Promise((resolve) => socket.addEventListener("close", resolve));
	socket.addEventListener("open", () => {
		socket.send("hi");
		socket.send(new Uint8Array([1, 2]));
	});
	socket.addEventListener("message", ({ data }) => {
		got.push(typeof data === "string" ? data : [...new Uint8Array(data)]);
		if (got.length === 2) socket.send("bye");
	});
	const { code, reason } = await closed;
	assert.deepEqual(got, ["echo hi", [1, 2]]);
	assert.deepEqual([code, reason], [4001, "as you say"]);
});

test("many requests at once are all answered", async (t) => {
	const server = await run(t, [WORKER]);
	const paths = Array.from({ length: 500 }, (_, index) => `/number/${index}`);
	assert.deepEqual(await Promise.all(paths.map((path) => server.ask("web", path))), paths);
});

test("each Worker has an address of its own, and one that is taken is said", async (t) => {
	const other = { ...WORKER, name: "other" };
	const server = await run(t, [WORKER, other]);
	assert.notEqual(server.urls.web, server.urls.other);
	const taken = new URL(server.urls.web).host;
	const named = refused(t, [{ ...WORKER, dev: { port: Number(taken.split(":")[1]) } }], { listen: taken });
	assert.match(named.said, /`web` cannot listen on [^]*--worker-listen/);
	assert.equal(named.code, 1);
});

/** A connection to a Worker on which this is sent; `first` is the first that comes back, or "" if it is closed. */
function client(url, text) {
	const { hostname, port } = new URL(url);
	const socket = connect(Number(port), hostname);
	socket.write(text);
	const first = new Promise((resolve) => {
		socket.once("data", (data) => resolve(String(data)));
		socket.once("error", () => resolve(""));
		socket.once("close", () => resolve(""));
	});
	return { socket, first };
}

const UPGRADE = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";

test("nobody shuts others out by a body that does not come to its end, nor by WebSockets, and jadpo itself still answers", async (t) => {
	// A sixteenth of these file descriptors is how many clients there may be.
	const server = await run(t, [WORKER], { before: "ulimit -n 512" });
	const slow = Array.from({ length: 40 }, () => client(server.urls.web, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"));
	const dripping = setInterval(() => slow.forEach(({ socket }) => socket.write(" ")), 300);
	t.after(() => {
		clearInterval(dripping);
		slow.forEach(({ socket }) => socket.destroy());
	});
	for (let i = 0; i < 3; i += 1) {
		const answer = await fetch(new URL("/cookies", server.urls.web), { signal: AbortSignal.timeout(8_000), headers: { connection: "close" } });
		assert.equal(answer.status, 200);
	}
	slow.forEach(({ socket }) => socket.destroy());

	const sockets = Array.from({ length: 40 }, () => client(server.urls.web, `GET /ws HTTP/1.1\r\nhost: x\r\n${UPGRADE}\r\n\r\n`));
	t.after(() => sockets.forEach(({ socket }) => socket.destroy()));
	const first = await Promise.all(sockets.map(({ first }) => first));
	assert.equal(first.filter((text) => text.startsWith("HTTP/1.1 101")).length, 32);
	assert.equal(first.filter((text) => text.startsWith("HTTP/1.1 503")).length, 8);
	assert.equal((await fetch(new URL("/cookies", server.urls.web))).status, 200);
	assert.equal((await fetch(new URL("/healthz", server.url))).status, 200);
	sockets.forEach(({ socket }) => socket.destroy());
	await until(async () => (await client(server.urls.web, `GET /ws HTTP/1.1\r\nhost: x\r\n${UPGRADE}\r\n\r\n`).first).startsWith("HTTP/1.1 101"), "a WebSocket that is closed gives its place back");
});
