// Subscribers of a demo. What listens on this machine is called for real; everybody else is stood in for, since
// nothing else can be reached from a demo and nobody elsewhere should be called by one.

import { connect } from "node:net";

/** The module of a Worker that stands in behind a service binding: it has read the event, and answers 200. */
export const SERVICE_STAND_IN = `export default {
  async fetch(request) {
    await request.arrayBuffer();
    return new Response("ok");
  },
};`;

/** Gives what answers the Worker's outbound requests. `counts` notes who was called for real and who was stood in for. */
export function outbound(counts, scripted) {
  return async (request) => {
    const url = new URL(request.url);
    if (await listens(url)) {
      counts.real += 1;
      const { method, headers } = request;
      const body = new Uint8Array(await request.arrayBuffer());
      return fetch(request.url, { method, headers, body, redirect: "manual", signal: request.signal });
    }
    counts.stoodIn += 1;
    const body = await request.text();
    return scripted?.(url, body) ?? new Response("ok");
  };
}

/** Whether something on this machine listens at the address. */
function listens({ hostname, port, protocol }) {
  if (!["127.0.0.1", "localhost", "[::1]"].includes(hostname)) return false;
  return new Promise((resolve) => {
    const socket = connect(Number(port) || (protocol === "https:" ? 443 : 80), hostname.replace(/[[\]]/g, ""));
    const end = (answer) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1_000, () => end(false)).once("connect", () => end(true)).once("error", () => end(false));
  });
}

/** The sample's ledger: it fails twice for FLAKY goods, asks BUSY ones for a pause once, and never takes CURSED ones. */
export function sampleLedger() {
  const calls = new Map();
  return (url, body) => {
    if (!url.pathname.endsWith("/ledger")) return undefined;
    const [, kind] = /"sku":\s*"(FLAKY|BUSY|CURSED)/.exec(body) ?? [];
    const call = (calls.get(kind) ?? 0) + 1;
    calls.set(kind, call);
    if (kind === "CURSED" || (kind === "FLAKY" && call < 3)) return new Response("no", { status: 500 });
    if (kind === "BUSY" && call === 1) return new Response("wait", { status: 429, headers: { "retry-after": "30" } });
    return undefined;
  };
}
