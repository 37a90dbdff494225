//! Sending once: a message whose sender repeats itself, as those of webhooks do.

use sha2::{Digest as _, Sha256};

use super::error::BrokerError;
use super::limits::ONCE_KEPT_MS;
use super::sql::Sql;
use super::take::message_id;
use super::types::{MessageId, NewMessage, Once, SentOnce, TakenOnce};
use super::{Broker, Moment};
use crate::broken::{self, Variant};
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
        if let Some(id) = known(sql, once)? {
            return Ok(SentOnce::Repeat(id));
        }
        let id = self.send_one(sql, moment, name, message)?;
        self.remember(sql, moment, once, id)?;
        Ok(SentOnce::Sent(id))
    }

    /// The same as [`send_taken`](Self::send_taken): a message that is sent is leased to its sender at once.
    ///
    /// # Errors
    /// As [`send_taken`](Self::send_taken). A repeat is none, also to a queue that is paused or full.
    pub fn send_once_taken(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        once: Once<'_>,
        message: &NewMessage,
        visibility_ms: u32,
    ) -> Result<TakenOnce, BrokerError> {
        message.check(0)?;
        self.queue(name)?;
        if let Some(id) = known(sql, once)? {
            return Ok(TakenOnce::Repeat(id));
        }
        let taken = self.send_taken(sql, moment, name, message, visibility_ms)?;
        self.remember(sql, moment, once, taken.message.id)?;
        Ok(TakenOnce::Taken(taken))
    }

    fn remember(&mut self, sql: &mut dyn Sql, moment: Moment, once: Once<'_>, id: MessageId) -> Result<(), StoreError> {
        let (key, id) = (once.hash(), id.0.to_be_bytes());
        let values = [key.as_slice().into(), id.as_slice().into(), self.clock.age_ms(moment).into()];
        self.run_or_put_off(Variant::KeyRememberedLater, sql, REMEMBER, &values)
    }

    /// Forgets keys that were remembered long enough.
    pub(super) fn forget_sent_once(&self, sql: &mut dyn Sql, moment: Moment, most: usize) -> Result<(), StoreError> {
        let before_ms = self.clock.age_ms(moment) - ONCE_KEPT_MS;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        sql.run(FORGET, &[before_ms.into(), most.into()])?;
        Ok(())
    }
}

/// The message that was sent under this key, if one was.
fn known(sql: &mut dyn Sql, once: Once<'_>) -> Result<Option<MessageId>, StoreError> {
    let rows = sql.run(KNOWN, &[once.hash().as_slice().into()])?.rows;
    rows.first().map(|row| message_id(row, 0)).transpose()
}

impl Once<'_> {
    /// What is stored of it: the same size for a key of any length.
    fn hash(&self) -> [u8; 32] {
        let scope = if broken::is(Variant::KeyWithoutScope) { "" } else { self.scope };
        let length = (scope.len() as u64).to_be_bytes();
        Sha256::new().chain_update(length).chain_update(scope).chain_update(self.key).finalize().into()
    }
}
