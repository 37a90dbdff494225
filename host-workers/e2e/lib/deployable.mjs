// A deployable folder, as `jadpo build` writes it, and how Miniflare starts it.

import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { unstable_getMiniflareWorkerOptions as optionsOf } from "wrangler";

const run = promisify(execFile);

const made = new Set();
process.once("exit", () => made.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

/** A new folder that nothing else uses, below the system's temporary one. It goes at the latest when the process ends. */
export async function temporaryFolder(name) {
  const folder = await mkdtemp(join(tmpdir(), `jadpo-${name}-`));
  made.add(folder);
  return folder;
}

/** Removes a folder and what is in it. */
export function removeFolder(folder) {
  return rm(folder, { recursive: true, force: true });
}

/**
 * Builds an app's text with the `jadpo` of `JADPO_BIN` and gives the deployable's folder, in a temporary folder of
 * its own. The Worker is the one in the
 * folder `worker`, else in `JADPO_WORKER_DIR`, else the one inside the binary.
 */
export async function build(appText, { deployable = "edge", worker = process.env.JADPO_WORKER_DIR } = {}) {
  const jadpo = process.env.JADPO_BIN;
  if (!jadpo) throw new Error("JADPO_BIN does not say where jadpo is: run this through `cargo xtask`");
  const folder = await temporaryFolder("app");
  const app = join(folder, "app.jadpo");
  await writeFile(app, appText);
  const args = ["build", app, "--deployable", deployable, "--out", folder, ...(worker ? ["--worker", worker] : [])];
  try {
    await run(jadpo, args);
  } catch (error) {
    throw new Error(`jadpo ${args.join(" ")} failed:\n${error.stderr || error.message}`);
  }
  return join(folder, deployable);
}

/**
 * Miniflare's options for a deployable folder, read from its wrangler.json by Wrangler itself: what starts here is
 * what deploys. `changed` may change program.json's text first.
 */
export async function workerOptions(folder, changed = (text) => text) {
  const config = join(folder, "wrangler.json");
  const { name } = JSON.parse(await readFile(config, "utf8"));
  const { workerOptions: options, main } = optionsOf(config);
  const program = join(folder, "program.json");
  const modules = [
    { type: "ESModule", path: main },
    { type: "ESModule", path: join(folder, "worker.js") },
    { type: "CompiledWasm", path: join(folder, "worker.wasm") },
    { type: "Text", path: program, contents: changed(await readFile(program, "utf8")) },
  ];
  return { ...options, name, modules };
}

/** The deployable's migrations, in the order they are applied: `[{ name, sql }]`. */
export async function migrations(folder) {
  const names = (await readdir(join(folder, "migrations"))).filter((name) => name.endsWith(".sql")).sort();
  return Promise.all(
    names.map(async (name) => ({ name, sql: await readFile(join(folder, "migrations", name), "utf8") })),
  );
}
