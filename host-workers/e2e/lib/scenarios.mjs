// The behaviour suite's scenarios (host-test/scenarios), read and compared as the Rust runner does it.

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse } from "smol-toml";

const FOLDER = fileURLToPath(new URL("../../../host-test/scenarios/", import.meta.url));
/** Seconds that a number may be off where real time passed. */
const ABOUT = 3;

/** The files of scenarios: `[{ file, scenarios: [{ says, app, env, notOn, steps }] }]`. */
export function scenarioFiles() {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith(".toml")).sort();
  return names.map((name) => {
    const { app, env = {}, not_on: notOn = {}, scenario } = parse(readFileSync(FOLDER + name, "utf8"));
    const scenarios = scenario.map((own) => ({
      says: own.says,
      app: own.app ?? app,
      env,
      notOn: { ...notOn, ...own.not_on },
      steps: own.steps.map((step) => Object.entries(step)[0]),
    }));
    return { file: name.replace(/\.toml$/, ""), scenarios };
  });
}

/** The query that shows `events`, `parked` or `deliveries`, one JSON text a row. */
export const seenQuery = (what) => readFileSync(`${FOLDER}seen/${what}.sql`, "utf8");

/** The messages that one written message stands for: `[{ id, body, attempts }]`, the body as a queue hands it over. */
export function messagesOf({ id, text, json, hex, attempts = 1, times = 1 }) {
  return Array.from({ length: times }, (_, index) => {
    const numbered = (written) => written.replaceAll("{n}", String(index + 1));
    const body = () => {
      if (text !== undefined) return numbered(text);
      return json === undefined ? new Uint8Array(Buffer.from(hex, "hex")) : JSON.parse(numbered(json));
    };
    return { id: numbered(id), body: body(), attempts };
  });
}

/**
 * What is wrong, in words, or undefined when all that is expected is there. `named` remembers what `{ as = "name" }`
 * stood for.
 */
function mismatch(path, expected, actual, named = new Map()) {
  const wrong = () => `${path}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(actual)}`;
  if (typeof expected === "number" && Array.isArray(actual)) return actual.length === expected ? undefined : wrong();
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length) return wrong();
    return firstOf(expected, (item, place) => mismatch(`${path}[${place}]`, item, actual[place], named));
  }
  if (typeof expected !== "object" || expected === null) return Object.is(expected, actual) ? undefined : wrong();
  const [[name, value] = [], ...more] = Object.entries(expected);
  if (more.length === 0 && name === "contains") return String(actual).includes(value) ? undefined : wrong();
  if (more.length === 0 && name === "about") return Math.abs(actual - value) <= ABOUT ? undefined : wrong();
  if (more.length === 0 && name === "as") {
    if (!named.has(value)) named.set(value, actual);
    return actual !== null && named.get(value) === actual ? undefined : `${wrong()}, first ${JSON.stringify(named.get(value))}`;
  }
  const found = typeof actual === "object" && actual !== null ? actual : {};
  return firstOf(Object.entries(expected), ([name, value]) => mismatch(`${path}.${name}`, value, found[name] ?? null, named));
}

/** What is wrong with what is seen, in words, or undefined. */
export function wrong(expected, seen) {
  const named = new Map();
  return firstOf(Object.entries(expected), ([what, value]) => {
    if (what === "log_without") {
      return JSON.stringify(seen.log).includes(value) ? `the log holds ${value}: ${JSON.stringify(seen.log)}` : undefined;
    }
    if (what === "log") return missingLine(value, seen.log);
    if (what !== "calls") return mismatch(what, value, seen[what] ?? null, named);
    return firstOf(Object.entries(value), ([name, calls]) => mismatch(`calls.${name}`, calls, seen.calls[name] ?? [], named));
  });
}

function missingLine(expected, log) {
  let from = 0;
  return firstOf(expected, (line) => {
    const at = log.findIndex((actual, place) => place >= from && mismatch("log", line, actual) === undefined);
    from = at + 1;
    return at < 0 ? `log: no line ${JSON.stringify(line)}, in that order, among ${JSON.stringify(log)}` : undefined;
  });
}

function firstOf(list, look) {
  for (const [place, item] of list.entries()) {
    const found = look(item, place);
    if (found !== undefined) return found;
  }
  return undefined;
}
