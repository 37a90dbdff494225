//! Over the boundary: batches and bodies made in JavaScript, read in Rust, answered back.

use jadpo_core::queue::{Answer, Body};
use js_sys::{Array, Reflect};
use wasm_bindgen::prelude::*;
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

use super::{body, read};

wasm_bindgen_test_configure!(run_in_node_experimental);

#[wasm_bindgen(inline_js = r#"
export function evaluate(text) { return (0, eval)(`(${text})`); }

/** A batch that notes each call on its messages; `throwing` maps an id to the calls that throw for it. */
export function batchOf(queue, messages, throwing) {
  const calls = [];
  class QueueMessage {
    constructor(fields) { Object.assign(this, fields); }
    #note(call, options) {
      calls.push([this.id, call, options?.delaySeconds]);
      if (throwing[this.id]?.includes(call)) throw new TypeError(`${call} of ${this.id} failed`);
    }
    ack() { this.#note("ack"); }
    retry(options) { this.#note("retry", options); }
  }
  return { calls, queue, messages: messages.map((fields) => new QueueMessage(fields)) };
}

export function messages(count) {
  return Array.from({ length: count }, (_, index) =>
    ({ id: `m${index + 1}`, timestamp: new Date(1000 + index), attempts: index + 1, body: `body ${index + 1}` }));
}

export function deep(levels) {
  let value = [];
  for (let level = 1; level < levels; level++) value = [value];
  return value;
}
"#)]
extern "C" {
    fn evaluate(text: &str) -> JsValue;
    #[wasm_bindgen(js_name = batchOf)]
    fn batch_of(queue: &JsValue, messages: &JsValue, throwing: &JsValue) -> JsValue;
    fn messages(count: u32) -> JsValue;
    fn deep(levels: u32) -> JsValue;
}

fn batch(count: u32, throwing: &str) -> JsValue {
    batch_of(&"orders-eu-1".into(), &messages(count), &evaluate(throwing))
}

/// What was called, as JSON.
fn calls(batch: &JsValue) -> String {
    let calls = Reflect::get(batch, &"calls".into()).unwrap();
    js_sys::JSON::stringify(&calls).unwrap().into()
}

fn settle(batch: &JsValue, answers: &[Answer]) -> Result<(), JsValue> {
    read(batch.unchecked_ref())?.1.settle(answers)
}

fn of(value: &str) -> Body {
    body(&evaluate(value))
}

/// The rendering and the reason of a body that is unreadable.
fn unreadable(value: &str) -> (String, String) {
    match of(value) {
        Body::Unreadable { shown, why } => (shown, why),
        other => panic!("{value} is {other:?}"),
    }
}

#[wasm_bindgen_test]
fn a_batch_arrives_with_its_queue_ids_times_and_attempts_one_two_three() {
    let (batch, _) = read(batch(3, "{}").unchecked_ref()).unwrap();
    assert_eq!(batch.queue, "orders-eu-1");
    let seen: Vec<_> = batch.messages.iter().map(|each| (each.id.as_str(), each.sent_at_ms, each.attempts)).collect();
    assert_eq!(seen, [("m1", 1000, 1), ("m2", 1001, 2), ("m3", 1002, 3)]);
    assert_eq!(batch.messages[2].body, Body::Text("body 3".to_owned()));
}

#[wasm_bindgen_test]
fn attempts_and_times_that_no_queue_gives_do_no_harm() {
    for odd in ["undefined", "-1", "NaN", "1e9", "'3'", "null"] {
        let messages = evaluate(&format!("[{{ id: 'm', timestamp: new Date(NaN), attempts: {odd}, body: 'b' }}]"));
        let (batch, _) = read(batch_of(&"q".into(), &messages, &evaluate("{}")).unchecked_ref()).unwrap();
        assert_eq!(batch.messages[0].attempts, 1, "{odd}");
        assert!(batch.messages[0].sent_at_ms > 1_700_000_000_000);
    }
}

#[wasm_bindgen_test]
fn each_message_is_answered_on_its_own_in_the_batch_s_order() {
    let batch = batch(3, "{}");
    settle(&batch, &[Answer::Ack, Answer::Retry { delay_s: 40 }, Answer::Ack]).unwrap();
    assert_eq!(calls(&batch), r#"[["m1","ack",null],["m2","retry",40],["m3","ack",null]]"#);
}

#[wasm_bindgen_test]
fn a_retry_that_throws_holds_back_no_other_answer_and_fails_the_batch_at_the_end() {
    let batch = batch(4, "{ m2: ['retry'], m3: ['ack'] }");
    let retry = Answer::Retry { delay_s: 10 };
    let error = settle(&batch, &[Answer::Ack, retry, Answer::Ack, retry]).unwrap_err();
    assert_eq!(calls(&batch), r#"[["m1","ack",null],["m2","retry",10],["m3","ack",null],["m4","retry",10]]"#);
    let text = String::from(error.unchecked_ref::<js_sys::Error>().message());
    assert_eq!(text, "a message of queue orders-eu-1 was not answered: retry of m2 failed");
}

#[wasm_bindgen_test]
fn what_is_no_batch_is_an_error_and_not_a_trap() {
    for odd in ["{}", "{ queue: 1, messages: [] }", "{ queue: 'q' }", "{ queue: 'q', messages: 3 }"] {
        assert!(read(evaluate(odd).unchecked_ref()).is_err(), "{odd}");
    }
    for odd in ["[null]", "[{}]", "[{ id: 7, body: 'b' }]"] {
        let batch = evaluate(&format!("{{ queue: 'q', messages: {odd} }}"));
        assert!(read(batch.unchecked_ref()).is_err(), "{odd}");
    }
    let throwing = evaluate("{ get queue() { throw new Error('gone'); }, messages: [] }");
    assert!(read(throwing.unchecked_ref()).is_err());
}

#[wasm_bindgen_test]
fn text_arrives_as_it_was_sent() {
    assert_eq!(of(r"''"), Body::Text(String::new()));
    assert_eq!(of(r"'a\u0000b'"), Body::Text("a\0b".to_owned()));
    assert_eq!(of(r"'\uFEFF{}'"), Body::Text("\u{feff}{}".to_owned()));
    assert_eq!(of(r"'e\u0301 \u{1F469}\u200D\u{1F680}'"), Body::Text("e\u{301} \u{1f469}\u{200d}\u{1f680}".to_owned()));
}

#[wasm_bindgen_test]
fn a_lone_surrogate_in_text_is_unreadable_and_shown_escaped() {
    let (shown, why) = unreadable(r"'\u{1F600}a\uD83D'");
    assert_eq!(shown, "\"\u{1f600}a\\ud83d\"");
    assert_eq!(why, "the text has a lone surrogate at position 3");
}

#[wasm_bindgen_test]
fn bytes_arrive_as_bytes_from_a_buffer_and_from_any_view() {
    assert_eq!(of("new Uint8Array([0, 0x80, 0xFF]).buffer"), Body::Bytes(vec![0, 0x80, 0xff]));
    assert_eq!(of("new Uint8Array([9, 0, 0x80, 0xFF, 9]).subarray(1, 4)"), Body::Bytes(vec![0, 0x80, 0xff]));
    assert_eq!(of("new Uint16Array([1, 2])"), Body::Bytes(vec![1, 0, 2, 0]));
    assert_eq!(of("new DataView(new ArrayBuffer(3), 1)"), Body::Bytes(vec![0, 0]));
    assert_eq!(of("new ArrayBuffer(0)"), Body::Bytes(Vec::new()));
}

#[wasm_bindgen_test]
fn a_value_that_json_carries_arrives_as_its_json() {
    let cases = [
        ("null", "null"),
        ("true", "true"),
        ("0", "0"),
        ("-0", "-0"),
        ("1e21", "1e+21"),
        ("9007199254740993", "9007199254740992"), // the platform's own parser has rounded it before us
        ("[]", "[]"),
        ("{}", "{}"),
        ("JSON.parse('{\"__proto__\":{\"toJSON\":1}}')", r#"{"__proto__":{"toJSON":1}}"#),
        (
            r#"{ a: 1, b: [true, null, { "c d": "\u2028\"" }] }"#,
            "{\"a\":1,\"b\":[true,null,{\"c d\":\"\u{2028}\\\"\"}]}",
        ),
        ("{ s: '\\uD800' }", r#"{"s":"\ud800"}"#),
        ("{ at: new Date(0) }", r#"{"at":"1970-01-01T00:00:00.000Z"}"#),
        ("{ note: undefined, sku: 'A' }", r#"{"sku":"A"}"#),
        ("Object.assign(Object.create(null), { a: 1 })", r#"{"a":1}"#),
        ("((shared) => [shared, shared])({ x: 1 })", r#"[{"x":1},{"x":1}]"#),
    ];
    for (value, json) in cases {
        assert_eq!(of(value), Body::Json(json.to_owned()), "{value}");
    }
}

#[wasm_bindgen_test]
fn json_inside_a_json_string_stays_a_string() {
    assert_eq!(of(r#"'{"a":1}'"#), Body::Text(r#"{"a":1}"#.to_owned()));
    assert_eq!(of(r#"['{"a":1}']"#), Body::Json(r#"["{\"a\":1}"]"#.to_owned()));
}

#[wasm_bindgen_test]
fn a_value_that_json_loses_is_unreadable_with_all_of_it_shown_and_the_place_named() {
    let cases = [
        ("undefined", r#"{"$undefined":true}"#, "undefined at $"),
        ("10n", r#"{"$bigint":"10"}"#, "a BigInt at $"),
        ("[1, NaN]", r#"[1,{"$number":"NaN"}]"#, "NaN at $[1]"),
        ("{ a: -Infinity }", r#"{"a":{"$number":"-Infinity"}}"#, "-Infinity at $.a"),
        ("[undefined]", r#"[{"$undefined":true}]"#, "undefined at $[0]"),
        ("[, 1]", r#"{"$array":{"length":2,"entries":[["1",1]]}}"#, "an array with holes or names at $"),
        ("{ a: new Map([['k', [1n]]]) }", r#"{"a":{"$map":[["k",[{"$bigint":"1"}]]]}}"#, "a Map at $.a"),
        ("new Set(['x'])", r#"{"$set":["x"]}"#, "a Set at $"),
        ("/a\\/b/gi", r#"{"$regexp":"/a\\/b/gi"}"#, "a RegExp at $"),
        ("{ 'x y': new Date(NaN) }", r#"{"x y":{"$date":null}}"#, r#"an invalid Date at $["x y"]"#),
        ("{ b: new Uint8Array([0, 128, 255]) }", r#"{"b":{"$bytes":"AID/","as":"Uint8Array"}}"#, "a Uint8Array at $.b"),
        ("{ b: new ArrayBuffer(1) }", r#"{"b":{"$bytes":"AA==","as":"ArrayBuffer"}}"#, "an ArrayBuffer at $.b"),
        ("new Number(1)", r#"{"$boxed":"Number","value":1}"#, "a Number at $"),
        ("((a) => { a.b = { c: a }; return a; })({ x: 1 })", r#"{"x":1,"b":{"c":{"$cycle":"$"}}}"#, "a cycle at $.b.c"),
        (
            "Object.assign(new Error('no'), { stack: '' })",
            r#"{"$error":{"name":"Error","message":"no","stack":""}}"#,
            "an Error at $",
        ),
    ];
    for (value, shown, lost) in cases {
        assert_eq!(unreadable(value), (shown.to_owned(), format!("JSON cannot carry {lost}")), "{value}");
    }
}

#[wasm_bindgen_test]
fn sixty_thousand_levels_arrive_whole_and_harm_nothing() {
    let Body::Json(text) = body(&deep(60_000)) else { panic!("it is JSON") };
    assert_eq!(text.len(), 120_000);
    assert!(text.starts_with("[[[") && text.ends_with("]]]"));
}

#[wasm_bindgen_test]
fn a_small_value_that_grows_without_bound_as_json_is_unreadable_and_soon_ended() {
    let (shown, why) = unreadable("((v) => { for (let i = 0; i < 60; i++) v = [v, v]; return v; })('x')");
    assert_eq!(why, "the value is too long when written out as JSON");
    assert!(shown.len() < 200_000);
}

#[wasm_bindgen_test]
fn a_small_value_with_no_end_of_parts_that_json_leaves_out_is_unreadable_and_soon_ended() {
    let (_, why) = unreadable(
        "(() => { const o = {}; for (let i = 0; i < 600; i++) o[`k${i}`] = undefined; \
         return Array(100).fill(Array(3000).fill(o)); })()",
    );
    assert_eq!(why, "the value is too long when written out as JSON");
}

#[wasm_bindgen_test]
fn a_body_that_cannot_even_be_looked_at_is_unreadable() {
    let (_, why) = unreadable("({ get a() { throw new Error('no'); } })");
    assert_eq!(why, "the body could not be looked at: no");
    let (_, why) = unreadable("new Proxy({}, { getPrototypeOf() { throw null; } })");
    assert!(why.starts_with("the body could not be looked at"));
}

#[wasm_bindgen_test]
fn a_legal_body_that_is_six_times_as_long_as_json_is_carried() {
    let Body::Json(text) = of("['\\u0001'.repeat(127000)]") else { panic!("it is JSON") };
    assert_eq!(text.len(), 127_000 * 6 + 4);
    let array: Array = js_sys::JSON::parse(&text).unwrap().unchecked_into();
    assert_eq!(array.get(0).as_string().unwrap().len(), 127_000);
}
