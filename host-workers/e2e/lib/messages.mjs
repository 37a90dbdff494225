// A file of messages, one JSON object a line: `{"queue", "content_type": "json|text|bytes|v8", "body"}`, or
// `"body_base64"` in place of `"body"`: text and json as UTF-8, bytes as they are, v8 as V8 writes it.

import { deserialize, serialize } from "node:v8";

const CONTENT_TYPES = ["json", "text", "bytes", "v8"];
/** A queue's limits: messages in one call, and bytes in one call. */
const CALL_MESSAGES_MAX = 100;
const CALL_BYTES_MAX = 256_000;
/** The limit of one message, in bytes; a larger one is sent alone, so that nothing else is refused with it. */
export const MESSAGE_BYTES_MAX = 128_000;

/** A line that is no message. */
export class BadLine extends Error {
  constructor(number, what, help) {
    super(`line ${number}: ${what}`);
    this.help = help;
  }
}

/** The messages of a file's text: `[{ queue, contentType, body, bytes }]`. Every queue must be one of `queues`. */
export function readMessages(text, queues) {
  const messages = [];
  for (const [index, line] of text.replace(/^\ufeff/, "").split("\n").entries()) {
    if (line.trim() !== "") messages.push(readMessage(line, index + 1, queues));
  }
  return messages;
}

function readMessage(line, number, queues) {
  const example = `{"queue": "${queues[0] ?? "a-queue"}", "content_type": "json", "body": {}}`;
  const bad = (what, help = `write it as ${example}`) => new BadLine(number, what, help);
  let message;
  try {
    message = JSON.parse(line);
  } catch (error) {
    throw bad(`not JSON: ${error.message}`);
  }
  if (typeof message !== "object" || message === null) throw bad("not an object");
  const { queue, content_type: contentType = "json", body, body_base64: base64, ...others } = message;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw bad(`unknown key "${unknown}"`);
  if (!queues.includes(queue)) {
    throw bad(`the app receives no queue ${JSON.stringify(queue)}`, `it receives ${queues.join(", ") || "none"}`);
  }
  if (!CONTENT_TYPES.includes(contentType)) {
    throw bad(`content_type ${JSON.stringify(contentType)} is none`, `use one of ${CONTENT_TYPES.join(", ")}`);
  }
  if ((body === undefined) === (base64 === undefined)) throw bad('needs either "body" or "body_base64"');
  if (base64 !== undefined && (typeof base64 !== "string" || !isBase64(base64))) throw bad('"body_base64" is no base64');
  const value = base64 === undefined ? written(body, contentType) : encoded(Buffer.from(base64, "base64"), contentType);
  if (value instanceof Error) throw bad(value.message);
  return { queue, contentType, body: value, bytes: byteLength(value, contentType) };
}

function written(body, contentType) {
  if (contentType === "text" && typeof body !== "string") return new Error('the "body" of a text message is a string');
  if (contentType !== "bytes") return body;
  if (typeof body === "string") return new TextEncoder().encode(body);
  if (Array.isArray(body) && body.every((byte) => Number.isInteger(byte) && byte >= 0 && byte < 256)) {
    return Uint8Array.from(body);
  }
  return new Error('the "body" of a bytes message is a string (sent as UTF-8) or a list of bytes');
}

function encoded(bytes, contentType) {
  try {
    if (contentType === "bytes") return new Uint8Array(bytes);
    if (contentType === "v8") return deserialize(bytes);
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return contentType === "text" ? text : JSON.parse(text);
  } catch (error) {
    return new Error(`"body_base64" does not hold ${contentType}: ${error.message}`);
  }
}

function isBase64(text) {
  return /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0;
}

function byteLength(value, contentType) {
  if (contentType === "bytes") return value.byteLength;
  if (contentType === "text") return Buffer.byteLength(value);
  return contentType === "v8" ? serialize(value).byteLength : Buffer.byteLength(JSON.stringify(value));
}

/** Cuts messages, in their order, into calls that a queue takes: of one queue each, and within its limits. */
export function* calls(messages) {
  let call = [];
  let bytes = 0;
  for (const message of messages) {
    const full = call.length === CALL_MESSAGES_MAX || bytes + message.bytes > CALL_BYTES_MAX;
    const alone = message.bytes > MESSAGE_BYTES_MAX;
    if (call.length > 0 && (full || alone || call[0].queue !== message.queue)) {
      yield call;
      [call, bytes] = [[], 0];
    }
    if (alone) {
      yield [message];
      continue;
    }
    call.push(message);
    bytes += message.bytes;
  }
  if (call.length > 0) yield call;
}
