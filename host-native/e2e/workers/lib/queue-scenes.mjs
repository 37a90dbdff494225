// What Workers do with queues: scenes, each on queues of its own, run on both servers alike. A scene's functions are
// written into the Worker, so they know nothing but their arguments.
//
// `consumer`: the consumer's settings, on top of BASE; null for a queue without one. `dead`: there is a dead-letter
// queue, which the Worker consumes too. `producer`: more of the binding. `send(queue, say)` sends, and says what came of
// it. `handle(batch, { nth, ctx, sleep })` handles the queue's batches, the first with `nth` 1. `batches`: it also
// counts which messages come together, and in which order. `only`: what of the outcome is compared. `differs`: the row
// of DIFFERENCES.md that makes the outcomes unequal.

/** Delays are a multiple of this, so that a machine that is busy makes no other of them. */
export const STEP_S = 2;

/** Both servers are told all that has a default; of the defaults there is a scene. */
export const BASE = { max_batch_size: 10, max_batch_timeout: 0, max_retries: 3, retry_delay: 0 };

const three = (queue) => queue.sendBatch(["a", "b", "c"].map((body) => ({ body })));
const one = (queue) => queue.send("a");

/** What a handler may say of a batch of three, once. Later deliveries say nothing, which acknowledges them. */
const settled = (handle, more = {}) => ({
	consumer: { max_batch_size: 3, retry_delay: STEP_S },
	settles: true,
	send: three,
	handle,
	...more,
});

const SETTLES = {
	"no call": settled((batch, { nth }) => {}),
	"ack of one": settled((batch, { nth }) => {
		if (nth === 1) batch.messages[0].ack();
	}),
	"retry of one": settled((batch, { nth }) => {
		if (nth === 1) batch.messages[0].retry();
	}),
	"retry of one with a delay": settled((batch, { nth }) => {
		if (nth === 1) batch.messages[1].retry({ delaySeconds: 4 });
	}),
	"retry of one with no delay": settled((batch, { nth }) => {
		if (nth === 1) batch.messages[1].retry({ delaySeconds: 0 });
	}),
	"ack, then retry": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.messages[0].ack();
		batch.messages[0].retry();
	}),
	"retry, then ack": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.messages[0].retry();
		batch.messages[0].ack();
	}),
	"two retries": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.messages[0].retry({ delaySeconds: 6 });
		batch.messages[0].retry({ delaySeconds: 4 });
	}),
	"a retry whose delay is taken back": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.messages[0].retry({ delaySeconds: 6 });
		batch.messages[0].retry();
	}),
	ackAll: settled((batch, { nth }) => {
		if (nth === 1) batch.ackAll();
	}),
	"ackAll, then retryAll": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.ackAll();
		batch.retryAll();
	}),
	"ackAll, then retry of one": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.ackAll();
		batch.messages[0].retry();
	}),
	retryAll: settled((batch, { nth }) => {
		if (nth === 1) batch.retryAll();
	}),
	"retryAll with a delay": settled((batch, { nth }) => {
		if (nth === 1) batch.retryAll({ delaySeconds: 4 });
	}),
	"retryAll, then ackAll": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.retryAll();
		batch.ackAll();
	}),
	"retryAll, then ack of one": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.retryAll();
		batch.messages[0].ack();
	}),
	"retryAll, then retry of one": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.retryAll({ delaySeconds: 6 });
		batch.messages[0].retry({ delaySeconds: 4 });
	}),
	"two retryAll": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.retryAll({ delaySeconds: 4 });
		batch.retryAll();
	}),
	"ack of one, then retryAll": settled(
		(batch, { nth }) => {
			if (nth !== 1) return;
			batch.messages[0].ack();
			batch.retryAll();
		},
		{ differs: "queues-ack-then-retry-all" },
	),
	"retry of one, then ackAll": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.messages[0].retry();
		batch.ackAll();
	}),
	"a throw": settled((batch, { nth }) => {
		if (nth === 1) throw new Error("no");
	}),
	"ack of one, then a throw": settled(
		(batch, { nth }) => {
			if (nth !== 1) return;
			batch.messages[0].ack();
			throw new Error("no");
		},
		{ differs: "queues-acks-before-a-throw" },
	),
	"ackAll, then a throw": settled(
		(batch, { nth }) => {
			if (nth !== 1) return;
			batch.ackAll();
			throw new Error("no");
		},
		{ differs: "queues-acks-before-a-throw" },
	),
	"retry of one with a delay, then a throw": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.messages[0].retry({ delaySeconds: 4 });
		throw new Error("no");
	}),
	"retryAll with a delay, then a throw": settled((batch, { nth }) => {
		if (nth !== 1) return;
		batch.retryAll({ delaySeconds: 4 });
		throw new Error("no");
	}),
	"a rejection in waitUntil": settled((batch, { nth, ctx, sleep }) => {
		if (nth !== 1) return;
		ctx.waitUntil(
			sleep(100).then(() => {
				throw new Error("no");
			}),
		);
	}),
	"a retry in waitUntil": settled((batch, { nth, ctx, sleep }) => {
		if (nth === 1) ctx.waitUntil(sleep(100).then(() => batch.messages[0].retry({ delaySeconds: 4 })));
	}),
	"a rejection that nobody waits for": settled((batch, { nth }) => {
		if (nth === 1) Promise.reject(new Error("no"));
	}),
	"a promise that can never settle": settled((batch, { nth }) => (nth === 1 ? new Promise(() => {}) : undefined)),
};

