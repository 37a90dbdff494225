// Subscribers of a demo. What listens on this machine is called for real; everybody else is stood in for, since
// nothing else can be reached from a demo and nobody elsewhere should be called by one.

import { connect } from "node:net";

/** The module of a Worker that stands in for a subscriber: it has read the event, and answers 200. */
export const STAND_IN = `export default {
  async fetch(request) {
    await request.arrayBuffer();
    return new Response("ok");
  },
};`;

/** The sample's ledger: it fails twice for FLAKY goods, asks BUSY ones for a pause once, and never takes CURSED ones. */
export const SAMPLE_LEDGER = `const calls = new Map();
export default {
  async fetch(request) {
    const [, kind] = /"sku":\\s*"(FLAKY|BUSY|CURSED)/.exec(await request.text()) ?? [];
    const call = (calls.get(kind) ?? 0) + 1;
    calls.set(kind, call);
    if (kind === "CURSED" || (kind === "FLAKY" && call < 3)) return new Response("no", { status: 500 });
    if (kind === "BUSY" && call === 1) return new Response("wait", { status: 429, headers: { "retry-after": "30" } });
    return new Response("ok");
  },
};`;

/** The name of the Worker that stands in for whoever is called over HTTP. */
export const STAND_IN_NAME = "jadpo-stand-in";

/** How long it is remembered whether somebody listens at an address. */
const REMEMBERED_MS = 1_000;

/**
 * What answers the Worker's requests to the network. Nothing, where every subscriber listens on this machine: they are
 * called as they are. The stand-in beside the Worker, where none does. Otherwise, and where one may listen later, a
 * function that looks each time.
 */
export async function outbound(addresses, { mayListenLater }) {
  const known = new Map();
  const listening = await Promise.all(addresses.map((address) => listens(new URL(address), known)));
  if (listening.length > 0 && listening.every(Boolean)) return undefined;
  if (!mayListenLater && !listening.includes(true)) return STAND_IN_NAME;
  return async (request) => {
    const body = new Uint8Array(await request.arrayBuffer());
    if (!(await listens(new URL(request.url), known))) return new Response("ok");
    const { method, signal } = request;
    const headers = new Headers(request.headers);
    headers.delete("content-length"); // fetch sets its own, and refuses another's
    return fetch(request.url, { method, headers, body, redirect: "manual", signal });
  };
}

/** Whether something on this machine listens at the address. */
async function listens({ hostname, port, protocol, host }, known) {
  if (!["127.0.0.1", "localhost", "[::1]"].includes(hostname)) return false;
  const before = known.get(host);
  if (before && Date.now() - before.atMs < REMEMBERED_MS) return before.answer;
  const answer = await answers(hostname.replace(/[[\]]/g, ""), Number(port) || (protocol === "https:" ? 443 : 80));
  known.set(host, { answer, atMs: Date.now() });
  return answer;
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
