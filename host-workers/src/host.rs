//! The core's seam, on Workers.

use jadpo_core::bindings;
use jadpo_core::host::{Call, CallOutcome, Host, Level, LogEntry};
use jadpo_core::store::{Rows, Statement, StoreError};
use wasm_bindgen::prelude::*;
use worker::worker_sys::D1Database;
use worker::{Env, console_error, console_log, console_warn};

use crate::{call, d1, js};

/// One invocation's host: its environment.
pub(crate) struct WorkersHost {
    env: Env,
}

impl WorkersHost {
    pub(crate) fn new(env: Env) -> Self {
        Self { env }
    }

    /// A binding, or undefined.
    pub(crate) fn binding(&self, name: &str) -> JsValue {
        js::get(&self.env, name)
    }
}

impl Host for WorkersHost {
    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        let database = self.binding(bindings::STORE);
        if !database.is_object() {
            return Err(StoreError::Unavailable(format!("the Worker has no D1 binding {}", bindings::STORE)));
        }
        d1::batch(&database.unchecked_into::<D1Database>(), &statements).await
    }

    async fn call(&self, call: Call) -> CallOutcome {
        call::call(&self.env, call).await
    }

    async fn sleep(&self, duration_ms: u32) {
        js::sleep(f64::from(duration_ms)).await;
    }

    #[expect(clippy::cast_possible_truncation, reason = "a time that JavaScript can hold is within 2^53")]
    fn now_ms(&self) -> i64 {
        js_sys::Date::now() as i64
    }

    fn random(&self) -> u128 {
        js::random_bytes().iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte))
    }

    fn env(&self, name: &str) -> Option<String> {
        self.binding(name).as_string()
    }

    fn log(&self, entry: LogEntry) {
        let line = entry.to_json();
        match entry.level {
            Level::Info => console_log!("{line}"),
            Level::Warn => console_warn!("{line}"),
            Level::Error => console_error!("{line}"),
        }
    }
}
