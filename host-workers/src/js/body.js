// Turns a message's body, as the runtime hands it over, into something Rust can hold.
//
// Text and bytes go as they are. Any other value goes as its JSON text if JSON carries it whole; if not, it goes as
// a rendering for the operator, with the path of the first thing that JSON cannot carry. One loop does both, without
// recursion: JSON.stringify overflows the stack some thousand levels down, and a message may have 60,000.

/** Longest JSON text that is written, in UTF-16 units. A store's row holds 2,000,000 bytes, and a value of a legal
 * size (128,000 bytes) stays far below this unless it names one object over and over. */
const LENGTH_MAX = 1_000_000;
/** Most bytes that the text may take as UTF-8. */
const BYTES_MAX = 1_900_000;
/** Most parts that are looked at. A value of a legal size has at most 64,000 of its own; one that names an object over
 * and over has no end of them, written out or not. */
const PARTS_MAX = 200_000;
/** Longest path shown in a reason. */
const PATH_MAX = 200;

/** `[kind, content, why]`: kind is `text`, `bytes`, `json` or `unreadable`. Never throws. */
export function readBody(value) {
  try {
    if (typeof value === "string") {
      if (value.isWellFormed()) return ["text", value];
      return ["unreadable", JSON.stringify(value), `the text has a lone surrogate at position ${loneSurrogate(value)}`];
    }
    if (value instanceof ArrayBuffer) return ["bytes", new Uint8Array(value)];
    if (ArrayBuffer.isView(value)) return ["bytes", bytesOf(value)];
    const { text, why } = write(value);
    return why === null ? ["json", text] : ["unreadable", text.toWellFormed(), why.toWellFormed()];
  } catch (error) {
    return ["unreadable", "", `the body could not be looked at: ${words(error)}`];
  }
}

/** What was thrown, in words, whatever it is. */
export function words(error) {
  try {
    return String(error?.message ?? error).toWellFormed();
  } catch {
    return "something that cannot be shown";
  }
}

function loneSurrogate(text) {
  for (let index = 0; index < text.length; index++) {
    const point = text.codePointAt(index);
    if (point >= 0xd800 && point <= 0xdfff) return index;
    if (point > 0xffff) index++;
  }
  return text.length;
}

