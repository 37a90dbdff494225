// A deployable that `jadpo dev` runs, and a small Worker beside it that sends to its queues.

import { execFile, spawn } from "node:child_process";
import { realpathSync } from "node:fs";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { encoded } from "./values.mjs";

const run = promisify(execFile);
const START_MS_MAX = 60_000;
/** workerd is that of the npm packages of host-workers/e2e, which set-up has put there. */
const PACKAGES = realpathSync(new URL("../../../host-workers/e2e/node_modules", import.meta.url));
const SENDER = "jadpo-demo-sender";

/** Without variables that would change what it does. */
const surroundings = Object.fromEntries(
	Object.entries(process.env).filter(([name]) => !/^(JADPO|CLOUDFLARE|CF|WRANGLER)_/.test(name)),
);

/** A Worker that sends what it is posted: `{ queue, messages: [{ contentType, body }] }`, as values.mjs writes values. */
const sender = (queues) => `import { decoded } from "./values.mjs";
const BINDINGS = ${JSON.stringify(Object.fromEntries(queues.map((queue, index) => [queue, `Q${index}`])))};
export default {
	async fetch(request, env) {
		const { queue, messages } = await request.json();
		try {
			await env[BINDINGS[queue]].sendBatch(messages.map(({ contentType, body }) => ({ contentType, body: decoded(body) })));
			return new Response("sent");
		} catch (error) {
			return new Response(error.message, { status: 400 });
		}
	},
};
`;

/**
 * It runs the program, which may have other addresses than that of the folder; and keeps what it stores in `state`.
 * `onLog` is called with each line that its Worker writes, `{ level, message }`.
 */
export class Running {
	constructor(options) {
		this.options = options;
		this.bin = process.env.JADPO_BIN;
		if (!this.bin) throw new Error("JADPO_BIN does not say where jadpo is: run this through `cargo xtask demo`");
		this.store = join(options.state, "queues.db");
		this.lines = [];
		this.ticks = 0;
	}

	async start() {
		const { program, queues, folder, deployable, ownWorker, state, migrate, env } = this.options;
		this.database = program.app;
		const beside = join(state, "sender");
		await mkdir(beside);
		const producers = queues.map((queue, index) => ({ binding: `Q${index}`, queue }));
		const wrangler = { name: SENDER, main: "sender.js", compatibility_date: "2026-11-01", no_bundle: true, queues: { producers } };
		const rules = [{ type: "ESModule", globs: ["*.mjs"] }];
		await writeFile(join(beside, "wrangler.json"), JSON.stringify({ ...wrangler, rules }));
		await writeFile(join(beside, "sender.js"), sender(queues));
		await copyFile(new URL("values.mjs", import.meta.url), join(beside, "values.mjs"));
		await writeFile(join(state, "program.json"), JSON.stringify(program));
		this.name = JSON.parse(await readFile(join(folder, "wrangler.json"), "utf8")).name;
		const given = [
			...["dev", "program.json", "--deployable", deployable, "--worker", "sender", "--stand-in", "--json"],
			...["--store", this.store, "--listen", "127.0.0.1:0", "--worker-listen", "127.0.0.1:0"],
			...(migrate ? [] : ["--no-migrate"]),
			...(ownWorker ? ["--own-worker", ownWorker] : []),
		];
		this.child = spawn(this.bin, given, {
			cwd: state,
			env: { ...surroundings, JADPO_WORKERD: workerd(), ...env },
			stdio: ["ignore", "ignore", "pipe"],
		});
		process.once("exit", () => this.child.kill("SIGTERM"));
		this.ended = new Promise((resolve) => this.child.once("exit", (code) => resolve(code ?? "a signal")));
		await this.#ready();
	}

