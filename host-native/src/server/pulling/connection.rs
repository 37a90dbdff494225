//! One connection: does what its course says, side by side, and says what came of it.

use std::sync::Arc;
use std::time::Duration;

use jadpo_core::host::{Host, Level};
use jadpo_core::pull::wire::Acked;
use jadpo_core::pulling::{Act, Course, Found, Group, Lent, Pulled, Source, Trouble, found, pulled, settled};
use jadpo_core::queue::{Answer, Batch};
use jadpo_core::receive::receive_pulled;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::super::{Shared, deliveries};
use super::call::call;
use super::spent::{Spent, timed};
use crate::host::{now_ms, random};
use crate::http::Client;

/// What was done.
enum End {
    Found(Result<Found, Trouble>),
    Pulled { batch_size: u32, asked_at_ms: i64, outcome: Result<Pulled, Trouble> },
    Received { answers: Vec<(String, Answer)>, asked_at_ms: i64 },
    Settled { group: Group, outcome: Result<Acked, Trouble> },
}

struct Connection {
    shared: Shared,
    client: Client,
    source: Arc<Source>,
    course: Course,
    /// The steady clock of the course.
    started: Instant,
    under_way: JoinSet<(Duration, End)>,
    spent: Spent,
}

/// Runs until told to stop; then gives back what is not received yet, and settles what is, for the server's grace at
/// most.
pub(super) async fn run(shared: Shared, client: Client, course: Course, mut stopped: watch::Receiver<bool>) {
    let source = course.source().clone();
    let grace = shared.options.grace;
    let mut connection = Connection {
        shared,
        client,
        source,
        course,
        started: Instant::now(),
        under_way: JoinSet::new(),
        spent: Spent::default(),
    };
    let mut ends: Option<Instant> = None;
    loop {
        connection.begin();
        connection.tell();
        if connection.course.is_over() {
            connection.end();
            return;
        }
        let wakes = connection.course.wakes_at(connection.now_ms()).map(|at_ms| connection.at(at_ms));
        tokio::select! {
            Some(end) = connection.under_way.join_next() => match end {
                Ok((took, end)) => connection.take(took, end),
                // A panic, which has said why on standard error, ends this part and with it the server.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            () = until(wakes) => {}
            _ = stopped.wait_for(|stopped| *stopped), if ends.is_none() => {
                ends = Some(Instant::now() + grace);
                connection.course.stop();
            }
            () = until(ends) => {
                connection.leave();
                connection.end();
                return;
            }
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Connection {
    fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn at(&self, at_ms: i64) -> Instant {
        self.started + Duration::from_millis(u64::try_from(at_ms).unwrap_or(0))
    }

    /// Begins whatever the course says is to be done now.
    fn begin(&mut self) {
        let asked_at_ms = self.now_ms();
        while let Some(act) = self.course.next(asked_at_ms) {
            let (shared, client, source) = (self.shared.clone(), self.client.clone(), self.source.clone());
            self.under_way.spawn(timed(perform(shared, client, source, act, asked_at_ms)));
        }
    }

    fn take(&mut self, took: Duration, end: End) {
        #[allow(clippy::cast_possible_truncation, reason = "any of its bits are random")]
        let (now_ms, random) = (self.now_ms(), random() as u64);
        match end {
            End::Found(outcome) => self.course.found(outcome, now_ms, random),
            End::Pulled { batch_size, asked_at_ms, outcome } => {
                self.spent.pulls.add(took);
                let lent = self.course.pulled(batch_size, outcome, asked_at_ms, now_ms, random);
                self.spent.messages += lent.len();
                if !lent.is_empty() {
                    let received = receive(self.shared.clone(), self.source.clone(), lent, asked_at_ms);
                    self.under_way.spawn(timed(received));
                }
            }
            End::Received { answers, asked_at_ms } => {
                self.spent.batches.add(took);
                self.course.received(answers, asked_at_ms, now_ms, random);
            }
            End::Settled { group, outcome } => {
                self.spent.settles.add(took);
                self.course.settled(group, outcome, now_ms, random);
            }
        }
    }

    /// Says whether the connection is ready, and logs what there is to tell: whoever acts on a line finds it true.
    fn tell(&mut self) {
        self.shared.pulls.set(&self.source.connection, self.course.not_ready(self.now_ms()));
        self.course.lines().into_iter().for_each(|line| self.shared.host.log(line));
    }

    /// Logs what the work took.
    fn end(&self) {
        let mut fields = vec![("connection", self.source.connection.as_str().into())];
        fields.extend(self.spent.fields());
        self.shared.log(Level::Info, "pull.ended", fields);
    }

    /// The grace is over. What is held comes again when its leases end.
    fn leave(&mut self) {
        self.under_way.abort_all();
        let fields =
            vec![("connection", self.source.connection.as_str().into()), ("messages", self.course.held().into())];
        self.shared.log(Level::Warn, "pull.left_to_leases", fields);
    }
}

async fn perform(shared: Shared, client: Client, source: Arc<Source>, act: Act, asked_at_ms: i64) -> End {
    let answer = call(&client, &source, &act, |name| shared.host.env(name)).await;
    match act {
        Act::Find { page } => {
            let name = source.queue_name();
            End::Found(answer.and_then(|came| came.read(|answer| found(answer, name, page, now_ms()))))
        }
        Act::Pull { batch_size, .. } => {
            let outcome = answer.and_then(|came| came.read(|answer| pulled(answer, now_ms())));
            End::Pulled { batch_size, asked_at_ms, outcome }
        }
        Act::Settle { group, .. } => {
            let outcome = answer.and_then(|came| came.read(|answer| settled(answer, now_ms())));
            End::Settled { group, outcome }
        }
    }
}

/// Receives a batch. It is answered when it is in the store; what is to be delivered goes on by itself.
async fn receive(shared: Shared, source: Arc<Source>, lent: Vec<Lent>, asked_at_ms: i64) -> End {
    let (leases, messages): (Vec<String>, Vec<_>) = lent.into_iter().map(|lent| (lent.lease_id, lent.message)).unzip();
    let batch = Batch { queue: source.queue_name().to_owned(), messages };
    let received = receive_pulled(&shared.host, &shared.app, &source.connection, batch).await;
    deliveries::begin(&shared, received.claimed);
    End::Received { answers: leases.into_iter().zip(received.answers).collect(), asked_at_ms }
}
