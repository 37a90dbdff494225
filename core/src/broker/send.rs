//! Sending: checked whole, then appended whole.

use super::error::BrokerError;
use super::limits::{
    BATCH_BYTES_MAX, BATCH_COUNT_MAX, DELAY_MAX_S, MESSAGE_BYTES_MAX, META_BYTES_MAX, QUEUE_BYTES_MAX,
};
use super::sql::Sql;
use super::types::{Backlog, Content, MessageId, NewBatch, NewMessage, Sent};
use super::{Broker, Moment};
use crate::store::StoreError;

const MESSAGE: &str = "INSERT INTO jadpo_queue_messages (seq, id, sent_at, kept_from, content, meta, body) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
pub(super) const DUE: &str = "INSERT INTO jadpo_queue_due (queue, due_at, seq, attempts, leased, bytes) \
    VALUES (?1, ?2, ?3, 0, 0, ?4)";
/// The same for messages that follow each other and are due at one time: their lengths come as a list in JSON.
const DUE_RUN: &str = "INSERT INTO jadpo_queue_due (queue, due_at, seq, attempts, leased, bytes) \
    SELECT ?1, ?2, ?3 + key, 0, 0, value FROM json_each(?4)";

impl NewBatch {
    /// What Cloudflare's limits say about it: the count first, then each message, then all together.
    ///
    /// # Errors
    /// The first limit that it breaks. Needs no queue, so it can be asked before anything waits for the store.
    pub fn check(&self) -> Result<(), BrokerError> {
        let count = self.messages.len();
        if count == 0 || count > BATCH_COUNT_MAX {
            return Err(BrokerError::BatchCount { limit: BATCH_COUNT_MAX, actual: count });
        }
        if let Some(actual) = self.delay_s.filter(|delay| *delay > DELAY_MAX_S) {
            return Err(BrokerError::BatchDelayTooLong { limit: DELAY_MAX_S, actual });
        }
        self.messages.iter().enumerate().try_for_each(|(index, message)| message.check(index))?;
        let bytes = self.bytes();
        if bytes > BATCH_BYTES_MAX {
            return Err(BrokerError::BatchTooBig { limit: BATCH_BYTES_MAX, actual: bytes });
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.body.len()).sum()
    }
}

impl NewMessage {
    fn check(&self, index: usize) -> Result<(), BrokerError> {
        let bytes = self.body.len();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(BrokerError::MessageTooBig { index, limit: MESSAGE_BYTES_MAX, actual: bytes });
        }
        if bytes == 0 && self.content == Content::Json {
            return Err(BrokerError::JsonEmpty { index });
        }
        if let Some(actual) = self.delay_s.filter(|delay| *delay > DELAY_MAX_S) {
            return Err(BrokerError::DelayTooLong { index, limit: DELAY_MAX_S, actual });
        }
        match self.meta.as_ref().map(String::len) {
            Some(actual) if actual > META_BYTES_MAX => {
                Err(BrokerError::MetaTooBig { index, limit: META_BYTES_MAX, actual })
            }
            _ => Ok(()),
        }
    }
}

impl Broker {
    /// Keeps the messages, all of them or none.
    ///
    /// # Errors
    /// A refusal, in the order of [`NewBatch::check`], then the queue's own; or [`BrokerError::Store`].
    pub fn send(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        batch: &NewBatch,
    ) -> Result<Sent, BrokerError> {
        batch.check()?;
        let queue = self.queue(name)?;
        let (number, default_delay_s) = (queue.number, queue.info.settings.delivery_delay_s);
        let before = Backlog { messages: queue.tally.messages, bytes: queue.tally.bytes };
        let after = before.bytes.saturating_add(batch.bytes() as u64);
        if after > QUEUE_BYTES_MAX {
            return Err(BrokerError::QueueFull { limit: QUEUE_BYTES_MAX, actual: after });
        }
        let first = self.seqs(sql, batch.messages.len())?;
        let (now_ms, age_ms) = (self.clock.time_ms(moment), self.clock.age_ms(moment));
        let mut ids = Vec::with_capacity(batch.messages.len());
        let mut due = Vec::with_capacity(batch.messages.len());
        for (seq, message) in (first..).zip(&batch.messages) {
            let id = moment.id(seq);
            let id_bytes = id.to_be_bytes();
            let values = [
                seq.into(),
                id_bytes.as_slice().into(),
                moment.wall_ms.into(),
                age_ms.into(),
                message.content.number().into(),
                message.meta.as_deref().into(),
                message.body.as_slice().into(),
            ];
            sql.run(MESSAGE, &values)?;
            let delay_s = message.delay_s.or(batch.delay_s).unwrap_or(default_delay_s);
            due.push((due_at_ms(now_ms, delay_s), seq, length(message.body.len())));
            ids.push(MessageId(id));
        }
        insert_due(sql, number, &due)?;
        let delayed = due.iter().filter(|(due_at_ms, ..)| *due_at_ms > 0).count() as u64;
        let tally = &mut self.queue_mut(name)?.tally;
        tally.messages += batch.messages.len() as u64;
        tally.bytes = after;
        tally.delayed += delayed;
        Ok(Sent { ids, before })
    }
}

/// Inserts the rows of new messages: due time, number, bytes.
fn insert_due(sql: &mut dyn Sql, queue: i64, due: &[(i64, i64, u32)]) -> Result<(), StoreError> {
    for run in due.chunk_by(|one, next| one.0 == next.0) {
        match run {
            [] => {}
            [(due_at_ms, seq, bytes)] => {
                sql.run(DUE, &[queue.into(), (*due_at_ms).into(), (*seq).into(), (*bytes).into()])?;
            }
            [(due_at_ms, first, _), ..] => {
                let lengths: Vec<String> = run.iter().map(|(_, _, bytes)| bytes.to_string()).collect();
                let lengths = format!("[{}]", lengths.join(","));
                sql.run(DUE_RUN, &[queue.into(), (*due_at_ms).into(), (*first).into(), lengths.as_str().into()])?;
            }
        }
    }
    Ok(())
}

/// When a message may be taken: 0, which is at once and in the order of sending, or a time.
pub(super) fn due_at_ms(now_ms: i64, delay_s: u32) -> i64 {
    if delay_s == 0 { 0 } else { now_ms + i64::from(delay_s) * 1_000 }
}

/// A body's length, which no limit lets past 32 bits.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Content {
    /// Its number in the store.
    fn number(self) -> u32 {
        match self {
            Self::Text => 0,
            Self::Json => 1,
            Self::Bytes => 2,
            Self::V8 => 3,
        }
    }
}
