// The table of differences, host-native/DIFFERENCES.md: a test that meets a difference names its row, and a row that no
// test meets is stale.

import { readFileSync } from "node:fs";

const TEXT = readFileSync(new URL("../../../DIFFERENCES.md", import.meta.url), "utf8");

/** The rows whose name begins so: what, theirs, ours, why, by their names. */
export function rows(prefix) {
	const found = {};
	for (const line of TEXT.split("\n")) {
		const [, name, ...cells] = line.split("|").map((cell) => cell.trim());
		const plain = name?.match(/^`([a-z0-9-]+)`$/)?.[1];
		if (plain?.startsWith(prefix)) {
			const [what, theirs, ours, why] = cells;
			found[plain] = { what, theirs, ours, why };
		}
	}
	return found;
}

/** Names the row of a difference that a test meets. */
export function meets(name) {
	if (rows(name)[name] === undefined) throw new Error(`DIFFERENCES.md has no row \`${name}\``);
}
