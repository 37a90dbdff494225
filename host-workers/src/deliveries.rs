//! Deliveries after the answers, and what is handed on.

use std::cell::Cell;
use std::rc::Rc;

use jadpo_core::bindings;
use jadpo_core::deliver::{Claimed, Delivered, HELD_BYTES_MAX, deliver, deliver_due, held_bytes};
use jadpo_core::host::{Host, Level, LogEntry};
use jadpo_core::start::App;
use jadpo_core::tick;
use wasm_bindgen::prelude::*;
use worker::worker_sys::Context;

use crate::host::WorkersHost;
use crate::js;

/// When deliveries have ended and their results are written, counted from the answers: `waitUntil` has 30 s, and
/// what is left has to be handed on within them.
const STOP_AFTER_MS: i64 = 26_000;
/// When a tick has ended, counted from its start: it comes every minute, and a cron trigger has 15 minutes.
const TICK_MS: i64 = 50_000;
/// How long the next invocation may take to say that it has begun.
const HAND_ON_LIMIT_MS: f64 = 3_000.0;

/// When the deliveries of an invocation that is answered now have to have ended.
fn stop_at_ms(host: &WorkersHost) -> i64 {
    host.now_ms() + STOP_AFTER_MS
}

thread_local! {
    /// Bytes of bodies that this isolate holds for deliveries under way.
    static HELD_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Bodies that are held, for as long as this lives.
struct Held(usize);

impl Held {
    fn of(claimed: &[Claimed]) -> Self {
        let bytes = held_bytes(claimed);
        HELD_BYTES.set(HELD_BYTES.get().saturating_add(bytes));
        Self(bytes)
    }

    fn too_much() -> bool {
        HELD_BYTES.get() > HELD_BYTES_MAX
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD_BYTES.set(HELD_BYTES.get().saturating_sub(self.0));
    }
}

/// Delivers what a batch claimed, after its answers.
pub(crate) fn after_batch(context: &JsValue, host: Rc<WorkersHost>, app: Rc<App>, claimed: Vec<Claimed>) {
    wait_until(context, async move {
        let held = Held::of(&claimed);
        // With no time left every claim is given back.
        let stop_at_ms = if Held::too_much() { host.now_ms() } else { stop_at_ms(&host) };
        let delivered = deliver(host.as_ref(), &app, claimed, stop_at_ms).await;
        drop(held);
        hand_on(&host, delivered).await;
    });
}

/// Goes on with what is due, where another invocation had no time for it.
pub(crate) fn go_on(context: &JsValue, host: Rc<WorkersHost>, app: Rc<App>) {
    wait_until(context, async move {
        let delivered = deliver_due(host.as_ref(), &app, stop_at_ms(&host)).await;
        hand_on(&host, delivered).await;
    });
}

/// Runs the tick. It has the time until the next one; what is due beyond that is handed on.
pub(crate) async fn tick(host: &WorkersHost, app: &App) {
    let ticked = tick::tick(host, app, host.now_ms() + TICK_MS).await;
    hand_on(host, ticked.delivered).await;
}

/// Starts another invocation if something is due that this one had no time for. If it cannot, the tick goes on.
async fn hand_on(host: &WorkersHost, delivered: Delivered) {
    if !delivered.more_due {
        return;
    }
    let asked = js::go_on(&host.binding(bindings::SELF));
    if let Err(error) = js::within(HAND_ON_LIMIT_MS, &asked).await {
        let why = js::words(&error).into();
        host.log(LogEntry { level: Level::Warn, event: "deliveries.not_handed_on", fields: vec![("why", why)] });
    }
}

/// Keeps the invocation alive until `work` has ended. The promise never rejects: with an older setting of the Worker
/// a rejection would undo the batch's answers.
fn wait_until(context: &JsValue, work: impl Future<Output = ()> + 'static) {
    let promise = wasm_bindgen_futures::future_to_promise(async move {
        work.await;
        Ok(JsValue::UNDEFINED)
    });
    // Without a context the work still runs as long as the isolate does; what it leaves, the tick takes up.
    let _ = context.unchecked_ref::<Context>().wait_until(&promise);
}
