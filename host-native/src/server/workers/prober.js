// Looks which handlers a Worker has, and calls none of them. To this Worker, which lacks the flag that makes events of
// `queue` and `scheduled`, they are methods of a remote object like any other, and a method can be looked at.

export default {
	/** `?worker=NAME` answers `{"queue", "scheduled"}`: true, false, or null where it cannot be told. */
	async fetch(request, env) {
		const worker = env[new URL(request.url).searchParams.get("worker")];
		return Response.json({ queue: await has(worker, "queue"), scheduled: await has(worker, "scheduled") });
	},
};

async function has(worker, handler) {
	if (worker === undefined) return null;
	try {
		const found = await worker[handler];
		found[Symbol.dispose]?.();
		return true;
	} catch (error) {
		return /does not implement the method/.test(error.message) ? false : null;
	}
}
