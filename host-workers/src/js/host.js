// What the host needs from JavaScript and has in fewer words there.

/** The program's text, which the deployable's entry module leaves here. */
export function programText() {
  return globalThis.jadpoProgram;
}

/** 16 random bytes that nobody can guess. */
export function randomBytes() {
  return crypto.getRandomValues(new Uint8Array(16));
}

/** Waits. */
export function sleep(durationMs) {
  return new Promise((resolve) => setTimeout(resolve, durationMs));
}

/** What `promise` gives, or a rejection once `limitMs` have passed without it. */
export async function within(limitMs, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${limitMs / 1000} s`)), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * POSTs and gives `[status, Retry-After or undefined]`. The answer's body is not read, and redirects are not followed.
 * Headers come as names and values in turn, one a line; without a `fetcher` (a service binding) the request goes to the network.
 */
export async function post(fetcher, url, headers, body, limitMs) {
  const lines = headers.split("\n");
  const pairs = [];
  for (let index = 0; index + 1 < lines.length; index += 2) pairs.push([lines[index], lines[index + 1]]);
  const init = { method: "POST", redirect: "manual", headers: pairs, body, signal: AbortSignal.timeout(limitMs) };
  const answer = await (fetcher ? fetcher.fetch(url, init) : fetch(url, init));
  answer.body?.cancel().catch(() => {});
  return [answer.status, answer.headers.get("retry-after") ?? undefined];
}

/** Asks the Worker's own `Deliveries` to go on. A stub's methods exist only as calls, so this cannot be done by name. */
export async function goOn(deliveries) {
  await deliveries.goOn();
}

/** `[method, path, query, Authorization or undefined, body]` of a request. Reads `bytesMax` and one of the body. */
export async function readRequest(request, bytesMax) {
  const { pathname, search } = new URL(request.url);
  const authorization = request.headers.get("authorization") ?? undefined;
  return [request.method, pathname, search.slice(1), authorization, await readUpTo(request.body, bytesMax + 1)];
}

async function readUpTo(stream, bytesMax) {
  const parts = [];
  let length = 0;
  for await (const part of stream ?? []) {
    parts.push(part.subarray(0, bytesMax - length));
    length += parts[parts.length - 1].length;
    if (length === bytesMax) break;
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** Makes the answer to a request. */
export function response(status, contentType, body) {
  return new Response(body, { status, headers: { "content-type": contentType, "cache-control": "no-store" } });
}
