// The same Worker and the same sends on jadpo and on the reference. Twice the reference: miniflare's broker, where it
// follows the documentation, and workerd's own verdict on a batch through `Fetcher.queue`, with what Cloudflare's
// documentation makes of it. Outcomes are equal, but for what DIFFERENCES.md lists.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { require } from "../lib/server.mjs";
import { run } from "./lib/dev.mjs";
import { rows } from "./lib/differences.mjs";
import { STEP_S } from "./lib/queue-scenes.mjs";
import { MINIFLARE, PLAYED, SCRIPT, WRANGLER } from "./lib/queue-worker.mjs";

const { Miniflare, convertV4MiniflareOptions } = require("miniflare");
const DATE = "2026-08-01";
/** Nothing more comes when so long nothing has: the longest delay, and a batch's time, are shorter. */
const QUIET_MS = 7_500;
const OVER_MS_MAX = 90_000;
/** Between the sends of two scenes, so that not all begin at once. */
const APART_MS = 80;
const ROUNDS_MAX = 3;
/** By which a delivery may come early: clocks round. */
const EARLY_MS = 100;

const met = new Set();

describe("queues", () => {
	const outcomes = {};
	const ends = [];

	after(() => Promise.all(ends.map((end) => end())));

	before(async () => {
		const theirs = new Miniflare(
			convertV4MiniflareOptions({
				modules: true,
				script: SCRIPT,
				compatibilityDate: DATE,
				handleRuntimeStdio: (out, err) => (out.resume(), err.resume()),
				log: undefined,
				...MINIFLARE,
			}),
		);
		ends.push(() => theirs.dispose());
		const ours = await run({ after: (end) => ends.push(end) }, [
			{ name: "player", script: SCRIPT, compatibility_date: DATE, ...WRANGLER },
		]);
		const asked = {
			theirs: (path, init) => theirs.dispatchFetch(`http://player/${path}`, init),
			ours: (path, init) => fetch(new URL(path, ours.urls.player), init),
		};
		outcomes.verdicts = await verdicts();
		// On a machine that is busy a delivery may come so late that it looks like another; a second look tells.
		for (let left = PLAYED, round = 0; left.length > 0 && round < ROUNDS_MAX; round += 1) {
			const played = Object.entries(asked).map(async ([side, ask]) => {
				outcomes[side] = { ...outcomes[side], ...(await play(ask, left)) };
			});
			await Promise.all(played);
			left = PLAYED.filter((scene) => unequal(scene, outcomes));
		}
	});

	for (const { name, scene, queue } of PLAYED) {
		test(name, () => {
			const [theirs, ours] = ["theirs", "ours"].map((side) => outcome(outcomes[side][queue], scene));
			if (scene.differs) {
				assert.notDeepEqual(ours, theirs, "there is no difference any more");
				met.add(scene.differs);
			} else {
				assert.deepEqual(ours, theirs);
			}
			if (scene.settles) assert.deepEqual(came(outcomes.ours[queue]), documented(outcomes.verdicts[queue]));
		});
	}

	test("every difference that is listed is one, and is met", () => {
		assert.deepEqual([...met].sort(), Object.keys(rows("queues-")).sort());
	});
});

/** Whether a scene is to be looked at again. */
function unequal({ scene, queue }, { theirs, ours, verdicts }) {
	const equal = isDeepStrictEqual(outcome(ours[queue], scene), outcome(theirs[queue], scene));
	if (!scene.differs && !equal) return true;
	return scene.settles && !isDeepStrictEqual(came(ours[queue]), documented(verdicts[queue]));
}

/** Plays scenes side by side, and what was seen of them when nothing more comes. */
async function play(ask, scenes) {
	const sent = scenes.map(async ({ queue }, at) => {
		await sleep(at * APART_MS);
		await ask(queue, { method: "DELETE" });
		const { status } = await ask(queue, { method: "POST" });
		assert.equal(status, 200, queue);
	});
	await Promise.all(sent);
	const started = Date.now();
	for (;;) {
		const seen = await (await ask("seen")).json();
		const last = Math.max(started, ...Object.values(seen).flatMap(({ batches }) => batches.map(({ at }) => at)));
		if (Date.now() - last > QUIET_MS) return Object.fromEntries(scenes.map(({ queue }) => [queue, seen[queue]]));
		assert.ok(Date.now() - started < OVER_MS_MAX, "it does not come to rest");
		await sleep(250);
	}
}

/**
 * What is compared of a scene: what its sends said, and each message's deliveries, with how long after the one before
 * they came, the first after the sending.
 */
function outcome(seen, scene) {
	if (scene.only === "said") return seen.said;
	const before = {};
	const stamps = {};
	const batches = seen.batches.map(({ at, dead, messages }) =>
		messages.map(({ message, body, attempts, timestamp }) => {
			const same = (stamps[message] ??= timestamp) === timestamp;
			const after = steps(at - (before[message] ?? timestamp));
			before[message] = at;
			return { message, body, attempts, "as it was sent": same, "dead letter": dead, after };
		}),
	);
	const { said, notes } = seen;
	// Which messages come together is often chance, and so is who of those that come together is first.
	return scene.batches ? { said, notes, batches } : { said, notes, messages: batches.flat().sort(bySending).map(unnumbered) };
}

const key = ({ body, attempts, ...rest }) => JSON.stringify([rest["dead letter"], body, attempts]);
const bySending = (a, b) => (key(a) < key(b) ? -1 : 1);
const unnumbered = ({ message, ...rest }) => rest;
/** Nothing comes early, and what comes late comes less than a step late. */
const steps = (ms) => Math.floor((ms + EARLY_MS) / (STEP_S * 1_000)) * STEP_S;

/** When each message of a batch came again after its first delivery, in steps, or that it did not. */
function came({ batches }) {
	const first = batches[0];
	return first.messages.map(({ message }) => {
		const again = batches.slice(1).find(({ messages }) => messages.some((it) => it.message === message));
		return again ? steps(again.at - first.at) : "done";
	});
}

/** What workerd itself records of each handler's calls, for a batch of three. */
async function verdicts() {
	const mf = new Miniflare(
		convertV4MiniflareOptions({
			modules: true,
			name: "player",
			script: SCRIPT,
			compatibilityDate: DATE,
			handleRuntimeStdio: (out, err) => (out.resume(), err.resume()),
			...MINIFLARE,
		}),
	);
	try {
		const player = await mf.getWorker("player");
		const settling = PLAYED.filter(({ scene }) => scene.settles);
		const asked = settling.map(async ({ queue }) => {
			const messages = ["a", "b", "c"].map((body) => ({ id: body, timestamp: new Date(), body, attempts: 1 }));
			return [queue, await player.queue(queue, messages)];
		});
		return Object.fromEntries(await Promise.all(asked));
	} finally {
		await mf.dispose();
	}
}

/** What the documentation makes of a verdict: when each message comes again, in seconds, or that it does not. */
function documented({ outcome, ackAll, retryBatch, explicitAcks, retryMessages }) {
	return ["a", "b", "c"].map((id) => {
		const retried = retryMessages.find(({ msgId }) => msgId === id);
		if (retried) return retried.delaySeconds ?? (retryBatch.retry ? retryBatch.delaySeconds : undefined) ?? STEP_S;
		if (explicitAcks.includes(id)) return "done";
		if (retryBatch.retry) return retryBatch.delaySeconds ?? STEP_S;
		if (ackAll || outcome === "ok") return "done";
		return STEP_S;
	});
}
