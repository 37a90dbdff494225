//! What the broker keeps in memory, made from the store.

use std::collections::{BTreeMap, BTreeSet};

use super::clock::{Clock, Written};
use super::lease::LeaseKey;
use super::settings::{ConsumerSettings, Settings};
use super::sql::Sql;
use super::types::QueueInfo;
use super::{Broker, Moment, Queue, Tally, schema};
use crate::store::{Row, StoreError, Value};

const VERSION: &str = "SELECT version FROM jadpo_broker";
const HEAD: &str = "SELECT lease_key, next_seq, next_queue, clock_ms, age_ms, account, steady_ms FROM jadpo_broker";
const QUEUES: &str = "SELECT name, queue, id, created_at, modified_at, delivery_delay_s, retention_s, paused, \
    batch_size, batch_wait_ms, max_retries, retry_delay_s, visibility_ms, dead_letter_queue, max_concurrency, \
    purged_at FROM jadpo_queues";
/// What each queue holds, `bytes` unpacked as `size` does it.
const TALLIES: &str = "SELECT queue, count(*), sum(bytes & 131071), sum(leased), sum(leased = 0 AND due_at > 0), \
    4 * sum(bytes >> 17) \
    FROM jadpo_queue_due GROUP BY queue";
const GARBAGE: &str = "SELECT queue FROM jadpo_queue_garbage";
const DISABLED: &str = "SELECT name FROM jadpo_triggers WHERE enabled = 0";

impl Broker {
    /// Reads the store. Counting a million waiting messages takes about a tenth of a second.
    ///
    /// # Errors
    /// Any [`StoreError`]; `NotCurrent` if the store has not been brought up to date.
    pub fn load(sql: &mut dyn Sql, moment: Moment) -> Result<Self, StoreError> {
        let version = sql.run(VERSION, &[])?.rows.first().map(|row| integer(row, 0)).transpose()?;
        if version.ok_or_else(|| broken("its head is gone"))? < schema::VERSION {
            return Err(StoreError::NotCurrent("its queues are of an earlier version".to_owned()));
        }
        let head = sql.run(HEAD, &[])?.rows.into_iter().next().ok_or_else(|| broken("its head is gone"))?;
        let key = match head.0.first() {
            Some(Value::Blob(key)) => LeaseKey::new(key),
            _ => None,
        };
        let key = key.ok_or_else(|| broken("its lease key is gone"))?;
        let next_seq = integer(&head, 1)?;
        let written = Written { time_ms: integer(&head, 3)?, age_ms: integer(&head, 4)?, steady_ms: head.integer(6) };
        let mut broker = Self {
            queues: BTreeMap::new(),
            names: BTreeMap::new(),
            account: text(&head, 5)?,
            tokens: Self::read_tokens(sql)?,
            garbage: BTreeSet::new(),
            key,
            clock: Clock::start(moment, written),
            next_seq,
            reserved_seq: next_seq,
            next_queue: integer(&head, 2)?,
            swept_last: String::new(),
            disabled: BTreeSet::new(),
            later: Default::default(),
        };
        broker.read_queues(sql)?;
        Ok(broker)
    }

    /// The same for a command, which may stand beside a server: then its clocks are that server's, as far as they can
    /// be told, and if a server comes later it follows that one's.
    ///
    /// # Errors
    /// As [`Broker::load`].
    pub fn load_beside(sql: &mut dyn Sql, moment: Moment, a_server_runs: bool) -> Result<Self, StoreError> {
        let mut broker = Self::load(sql, moment)?;
        broker.clock.follow(moment, a_server_runs);
        Ok(broker)
    }

    /// Reads the store again, after a failure or after somebody else wrote to it. Its clocks run on.
    ///
    /// # Errors
    /// As [`Broker::load`]. It must not be used before a reload succeeded.
    pub fn reload(&mut self, sql: &mut dyn Sql, moment: Moment) -> Result<(), StoreError> {
        let Self { queues, clock, swept_last, .. } = std::mem::replace(self, Self::load(sql, moment)?);
        (self.clock, self.swept_last) = (clock.with_news(&self.clock, moment), swept_last);
        for (name, queue) in &mut self.queues {
            // Or a store that others write to would always begin to wait for a batch anew.
            let known = queues.get(name).filter(|known| known.number == queue.number);
            queue.ready_since_ms = known.and_then(|known| known.ready_since_ms);
        }
        Ok(())
    }

    fn read_queues(&mut self, sql: &mut dyn Sql) -> Result<(), StoreError> {
        let mut tallies = BTreeMap::new();
        for row in sql.run(TALLIES, &[])?.rows {
            let count = |column| Ok::<_, StoreError>(integer(&row, column)?.unsigned_abs());
            let (messages, bytes, meta) = (count(1)?, count(2)?, count(5)?);
            let tally = Tally { messages, bytes, meta, leased: count(3)?, delayed: count(4)? };
            tallies.insert(integer(&row, 0)?, tally);
        }
        for row in sql.run(QUEUES, &[])?.rows {
            let number = integer(&row, 1)?;
            let tally = tallies.remove(&number).unwrap_or_default();
            let info = info(&row)?;
            self.names.insert(info.id.clone(), info.name.clone());
            let purged_at_ms = row.integer(15);
            let queue = Queue { purged_at_ms, ..Queue::new(info, number, tally) };
            self.queues.insert(queue.info.name.clone(), queue);
        }
        self.read_consumers(sql)?;
        for row in sql.run(GARBAGE, &[])?.rows {
            self.garbage.insert(integer(&row, 0)?);
        }
        for row in sql.run(DISABLED, &[])?.rows {
            self.disabled.insert(text(&row, 0)?);
        }
        Ok(())
    }
}

fn info(row: &Row) -> Result<QueueInfo, StoreError> {
    let settings = Settings {
        delivery_delay_s: small(row, 5)?,
        retention_s: small(row, 6)?,
        paused: integer(row, 7)? != 0,
        consumer: ConsumerSettings {
            batch_size: small(row, 8)?,
            batch_wait_ms: small(row, 9)?,
            max_retries: small(row, 10)?,
            retry_delay_s: small(row, 11)?,
            visibility_ms: small(row, 12)?,
            dead_letter_queue: row.text(13).map(str::to_owned),
            max_concurrency: row.integer(14).and_then(|most| u32::try_from(most).ok()),
        },
    };
    Ok(QueueInfo {
        name: text(row, 0)?,
        id: text(row, 2)?,
        created_at_ms: integer(row, 3)?,
        modified_at_ms: integer(row, 4)?,
        settings,
    })
}

pub(super) fn integer(row: &Row, column: usize) -> Result<i64, StoreError> {
    row.integer(column).ok_or_else(|| broken("a number is none"))
}

pub(super) fn small(row: &Row, column: usize) -> Result<u32, StoreError> {
    u32::try_from(integer(row, column)?).map_err(|_| broken("a number is out of its range"))
}

pub(super) fn text(row: &Row, column: usize) -> Result<String, StoreError> {
    row.text(column).map(str::to_owned).ok_or_else(|| broken("a text is none"))
}

/// What only somebody else's hand in the file can do.
pub(super) fn broken(what: &str) -> StoreError {
    StoreError::Refused(format!("the queues' tables are damaged: {what}"))
}
