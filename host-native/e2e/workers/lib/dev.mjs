// `jadpo dev` or `jadpo serve` with Workers that a test writes, in a folder of its own.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const BIN = process.env.JADPO_BIN;
const DATE = "2026-08-01";
const START_MS_MAX = 60_000;

/** workerd and esbuild are found from here upward, as they are beside anybody's Wrangler file. */
const PACKAGES = realpathSync(new URL("../../../../host-workers/e2e/node_modules", import.meta.url));

const environment = Object.fromEntries(
	Object.entries(process.env).filter(([name]) => !/^(JADPO|CLOUDFLARE|CF|WRANGLER)_/.test(name)),
);
environment.JADPO_WORKERD = join(PACKAGES, "@cloudflare/workerd-linux-64/bin/workerd");
environment.JADPO_ESBUILD = join(PACKAGES, "@esbuild/linux-x64/bin/esbuild");

/**
 * Runs Workers. Each is `{ name, script, …the rest of its Wrangler file }`; `files` are more files of its folder.
 * `command` is `dev` or `serve`, `args` are more arguments, `folder` is one of an earlier run to go on with, `ready`
 * names Workers that run beside these, and `before` is what a shell does first.
 */
export async function run(t, workers, options = {}) {
	const server = new Server(options.folder ?? mkdtempSync(join(tmpdir(), "jadpo-workers-")));
	if (options.folder === undefined) t.after(() => rmSync(server.folder, { recursive: true, force: true }));
	t.after(() => server.kill());
	workers.forEach((worker) => server.write(worker));
	await server.start(workers, options);
	return server;
}

/** As `run`, without waiting until they are there: that is `started`. */
export function begun(t, workers, options = {}) {
	const server = new Server(mkdtempSync(join(tmpdir(), "jadpo-workers-")));
	t.after(() => rmSync(server.folder, { recursive: true, force: true }));
	t.after(() => server.kill());
	workers.forEach((worker) => server.write(worker));
	server.started = server.start(workers, options);
	server.started.catch(() => {});
	return server;
}

/** Starts what is to be refused: how it ended, and what it said. */
export function refused(t, workers, { command = "dev", args = [], env = {}, write = true, listen = "127.0.0.1:0" } = {}) {
	const server = new Server(mkdtempSync(join(tmpdir(), "jadpo-workers-")));
	t.after(() => rmSync(server.folder, { recursive: true, force: true }));
	if (write) workers.forEach((worker) => server.write(worker));
	const given = workers.flatMap(({ name }) => ["--worker", name]);
	const ports = ["--listen", "127.0.0.1:0", "--worker-listen", listen];
	const { status, stdout, stderr } = spawnSync(BIN, [command, ...given, ...ports, ...args], {
		cwd: server.folder,
		env: { ...environment, ...env },
		encoding: "utf8",
		timeout: START_MS_MAX,
	});
	return { code: status, said: stdout + stderr };
}

class Server {
	constructor(folder) {
		this.folder = folder;
		/** What it has logged. */
		this.log = [];
		this.urls = {};
		this.waiting = [];
	}

	/** Writes a Worker's folder, anew or for the first time. */
	write({ name, script, files = {}, ...rest }) {
		const folder = join(this.folder, name);
		const config = { name, main: "worker.js", compatibility_date: DATE, ...rest };
		const all = { "worker.js": script, "wrangler.json": JSON.stringify(config), ...files };
		for (const [path, text] of Object.entries(all)) {
			mkdirSync(dirname(join(folder, path)), { recursive: true });
			writeFileSync(join(folder, path), text);
		}
	}

