//! The run: calls side by side, and one write at a time beside them.
//!
//! Results are written in groups. A result waits at most [`SETTLE_WINDOW_MS`] for others to share its write, so one
//! that hangs delays nobody's; when nothing else is under way there is nothing to wait for.

use std::collections::VecDeque;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value as Json;

use super::call::call_for;
use super::sql::{self, How, Settlement, Taken};
use super::verdict::{Verdict, bounded, judge, judge_no_call};
use super::{CALL_TIMEOUT_MS, CALLS_MAX, Claimed, Delivered, SETTLE_MARGIN_MS, SETTLE_WINDOW_MS};
use crate::host::{Host, Level, LogEntry};
use crate::program::Program;
use crate::store::StoreError;

/// Results that are written without waiting for more.
const SETTLE_ROWS: usize = 25;

/// What the run is to do, and how far it is.
pub(super) struct Run<'a, H> {
    host: &'a H,
    program: &'a Program,
    stop_at_ms: i64,
    /// Claimed and not started.
    queued: VecDeque<Claimed>,
    /// The subscribers that are being called.
    called: Vec<String>,
    /// Ended and not written.
    ended: Vec<Settlement>,
    /// Whether the host makes no more calls.
    no_more_calls: bool,
    /// Whether a claim may find more.
    claim_more: bool,
    /// Whether a write is under way: one at a time.
    writing: bool,
    /// Whether the last write failed, so that the next failure gives up.
    write_failed: bool,
    window: Window,
    tally: Delivered,
}

/// Whether results wait for others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Window {
    /// There are none.
    Closed,
    /// They wait.
    Open,
    /// They waited long enough.
    Over,
}

/// What the run does side by side.
enum Work {
    Call(Claimed),
    Write { settlements: Vec<Settlement>, claim: Option<String> },
    Window,
}

/// How a [`Work`] ended.
enum Step {
    Called(Claimed, Verdict),
    Written { settlements: Vec<Settlement>, rows_written: u64, result: Result<Option<Taken>, StoreError> },
    WindowOver,
}

impl<'a, H: Host> Run<'a, H> {
    /// A run over `claimed`; with `claim_more` also over whatever is due.
    pub(super) fn new(
        host: &'a H,
        program: &'a Program,
        claimed: Vec<Claimed>,
        claim_more: bool,
        stop_at_ms: i64,
    ) -> Self {
        Self {
            host,
            program,
            stop_at_ms,
            queued: claimed.into(),
            called: Vec::new(),
            ended: Vec::new(),
            no_more_calls: false,
            claim_more,
            writing: false,
            write_failed: false,
            window: Window::Closed,
            tally: Delivered::default(),
        }
    }

    /// Runs until everything has ended and is written.
    pub(super) async fn until_done(mut self) -> Delivered {
        let (host, program) = (self.host, self.program);
        let mut under_way = FuturesUnordered::new();
        loop {
            // All that is ready is taken before anything is written, so what ends together is written together.
            loop {
                while let Some(claimed) = self.next_call() {
                    under_way.push(perform(host, program, Work::Call(claimed)));
                }
                match under_way.next().now_or_never() {
                    Some(Some(step)) => self.take(step),
                    Some(None) | None => break,
                }
            }
            if let Some(work) = self.next_write() {
                under_way.push(perform(host, program, work));
            } else if self.called.is_empty() && !self.writing {
                break;
            }
            if let Some(step) = under_way.next().await {
                self.take(step);
            }
        }
        // A run that ended nothing would be followed by one that ends nothing: then the tick goes on, not the next run.
        let progress = self.tally.done + self.tally.waiting + self.tally.failed > 0;
        self.tally.more_due = progress && (self.claim_more || self.tally.released > 0);
        log_ran(host, &self.tally);
        self.tally
    }

