//! Queues: made, changed, paused, emptied, deleted.

use super::error::BrokerError;
use super::limits::QUEUES_MAX;
use super::settings::{Settings, check_name};
use super::sql::Sql;
use super::types::{Backlog, QueueInfo};
use super::{Broker, Moment, Queue, Tally};
use crate::broken::{self, Variant};
use crate::store::StoreError;

const INSERT: &str = "INSERT INTO jadpo_queues (name, queue, id, created_at, modified_at, delivery_delay_s, \
    retention_s, paused, batch_size, batch_wait_ms, max_retries, retry_delay_s, visibility_ms, dead_letter_queue, \
    max_concurrency) VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const UPDATE: &str = "UPDATE jadpo_queues SET modified_at = ?2, delivery_delay_s = ?3, retention_s = ?4, paused = ?5, \
    batch_size = ?6, batch_wait_ms = ?7, max_retries = ?8, retry_delay_s = ?9, visibility_ms = ?10, \
    dead_letter_queue = ?11, max_concurrency = ?12 WHERE name = ?1";
const NUMBER: &str = "UPDATE jadpo_broker SET next_queue = ?1";
const RENUMBER: &str = "UPDATE jadpo_queues SET queue = ?2, purged_at = ?3 WHERE name = ?1";
const DELETE: &str = "DELETE FROM jadpo_queues WHERE name = ?1";
const DISCARD: &str = "INSERT INTO jadpo_queue_garbage (queue) VALUES (?1)";

impl Broker {
    /// Makes a queue.
    ///
    /// # Errors
    /// A refusal for its name or its settings, or because it exists; [`BrokerError::Store`].
    pub fn create(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        settings: Settings,
    ) -> Result<QueueInfo, BrokerError> {
        check_name(name)?;
        settings.check(name)?;
        if self.queues.contains_key(name) {
            return Err(BrokerError::QueueExists(name.to_owned()));
        }
        if self.queues.len() >= QUEUES_MAX {
            return Err(BrokerError::TooManyQueues { limit: QUEUES_MAX });
        }
        Ok(self.make(sql, moment, name, settings)?)
    }

    /// Makes a queue that may be made.
    pub(super) fn make(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        settings: Settings,
    ) -> Result<QueueInfo, StoreError> {
        let number = self.number(sql)?;
        let id = format!("{:032x}", moment.id(number.wrapping_neg()));
        let (queue, consumer) = (&settings, &settings.consumer);
        let values = [
            name.into(),
            number.into(),
            id.as_str().into(),
            moment.wall_ms.into(),
            queue.delivery_delay_s.into(),
            queue.retention_s.into(),
            queue.paused.into(),
            consumer.batch_size.into(),
            consumer.batch_wait_ms.into(),
            consumer.max_retries.into(),
            consumer.retry_delay_s.into(),
            consumer.visibility_ms.into(),
            consumer.dead_letter_queue.as_deref().into(),
            consumer.max_concurrency.into(),
        ];
        sql.run(INSERT, &values)?;
        let (created_at_ms, modified_at_ms) = (moment.wall_ms, moment.wall_ms);
        let info = QueueInfo { name: name.to_owned(), id, created_at_ms, modified_at_ms, settings };
        self.names.insert(info.id.clone(), info.name.clone());
        self.queues.insert(name.to_owned(), Queue::new(info.clone(), number, Tally::default()));
        Ok(info)
    }

    /// Changes a queue's settings, pausing and resuming it among them. They hold from now on, also for what waits.
    ///
    /// # Errors
    /// A refusal for its settings, or because there is no such queue; [`BrokerError::Store`].
    pub fn update(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        settings: Settings,
    ) -> Result<QueueInfo, BrokerError> {
        settings.check(name)?;
        let held = self.queue_mut(name)?;
        let (queue, consumer) = (&settings, &settings.consumer);
        let values = [
            name.into(),
            moment.wall_ms.into(),
            queue.delivery_delay_s.into(),
            queue.retention_s.into(),
            queue.paused.into(),
            consumer.batch_size.into(),
            consumer.batch_wait_ms.into(),
            consumer.max_retries.into(),
            consumer.retry_delay_s.into(),
            consumer.visibility_ms.into(),
            consumer.dead_letter_queue.as_deref().into(),
            consumer.max_concurrency.into(),
        ];
        sql.run(UPDATE, &values)?;
        held.info.modified_at_ms = moment.wall_ms;
        held.info.settings = settings;
        held.expires_at_age_ms = 0;
        Ok(held.info.clone())
    }

    /// Pauses a queue or lets it go on.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
    pub fn pause(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        paused: bool,
    ) -> Result<QueueInfo, BrokerError> {
        let settings = Settings { paused, ..self.queue(name)?.info.settings.clone() };
        self.update(sql, moment, name, settings)
    }

    /// Empties a queue: what it holds, leased or not, is gone at once, however much it is. The space is given back by
    /// later sweeps.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
    pub fn purge(&mut self, sql: &mut dyn Sql, moment: Moment, name: &str) -> Result<Backlog, BrokerError> {
        let old = self.queue(name)?.number;
        let number = self.number(sql)?;
        sql.run(RENUMBER, &[name.into(), number.into(), moment.wall_ms.into()])?;
        if !broken::is(Variant::PurgeForgetsGarbage) {
            sql.run(DISCARD, &[old.into()])?;
            self.garbage.insert(old);
        }
        let held = self.queue_mut(name)?;
        let Tally { messages, bytes, .. } = held.tally;
        let fresh = Queue::new(held.info.clone(), number, Tally::default());
        *held = Queue { consumer: held.consumer.take(), purged_at_ms: Some(moment.wall_ms), ..fresh };
        Ok(Backlog { messages, bytes })
    }

    /// Deletes a queue with all it holds. Queues that name it as their dead-letter queue make a new one when they
    /// need it.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
    pub fn delete(&mut self, sql: &mut dyn Sql, name: &str) -> Result<Backlog, BrokerError> {
        let Queue { number, tally, .. } = *self.queue(name)?;
        self.forget_consumer(sql, name)?;
        sql.run(DELETE, &[name.into()])?;
        sql.run(DISCARD, &[number.into()])?;
        self.garbage.insert(number);
        if let Some(queue) = self.queues.remove(name) {
            self.names.remove(&queue.info.id);
        }
        Ok(Backlog { messages: tally.messages, bytes: tally.bytes })
    }

    /// Every queue, by name.
    pub fn list(&self) -> impl Iterator<Item = &QueueInfo> {
        self.queues.values().map(|queue| &queue.info)
    }

    /// One queue.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`].
    pub fn info(&self, name: &str) -> Result<&QueueInfo, BrokerError> {
        Ok(&self.queue(name)?.info)
    }

    /// When a queue was last purged, in milliseconds since 1970, if ever.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`].
    pub fn purged_at_ms(&self, name: &str) -> Result<Option<i64>, BrokerError> {
        Ok(self.queue(name)?.purged_at_ms)
    }

    /// A number for a queue's contents that none had before.
    fn number(&mut self, sql: &mut dyn Sql) -> Result<i64, StoreError> {
        let number = self.next_queue;
        self.next_queue += 1;
        sql.run(NUMBER, &[self.next_queue.into()])?;
        Ok(number)
    }
}