	async start(workers, { command = "dev", args = [], env = {}, ready: beside = [], before } = {}) {
		if (!BIN) throw new Error("JADPO_BIN names no binary; run this by `cargo xtask test --only e2e`");
		const given = workers.flatMap(({ name }) => ["--worker", name]);
		const ports = ["--listen", "127.0.0.1:0", "--worker-listen", "127.0.0.1:0"];
		const json = command === "dev" ? ["--json"] : [];
		const all = [command, ...given, ...ports, ...json, ...args];
		// What a shell is to do before it becomes jadpo.
		const [program, how] = before ? ["sh", ["-c", `${before}; exec "$0" "$@"`, BIN, ...all]] : [BIN, all];
		this.child = spawn(program, how, {
			cwd: this.folder,
			env: { ...environment, ...env },
			stdio: ["ignore", "ignore", "pipe"],
		});
		const child = this.child;
		this.ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
		createInterface({ input: child.stderr }).on("line", (line) => {
			let said = { event: "", text: line };
			try {
				said = JSON.parse(line);
			} catch {
				// Not every line is of the log.
			}
			this.log.push(said);
			this.waiting.forEach((look) => look(said));
		});
		const from = this.log.length;
		const ready = Promise.all(
			[...beside, ...workers.map(({ name }) => name)].map(async (name) => {
				const said = await this.logged("worker.ready", (it) => it.worker === name, { from, within: START_MS_MAX });
				this.urls[name] = said.url;
			}),
		);
		const early = this.ended.then(({ code }) => {
			throw new Error(`jadpo ended with ${code}: ${this.log.map((it) => JSON.stringify(it)).join("\n")}`);
		});
		await Promise.race([ready, early]);
		early.catch(() => {});
		this.url = this.log.findLast((it) => it.event === "api.ready")?.url;
	}

	/** The first line of this event that is so, from the beginning or from the line `from` on. */
	logged(event, is = () => true, { from = 0, within = 20_000 } = {}) {
		const fits = (it) => it.event === event && is(it);
		const said = this.log.slice(from).find(fits);
		if (said) return Promise.resolve(said);
		return new Promise((resolve, reject) => {
			const timer = setTimeout(() => {
				const last = this.log.slice(-30).map((it) => JSON.stringify(it));
				reject(new Error(`no ${event} within ${within} ms; the last that was logged:\n${last.join("\n")}`));
			}, within);
			this.waiting.push((it) => {
				if (!fits(it)) return;
				clearTimeout(timer);
				resolve(it);
			});
		});
	}

	/** Asks a Worker; the answer's JSON. */
	async ask(name, path, init) {
		const response = await fetch(new URL(path, this.urls[name]), init);
		const text = await response.text();
		if (!response.ok) throw new Error(`${name}${path}: ${response.status} ${text}`);
		return text === "" ? undefined : JSON.parse(text);
	}

	/** Asks until the answer is as it should be, and gives it. */
	async until(name, path, is, within = 20_000) {
		const ends = Date.now() + within;
		for (;;) {
			const answer = await this.ask(name, path);
			if (is(answer)) return answer;
			if (Date.now() > ends) throw new Error(`${name}${path} after ${within} ms: ${JSON.stringify(answer)}`);
			await sleep(50);
		}
	}

	/** A command beside the server; what it prints. */
	jadpo(...args) {
		const { status, stdout, stderr } = spawnSync(BIN, args, {
			cwd: this.folder,
			env: environment,
			encoding: "utf8",
		});
		if (status !== 0) throw new Error(`jadpo ${args.join(" ")} ended with ${status}: ${stderr}`);
		return args.includes("--json") ? JSON.parse(stdout) : stdout;
	}

	/** A queue, as `jadpo queues` shows it. */
	queue(name) {
		return this.jadpo("queues", "list", "--json").queues.find((queue) => queue.name === name);
	}

	/** Waits until a queue is so. */
	async untilQueue(name, is, within = 20_000) {
		const ends = Date.now() + within;
		for (;;) {
			const queue = this.queue(name);
			if (queue && is(queue)) return queue;
			if (Date.now() > ends) throw new Error(`${name} after ${within} ms: ${JSON.stringify(queue)}`);
			await sleep(100);
		}
	}

	async stop(signal = "SIGTERM") {
		this.child.kill(signal);
		return await this.ended;
	}

	async kill() {
		if (this.child?.exitCode === null && this.child.signalCode === null) await this.stop("SIGKILL");
	}
}
