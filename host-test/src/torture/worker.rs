//! Cloudflare's side and the Worker's isolates.

use std::sync::Arc;

use jadpo_core::admin;
use jadpo_core::deliver::{Delivered, deliver, deliver_due};
use jadpo_core::queue::{Answer, Batch};
use jadpo_core::receive::receive;
use jadpo_core::start::App;
use jadpo_core::tick::tick;

use super::coverage::{Fault, Step};
use super::host::SimHost;
use super::sim::{Sim, WORLD};
use super::state::{Place, State};
use super::trace;

/// The operator's token.
pub(super) const OPERATOR_TOKEN: &str = "a-token-for-tests-only";
/// How long an invocation may run on after its answers, in milliseconds.
const WAIT_UNTIL_MS: i64 = 30_000;
/// Invocations at the same time, at most.
const INVOCATIONS_MAX: usize = 3;
/// Invocations that one may set off in a chain.
const HANDED_ON_MAX: u32 = 16;

/// The Worker's program. What is in capitals differs from build to build.
pub(super) const PROGRAM: &str = r#"{
    "format": 1, "app": "warehouse",
    "connections": {
        "stock": {"driver": "cloudflare_queues", "queue": "stock", "dead_letter_queue": "stock-dead"},
        "notes": {"driver": "cloudflare_queues", "queue": "notes", "dead_letter_queue": "notes-dead"},
        "doom": {"driver": "cloudflare_queues", "queue": "doom", "dead_letter_queue": "doom-dead"}
    },
    "events": {
        "StockMoved": {"record": [{"name": "quantity", "type": "QUANTITY"}]},
        "Noted": "json", "Doomed": "json"
    },
    "receiving": {
        "stock": {"event": "StockMoved", "id": "movement"},
        "notes": {"event": "Noted"}, "doom": {"event": "Doomed"}
    },
    "subscribers": {
        LATE
        "ledger": {"on": "StockMoved", "target": {"call": "https://ledger.example.com/events"}},
        "audit": {"on": "StockMoved", "target": {"run": "audit"}},
        "archive": {"on": "Noted", "target": {"service": "archive"}},
        "hopeless": {"on": "Doomed", "target": {"call": "https://hopeless.example.com/"}}
    }
}"#;

/// Cloudflare hands batches over, each to an isolate of its own.
pub(super) async fn cloudflare(sim: Sim) {
    loop {
        let batch = {
            let state = &mut *sim.state();
            state.next_batch()
        };
        match batch {
            Ok(batch) => invoke(&sim, batch),
            Err(wait_ms) => sim.sleep(Step::HandOn, wait_ms).await,
        }
    }
}

impl State {
    /// The next batch, or how long there is none.
    fn next_batch(&mut self) -> Result<Batch, i64> {
        let now_ms = self.scheduler.now_ms;
        if self.cloudflare.invocations >= INVOCATIONS_MAX {
            return Err(500);
        }
        let look_again_ms = if self.calm { 120_000 } else { 4_000 };
        let Some((at_ms, queue)) = self.cloudflare.next_batch_at() else { return Err(look_again_ms) };
        if at_ms > now_ms {
            return Err((at_ms - now_ms).min(look_again_ms));
        }
        if !self.calm {
            let size = self.scheduler.random.usize(1..12);
            self.cloudflare.cut_batches_at(size);
        }
        self.cloudflare.invocations += 1;
        let batch = self.cloudflare.take(&queue, now_ms);
        trace::note(|| {
            let messages: Vec<String> =
                batch.messages.iter().map(|one| format!("{} (attempt {})", short(&one.id), one.attempts)).collect();
            format!("Cloudflare hands over from {queue}: {}", messages.join(", "))
        });
        Ok(batch)
    }
}

/// The first digits of an id, which suffice in a run.
fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// A batch that is out: what is not settled when its invocation ends or dies comes again.
struct Out {
    sim: Sim,
    queue: String,
    /// The build that it was handed to.
    app: Arc<App>,
    open: Vec<String>,
}

impl Out {
    fn settle(&mut self, id: &str, answer: Answer) {
        self.open.retain(|open| open != id);
        trace::note(|| format!("{} of {}: {answer:?}", short(id), self.queue));
        let state = &mut *self.sim.state();
        let now_ms = state.scheduler.now_ms;
        if answer == Answer::Ack {
            let acknowledged = state.side(Place::Worker).acknowledge(id, &self.queue, &self.app.program);
            if let Err(what) = acknowledged {
                state.scheduler.violated(|| what);
            }
            let lost = !state.calm && state.scheduler.chance(state.callees.percent / 3);
            if lost {
                state.scheduler.met(Fault::AnswerLost, Step::Answer);
                state.cloudflare.lose_acks(1);
            }
        }
        state.cloudflare.settle(&self.queue, id, answer, now_ms);
        state.cloudflare.lose_acks(0);
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        let state = &mut *self.sim.state();
        let now_ms = state.scheduler.now_ms;
        state.cloudflare.unsettled_of(&self.queue, &self.open, now_ms);
        state.cloudflare.invocations -= 1;
    }
}

