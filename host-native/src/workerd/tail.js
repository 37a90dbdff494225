// Takes what a Worker logs and throws while it does so, and hands it to jadpo with the event that it belongs to.

/** The most that is handed over of one line. */
const TEXT_MAX = 16_000;

/** Characters of lines that are handed over at once. */
const POST_MAX = 1_000_000;

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

/** What a line's arguments say: the first may be a format, as a console takes it; an error brings its stack. */
function said({ message, errorInfo }) {
	const all = Array.isArray(message) ? message : [message];
	const rest = all.map((value, at) => {
		const stack = errorInfo?.[at]?.stack;
		return stack ? `${shown(value)}\n${stack}` : shown(value);
	});
	if (typeof all[0] === "string" && all.length > 1) {
		let next = 1;
		const format = all[0].replace(/%[sdifjoOc%]/g, (kind) => {
			if (kind === "%%") return "%";
			if (next >= all.length) return kind;
			const value = all[next];
			const text = rest[next++];
			if (kind === "%c") return "";
			if (kind === "%d" || kind === "%f") return String(Number(value));
			return kind === "%i" ? String(Math.trunc(Number(value))) : text;
		});
		rest.splice(0, next, format);
	}
	return rest.join(" ");
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
			kind: info?.type ?? "",
		};
		let lines = [];
		let sending;
		/** Lines that are not to be had any more. */
		let dropped = 0;

		// One post at a time, so that lines keep their order; what comes meanwhile goes with the next.
		const send = async () => {
			while (lines.length > 0 || dropped > 0) {
				let [size, count] = [0, 0];
				while (count < lines.length && size < POST_MAX) size += lines[count++].text.length;
				const now = lines.splice(0, count);
				// Those came after all that are still there.
				const lost = lines.length === 0 ? dropped : 0;
				dropped -= lost;
				if (lost > 0) now.push({ level: "warn", text: `${lost} ${lost === 1 ? "line was" : "lines were"} dropped here` });
				const body = JSON.stringify({ ...head, lines: now });
				// A log that cannot be handed over is no reason to fail anything.
				const answer = await env.SINK.fetch("http://jadpo/", { method: "POST", body }).catch(() => {});
				if (answer?.ok) continue;
				dropped += count + lost;
				break;
			}
			sending = undefined;
		};
		const add = (line) => {
			lines.push(line);
			sending ??= send();
			return sending;
		};
		const takes = {
			log: ({ event }) => add({ level: event.level, text: cut(said(event)) }),
			exception: ({ event }) => {
				const { name, message, stack } = event;
				// What is no error has no stack, and workerd gives it a name all the same.
				const text = stack ? `Uncaught ${name}: ${message}\n${stack}` : `Uncaught ${message} (what was thrown has no stack)`;
				return add({ level: "error", text: cut(text), threw: true });
			},
			// workerd drops what an event logs past some megabytes.
			streamDiagnostic: ({ event: { diagnostic } }) => {
				if (diagnostic?.diagnosticsType !== "droppedEvents") return;
				dropped += diagnostic.count;
				sending ??= send();
				return sending;
			},
		};
		// As a function: of an object workerd never calls the method for its diagnostics.
		return (tail) => takes[tail.event.type]?.(tail);
	},
};
