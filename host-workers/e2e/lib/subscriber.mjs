// An HTTP subscriber on this machine that does what a test tells it.

import { createServer } from "node:http";

/**
 * Starts a subscriber. `answer(call)` says what it does with a call (`{ headers, body }`, the body as bytes): a status,
 * `{ status, headers }`, `"hang"`, or `"close"` for a socket that closes without an answer. 200 if not said.
 */
export async function subscriber(answer = () => 200) {
  const calls = [];
  const own = { answer };
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const call = { path: request.url, headers: request.headers, body: Buffer.concat(parts) };
    calls.push(call);
    const does = await own.answer(call, calls.length);
    if (does === "hang") return;
    if (does === "close") return request.socket.destroy();
    const { status, headers = {}, body = "" } = typeof does === "number" ? { status: does } : does;
    response.writeHead(status, headers).end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    /** Its address. */
    url: `http://127.0.0.1:${server.address().port}/events`,
    /** Every call it got, in order. */
    calls,
    /** The bodies it got, as text. */
    texts: () => calls.map(({ body }) => body.toString("utf8")),
    /** Changes what it does. */
    does: (next) => {
      own.answer = next;
    },
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
