// JavaScript's values as JSON, so that what V8 can serialize gets from here into a Worker, which sends it.
//
// A value that JSON has is itself, but for a list, which stands in a list of one, and a table, whose keys have a colon
// before them. Anything else is `{ "is": KIND, … }`.

/** Writes a value. Throws for what neither this nor V8 carries, and for what holds itself. */
export function encoded(value, above = new Set()) {
	if (value === undefined) return { is: "undefined" };
	if (typeof value === "bigint") return { is: "bigint", of: String(value) };
	if (typeof value === "number" && (!Number.isFinite(value) || Object.is(value, -0))) {
		return { is: "number", of: Object.is(value, -0) ? "-0" : String(value) };
	}
	if (value === null || typeof value !== "object") {
		if (["string", "number", "boolean", "object"].includes(typeof value)) return value;
		throw new Error(`a ${typeof value} cannot be sent`);
	}
	if (above.has(value)) throw new Error("a value that holds itself cannot be sent by the demo");
	const within = new Set(above).add(value);
	const all = (items) => Array.from(items, (item) => encoded(item, within));
	if (Array.isArray(value)) return [all(value)];
	if (value instanceof Date) return { is: "date", of: value.getTime() };
	if (value instanceof RegExp) return { is: "regexp", of: [value.source, value.flags] };
	if (value instanceof Map) return { is: "map", of: all([...value].flat()) };
	if (value instanceof Set) return { is: "set", of: all(value) };
	if (value instanceof Error) return { is: "error", of: [value.name, value.message] };
	if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) {
		const bytes = value instanceof ArrayBuffer ? new Uint8Array(value) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
		const kind = Buffer.isBuffer(value) ? "Uint8Array" : value.constructor.name;
		return { is: "bytes", of: [kind, Buffer.from(bytes).toString("base64")] };
	}
	return Object.fromEntries(Object.entries(value).map(([key, item]) => [`:${key}`, encoded(item, within)]));
}

/** Reads it again, in node as in a Worker. */
export function decoded(written) {
	if (written === null || typeof written !== "object") return written;
	if (Array.isArray(written)) return written[0].map(decoded);
	const { is, of } = written;
	switch (is) {
		case undefined:
			return Object.fromEntries(Object.entries(written).map(([key, item]) => [key.slice(1), decoded(item)]));
		case "undefined":
			return undefined;
		case "bigint":
			return BigInt(of);
		case "number":
			return Number(of);
		case "date":
			return new Date(of);
		case "regexp":
			return new RegExp(...of);
		case "map": {
			const items = of.map(decoded);
			return new Map(items.flatMap((item, index) => (index % 2 === 0 ? [[item, items[index + 1]]] : [])));
		}
		case "set":
			return new Set(of.map(decoded));
		case "error": {
			const error = new (globalThis[of[0]] ?? Error)(of[1]);
			return error.name === of[0] ? error : Object.assign(error, { name: of[0] });
		}
		default: {
			const bytes = Uint8Array.from(atob(of[1]), (c) => c.charCodeAt(0));
			const kind = globalThis[of[0]];
			return of[0] === "ArrayBuffer" ? bytes.buffer : new kind(bytes.buffer);
		}
	}
}