function bytesOf(view) {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** Writes a value as JSON, or as its nearest rendering with `why` saying what JSON cannot carry. */
function write(root) {
  const out = [];
  const stack = []; // containers that are open, outermost first
  const open = new Set(); // their objects, to see a cycle
  let length = 0;
  let parts = 0;
  let why = null;

  const put = (text) => {
    length += text.length;
    out.push(text);
  };
  const lost = (what) => {
    why ??= `JSON cannot carry ${what} at ${path(stack)}`;
  };
  /** Writes a value that has no parts, or opens one that has. */
  const visit = (value) => {
    if (value === null || value === true || value === false) return put(String(value));
    if (typeof value === "string") return put(JSON.stringify(value));
    if (typeof value === "number" && Number.isFinite(value)) return put(Object.is(value, -0) ? "-0" : String(value));
    if (typeof value !== "object") {
      lost(nameOfPrimitive(value));
      return put(primitive(value));
    }
    if (open.has(value)) {
      lost("a cycle");
      const above = stack.slice(0, stack.findIndex((frame) => frame.object === value));
      return put(`{"$cycle":${JSON.stringify(path(above))}}`);
    }
    const container = opened(value, lost);
    if (typeof container === "string") return put(container);
    parts += container.size;
    put(container.start);
    open.add(value);
    stack.push(container);
  };

  visit(root);
  while (stack.length > 0) {
    if (length > LENGTH_MAX || parts > PARTS_MAX) break;
    const top = stack[stack.length - 1];
    if (top.next >= top.size) {
      put(top.end);
      open.delete(top.object);
      stack.pop();
      continue;
    }
    const index = top.next++;
    const value = top.part(index);
    if (top.keys !== undefined) {
      if (value === undefined) continue; // an absent field, as JavaScript's own JSON has it
      put(`${top.written++ > 0 ? "," : ""}${JSON.stringify(top.keys[index])}:`);
    } else if (top.written++ > 0) {
      put(",");
    }
    visit(value);
  }
  return bounded(out.join(""), length, parts, why);
}

function bounded(text, length, parts, why) {
  if (length <= LENGTH_MAX && parts <= PARTS_MAX && (text.length * 3 <= BYTES_MAX || new TextEncoder().encode(text).length <= BYTES_MAX)) {
    return { text, why };
  }
  return { text: `${text.slice(0, LENGTH_MAX / 10)} …`, why: why ?? "the value is too long when written out as JSON" };
}

/** How an object is written: its parts and what stands around them, or its whole text if it has none. */
function opened(object, lost) {
  const name = Object.prototype.toString.call(object).slice(8, -1);
  if (Array.isArray(object)) return openedArray(object, lost);
  if (name === "Date") {
    if (!Number.isNaN(object.getTime())) return JSON.stringify(object.toISOString());
    lost("an invalid Date");
    return '{"$date":null}';
  }
  const prototype = Object.getPrototypeOf(object);
  const plain = prototype === null || prototype === Object.prototype;
  if (plain || (name === "Object" && Object.getPrototypeOf(prototype) === null)) {
    return fields(object, Object.keys(object));
  }
  const shown = name === "Object" ? (prototype.constructor?.name ?? name) : name;
  lost(`${/^[AEIO]/.test(shown) ? "an" : "a"} ${shown}`);
  return tagged(object, name);
}

function openedArray(array, lost) {
  const keys = Object.keys(array);
  if (keys.length === array.length && (keys.length === 0 || keys[keys.length - 1] === String(array.length - 1))) {
    return list(array, array.length, "[", "]", (index) => array[index]);
  }
  lost("an array with holes or names");
  const tail = Object.keys(array).map((key) => [key, array[key]]);
  return list(array, tail.length, `{"$array":{"length":${array.length},"entries":[`, "]}}", (index) => tail[index]);
}

/** The rendering of an object that JSON has no form for. */
function tagged(object, name) {
  if (name === "Map") {
    const entries = [...object];
    return list(object, entries.length, '{"$map":[', "]}", (index) => entries[index]);
  }
  if (name === "Set") {
    const values = [...object];
    return list(object, values.length, '{"$set":[', "]}", (index) => values[index]);
  }
  if (name === "RegExp") return `{"$regexp":${JSON.stringify(String(object))}}`;
  if (name === "ArrayBuffer" || name === "SharedArrayBuffer") return bytesText(new Uint8Array(object), name);
  if (ArrayBuffer.isView(object)) return bytesText(bytesOf(object), name);
  if (name === "Error") {
    const keys = ["name", "message", "stack", "cause", "errors", ...Object.keys(object)];
    const present = [...new Set(keys)].filter((key) => key in object);
    return fields(object, present, '{"$error":{', "}}");
  }
  if (name === "Number" || name === "String" || name === "Boolean" || name === "BigInt") {
    return list(object, 1, `{"$boxed":${JSON.stringify(name)},"value":`, "}", () => object.valueOf());
  }
  return fields(object, Object.keys(object), `{"$object":${JSON.stringify(name)},"fields":{`, "}}");
}

function list(object, size, start, end, part) {
  return { object, size, start, end, part, next: 0, written: 0 };
}

function fields(object, keys, start = "{", end = "}") {
  return { object, keys, size: keys.length, start, end, part: (index) => object[keys[index]], next: 0, written: 0 };
}

function bytesText(bytes, name) {
  const step = 0x6000; // a multiple of 3, so that the parts join; small enough to be arguments of a call
  const parts = [];
  for (let at = 0; at < bytes.length; at += step) {
    parts.push(btoa(String.fromCharCode(...bytes.subarray(at, at + step))));
  }
  return `{"$bytes":"${parts.join("")}","as":${JSON.stringify(name)}}`;
}

function primitive(value) {
  if (typeof value === "undefined") return '{"$undefined":true}';
  if (typeof value === "bigint") return `{"$bigint":"${value}"}`;
  if (typeof value === "number") return `{"$number":"${value}"}`;
  return `{"$${typeof value}":true}`;
}

function nameOfPrimitive(value) {
  if (typeof value === "bigint") return "a BigInt";
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  return String(value); // undefined, NaN, Infinity
}

/** Where the loop is, as `$.a.b[3]`. */
function path(stack) {
  let text = "$";
  for (const frame of stack) {
    const index = frame.next - 1;
    const key = frame.keys?.[index];
    if (key === undefined) text += `[${index}]`;
    else text += /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
    if (text.length > PATH_MAX) return `${text.slice(0, PATH_MAX)}…`;
  }
  return text;
}