const REST = {
	"messages that always fail go to the dead-letter queue": {
		consumer: { max_retries: 2 },
		dead: true,
		send: three,
		handle() {
			throw new Error("no");
		},
	},
	"messages that are always retried go to the dead-letter queue": {
		consumer: { max_retries: 1 },
		dead: true,
		send: three,
		handle: (batch) => batch.retryAll(),
	},
	"without retries a failure is the last": {
		consumer: { max_retries: 0 },
		dead: true,
		send: three,
		handle: (batch) => batch.messages[0].retry(),
	},
	"without a dead-letter queue they are gone": {
		consumer: { max_retries: 1 },
		send: three,
		handle: (batch) => batch.retryAll(),
	},
	"a batch is full at its size": {
		batches: true,
		consumer: { max_batch_size: 4, max_batch_timeout: 4 },
		send: (queue) => queue.sendBatch(Array.from({ length: 8 }, (_, i) => ({ body: i }))),
	},
	"what is not full waits for its time": {
		batches: true,
		consumer: { max_batch_size: 4, max_batch_timeout: 4 },
		send: (queue) => queue.sendBatch(Array.from({ length: 3 }, (_, i) => ({ body: i }))),
	},
	"a hundred in a batch": {
		batches: true,
		consumer: { max_batch_size: 100, max_batch_timeout: 4 },
		send: (queue) => queue.sendBatch(Array.from({ length: 100 }, (_, i) => ({ body: i }))),
	},
	"one after the other, in their order": {
		consumer: { max_batch_size: 1, max_concurrency: 1 },
		batches: true,
		async send(queue) {
			for (let i = 0; i < 10; i += 1) await queue.send(i);
		},
	},
	"delays of a message and of a batch": {
		consumer: { max_batch_size: 1 },
		async send(queue) {
			await queue.send("late", { delaySeconds: 4 });
			await queue.send("now");
			await queue.sendBatch([{ body: "with the batch" }, { body: "its own", delaySeconds: 2 }, { body: "none", delaySeconds: 0 }], {
				delaySeconds: 4,
			});
		},
	},
	"a binding's delay": {
		producer: { delivery_delay: 4 },
		consumer: { max_batch_size: 1 },
		async send(queue) {
			await queue.send("the binding's");
			await queue.send("its own", { delaySeconds: 2 });
			await queue.send("none", { delaySeconds: 0 });
		},
	},
	"a consumer's delay holds for failures too": {
		consumer: { retry_delay: 4 },
		send: one,
		handle(batch, { nth }) {
			if (nth === 1) throw new Error("no");
		},
	},
	"JSON of every kind": {
		send: (queue) =>
			queue.sendBatch(
				[null, true, 0, -1.5, 1e300, "", "text", [], [1, [2]], {}, { a: { b: [null] } }, "😀 \u0000 é"].map((body) => ({ body })),
			),
	},
	"JSON as JavaScript writes it": {
		send: (queue) =>
			queue.sendBatch([
				{ body: { d: new Date(0), u: undefined, n: NaN } },
				{ body: new Map([[1, 2]]) },
				{ body: [undefined, () => {}] },
				{ body: { toJSON: () => "its own" } },
				{ body: Object.create({ inherited: 1 }) },
			]),
	},
	"text": {
		async send(queue) {
			await queue.send("plain", { contentType: "text" });
			await queue.send("", { contentType: "text" });
			await queue.send("ünï 😀", { contentType: "text" });
			await queue.send("cut at its \u0000 first NUL", { contentType: "text" });
			await queue.send("lone \ud800", { contentType: "text" });
		},
	},
	"bytes": {
		differs: "queues-bytes",
		send: (queue) => queue.send(new Uint8Array([0, 1, 255]), { contentType: "bytes" }),
	},
	"v8": {
		send: (queue) =>
			queue.sendBatch(
				[new Map([[1, new Set([2])]]), new Date(5), 10n ** 30n, /re/g, new Uint8Array([7]), new Error("e"), undefinedWithin(), [1, , 3], -0, NaN].map(
					(body) => ({ body, contentType: "v8" }),
				),
			),
	},
	"what the runtime refuses to send": {
		consumer: { max_batch_timeout: 2 },
		async send(queue, say) {
			await say("undefined", () => queue.send(undefined));
			await say("nothing", () => queue.send());
			await say("text that is none", () => queue.send(5, { contentType: "text" }));
			await say("bytes that are a buffer", () => queue.send(new ArrayBuffer(1), { contentType: "bytes" }));
			await say("bytes that are a list", () => queue.send([1], { contentType: "bytes" }));
			await say("another type", () => queue.send(1, { contentType: "xml" }));
			await say("upper case", () => queue.send("a", { contentType: "TEXT" }));
			await say("upper case in a batch", () => queue.sendBatch([{ body: "a", contentType: "TEXT" }]));
			await say("big integer", () => queue.send(5n));
			await say("a circle", () => {
				const circle = {};
				circle.circle = circle;
				return queue.send(circle);
			});
			await say("a symbol as v8", () => queue.send(Symbol("x"), { contentType: "v8" }));
			await say("no batch", () => queue.sendBatch());
			await say("an empty batch", () => queue.sendBatch([]));
			await say("a batch of what are no messages", () => queue.sendBatch([1]));
			await say("a body that is missing", () => queue.sendBatch([{}]));
			await say("a delay that is huge", () => queue.send(1, { delaySeconds: 1e12 }));
			await say("a fraction of a delay", () => queue.send("fraction", { delaySeconds: 0.9 }));
			await say("any iterable", () => queue.sendBatch(new Set([{ body: "in a set" }])));
		},
	},
	"what the service refuses": {
		differs: "queues-error-codes",
		async send(queue, say) {
			await say("too large", () => queue.send("x".repeat(128_001), { contentType: "text" }));
			await say("as large as can be", () => queue.send("x".repeat(127_000), { contentType: "text" }));
			await say("a delay below zero", () => queue.send(1, { delaySeconds: -1 }));
			await say("a delay past a day", () => queue.send(1, { delaySeconds: 86_401 }));
		},
	},
	"more than a hundred at once": {
		differs: "queues-error-codes",
		consumer: { max_batch_size: 100 },
		send: (queue, say) => say("101", () => queue.sendBatch(Array.from({ length: 101 }, (_, i) => ({ body: i })))),
	},
	"a batch between 256,000 and 288,000 bytes": {
		differs: "queues-batch-size",
		send: (queue, say) => say("large", () => queue.sendBatch([{ body: "x".repeat(90_000) }, { body: "x".repeat(90_000) }, { body: "x".repeat(90_000) }])),
	},
	"a batch of 100 delivered at once has all its types": {
		batches: true,
		consumer: { max_batch_size: 100, max_batch_timeout: 4 },
		send: (queue) =>
			queue.sendBatch(
				Array.from({ length: 100 }, (_, i) =>
					i % 2 ? { body: `text ${i}`, contentType: "text" } : { body: new Map([[i, i]]), contentType: "v8" },
				),
			),
	},
	"what the answer to a send says": {
		consumer: { max_batch_timeout: 4 },
		async send(queue, say) {
			await say("first", async () => (await queue.send("a")).metadata.metrics.backlogCount);
			await say("second", async () => (await queue.send("b")).metadata.metrics.backlogCount);
		},
	},
	"a queue's metrics": {
		consumer: { max_batch_timeout: 4 },
		only: "said",
		async send(queue, say) {
			await say("empty", async () => (await queue.metrics()).backlogCount);
			await queue.sendBatch([{ body: "a" }, { body: "b" }]);
			await say("two", async () => (await queue.metrics()).backlogCount);
			await say("kinds", async () => Object.entries(await queue.metrics()).map(([name, value]) => [name, typeof value]).sort());
		},
	},
	"what a consumer sees": {
		consumer: { max_batch_size: 2 },
		send: (queue) => queue.sendBatch([{ body: "a" }, { body: "b" }]),
		handle(batch, { note }) {
			const [message] = batch.messages;
			note({
				queue: typeof batch.queue,
				batch: [batch.constructor.name, Object.keys(batch).sort()],
				message: [message.constructor.name, Object.keys(message).sort()],
				id: /^[0-9a-f]{32}$/.test(message.id),
				timestamp: message.timestamp instanceof Date && Math.abs(Date.now() - message.timestamp) < 20_000,
				frozen: [Object.isFrozen(batch.messages), Array.isArray(batch.messages)],
				metrics: Object.keys(batch.metadata.metrics).sort(),
			});
		},
	},
	"without settings": {
		consumer: { max_batch_size: undefined, max_batch_timeout: undefined, max_retries: undefined, retry_delay: undefined },
		differs: "queues-defaults",
		send: (queue) => queue.sendBatch(Array.from({ length: 11 }, (_, i) => ({ body: i }))),
		handle: (batch) => batch.retryAll(),
	},
	"a queue without a consumer": {
		consumer: null,
		only: "said",
		differs: "queues-no-consumer",
		async send(queue, say) {
			await queue.send("a");
			await say("kept", async () => (await queue.metrics()).backlogCount);
		},
	},
	"a handler that sends to its own queue": {
		consumer: { max_batch_size: 1 },
		send: (queue) => queue.send(3),
		async handle(batch, { queue }) {
			const [{ body }] = batch.messages;
			if (body > 0) await queue.send(body - 1);
		},
	},
};

/** A value with `undefined` in it; a function of the Worker, which the scenes are written into. */
function undefinedWithin() {
	return { u: undefined, s: [undefined] };
}

export const HELPERS = [undefinedWithin];
export const SCENES = { ...SETTLES, ...REST };