	async #ready() {
		const urls = {};
		await new Promise((resolve, reject) => {
			const timer = setTimeout(() => reject(this.#silent("did not start")), START_MS_MAX);
			this.ended.then((code) => reject(this.#silent(`ended with ${code}`)));
			createInterface({ input: this.child.stderr }).on("line", (line) => {
				this.#take(line, urls);
				if (urls.api && urls[this.name] && urls[SENDER]) {
					clearTimeout(timer);
					resolve();
				}
			});
		});
		this.ended.catch(() => {});
		/** Where the deployable's Worker answers. */
		this.url = urls[this.name];
		/** Where `jadpo dev` takes messages by HTTP. */
		this.sends = `${new URL(urls.api).origin}/_queues`;
		this.sender = urls[SENDER];
	}

	#silent(what) {
		return new Error(`jadpo dev ${what}:\n${this.lines.slice(-20).join("\n")}`);
	}

	#take(line, urls) {
		this.lines.push(line);
		if (this.lines.length > 200) this.lines.shift();
		let said;
		try {
			said = JSON.parse(line);
		} catch {
			return; // Not every line is of the log.
		}
		if (said.event === "worker.ready") urls[said.worker] = said.url;
		else if (said.event === "api.ready") urls.api = said.url;
		else if (said.event === "worker.scheduled") this.ticks += 1;
		else if (said.event === "worker.log" && said.worker === this.name) {
			this.options.onLog({ level: said.level, message: said.text });
		}
	}

	/** Sends up to 100 messages at once through a binding; why not, if the queue refuses them. */
	async sendBatch(queue, messages) {
		const body = JSON.stringify({
			queue,
			messages: messages.map(({ contentType, body }) => ({ contentType, body: encoded(body) })),
		});
		const answer = await fetch(this.sender, { method: "POST", body });
		const text = await answer.text();
		if (answer.status >= 500) throw new Error(`sending to ${queue}: ${answer.status} ${text}`);
		return answer.ok ? undefined : text;
	}

	/** A request of a path of the Worker. */
	fetch(path, init) {
		return fetch(new URL(path, this.url), init);
	}

	/** The rows of the deployable's database that a statement gives. */
	async query(sql) {
		const [{ results }] = JSON.parse(await this.#d1("execute", this.database, "--command", sql));
		return results;
	}

	/** Applies the migrations to its database. */
	async migrate() {
		await this.#d1("migrations", "apply", this.database);
	}

	async #d1(...args) {
		const where = ["--worker", this.options.folder, "--store", this.store, "--json"];
		const { stdout } = await run(this.bin, ["d1", ...args, ...where], { env: surroundings, maxBuffer: 1 << 26 });
		return stdout;
	}

	/** Fires the cron trigger once, as the clock does it: by a message to its queue. Waits until the Worker has done it. */
	async tick(limitMs) {
		const before = this.ticks;
		const body = JSON.stringify({ cron: "* * * * *", scheduledTime: Date.now() });
		const headers = { "content-type": "application/json" };
		const queue = `${this.name.replaceAll("_", "-")}-cron`;
		const answer = await fetch(`${this.sends}/${queue}`, { method: "POST", headers, body });
		if (!answer.ok) throw new Error(`the tick cannot be sent: ${answer.status} ${await answer.text()}`);
		await until(() => this.ticks > before, { what: "the tick ran", limitMs: Math.max(limitMs, 1), everyMs: 10 });
	}

	/** Ends it, and what it was doing. */
	async stop() {
		if (!this.child || this.child.exitCode !== null) return;
		this.child.kill("SIGTERM");
		const hurry = setTimeout(() => this.child.kill("SIGKILL"), 15_000);
		await this.ended;
		clearTimeout(hurry);
	}
}

function workerd() {
	const arch = process.arch === "arm64" ? "arm64" : "64";
	return join(PACKAGES, `@cloudflare/workerd-${process.platform}-${arch}/bin/workerd`);
}

/** Waits until `condition` gives something true, and gives that. */
export async function until(condition, { what = "it", limitMs = 15_000, everyMs = 25 } = {}) {
	const end = Date.now() + limitMs;
	for (;;) {
		const value = await condition();
		if (value) return value;
		if (Date.now() > end) throw new Error(`waited ${limitMs} ms in vain until ${what}`);
		await new Promise((resolve) => setTimeout(resolve, everyMs));
	}
}
