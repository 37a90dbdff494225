// Faults between the Worker and its surroundings, at a test's command.
//
// The Worker keeps its code: another entry module stands before it (faulty-entry.js), which wraps the D1 binding and
// the batches and asks the test, through a service binding, what to do each time.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const MODULES = ["faulty-entry.js", "memory-probe.js"].map((name) => ({
  name,
  text: readFileSync(join(dirname(fileURLToPath(import.meta.url)), name), "utf8"),
}));

/** What a test puts in the Worker's way. Nothing, at first. */
export class Faults {
  /**
   * What happens to D1's batches, asked each time: gets `{ statements: [{ sql, params }] }` and gives one of
   * - undefined: D1 does it;
   * - `{ fail: "text" }`: D1 refuses with this text and does nothing;
   * - `{ lost: "text" }`: D1 does it, and the answer is lost with this text;
   * - `{ slowMs: n }`: D1 does it, later;
   * - `{ silent: true }`: D1 does it and never answers.
   */
  d1 = () => undefined;
  /** Calls on messages that throw, by the message's id: `{ m2: ["retry"] }`. */
  throwing = {};
  /** D1 batches that the Worker asked for. */
  d1Batches = [];

  /** D1 can be reached no more. */
  d1Down() {
    this.d1 = () => ({ fail: "D1_ERROR: Network connection lost." });
  }

  /** D1 is as it should be again. */
  d1Up() {
    this.d1 = () => undefined;
  }

  async answer(request) {
    const asked = await request.json();
    if (asked.about === "settle") return Response.json(this.throwing);
    this.d1Batches.push(asked.statements);
    return Response.json(this.d1(asked) ?? {});
  }
}

/** Miniflare's options of a Worker with the faulty entry before its own. */
export function withFaults(worker, faults) {
  const [{ path: main }] = worker.modules;
  const before = MODULES.map(({ name, text }) => ({ type: "ESModule", path: join(dirname(main), name), contents: text }));
  return {
    ...worker,
    modules: [...before, ...worker.modules],
    serviceBindings: { ...worker.serviceBindings, JADPO_FAULTS: (request) => faults.answer(request) },
  };
}
