//! The one thread that writes. What waits when it comes round shares one transaction and one sync of the disk. Each
//! request stands for itself: one that fails leaves the others alone.

use std::time::{Duration, Instant};

use jadpo_core::broker::{Broker, Moment, Sql};
use jadpo_core::host::{Level, LogEntry};
use jadpo_core::store::StoreError;
use rusqlite::Connection;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{mpsc, watch};

use super::files::Files;
use super::run;
use super::work::{Job, SendWork};
use crate::host::{now_ms, random};
use crate::log;

/// Requests in one transaction at most, so that the first of them does not wait for ever.
const GROUP_MAX: usize = 256;
/// Bytes in one transaction, about: enough that the sync of the disk costs little, and not so many that everybody who
/// asks waits for everybody else's bytes.
const GROUP_BYTES_MAX: usize = 16 << 20;
/// How long a request waits at most for others to share its commit. A sync of the disk takes about as long.
const GATHER_MAX: Duration = Duration::from_micros(200);
/// How often the log is written into the file where there is no room for it.
const EMPTIED_EVERY: Duration = Duration::from_secs(1);

/// Works until every handle is gone.
pub(super) fn run(
    connection: Connection,
    files: Files,
    standing: Standing,
    mut waiting: mpsc::Receiver<Job>,
    changed: watch::Sender<u64>,
) {
    let mut writer = Writer {
        connection,
        files,
        standing,
        lost: false,
        broker: None,
        broker_is_right: false,
        data_version: 0,
        wrote: false,
        blocked: None,
        emptied: None,
    };
    let mut group = Vec::with_capacity(GROUP_MAX);
    let mut last_group = 0;
    loop {
        gather(&mut waiting, &mut group, last_group);
        if group.is_empty() && waiting.blocking_recv_many(&mut group, GROUP_MAX) == 0 {
            break;
        }
        gather(&mut waiting, &mut group, last_group);
        let rest = group.split_off(fitting(&group));
        last_group = group.len();
        writer.wrote = false;
        writer.commit(&mut group);
        let mut rest = rest;
        if let Some(error) = writer.blocked.take() {
            // Another process writes for long. Whoever waits behind does not wait as long again.
            rest.extend(std::iter::from_fn(|| waiting.try_recv().ok()));
            rest.iter_mut().for_each(|job| job.fail(&error));
            group.append(&mut rest);
        }
        if writer.wrote && group.iter().any(Job::stirs) {
            changed.send_modify(|count| *count = count.wrapping_add(1));
        }
        group.drain(..).for_each(Job::answer);
        group.extend(rest);
    }
}

/// How many of the requests share the next commit, one at least.
fn fitting(group: &[Job]) -> usize {
    let mut bytes = 0;
    let fits = group.iter().take_while(|job| {
        bytes += job.bytes();
        bytes <= GROUP_BYTES_MAX
    });
    fits.count().clamp(1, GROUP_MAX)
}

