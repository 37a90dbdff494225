// Answers for a Worker that is not here, and says what it was asked.

import { WorkerEntrypoint } from "cloudflare:workers";

class StandIn extends WorkerEntrypoint {
	async fetch(request) {
		const body = await request.text();
		console.log(`${request.method} ${request.url}`, body.slice(0, 1000));
		return new Response(`${this.env.NAME} is not here; this is a stand-in\n`);
	}
}

// Whatever method is called is there, and gives nothing. A method is looked for on what a class inherits.
const METHODS = new Proxy(WorkerEntrypoint.prototype, {
	get(target, name, receiver) {
		if (typeof name !== "string" || name in target) return Reflect.get(target, name, receiver);
		return (...given) => void console.log(`${name}()`, ...given);
	},
});
Object.setPrototypeOf(StandIn.prototype, METHODS);

export default StandIn;
