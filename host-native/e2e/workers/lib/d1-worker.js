// Does with its databases what it is told, and says what came of each step.

/** JSON has no bytes, no undefined and no big integers. */
const param = (value) => {
	if (value?.bytes) return new Uint8Array(value.bytes);
	if (value?.buffer) return new Uint8Array(value.buffer).buffer;
	if (value?.undefined) return undefined;
	if (typeof value?.big === "string") return BigInt(value.big);
	if (typeof value?.number === "string") return Number(value.number);
	return value;
};

const prepared = (db, { sql, params }) => {
	const statement = db.prepare(sql);
	return params ? statement.bind(...params.map(param)) : statement;
};

const verbs = {
	all: (db, step) => prepared(db, step).all(),
	run: (db, step) => prepared(db, step).run(),
	raw: (db, step) => prepared(db, step).raw(step.options),
	first: (db, step) => ("column" in step ? prepared(db, step).first(step.column) : prepared(db, step).first()),
	batch: (db, step) => db.batch(step.statements.map((statement) => prepared(db, statement))),
	exec: (db, step) => db.exec(step.sql),
	dump: async (db) => (await db.dump()).byteLength,
};

const done = async (db, step) => {
	const target = "session" in step ? db.withSession(step.session ?? undefined) : db;
	try {
		const value = await verbs[step.verb](target, step);
		const bookmark = "session" in step ? { bookmark: typeof target.getBookmark() } : {};
		return { value: value === undefined ? { undefined: true } : value, ...bookmark };
	} catch (error) {
		return { error: error.message, cause: error.cause?.message, name: error.name };
	}
};

export default {
	async fetch(request, env) {
		const { binding, steps } = await request.json();
		const outcomes = [];
		for (const step of steps) outcomes.push(await done(env[binding], step));
		return Response.json(outcomes);
	},
};