    /// The next delivery to start, if a call is free: the first one of the subscriber with the fewest calls under
    /// way, so that one who hangs does not take all calls from the others. Releases what there is no time for.
    fn next_call(&mut self) -> Option<Claimed> {
        while self.called.len() < CALLS_MAX {
            let calls_of = |claimed: &Claimed| self.called.iter().filter(|name| **name == claimed.subscriber).count();
            let (index, _) = self.queued.iter().enumerate().min_by_key(|(_, claimed)| calls_of(claimed))?;
            let claimed = self.queued.remove(index)?;
            if self.can_call_until(self.stop_at_ms.saturating_sub(SETTLE_MARGIN_MS).min(claimed.due_at_ms)) {
                self.called.push(claimed.subscriber.clone());
                return Some(claimed);
            }
            self.ended.push(Settlement { claimed, how: How::Released });
        }
        None
    }

    /// The next write, or the wait for more to write, if it is time for one.
    fn next_write(&mut self) -> Option<Work> {
        if self.writing {
            return None;
        }
        let claims = self.claim_more
            && self.queued.len() < CALLS_MAX
            && self.can_call_until(self.stop_at_ms.saturating_sub(SETTLE_MARGIN_MS));
        let nothing_to_wait_for =
            self.window == Window::Over || self.called.is_empty() || self.ended.len() >= SETTLE_ROWS;
        if !claims && (self.ended.is_empty() || !nothing_to_wait_for) {
            let opens = !self.ended.is_empty() && self.window == Window::Closed;
            return opens.then(|| {
                self.window = Window::Open;
                Work::Window
            });
        }
        self.writing = true;
        self.window = Window::Closed;
        let claim = claims.then(|| format!("{:032x}", self.host.random()));
        Some(Work::Write { settlements: std::mem::take(&mut self.ended), claim })
    }

    /// Whether a call may start now and will have ended by then, however it ends.
    fn can_call_until(&self, end_ms: i64) -> bool {
        !self.no_more_calls && self.host.now_ms().saturating_add(i64::from(CALL_TIMEOUT_MS)) <= end_ms
    }

    fn take(&mut self, step: Step) {
        match step {
            // A window that was opened for results written since closes the next one early, which does no harm.
            Step::WindowOver if self.window == Window::Open => self.window = Window::Over,
            Step::WindowOver => {}
            Step::Called(claimed, verdict) => self.take_verdict(claimed, verdict),
            Step::Written { settlements, rows_written, result } => {
                self.writing = false;
                self.tally.store_batches += 1;
                self.tally.rows_written += rows_written;
                match result {
                    Ok(taken) => self.take_written(&settlements, taken),
                    Err(error) => self.take_write_error(settlements, &error),
                }
            }
        }
    }

    fn take_verdict(&mut self, claimed: Claimed, verdict: Verdict) {
        if let Some(index) = self.called.iter().position(|name| *name == claimed.subscriber) {
            self.called.swap_remove(index);
        }
        let how = match verdict {
            Verdict::Done => How::Done,
            Verdict::NotTried => {
                self.no_more_calls = true;
                How::Released
            }
            Verdict::Waiting { due_at_ms, error } => {
                let mut fields = fields(claimed.event.seq, &claimed.subscriber, claimed.attempt, &error);
                fields.insert(1, ("event_name", claimed.event.name.clone().into()));
                fields.push(("due_at_ms", due_at_ms.into()));
                self.host.log(LogEntry { level: Level::Warn, event: "delivery.waiting", fields });
                How::Waiting(due_at_ms, error)
            }
            Verdict::Failed { error } => {
                let mut fields = fields(claimed.event.seq, &claimed.subscriber, claimed.attempt, &error);
                fields.insert(1, ("event_name", claimed.event.name.clone().into()));
                self.host.log(LogEntry { level: Level::Error, event: "delivery.failed", fields });
                How::Failed(error)
            }
        };
        self.ended.push(Settlement { claimed, how });
    }

