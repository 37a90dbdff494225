// A running `jadpo`, in a folder of its own.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BIN = process.env.JADPO_BIN;
const APP = `app: "shop"
connections: {
    work: { driver: Driver.local_queue, queue: "work", functions: [go] }
}
functions: { go: { call: "http://127.0.0.1:9/" } }
deployables: { server: { target: Target.native, triggers: [Trigger.http] } }
`;

/** The packages are those of host-workers/e2e, which set-up links to the cache. */
export const require = createRequire(new URL("../../../host-workers/e2e/package.json", import.meta.url));

/** Without variables that would lead a client elsewhere. */
const environment = Object.fromEntries(
	Object.entries(process.env).filter(([name]) => !/^(JADPO|CLOUDFLARE|CF|WRANGLER)_/.test(name)),
);

/** `jadpo serve` on a new store, and a token that it takes. `dev` runs `jadpo dev`, with the token that it prints. */
export async function started(t, { dev = false } = {}) {
	if (!BIN) throw new Error("JADPO_BIN names no binary; run this by `cargo xtask test --only e2e`");
	const folder = mkdtempSync(join(tmpdir(), "jadpo-api-"));
	t.after(() => rmSync(folder, { recursive: true, force: true }));
	writeFileSync(join(folder, "app.jadpo"), APP);
	const made = dev ? undefined : jadpo(folder, ["tokens", "create", "tests", "--json"]);
	const args = dev ? ["dev", "--json", "--tick-ms", "3600000"] : ["serve"];
	const child = spawn(BIN, [...args, "--listen", "127.0.0.1:0"], {
		cwd: folder,
		env: environment,
		stdio: ["ignore", "ignore", "pipe"],
	});
	const ended = new Promise((resolve) => child.once("exit", resolve));
	t.after(async () => {
		child.kill("SIGKILL");
		await ended;
	});
	const ready = await logged(child, "api.ready");
	const { account, url } = ready;
	return { account, url, token: made?.secret ?? ready.token, folder, jadpo: (...args) => jadpo(folder, args) };
}

function logged(child, event) {
	const seen = [];
	return new Promise((resolve, reject) => {
		createInterface({ input: child.stderr }).on("line", (line) => {
			seen.push(line);
			try {
				const said = JSON.parse(line);
				if (said.event === event) resolve(said);
			} catch {
				// Not every line is of the log.
			}
		});
		child.once("exit", (code) => reject(new Error(`jadpo ended with ${code}: ${seen.join("\n")}`)));
	});
}

function jadpo(folder, args) {
	const { status, stdout, stderr } = spawnSync(BIN, args, { cwd: folder, env: environment, encoding: "utf8" });
	if (status !== 0) throw new Error(`jadpo ${args.join(" ")} ended with ${status}: ${stderr}`);
	return args.includes("--json") ? JSON.parse(stdout) : stdout;
}

/** What a client finds in its environment. */
export function surroundings(server, more = {}) {
	return {
		...environment,
		CLOUDFLARE_API_BASE_URL: server.url,
		CLOUDFLARE_API_TOKEN: server.token,
		CLOUDFLARE_ACCOUNT_ID: server.account,
		...more,
	};
}
