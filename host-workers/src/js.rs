//! The JavaScript beside this crate, typed.

use js_sys::{Array, Promise};
use wasm_bindgen::prelude::*;
use worker::worker_sys::D1Database;

#[wasm_bindgen(module = "/src/js/body.js")]
extern "C" {
    #[wasm_bindgen(js_name = readBody)]
    pub(crate) fn read_body(value: &JsValue) -> Array;

    pub(crate) fn words(error: &JsValue) -> String;
}

#[wasm_bindgen(module = "/src/js/d1.js")]
extern "C" {
    #[wasm_bindgen(catch, js_name = runBatch)]
    pub(crate) async fn run_batch(
        database: &D1Database,
        described: &str,
        apart: &Array,
        limit_ms: f64,
    ) -> Result<JsValue, JsValue>;
}

#[wasm_bindgen(module = "/src/js/host.js")]
extern "C" {
    #[wasm_bindgen(js_name = programText)]
    fn program_text_js() -> JsValue;

    #[wasm_bindgen(js_name = randomBytes)]
    pub(crate) fn random_bytes() -> Vec<u8>;

    #[wasm_bindgen(catch)]
    pub(crate) async fn within(limit_ms: f64, promise: &Promise) -> Result<JsValue, JsValue>;

    pub(crate) async fn sleep(duration_ms: f64);

    #[wasm_bindgen(catch)]
    pub(crate) async fn post(
        fetcher: &JsValue,
        url: &str,
        headers: &str,
        body: &[u8],
        limit_ms: f64,
    ) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(js_name = goOn)]
    pub(crate) fn go_on(deliveries: &JsValue) -> Promise;

    #[wasm_bindgen(catch, js_name = readRequest)]
    pub(crate) async fn read_request(request: &web_sys::Request, bytes_max: f64) -> Result<JsValue, JsValue>;

    pub(crate) fn response(status: u16, content_type: &str, body: &str) -> web_sys::Response;
}

/// The program's text, if the entry module left one.
pub(crate) fn program_text() -> Option<String> {
    program_text_js().as_string()
}

/// A property of an object, or undefined where there is none.
pub(crate) fn get(object: &JsValue, name: &str) -> JsValue {
    js_sys::Reflect::get(object, &JsValue::from_str(name)).unwrap_or(JsValue::UNDEFINED)
}