    fn take_written(&mut self, settlements: &[Settlement], taken: Option<Taken>) {
        self.write_failed = false;
        for settlement in settlements {
            let count = match settlement.how {
                How::Done => &mut self.tally.done,
                How::Waiting(..) => &mut self.tally.waiting,
                How::Failed(_) => &mut self.tally.failed,
                How::Released => &mut self.tally.released,
            };
            *count += 1;
        }
        let Some(taken) = taken else { return };
        self.claim_more = taken.full;
        self.queued.extend(taken.claimed);
        for (seq, subscriber, attempt, error) in taken.failed {
            self.tally.failed += 1;
            let fields = fields(seq, &subscriber, attempt, error);
            self.host.log(LogEntry { level: Level::Error, event: "delivery.failed", fields });
        }
    }

    /// Tries a failed write once more. What is lost then is only the news of the results: the claims end, and the
    /// deliveries run again under the same idempotency keys.
    fn take_write_error(&mut self, settlements: Vec<Settlement>, error: &StoreError) {
        let gives_up = self.write_failed || !matches!(error, StoreError::Unavailable(_));
        self.write_failed = true;
        if !gives_up {
            self.ended.extend(settlements);
            return;
        }
        self.claim_more = false;
        let count = u32::try_from(settlements.len()).unwrap_or(u32::MAX);
        self.tally.unsettled += count;
        let event = if count == 0 { "delivery.not_claimed" } else { "delivery.unsettled" };
        let fields = vec![("count", count.into()), ("error", bounded(&error.to_string()).into())];
        self.host.log(LogEntry { level: Level::Error, event, fields });
    }
}

/// Tells what a run came to, if it came to anything.
fn log_ran<H: Host>(host: &H, tally: &Delivered) {
    if tally.done + tally.waiting + tally.failed + tally.released + tally.unsettled == 0 {
        return;
    }
    host.log(LogEntry {
        level: Level::Info,
        event: "delivery.ran",
        fields: vec![
            ("done", tally.done.into()),
            ("waiting", tally.waiting.into()),
            ("failed", tally.failed.into()),
            ("released", tally.released.into()),
            ("unsettled", tally.unsettled.into()),
            ("store_batches", tally.store_batches.into()),
            ("rows_written", tally.rows_written.into()),
        ],
    });
}

/// The fields of a log line about a delivery.
fn fields(seq: i64, subscriber: &str, attempt: u32, error: &str) -> Vec<(&'static str, Json)> {
    vec![("delivery", format!("d{seq}.{subscriber}").into()), ("attempt", attempt.into()), ("error", error.into())]
}

/// Does one piece of work.
async fn perform<H: Host>(host: &H, program: &Program, work: Work) -> Step {
    match work {
        Work::Window => {
            host.sleep(SETTLE_WINDOW_MS).await;
            Step::WindowOver
        }
        Work::Call(claimed) => {
            let (attempt, attempt_max) = (claimed.attempt, claimed.attempt_max);
            let verdict = match call_for(host, program, &claimed) {
                Ok(call) => judge(&host.call(call).await, attempt, attempt_max, host.now_ms()),
                Err(why) => judge_no_call(&why, attempt, attempt_max, host.now_ms()),
            };
            Step::Called(claimed, verdict)
        }
        Work::Write { settlements, claim } => {
            let now_ms = host.now_ms();
            let mut statements = sql::settle(&settlements, now_ms);
            let settling = statements.len();
            statements.extend(claim.iter().flat_map(|claim| sql::claim(claim, now_ms)));
            let mut rows_written = 0;
            let result = host.batch(statements).await.map(|rows| {
                rows_written = rows.iter().map(|rows| rows.rows_written).sum();
                let mut rows = rows.into_iter().skip(settling);
                let mut next = move || rows.next().unwrap_or_default();
                claim.map(|claim| sql::taken(&claim, next(), next()))
            });
            Step::Written { settlements, rows_written, result }
        }
    }
}