/// Waits a moment for as many requests as the last commit answered: who was answered is about to ask again, and
/// whoever comes late waits for a whole commit. To be awake when they come saves the time to wake up.
fn gather(waiting: &mut mpsc::Receiver<Job>, group: &mut Vec<Job>, last_group: usize) {
    if group.len() >= last_group {
        return;
    }
    let started = Instant::now();
    while group.len() < last_group && started.elapsed() < GATHER_MAX {
        match waiting.try_recv() {
            Ok(job) => group.push(job),
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// How many jobs at the front send to one queue; 1 if the first does something else.
fn sent_together(jobs: &[Job]) -> usize {
    let Some(Job::Send(first)) = jobs.first() else { return 1 };
    jobs.iter().take_while(|job| matches!(job, Job::Send(next) if next.queue == first.queue)).count()
}

/// Carries out jobs that send to one queue.
fn send(broker: &mut Broker, sql: &mut dyn Sql, moment: Moment, jobs: &mut [Job]) -> Result<(), StoreError> {
    let mut works: Vec<&mut SendWork> = jobs.iter_mut().filter_map(Job::as_send).collect();
    let Some(queue) = works.first().map(|work| work.queue.clone()) else { return Ok(()) };
    let outcomes = broker.send_each(sql, moment, &queue, works.iter().map(|work| &work.batch));
    let outcomes = outcomes.inspect_err(|error| {
        works.iter_mut().for_each(|work| work.outcome = Some(Err(error.clone().into())));
    })?;
    works.into_iter().zip(outcomes).for_each(|(work, outcome)| work.outcome = Some(outcome));
    Ok(())
}

/// How whoever opened the store stands to a server on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the server, or stands in for one.
    Leads,
    /// It is a command beside a running one.
    Beside,
    /// It is a command, and there was none.
    Alone,
}

struct Writer {
    connection: Connection,
    files: Files,
    standing: Standing,
    /// Whether the files are not where they were, as was said.
    lost: bool,
    broker: Option<Broker>,
    /// Whether what the broker remembers is what the store holds.
    broker_is_right: bool,
    /// What SQLite counts up when another connection writes to the file.
    data_version: i64,
    /// Whether something was written and committed since somebody asked. SQLite counts what it rolls back, too.
    wrote: bool,
    /// Why the last transaction could not even begin.
    blocked: Option<StoreError>,
    /// When the log was last written into the file because there was no room.
    emptied: Option<Instant>,
}

/// How a transaction treats the broker's operations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Without a savepoint each, which costs a copy of every page that they change. They refuse before they write, so
    /// only a failure of the store makes one necessary, and then everything is done again carefully.
    Quick,
    /// Each in a savepoint of its own.
    Careful,
}

impl Writer {
    /// Leaves an outcome in each job.
    fn commit(&mut self, jobs: &mut [Job]) {
        if self.transaction(jobs, Manner::Quick) == jobs.len() {
            return;
        }
        let mut done = 0;
        while let Some(rest) = jobs.get_mut(done..).filter(|rest| !rest.is_empty()) {
            done += self.transaction(rest, Manner::Careful);
        }
    }

    /// Runs the jobs in one transaction and answers for how many of them the outcome stands: all, unless SQLite gives
    /// the transaction up in the middle (a full disk), which fails those before as well. Quickly, that is none: they
    /// are to be done again.
    fn transaction(&mut self, jobs: &mut [Job], manner: Manner) -> usize {
        let moment = moment();
        if let Err(error) = self.begin() {
            jobs.iter_mut().for_each(|job| job.fail(&error));
            self.blocked = Some(error);
            return jobs.len();
        }
        let (mut index, mut writes) = (0, false);
        while index < jobs.len() {
            let Some((done, rest)) = jobs.split_at_mut_checked(index) else { break };
            let together = if manner == Manner::Quick { sent_together(rest) } else { 1 };
            let Some(now) = rest.get_mut(..together) else { break };
            let before = self.connection.total_changes();
            let failure = self.run_some(now, manner, moment).err();
            writes |=
                failure.is_none() && !now.iter().all(Job::left_nothing) && self.connection.total_changes() != before;
            if let Some(failure) = failure.as_ref().filter(|_| manner == Manner::Quick) {
                self.roll_back();
                self.make_room(failure);
                return 0;
            }
            if self.connection.is_autocommit() {
                let why = failure.unwrap_or_else(|| StoreError::Unavailable(String::new()));
                self.make_room(&why);
                let lost = StoreError::Unavailable(format!("its transaction was rolled back: {}", why.text()));
                self.broker_is_right = false;
                done.iter_mut().chain(now).for_each(|job| job.fail(&lost));
                return index + together;
            }
            index += together;
        }
        if let Err(error) = run::cached(&self.connection, "COMMIT") {
            self.roll_back();
            if self.make_room(&error) && manner == Manner::Quick {
                return 0;
            }
            let lost = StoreError::Unavailable(error.text().to_owned());
            jobs.iter_mut().for_each(|job| job.fail(&lost));
        } else if let Err(error) = self.check_files() {
            self.broker_is_right = false;
            jobs.iter_mut().for_each(|job| job.fail(&error));
        } else {
            self.wrote |= writes;
        }
        jobs.len()
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        self.check_files()?;
        run::cached(&self.connection, "BEGIN IMMEDIATE")?;
        let version = run::number(&self.connection, "PRAGMA data_version").unwrap_or_default();
        if version != self.data_version {
            self.broker_is_right = false;
            self.data_version = version;
        }
        Ok(())
    }

    fn roll_back(&mut self) {
        self.broker_is_right = false;
        if !self.connection.is_autocommit() {
            // Nothing to be done about a failure here: the next BEGIN tells.
            let _ = run::cached(&self.connection, "ROLLBACK");
        }
    }

    /// Runs one job, or several that send to one queue.
    ///
    /// # Errors
    /// A failure that a broker's operation ended with, or the loss of the whole transaction.
    fn run_some(&mut self, jobs: &mut [Job], manner: Manner, moment: Moment) -> Result<(), StoreError> {
        match jobs {
            [Job::Batch(work)] => {
                let outcome = run::in_savepoint(&self.connection, || run::batch(&self.connection, &work.statements));
                let failure = outcome.as_ref().err().cloned();
                work.outcome = Some(outcome);
                match failure {
                    Some(error) if self.connection.is_autocommit() => Err(error),
                    _ => Ok(()),
                }
            }
            _ if manner == Manner::Quick => self.operate(jobs, moment),
            _ => {
                let fail = |jobs: &mut [Job], error: &StoreError| jobs.iter_mut().for_each(|job| job.fail(error));
                run::cached(&self.connection, "SAVEPOINT request").inspect_err(|error| fail(jobs, error))?;
                let outcome = self.operate(jobs, moment);
                if outcome.is_err() {
                    self.broker_is_right = false;
                }
                run::end_savepoint(&self.connection, outcome.is_ok()).inspect_err(|error| fail(jobs, error))?;
                outcome
            }
        }
    }

    fn operate(&mut self, jobs: &mut [Job], moment: Moment) -> Result<(), StoreError> {
        let mut sql = run::Session::new(&self.connection);
        let made = match &mut self.broker {
            Some(_) if self.broker_is_right => Ok(()),
            Some(broker) => broker.reload(&mut sql, moment),
            none => {
                let loaded = match self.standing {
                    Standing::Leads => Broker::load(&mut sql, moment),
                    Standing::Beside => Broker::load_beside(&mut sql, moment, true),
                    Standing::Alone => Broker::load_beside(&mut sql, moment, false),
                };
                loaded.map(|broker| *none = Some(broker))
            }
        };
        made.inspect_err(|error| jobs.iter_mut().for_each(|job| job.fail(error)))?;
        self.broker_is_right = true;
        match (&mut self.broker, jobs) {
            (Some(broker), [Job::Broker(work, _)]) => work.run(broker, &mut sql, moment),
            (Some(broker), jobs) => send(broker, &mut sql, moment, jobs),
            (None, _) => Ok(()),
        }
    }

    /// Whether what is committed is found by whoever opens the store next. Told once when it is not, and once when it
    /// is again.
    fn check_files(&mut self) -> Result<(), StoreError> {
        let checked = self.files.check();
        if checked.is_err() != self.lost && self.standing == Standing::Leads {
            let (level, event) = match checked {
                Ok(()) => (Level::Info, "store.found"),
                Err(_) => (Level::Error, "store.lost"),
            };
            let fields = checked.as_ref().err().map(|why| ("error", why.as_str().into())).into_iter().collect();
            log::write(&LogEntry { level, event, fields });
        }
        self.lost = checked.is_err();
        checked.map_err(StoreError::Unavailable)
    }

    /// Where there is no room for SQLite's log to grow, it begins anew in the room that it has once all of it is in the
    /// file. It would come to that by itself only when it is much longer. Answers whether it is worth another try.
    fn make_room(&mut self, error: &StoreError) -> bool {
        let text = error.text();
        let is_full = text.contains("disk is full") || text.contains("disk I/O error");
        if !is_full || self.emptied.is_some_and(|at| at.elapsed() < EMPTIED_EVERY) {
            return false;
        }
        self.emptied = Some(Instant::now());
        // A failure of this one leaves things as they are.
        run::number(&self.connection, "PRAGMA wal_checkpoint(PASSIVE)").is_ok()
    }
}

/// The moment that it is. The steady clock is the machine's, so that processes can tell each other what it showed.
fn moment() -> Moment {
    let steady = clock_gettime(ClockId::Monotonic);
    let steady_ms = steady.tv_sec.saturating_mul(1_000).saturating_add(steady.tv_nsec / 1_000_000);
    Moment { wall_ms: now_ms(), steady_ms, random: random() }
}
