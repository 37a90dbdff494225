// What runs on this machine, as Linux tells it.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** The workerd that a `jadpo` has started, or undefined. */
export function workerdOf(jadpo) {
	return children(jadpo.pid).find((pid) => programOf(pid)?.endsWith("/workerd"));
}

export function isAlive(pid) {
	try {
		return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
	} catch {
		return false;
	}
}

export async function until(is, what, within = 10_000) {
	const ends = Date.now() + within;
	for (;;) {
		const found = await is();
		if (found) return found;
		if (Date.now() > ends) throw new Error(`not within ${within} ms: ${what}`);
		await sleep(20);
	}
}

function children(pid) {
	const tasks = readdirSync(`/proc/${pid}/task`);
	return tasks.flatMap((task) => {
		try {
			return readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" ").filter(Boolean).map(Number);
		} catch {
			return [];
		}
	});
}

function programOf(pid) {
	try {
		return readlinkSync(`/proc/${pid}/exe`);
	} catch {
		return undefined;
	}
}
