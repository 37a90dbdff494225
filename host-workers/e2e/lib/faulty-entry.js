// The entry of a Worker under test: the deployable's own, with a D1 binding and batches that fail when told to.
// Bodies that no producer here can send are made here, from text: `made:deep:60000`, `made:json:TEXT`.

import "./memory-probe.js";
import Worker, { Deliveries as Continued } from "./index.js";

export default class extends Worker {
  constructor(context, env) {
    super(context, faulty(env));
  }

  async fetch(request) {
    if (new URL(request.url).pathname !== "/wasm-memory") return super.fetch(request);
    return new Response(String(globalThis.jadpoMemory.buffer.byteLength));
  }

  async queue(batch) {
    const throwing = await ask(this.env, { about: "settle" });
    return super.queue({ queue: batch.queue, messages: batch.messages.map((each) => new Message(each, throwing)) });
  }
}

export class Deliveries extends Continued {
  constructor(context, env) {
    super(context, faulty(env));
  }
}

function faulty(env) {
  return { ...env, DB: new D1Database(env) };
}

async function ask(env, question) {
  const answer = await env.JADPO_FAULTS.fetch("http://faults/", { method: "POST", body: JSON.stringify(question) });
  return answer.json();
}

class D1Database {
  constructor(env) {
    this.env = env;
  }

  prepare(sql) {
    return { sql, params: [], real: this.env.DB.prepare(sql), bind };
  }

  async batch(statements) {
    const shown = statements.map(({ sql, params }) => ({ sql, params: params.map(showable) }));
    const fault = await ask(this.env, { about: "d1", statements: shown });
    if (fault.fail) throw new Error(fault.fail);
    if (fault.slowMs) await new Promise((resolve) => setTimeout(resolve, fault.slowMs));
    const answer = await this.env.DB.batch(statements.map(({ real }) => real));
    if (fault.lost) throw new Error(fault.lost);
    if (fault.silent) await new Promise(() => {});
    return answer;
  }
}

function bind(...params) {
  return { ...this, params, real: this.real.bind(...params) };
}

function showable(value) {
  return ArrayBuffer.isView(value) ? `${value.byteLength} bytes` : value;
}

class Message {
  constructor(real, throwing) {
    this.real = real;
    this.throwing = throwing[real.id] ?? [];
    const { id, timestamp, attempts } = real;
    Object.assign(this, { id, timestamp, attempts, body: made(real.body) });
  }

  ack() {
    if (this.throwing.includes("ack")) throw new TypeError("ack failed");
    this.real.ack();
  }

  retry(options) {
    if (this.throwing.includes("retry")) throw new TypeError("retry failed");
    this.real.retry(options);
  }
}

function made(body) {
  if (typeof body !== "string" || !body.startsWith("made:")) return body;
  const [, kind, ...rest] = body.split(":");
  if (kind === "json") return JSON.parse(rest.join(":"));
  let value = [];
  for (let level = 1; level < Number(rest[0]); level++) value = [value];
  return value;
}
