// The one Worker of ours inside workerd: it takes HTTP from `jadpo` and calls the handlers of the Workers, which nobody
// outside can. `env` has one service binding for each Worker, by its name, one to this Worker itself, by OWN, and one to
// the prober.
//
//   POST /queue?worker=NAME      a batch as one frame; answers what the handler recorded of it, and the messages that
//                                no Worker can be given
//   POST /scheduled?worker=NAME  {"cron", "scheduledTime"}; answers how it ended
//   POST /handlers?worker=NAME   answers which handlers it has: {"queue", "scheduled"}, each true, false or null
//   GET  /ping                   204, for as long as the thread is free
//
// A frame is the length of its head (4 bytes, the greatest first), the head in JSON, and the bodies one after another.
// The head: {"queue", "metrics", "messages": [[id, timestamp, attempts, content type, bytes of the body], …]}.

/** The binding to this Worker itself. */
const OWN = "jadpo:dispatcher";
/** The binding to the one who looks without calling. */
const PROBER = "jadpo:prober";

const UTF_8 = new TextDecoder("utf-8", { ignoreBOM: true });

export default {
	async fetch(request, env) {
		const url = new URL(request.url);
		if (url.pathname === "/ping") return new Response(null, { status: 204 });
		const name = url.searchParams.get("worker") ?? "";
		const worker = Object.hasOwn(env, name) ? env[name] : undefined;
		if (worker === undefined) return new Response(`no Worker \`${name}\` runs here`, { status: 404 });
		switch (url.pathname) {
			case "/queue":
				return Response.json(await queue(worker, env[OWN], new Uint8Array(await request.arrayBuffer())));
			case "/scheduled": {
				const { cron, scheduledTime } = await request.json();
				return Response.json(await worker.scheduled({ cron, scheduledTime: new Date(scheduledTime) }));
			}
			case "/handlers":
				return await env[PROBER].fetch(request.url);
			default:
				return new Response("there is nothing at this address", { status: 404 });
		}
	},

	/** Reading the bodies is all: the runtime has done that when this is called. */
	queue() {},
};

/** Hands a batch over. What cannot be is named with the reason, and the rest is handed over without it. */
async function queue(worker, own, frame) {
	const { head, messages, unreadable } = unpack(frame);
	const hand = (to, some) => to.queue(head.queue, some, { metrics: head.metrics });
	let fit = messages;
	if (fit.some(isSerialized)) fit = await deserializable(own, fit, unreadable);
	if (fit.length === 0) return { unreadable };
	try {
		return { ...(await hand(worker, fit)), unreadable };
	} catch (error) {
		// It cannot be sent, all of it for the sake of one: a body that is nested too deep to be copied, for one.
		fit = fit.filter((message) => isSerialized(message) || isCloneable(message, unreadable));
		if (fit.length === 0) return { unreadable };
		if (fit.length === messages.length) throw error;
		return { ...(await hand(worker, fit)), unreadable };
	}
}

const isSerialized = (message) => message.serializedBody !== undefined;

function unpack(frame) {
	const length = new DataView(frame.buffer, frame.byteOffset).getUint32(0);
	let at = 4 + length;
	const head = JSON.parse(UTF_8.decode(frame.subarray(4, at)));
	const messages = [];
	const unreadable = [];
	for (const [id, timestamp, attempts, type, bytes] of head.messages) {
		const raw = frame.subarray(at, (at += bytes));
		try {
			messages.push({ id, timestamp, attempts, ...body(type, raw) });
		} catch (error) {
			unreadable.push({ msgId: id, error: `${type}: ${error.message}` });
		}
	}
	return { head, messages, unreadable };
}

/** A body as the handler gets it. Bytes are copied: a view would take the whole frame along. */
function body(type, raw) {
	switch (type) {
		case "json":
			return { body: JSON.parse(UTF_8.decode(raw)) };
		case "text":
			return { body: UTF_8.decode(raw) };
		case "bytes":
			return { body: raw.slice() };
		default:
			return { serializedBody: raw.slice() };
	}
}

/** Without those that the runtime cannot deserialize: a Worker that gets one of them gets none of its batch. */
async function deserializable(own, messages, unreadable) {
	const isRead = async (some) => (await own.queue("check", some)).outcome === "ok";
	if (await isRead(messages.filter(isSerialized))) return messages;
	const fit = [];
	for (const message of messages) {
		if (!isSerialized(message) || (await isRead([message]))) fit.push(message);
		else unreadable.push({ msgId: message.id, error: "v8: it cannot be deserialized" });
	}
	return fit;
}

function isCloneable(message, unreadable) {
	try {
		structuredClone(message.body);
		return true;
	} catch (error) {
		unreadable.push({ msgId: message.id, error: error.message });
		return false;
	}
}
