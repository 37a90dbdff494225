// Takes what a Worker logs and throws while it does so, and hands it to jadpo with the event that it belongs to.

/** The most that is handed over of one line. */
const TEXT_MAX = 16_000;

/** An event in a few words. */
function described({ invocationId, event: { info } }) {
	const id = invocationId?.slice(0, 8) ?? "";
	switch (info?.type) {
		case "fetch":
			return `${info.method} ${path(info.url)}`;
		case "queue":
			return `queue ${info.queueName} ${id} ×${info.batchSize}`;
		case "scheduled":
			return `scheduled ${info.cron}`;
		case "alarm":
			return "alarm";
		case "jsrpc":
			return "rpc";
		default:
			return info?.type ?? "";
	}
}

function path(url) {
	try {
		const { pathname, search } = new URL(url);
		return pathname + search;
	} catch {
		return url;
	}
}

/** An argument of `console.log` as a console shows it: text as it is, anything else as JSON. */
function shown(value) {
	if (typeof value === "string") return value;
	try {
		return JSON.stringify(value) ?? String(value);
	} catch {
		return String(value);
	}
}

function cut(text) {
	return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}… (${text.length} characters)` : text;
}

export default {
	tailStream(onset, env, ctx) {
		const { info } = onset.event;
		const head = {
			worker: ctx.props.worker,
			during: described(onset),
			queue: info?.queueName,
			hands: info?.type === "queue" || info?.type === "scheduled",
		};
		let lines = [];
		let sending;

		// One post at a time, so that lines keep their order; what comes meanwhile goes with the next.
		const send = async () => {
			while (lines.length > 0) {
				const body = JSON.stringify({ ...head, lines });
				lines = [];
				// A log that cannot be handed over is no reason to fail anything.
				await env.SINK.fetch("http://jadpo/", { method: "POST", body }).catch(() => {});
			}
			sending = undefined;
		};
		const add = (line) => {
			lines.push(line);
			sending ??= send();
			return sending;
		};
		return {
			log: ({ event }) => {
				const said = Array.isArray(event.message) ? event.message.map(shown).join(" ") : shown(event.message);
				return add({ level: event.level, text: cut(said) });
			},
			exception: ({ event }) => {
				const { name, message, stack } = event;
				const text = `Uncaught ${name}: ${message}${stack ? `\n${stack}` : ""}`;
				return add({ level: "error", text: cut(text), threw: true });
			},
		};
	},
};
