// A batch of statements on D1, in one crossing from Rust and one back.
//
// Every value that crosses the boundary alone costs more than D1's own work on it, so a batch comes as one JSON text:
// `[[sql, [parameter, …]], …]`, a parameter that is long or bytes as `[index]` into `apart`. The answer goes back the
// same way: `[[rows, changes, rows written], …]`, each row a list, bytes as a list of numbers.

import { within } from "./host.js";

/** Runs the statements as one transaction and gives what they gave back, as JSON. */
export async function runBatch(database, described, apart, limitMs) {
  const value = (parameter) => (Array.isArray(parameter) ? apart[parameter[0]] : parameter);
  const statements = JSON.parse(described).map(([sql, parameters]) => {
    const statement = database.prepare(sql);
    return parameters.length === 0 ? statement : statement.bind(...parameters.map(value));
  });
  const results = await within(limitMs, database.batch(statements));
  if (!Array.isArray(results)) throw new Error("D1 gave no list of results");
  return JSON.stringify(results.map(result));
}

function result({ results, meta }) {
  return [(results ?? []).map(row), meta?.changes ?? 0, meta?.rows_written ?? 0];
}

/**
 * A row by position. D1's `batch()` gives rows as objects, whose fields stand in the order of the columns as long as no
 * name is a number and none comes twice: the core's statements name every column.
 */
function row(object) {
  return Object.values(object).map((column) => {
    if (column instanceof ArrayBuffer) return [...new Uint8Array(column)];
    return ArrayBuffer.isView(column) ? [...column] : column;
  });
}