fn invoke(sim: &Sim, batch: Batch) {
    let open = batch.messages.iter().map(|message| message.id.clone()).collect();
    let app = sim.state().side(Place::Worker).app.clone();
    let out = Out { sim: sim.clone(), queue: batch.queue.clone(), app, open };
    let process = sim.new_process();
    sim.spawn(process, queue_event(sim.clone(), batch, out));
}

/// What the Worker does with a batch.
async fn queue_event(sim: Sim, batch: Batch, mut out: Out) {
    let host = SimHost::new(&sim, Place::Worker);
    let app = out.app.clone();
    let ids: Vec<String> = batch.messages.iter().map(|message| message.id.clone()).collect();
    let received = receive(&host, &app, batch).await;
    if received.answers.len() != ids.len() {
        sim.state().scheduler.violated(|| "there is not one answer for each message".to_owned());
    }
    for (id, answer) in ids.iter().zip(received.answers) {
        sim.before(Step::Answer).await;
        out.settle(id, answer);
    }
    drop(out);
    let delivered = deliver(&host, &app, received.claimed, stop_at_ms(&host)).await;
    hand_on(&sim, delivered, 0);
}

fn stop_at_ms(host: &SimHost) -> i64 {
    jadpo_core::host::Host::now_ms(host) + WAIT_UNTIL_MS
}

/// What an invocation had no time for goes on in the next one, as far as a chain may be long.
fn hand_on(sim: &Sim, delivered: Delivered, chain: u32) {
    if !delivered.more_due || chain >= HANDED_ON_MAX {
        return;
    }
    let (process, next) = (sim.new_process(), sim.clone());
    sim.spawn(process, async move {
        next.before(Step::HandOn).await;
        let host = SimHost::new(&next, Place::Worker);
        let app = next.state().side(Place::Worker).app.clone();
        let delivered = deliver_due(&host, &app, stop_at_ms(&host)).await;
        hand_on(&next, delivered, chain + 1);
    });
}

/// The cron trigger: every minute, where there is something to do.
pub(super) async fn ticks(sim: Sim) {
    loop {
        let every_ms = sim.state().next_tick_in_ms(Place::Worker);
        sim.sleep(Step::Window, every_ms).await;
        let is_due = {
            let state = &mut *sim.state();
            let due_ms = state.side(Place::Worker).next_due_ms();
            let now_ms = state.scheduler.now_ms;
            due_ms.is_some_and(|due_ms| due_ms <= now_ms) || (!state.calm && state.scheduler.chance(10))
        };
        if is_due {
            let (process, next) = (sim.new_process(), sim.clone());
            sim.spawn(process, async move {
                let host = SimHost::new(&next, Place::Worker);
                let app = next.state().side(Place::Worker).app.clone();
                let ticked = tick(&host, &app, stop_at_ms(&host)).await;
                hand_on(&next, ticked.delivered, 0);
            });
        }
    }
}

/// What an operator's `jadpo deliveries retry --all` does, on either host.
pub(super) fn retry_all(sim: &Sim, place: Place) {
    let (process, sim) = (sim.new_process(), sim.clone());
    let work = sim.clone();
    sim.spawn(process, async move {
        let host = SimHost::new(&work, place);
        let app = {
            let state = &mut *work.state();
            state.side(place).ledger.reread = true;
            state.side(place).app.clone()
        };
        let request = admin::Request {
            method: "POST".into(),
            path: format!("{}deliveries/retry", admin::PREFIX),
            authorization: Some(format!("Bearer {OPERATOR_TOKEN}")),
            body: br#"{"all":true}"#.to_vec(),
            ..admin::Request::default()
        };
        let response = admin::answer(&host, &app, request).await;
        if !matches!(response.status, 200 | 503) {
            work.state()
                .scheduler
                .violated(|| format!("the operator is answered {}: {}", response.status, response.body));
        }
    });
}

/// Begins what Cloudflare does.
pub(super) fn start(sim: &Sim) {
    sim.spawn(WORLD, cloudflare(sim.clone()));
    sim.spawn(WORLD, ticks(sim.clone()));
}
