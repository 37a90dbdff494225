// Subscribers of a demo. What listens on this machine is called for real; everybody else is stood in for, since
// nobody elsewhere should be called by one.

import { createServer } from "node:http";
import { connect } from "node:net";

/** How long it is remembered whether somebody listens at an address. */
const REMEMBERED_MS = 1_000;

/** The sample's ledger: it fails twice for FLAKY goods, asks BUSY ones for a pause once, and never takes CURSED ones. */
function sampleLedger() {
	const calls = new Map();
	return (text) => {
		const [, kind] = /"sku":\s*"(FLAKY|BUSY|CURSED)/.exec(text) ?? [];
		const call = (calls.get(kind) ?? 0) + 1;
		calls.set(kind, call);
		if (kind === "CURSED" || (kind === "FLAKY" && call < 3)) return { status: 500, text: "no" };
		if (kind === "BUSY" && call === 1) return { status: 429, text: "wait", headers: { "retry-after": "30" } };
		return { status: 200, text: "ok" };
	};
}

/** Answers for those who are not there. */
export class Subscribers {
	#known = new Map();
	#server;

	/**
	 * Puts a stand-in's address where the program calls somebody who does not listen on this machine, and starts it. With
	 * `mayListenLater` whoever listens on this machine by then is called through it.
	 */
	static async standIn(program, { sample, mayListenLater }) {
		const own = new Subscribers();
		const answers = sample ? sampleLedger() : () => ({ status: 200, text: "ok" });
		const absent = [];
		for (const { target } of Object.values(program.subscribers ?? {})) {
			if (target.call && (sample || !(await own.#listens(new URL(target.call))))) absent.push(target);
		}
		if (absent.length === 0) return own;
		const addresses = absent.map(({ call }) => call);
		const port = await own.#serve(addresses, answers, mayListenLater && !sample);
		absent.forEach((target, index) => {
			target.call = `http://127.0.0.1:${port}/${index}`;
		});
		return own;
	}

	#serve(addresses, answers, mayListenLater) {
		this.#server = createServer(async (request, response) => {
			const parts = [];
			for await (const part of request) parts.push(part);
			const body = Buffer.concat(parts);
			const address = addresses[Number(request.url.slice(1))];
			if (mayListenLater && address && (await this.#listens(new URL(address)))) {
				const { "content-length": _, host: __, connection: ___, ...headers } = request.headers;
				try {
					const answer = await fetch(address, { method: request.method, headers, body, redirect: "manual" });
					const after = answer.headers.get("retry-after");
					response.writeHead(answer.status, after ? { "retry-after": after } : {}).end(await answer.text());
				} catch (error) {
					response.writeHead(502).end(error.message);
				}
				return;
			}
			const { status, text, headers = {} } = answers(body.toString("utf8"));
			response.writeHead(status, headers).end(text);
		});
		return new Promise((resolve, reject) => {
			this.#server.once("error", reject).listen(0, "127.0.0.1", () => resolve(this.#server.address().port));
		});
	}

	stop() {
		this.#server?.closeAllConnections();
		this.#server?.close();
	}

	/** Whether something on this machine listens at the address. */
	async #listens({ hostname, port, protocol, host }) {
		if (!["127.0.0.1", "localhost", "[::1]"].includes(hostname)) return false;
		const before = this.#known.get(host);
		if (before && Date.now() - before.atMs < REMEMBERED_MS) return before.answer;
		const answer = await answers(hostname.replace(/[[\]]/g, ""), Number(port) || (protocol === "https:" ? 443 : 80));
		this.#known.set(host, { answer, atMs: Date.now() });
		return answer;
	}
}

function answers(hostname, port) {
	return new Promise((resolve) => {
		const socket = connect(port, hostname);
		const end = (answer) => {
			socket.destroy();
			resolve(answer);
		};
		socket.setTimeout(1_000, () => end(false)).once("connect", () => end(true)).once("error", () => end(false));
	});
}
