// `jadpo dev app.jadpo --deployable NAME`: an app's Worker on this machine, as it is deployed.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { movement, warehouse } from "../../../host-workers/e2e/lib/apps.mjs";
import { subscriber } from "../../../host-workers/e2e/lib/subscriber.mjs";
import { run } from "./lib/dev.mjs";

const TOKEN = "an-operators-token-of-the-test";

function folder(t, app) {
	const made = mkdtempSync(join(tmpdir(), "jadpo-deployable-"));
	t.after(() => rmSync(made, { recursive: true, force: true }));
	writeFileSync(join(made, "app.jadpo"), app);
	return made;
}

/** Runs the app's deployable; `workers` are others beside it. */
function started(t, at, { args = [], workers = [] } = {}) {
	return run(t, workers, {
		folder: at,
		args: ["app.jadpo", "--deployable", "edge", ...args],
		env: { JADPO_ADMIN_TOKEN: TOKEN },
		ready: ["warehouse-edge"],
	});
}

/** What the operator's endpoint of the Worker lists. */
async function listed(server) {
	const url = new URL("/.jadpo/deliveries", server.urls["warehouse-edge"]);
	const answer = await fetch(url, { headers: { authorization: `Bearer ${TOKEN}` } });
	assert.equal(answer.status, 200);
	return (await answer.json()).items;
}

const send = (server, body) => server.jadpo("queues", "send", "warehouse-events", JSON.stringify(body), "--json");
const received = ({ text }) => text?.includes('"queue.received"') ?? false;

test("an app's Worker keeps what its queue gets and calls its subscribers, on this machine and beside it", async (t) => {
	const ledger = await subscriber();
	t.after(() => ledger.stop());
	const app = warehouse({
		subscribers: [`ledger: { on: StockMoved, call: "${ledger.url}" }`, 'reorder: { on: StockMoved, service: "reorder" }'],
	});
	const reorder = {
		name: "reorder",
		script: `const seen = [];
			export default { async fetch(request) {
				if (request.method === "POST") seen.push(await request.json());
				return Response.json(seen);
			} }`,
	};
	const server = await started(t, folder(t, app), { workers: [reorder] });
	send(server, movement(1));
	send(server, { ...movement(2), quantity: "two" });
	const seen = await server.until("reorder", "/", (seen) => seen.length === 1);
	assert.equal(seen[0].movement_id, "mv-1");
	await server.logged("worker.log", ({ text }) => text?.includes('"delivery.ran"'));
	assert.deepEqual(ledger.texts().map((text) => JSON.parse(text).movement_id), ["mv-1"]);
	const [parked, ...more] = await listed(server);
	assert.deepEqual([parked.reason, parked.queue, more.length], ["rejected", "warehouse-events", 0]);
	const { messages, consumer } = server.queue("warehouse-events");
	assert.equal(messages, 0);
	assert.match(JSON.stringify(consumer ?? ""), /warehouse-edge/);
});

test("a change of the app builds it anew; a broken one is said and leaves what runs; what was kept stays", async (t) => {
	const at = folder(t, warehouse());
	const server = await started(t, at);
	send(server, { ...movement(1), quantity: "one" });
	await server.logged("worker.log", received);
	writeFileSync(join(at, "app.jadpo"), "app: {");
	await server.logged("", ({ text }) => /error\[/.test(text ?? ""));
	writeFileSync(join(at, "app.jadpo"), warehouse({ event: "{ sku: Text, quantity: Text }", id: null }));
	await server.logged("app.built");
	await server.logged("worker.reloaded", ({ worker, workers }) => /warehouse-edge/.test(`${worker}${workers}`));
	const from = server.log.length;
	send(server, { sku: "A", quantity: "one" });
	const again = await server.logged("worker.log", received, { from });
	assert.equal(JSON.parse(again.text).kept, 1, again.text);
	assert.equal((await listed(server)).length, 1, "what was parked before is still there");
});

test("a secret of .dev.vars beside the app reaches the Worker, and its build goes when it ends", async (t) => {
	const builds = () => readdirSync(tmpdir()).filter((name) => name.startsWith("jadpo-workers-"));
	const at = folder(t, warehouse());
	const before = new Set(builds());
	writeFileSync(join(at, ".dev.vars"), `JADPO_ADMIN_TOKEN="${TOKEN}2"\n`);
	const server = await run(t, [], {
		folder: at,
		args: ["app.jadpo", "--deployable", "edge"],
		ready: ["warehouse-edge"],
	});
	const url = new URL("/.jadpo/deliveries", server.urls["warehouse-edge"]);
	const status = async (token) => (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).status;
	assert.deepEqual([await status(`${TOKEN}2`), await status(TOKEN)], [200, 401]);
	const own = builds().filter((name) => !before.has(name));
	assert.ok(own.length >= 2, "one for the build, one for the sockets");
	await server.stop("SIGTERM");
	// Other servers' folders come and go meanwhile.
	assert.ok(own.filter((name) => builds().includes(name)).length <= own.length - 2, `${own}`);
});

test("what cannot be run is refused before anything is opened", async (t) => {
	const at = folder(t, warehouse().replace("deployables: {", "deployables: {\n    server: { target: Target.native, triggers: [Trigger.http] }"));
	const refused = (...args) => {
		const { status, stderr } = spawnSync(process.env.JADPO_BIN, ["dev", ...args], { cwd: at, encoding: "utf8" });
		assert.equal(status, 2, stderr);
		return stderr;
	};
	assert.match(refused("--deployable", "egde"), /no deployable `egde`[^]*edge/);
	assert.match(refused("--deployable", "server"), /`server` does not run on Workers[^]*leave --deployable out/);
	assert.match(refused("--no-migrate"), /--deployable/);
	writeFileSync(join(at, "app.jadpo"), warehouse({ subscribers: ['away: { on: StockMoved, service: "away" }'] }));
	assert.match(refused("--deployable", "edge"), /the Worker `away`, which is not among those that run[^]*--worker PATH/);
	assert.deepEqual(readdirSync(at), ["app.jadpo"]);
});
