// The Worker that is measured, the same on both sides: it sends to its queue and counts what its handler gets.

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let handled = 0;
let batches = 0;

/** Calls of the producer side by side. */
const SIDE_BY_SIDE = 8;

export default {
	/** Sends `count` messages of `bytes` bytes, `batch` with each call, and answers once all of them were acknowledged. */
	async fetch(request, env) {
		const query = new URL(request.url).searchParams;
		const [count, batch, bytes] = ["count", "batch", "bytes"].map((name) => Number(query.get(name)));
		const body = { text: "x".repeat(bytes - 11) };
		handled = 0;
		batches = 0;
		let unsent = count;
		const started = Date.now();
		const send = async () => {
			while (unsent > 0) {
				const messages = Array.from({ length: Math.min(batch, unsent) }, () => ({ body }));
				unsent -= messages.length;
				await env.QUEUE.sendBatch(messages);
			}
		};
		await Promise.all(Array.from({ length: SIDE_BY_SIDE }, send));
		const sent = Date.now();
		while (handled < count) await sleep(2);
		// The last batches are settled when the queue holds nothing.
		while ((await env.QUEUE.metrics()).backlogCount > 0) await sleep(2);
		const ended = Date.now();
		return Response.json({ sent_ms: sent - started, all_ms: ended - started, batches, handled });
	},
	async queue(batch) {
		batches += 1;
		for (const message of batch.messages) {
			message.ack();
			handled += 1;
		}
	},
};
