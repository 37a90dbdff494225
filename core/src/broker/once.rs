//! Sending once: a message whose sender repeats itself, as those of webhooks do.

use sha2::{Digest as _, Sha256};

use super::error::BrokerError;
use super::limits::ONCE_KEPT_MS;
use super::sql::Sql;
use super::take::message_id;
use super::types::{NewMessage, Once, SentOnce};
use super::{Broker, Moment};
use crate::store::StoreError;

const KNOWN: &str = "SELECT id FROM jadpo_queue_once WHERE key = ?1";
const REMEMBER: &str = "INSERT INTO jadpo_queue_once (key, id, kept_from) VALUES (?1, ?2, ?3)";
const FORGET: &str = "DELETE FROM jadpo_queue_once WHERE key IN \
    (SELECT key FROM jadpo_queue_once WHERE kept_from <= ?1 ORDER BY kept_from LIMIT ?2)";

impl Broker {
    /// Sends a message unless one was sent under the same key before. The key is remembered with the message, in one
    /// transaction, for a week of the broker's age, whatever became of the message meanwhile.
    ///
    /// # Errors
    /// As [`send`](Self::send). A repeat is none, also to a queue that is full.
    pub fn send_once(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        once: Once<'_>,
        message: &NewMessage,
    ) -> Result<SentOnce, BrokerError> {
        message.check(0)?;
        self.queue(name)?;
        let key = once.hash();
        if let Some(row) = sql.run(KNOWN, &[key.as_slice().into()])?.rows.first() {
            return Ok(SentOnce::Repeat(message_id(row, 0)?));
        }
        let id = self.send_one(sql, moment, name, message)?;
        let id_bytes = id.0.to_be_bytes();
        let age_ms = self.clock.age_ms(moment);
        sql.run(REMEMBER, &[key.as_slice().into(), id_bytes.as_slice().into(), age_ms.into()])?;
        Ok(SentOnce::Sent(id))
    }

    /// Forgets keys that were remembered long enough.
    pub(super) fn forget_sent_once(&self, sql: &mut dyn Sql, moment: Moment, most: usize) -> Result<(), StoreError> {
        let before_ms = self.clock.age_ms(moment) - ONCE_KEPT_MS;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        sql.run(FORGET, &[before_ms.into(), most.into()])?;
        Ok(())
    }
}

impl Once<'_> {
    /// What is stored of it: the same size for a key of any length.
    fn hash(&self) -> [u8; 32] {
        let length = (self.scope.len() as u64).to_be_bytes();
        Sha256::new().chain_update(length).chain_update(self.scope).chain_update(self.key).finalize().into()
    }
}
