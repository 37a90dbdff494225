//! Consumers: who takes from a queue, as the store knows it. One for each queue. What a function of the app consumes has
//! none here; the server knows of it and refuses a second.

use super::error::BrokerError;
use super::limits::TOKEN_NAME_BYTES_MAX;
use super::load::{integer, text};
use super::settings::{ConsumerSettings, Settings};
use super::sql::Sql;
use super::tokens::check_name;
use super::{Broker, Moment};
use crate::store::StoreError;

const ALL: &str = "SELECT queue, id, script, environment, created_at FROM jadpo_queue_consumers";
const INSERT: &str = "INSERT INTO jadpo_queue_consumers (queue, id, script, environment, created_at) \
    VALUES (?1, ?2, ?3, ?4, ?5)";
const DELETE: &str = "DELETE FROM jadpo_queue_consumers WHERE queue = ?1";

/// Messages that a pull gives which names no number, where its consumer was not set otherwise. As Cloudflare has it.
const PULL_BATCH_SIZE: u32 = 5;

/// Who consumes a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Its id, 32 lowercase hex digits.
    pub id: String,
    /// Who it is.
    pub kind: ConsumerKind,
    /// When it was added, in milliseconds since 1970.
    pub created_at_ms: i64,
}

/// Who a consumer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsumerKind {
    /// Whoever pulls over HTTP.
    HttpPull,
    /// A Worker.
    Worker {
        /// Its name.
        script: String,
        /// Its environment, if it has one.
        environment: Option<String>,
    },
}

impl ConsumerKind {
    /// What it is, for a person.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::HttpPull => "an http_pull consumer".to_owned(),
            Self::Worker { script, .. } => format!("the Worker `{script}`"),
        }
    }

    /// What is set for such a consumer if nothing is said.
    #[must_use]
    pub fn default_settings(&self) -> ConsumerSettings {
        match self {
            Self::HttpPull => ConsumerSettings { batch_size: PULL_BATCH_SIZE, ..ConsumerSettings::default() },
            Self::Worker { .. } => ConsumerSettings::default(),
        }
    }

    fn check(&self) -> Result<(), BrokerError> {
        let Self::Worker { script, environment } = self else { return Ok(()) };
        check_name("a Worker's name", script, TOKEN_NAME_BYTES_MAX)?;
        let environment = environment.as_deref();
        environment.map_or(Ok(()), |name| check_name("an environment's name", name, TOKEN_NAME_BYTES_MAX))
    }
}

impl Broker {
    /// A queue's consumer.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`].
    pub fn consumer(&self, name: &str) -> Result<Option<&Consumer>, BrokerError> {
        Ok(self.queue(name)?.consumer.as_ref())
    }

    /// Gives a queue a consumer, and sets what is to be set for it. With an `id` that no other queue's consumer has, it
    /// has that id.
    ///
    /// # Errors
    /// [`BrokerError::ConsumerExists`], a refusal of what it is or of its settings, [`BrokerError::QueueNotFound`],
    /// [`BrokerError::Store`].
    pub fn add_consumer(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        kind: ConsumerKind,
        settings: ConsumerSettings,
        id: Option<&str>,
    ) -> Result<Consumer, BrokerError> {
        kind.check()?;
        let queue = self.queue(name)?;
        let settings = Settings { consumer: settings, ..queue.info.settings.clone() };
        settings.check(name)?;
        if let Some(present) = &queue.consumer {
            let (present, wanted) = (present.kind.in_words(), kind.in_words());
            return Err(BrokerError::ConsumerExists { queue: name.to_owned(), present, wanted });
        }
        let is_taken = |id: &str| self.queues.values().any(|queue| queue.consumer.as_ref().is_some_and(|c| c.id == id));
        let id = match id.filter(|id| !is_taken(id)) {
            Some(id) => id.to_owned(),
            // Far from the numbers that messages' and queues' ids are made of.
            None => format!("{:032x}", moment.id(i64::MIN.wrapping_add(queue.number))),
        };
        let (script, environment) = match &kind {
            ConsumerKind::HttpPull => (None, None),
            ConsumerKind::Worker { script, environment } => (Some(script.as_str()), environment.as_deref()),
        };
        let values = [name.into(), id.as_str().into(), script.into(), environment.into(), moment.wall_ms.into()];
        sql.run(INSERT, &values)?;
        self.update(sql, moment, name, settings)?;
        let consumer = Consumer { id, kind, created_at_ms: moment.wall_ms };
        self.queue_mut(name)?.consumer = Some(consumer.clone());
        Ok(consumer)
    }

    /// Takes a queue's consumer away, and what was set for it. Its messages stay; those that are leased can be settled
    /// still.
    ///
    /// # Errors
    /// [`BrokerError::ConsumerNotFound`], [`BrokerError::QueueNotFound`], [`BrokerError::Store`].
    pub fn remove_consumer(&mut self, sql: &mut dyn Sql, moment: Moment, name: &str) -> Result<Consumer, BrokerError> {
        let queue = self.queue(name)?;
        let Some(consumer) = queue.consumer.clone() else {
            return Err(BrokerError::ConsumerNotFound { queue: name.to_owned() });
        };
        let settings = Settings { consumer: ConsumerSettings::default(), ..queue.info.settings.clone() };
        self.forget_consumer(sql, name)?;
        self.update(sql, moment, name, settings)?;
        Ok(consumer)
    }

    pub(super) fn forget_consumer(&mut self, sql: &mut dyn Sql, name: &str) -> Result<(), BrokerError> {
        if self.queue(name)?.consumer.is_some() {
            sql.run(DELETE, &[name.into()])?;
            self.queue_mut(name)?.consumer = None;
        }
        Ok(())
    }

    pub(super) fn read_consumers(&mut self, sql: &mut dyn Sql) -> Result<(), StoreError> {
        for row in sql.run(ALL, &[])?.rows {
            let (id, created_at_ms) = (text(&row, 1)?, integer(&row, 4)?);
            let kind = match row.text(2) {
                None => ConsumerKind::HttpPull,
                Some(script) => {
                    let environment = row.text(3).map(str::to_owned);
                    ConsumerKind::Worker { script: script.to_owned(), environment }
                }
            };
            if let Some(queue) = self.queues.get_mut(&text(&row, 0)?) {
                queue.consumer = Some(Consumer { id, kind, created_at_ms });
            }
        }
        Ok(())
    }
}
