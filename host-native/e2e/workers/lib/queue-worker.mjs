// The Worker that plays the scenes, as the text of its module, and what each server is told of its queues.

import { BASE, HELPERS, SCENES } from "./queue-scenes.mjs";

const all = Object.entries(SCENES).map(([name, scene], at) => ({
	name,
	scene,
	queue: `scene-${at}`,
	binding: `SCENE_${at}`,
	dead: scene.dead ? `scene-${at}-dead` : undefined,
}));

/** The scenes, with the names of their queues. */
export const PLAYED = all;

/** A function's text, also that of a method. */
const text = (written) => {
	const source = written.toString();
	return /^(async\s+)?(\(|function|[\w$]+\s*=>)/.test(source) ? `(${source})` : `({ ${source} }).${written.name}`;
};

const written = all.map(({ scene, queue, binding }) => {
	const handle = scene.handle ? text(scene.handle) : "() => {}";
	return `${JSON.stringify(queue)}: { binding: ${JSON.stringify(binding)}, send: ${text(scene.send)}, handle: ${handle} }`;
});

export const SCRIPT = `
const STEP_S = 2;
${HELPERS.map((helper) => helper.toString()).join("\n")}
const scenes = { ${written.join(",\n")} };
const seen = {};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A value, as something that JSON carries. */
const shown = (value) => {
	if (value === undefined) return "undefined";
	if (typeof value === "bigint") return "big " + value;
	if (typeof value === "number" && (Object.is(value, -0) || !Number.isFinite(value))) return "number " + (Object.is(value, -0) ? "-0" : value);
	if (typeof value === "string" && value.length > 1_000) return { kind: "text", length: value.length };
	if (value === null || typeof value !== "object") return value;
	if (Array.isArray(value)) return Array.from(value, (inner, at) => (at in value ? shown(inner) : "hole"));
	const kind = value.constructor?.name;
	if (value instanceof ArrayBuffer) return { kind, bytes: [...new Uint8Array(value)] };
	if (ArrayBuffer.isView(value)) return { kind, bytes: [...value] };
	if (value instanceof Map || value instanceof Set) return { kind, entries: [...value].map(shown) };
	if (value instanceof Date) return { kind, at: value.getTime() };
	if (value instanceof RegExp) return { kind, source: String(value) };
	if (value instanceof Error) return { kind, message: value.message };
	return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shown(inner)]));
};

const of = (queue) => (seen[queue] ??= { said: {}, batches: [], notes: [], ids: [] });

export default {
	async fetch(request, env) {
		const name = new URL(request.url).pathname.slice(1);
		if (name === "seen") return Response.json(seen);
		if (request.method === "DELETE") {
			delete seen[name];
			return new Response();
		}
		const scene = scenes[name];
		const record = of(name);
		const say = async (what, act) => {
			try {
				record.said[what] = shown(await act());
				if (typeof record.said[what] === "object") record.said[what] = Array.isArray(record.said[what]) ? record.said[what] : "sent";
			} catch (error) {
				record.said[what] = error.name + ": " + error.message;
			}
		};
		await scene.send(env[scene.binding], say);
		return new Response();
	},

	async queue(batch, env, ctx) {
		const origin = batch.queue.replace(/-dead$/, "");
		const record = of(origin);
		const isDead = batch.queue !== origin;
		const nth = record.batches.filter(({ dead }) => dead === isDead).length + 1;
		const messages = batch.messages.map(({ id, body, attempts, timestamp }) => {
			if (!record.ids.includes(id)) record.ids.push(id);
			return { message: record.ids.indexOf(id), body: shown(body), attempts, timestamp: timestamp.getTime() };
		});
		record.batches.push({ at: Date.now(), dead: isDead, messages });
		const scene = scenes[origin];
		if (isDead) return;
		return await scene.handle(batch, { nth, ctx, sleep, queue: env[scene.binding], note: (it) => record.notes.push(it) });
	},
};`;

const settings = (scene) => ({ ...BASE, ...scene.consumer });

/** Its Wrangler file. */
export const WRANGLER = {
	queues: {
		producers: all.map(({ queue, binding, scene }) => ({ queue, binding, ...scene.producer })),
		consumers: all
			.filter(({ scene }) => scene.consumer !== null)
			.flatMap(({ queue, scene, dead }) => {
				const consumer = { queue, ...settings(scene), ...(dead ? { dead_letter_queue: dead } : {}) };
				return dead ? [consumer, { queue: dead, ...BASE }] : [consumer];
			}),
	},
};

const camel = ({ max_batch_size, max_batch_timeout, max_retries, retry_delay, dead_letter_queue }) =>
	Object.fromEntries(
		Object.entries({
			maxBatchSize: max_batch_size,
			maxBatchTimeout: max_batch_timeout,
			maxRetries: max_retries,
			retryDelay: retry_delay,
			deadLetterQueue: dead_letter_queue,
		}).filter(([, value]) => value !== undefined),
	);

/** The same as miniflare's options. */
export const MINIFLARE = {
	queueProducers: Object.fromEntries(
		WRANGLER.queues.producers.map(({ queue, binding, delivery_delay }) => [
			binding,
			{ queueName: queue, ...(delivery_delay ? { deliveryDelay: delivery_delay } : {}) },
		]),
	),
	queueConsumers: Object.fromEntries(WRANGLER.queues.consumers.map((consumer) => [consumer.queue, camel(consumer)])),
};
