// The Wrangler file that `jadpo build` writes, held against Wrangler itself: its schema, its dry run, its migrations.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import Ajv from "ajv";
import { build, removeFolder, temporaryFolder } from "./lib/deployable.mjs";

const require = createRequire(import.meta.url);
const WRANGLER = dirname(require.resolve("wrangler/package.json"));

const APP = `app: "warehouse"

connections: {
    orders: { driver: Driver.cloudflare_queues, queue: "orders", dead_letter_queue: "orders-dead" }
    stock: { driver: Driver.cloudflare_queues, queue: "stock-events", dead_letter_queue: "stock-events-dead" }
}

events: {
    StockMoved: { sku: Text }
    Ordered: { id: Text }
}

receiving: {
    orders: { event: Ordered }
    stock: { event: StockMoved }
}

subscribers: {
    ledger: { on: StockMoved, call: "https://ledger.example.com/events", secret: env("LEDGER_SECRET") }
    reorder: { on: StockMoved, service: "reorder-worker" }
}

deployables: {
    edge: { target: Target.workers, triggers: [Trigger.http, Trigger.subscribers, Trigger.tick] }
    clock: { target: Target.workers, triggers: [Trigger.tick] }
    front_door: { target: Target.workers, triggers: [Trigger.http] }
}
`;

/** Builds a deployable of the app, for the length of a test. */
async function built(t, deployable) {
  const folder = await build(APP, { deployable });
  t.after(() => removeFolder(dirname(folder)));
  const file = join(folder, "wrangler.json");
  return { folder, file, config: JSON.parse(await readFile(file, "utf8")) };
}

/** Runs Wrangler in a folder, as a machine without an account would. Gives its exit code and all it said. */
async function wrangler(t, folder, args) {
  const home = await temporaryFolder("home");
  t.after(() => removeFolder(home));
  const env = {
    ...process.env,
    CI: "1",
    HOME: home,
    NO_COLOR: "1",
    WRANGLER_SEND_METRICS: "false",
    XDG_CONFIG_HOME: join(home, ".config"),
  };
  const command = [join(WRANGLER, "bin/wrangler.js"), ...args];
  return new Promise((resolve) => {
    execFile(process.execPath, command, { cwd: folder, env }, (error, stdout, stderr) => {
      resolve({ code: error ? (error.code ?? 1) : 0, said: stdout + stderr });
    });
  });
}

function assertSilent({ code, said }) {
  assert.equal(code, 0, said);
  assert.doesNotMatch(said, /warning|deprecat|unexpected|error/i);
}

for (const deployable of ["edge", "clock", "front_door"]) {
  test(`wrangler deploy --dry-run takes the file of ${deployable} without a warning`, async (t) => {
    const { folder } = await built(t, deployable);
    const out = join(folder, "dry-run");
    const result = await wrangler(t, folder, ["deploy", "--dry-run", "--outdir", out]);
    assertSilent(result);
    assert.match(result.said, /env\.DB \(warehouse\)/);

    const uploaded = (await readdir(out)).filter((name) => name !== "README.md").sort();
    assert.deepEqual(uploaded, ["index.js", "program.json", "worker.js", "worker.wasm"]);
    for (const name of uploaded.slice(1)) {
      assert.deepEqual(await readFile(join(out, name)), await readFile(join(folder, name)), `${name} goes up as it is`);
    }
  });

  test(`Wrangler's own schema takes the file of ${deployable}`, async (t) => {
    const { config } = await built(t, deployable);
    const validate = await schema();
    assert.ok(validate(config), JSON.stringify(validate.errors));
  });
}

test("the bindings of edge are its store, itself and the Worker of its service subscriber", async (t) => {
  const { folder } = await built(t, "edge");
  const { said } = await wrangler(t, folder, ["deploy", "--dry-run"]);
  for (const row of [/env\.JADPO_SELF \(warehouse-edge#Deliveries\)/, /env\.SUBSCRIBER_reorder \(reorder-worker\)/]) {
    assert.match(said, row);
  }
});

test("each queue is consumed with the driver's settings, and its dead-letter queue with the most retries", async (t) => {
  const { config } = await built(t, "edge");
  const batch = { max_batch_size: 10, max_batch_timeout: 5 };
  assert.deepEqual(config.queues.consumers, [
    { queue: "orders", ...batch, max_retries: 30, dead_letter_queue: "orders-dead" },
    { queue: "orders-dead", ...batch, max_retries: 100 },
    { queue: "stock-events", ...batch, max_retries: 30, dead_letter_queue: "stock-events-dead" },
    { queue: "stock-events-dead", ...batch, max_retries: 100 },
  ]);
  assert.deepEqual(config.triggers.crons, ["* * * * *"]);
});

test("what a deployable has no trigger for is not in its file", async (t) => {
  const [clock, door] = await Promise.all([built(t, "clock"), built(t, "front_door")]);
  assert.equal(clock.config.queues, undefined);
  assert.equal(clock.config.workers_dev, false);
  assert.deepEqual(door.config.triggers.crons, []);
  assert.equal(door.config.services, undefined);
});

test("wrangler d1 migrations apply finds the migrations and applies them", async (t) => {
  const { folder } = await built(t, "edge");
  const applied = await wrangler(t, folder, ["d1", "migrations", "apply", "DB", "--local"]);
  assert.equal(applied.code, 0, applied.said);
  const sql = "SELECT version FROM jadpo_schema";
  const read = await wrangler(t, folder, ["d1", "execute", "DB", "--local", "--json", "--command", sql]);
  assert.equal(read.code, 0, read.said);
  assert.match(read.said, /"version": [1-9]/);
});

test("what these checks must catch, they catch", async (t) => {
  const validate = await schema();
  const { folder, file, config } = await built(t, "edge");
  for (const broken of [{ max_batch_size: "10" }, { dead_letter_queue: 5 }, { queue: undefined }]) {
    const consumers = JSON.parse(JSON.stringify([{ ...config.queues.consumers[0], ...broken }]));
    assert.equal(validate({ ...config, queues: { consumers } }), false, JSON.stringify(broken));
  }
  await writeFile(file, JSON.stringify({ ...config, queue_consumers: [] }));
  const warned = await wrangler(t, folder, ["deploy", "--dry-run"]);
  assert.throws(() => assertSilent(warned), /queue_consumers|did not match|doesNotMatch|must not match/i);

  await writeFile(file, JSON.stringify({ ...config, rules: config.rules.slice(0, 2) }));
  const out = join(folder, "dry-run");
  await wrangler(t, folder, ["deploy", "--dry-run", "--outdir", out]);
  assert.ok(!(await readdir(out)).includes("program.json"), "it takes the rule to upload the program");
});

test("what else lies in the folder is not uploaded", async (t) => {
  const { folder } = await built(t, "edge");
  const out = join(folder, "dry-run");
  await mkdir(join(folder, "node_modules/other"), { recursive: true });
  for (const name of ["node_modules/other/index.js", "node_modules/other/other.wasm", "wrangler.json.changed"]) {
    await writeFile(join(folder, name), "");
  }
  assertSilent(await wrangler(t, folder, ["deploy", "--dry-run", "--outdir", out]));
  assert.deepEqual((await readdir(out)).length, 5, "four modules and Wrangler's own note");
});

let compiled;

/** Checks a value against Wrangler's published schema of its configuration. */
async function schema() {
  if (!compiled) {
    const text = await readFile(join(WRANGLER, "config-schema.json"), "utf8");
    // The schema has words of its own for editors, which are no part of JSON Schema.
    compiled = new Ajv({ strict: false }).compile(JSON.parse(text));
  }
  return compiled;
}
