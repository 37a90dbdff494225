//! Sending: checked whole, then appended whole.

use std::fmt::Write as _;

use super::error::BrokerError;
use super::limits::{
    BATCH_BYTES_MAX, BATCH_COUNT_MAX, DELAY_MAX_S, MESSAGE_BYTES_MAX, META_BYTES_MAX, QUEUE_BYTES_MAX,
};
use super::load::broken;
use super::sql::Sql;
use super::types::{Backlog, Content, MessageId, NewBatch, NewMessage, Sent};
use super::{Broker, Moment, Oldest, Tally, size};
use crate::store::StoreError;

const MESSAGE: &str = "INSERT INTO jadpo_queue_messages (seq, id, sent_at, kept_from, content, meta, body) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
pub(super) const DUE: &str = "INSERT INTO jadpo_queue_due (queue, due_at, seq, attempts, leased, bytes) \
    VALUES (?1, ?2, ?3, 0, 0, ?4)";
/// The same for messages that follow each other and are due at one time: their lengths come as a list in JSON.
const DUE_RUN: &str = "INSERT INTO jadpo_queue_due (queue, due_at, seq, attempts, leased, bytes) \
    SELECT ?1, ?2, ?3 + key, 0, 0, value FROM json_each(?4)";

/// For how long it is known when a queue's oldest message was sent, in milliseconds. Then it is looked up again, which
/// may look at a thousand rows.
const OLDEST_KNOWN_MS: i64 = 1_000;

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

    /// Bytes of all bodies.
    fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.body.len()).sum()
    }

    /// Bytes of all bodies and metadata.
    pub(super) fn size(&self) -> usize {
        self.messages.iter().map(NewMessage::size).sum()
    }
}

impl NewMessage {
    /// Bytes of its body and its metadata.
    pub(super) fn size(&self) -> usize {
        self.body.len() + self.meta.as_ref().map_or(0, String::len)
    }

    pub(super) fn check(&self, index: usize) -> Result<(), BrokerError> {
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
        let mut due = Vec::with_capacity(batch.messages.len());
        let sent = self.append_batch(sql, moment, name, batch, &mut due)?;
        self.insert_due(sql, name, &due)?;
        Ok(sent)
    }

    /// Keeps batches that came to one queue at the same time. Each stands for itself, and together they cost fewer
    /// statements.
    ///
    /// # Errors
    /// Of a batch: as [`Broker::send`]. Of all: the store failed, and none is kept.
    pub fn send_each<'a>(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        batches: impl Iterator<Item = &'a NewBatch>,
    ) -> Result<Vec<Result<Sent, BrokerError>>, StoreError> {
        let mut due = Vec::new();
        let mut outcomes = Vec::new();
        for batch in batches {
            match self.append_batch(sql, moment, name, batch, &mut due) {
                Err(BrokerError::Store(error)) => return Err(error),
                outcome => outcomes.push(outcome),
            }
        }
        match self.insert_due(sql, name, &due) {
            Err(BrokerError::Store(error)) => Err(error),
            _ => Ok(outcomes), // there are rows only if there is the queue
        }
    }

    /// Sends one message that was checked.
    pub(super) fn send_one(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        message: &NewMessage,
    ) -> Result<MessageId, BrokerError> {
        self.room(name, message.size())?;
        let mut due = Vec::with_capacity(1);
        let ids = self.append(sql, moment, name, std::slice::from_ref(message), None, &mut due)?;
        self.insert_due(sql, name, &due)?;
        ids.first().copied().ok_or_else(|| broken("a message has no id").into())
    }

    /// What a queue holds, if so many bytes more may come into it, metadata included.
    pub(super) fn room(&self, name: &str, bytes: usize) -> Result<Backlog, BrokerError> {
        let tally = &self.queue(name)?.tally;
        let after = tally.bytes.saturating_add(tally.meta).saturating_add(bytes as u64);
        if after > QUEUE_BYTES_MAX {
            return Err(BrokerError::QueueFull { limit: QUEUE_BYTES_MAX, actual: after });
        }
        Ok(Backlog { messages: tally.messages, bytes: tally.bytes })
    }

    fn append_batch(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        batch: &NewBatch,
        due: &mut Vec<Due>,
    ) -> Result<Sent, BrokerError> {
        batch.check()?;
        let before = self.room(name, batch.size())?;
        let oldest_before_ms = self.oldest_before_ms(sql, moment, name)?;
        let ids = self.append(sql, moment, name, &batch.messages, batch.delay_s, due)?;
        Ok(Sent { ids, before, oldest_before_ms })
    }

    /// When the oldest message of a queue that is sent to was sent. It is looked up once a second at most.
    fn oldest_before_ms(&mut self, sql: &mut dyn Sql, moment: Moment, name: &str) -> Result<Option<i64>, BrokerError> {
        let now_ms = self.clock.time_ms(moment);
        let queue = self.queue(name)?;
        if queue.tally.messages == 0 {
            let oldest = Oldest { sent_at_ms: Some(moment.wall_ms), looked_at_ms: now_ms };
            self.queue_mut(name)?.oldest = Some(oldest);
            return Ok(None);
        }
        if let Some(known) = queue.oldest.filter(|known| now_ms - known.looked_at_ms < OLDEST_KNOWN_MS) {
            return Ok(known.sent_at_ms);
        }
        let sent_at_ms = self.metrics(sql, name)?.oldest_sent_at_ms;
        self.queue_mut(name)?.oldest = Some(Oldest { sent_at_ms, looked_at_ms: now_ms });
        Ok(sent_at_ms)
    }

    /// Appends messages that were checked and have room, and notes the rows that are to say where they stand.
    fn append(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        messages: &[NewMessage],
        batch_delay_s: Option<u32>,
        due: &mut Vec<Due>,
    ) -> Result<Vec<MessageId>, BrokerError> {
        let default_delay_s = self.queue(name)?.info.settings.delivery_delay_s;
        let first = self.seqs(sql, messages.len())?;
        let now_ms = self.clock.time_ms(moment);
        let mut ids = Vec::with_capacity(messages.len());
        let (mut arrived, mut delayed, mut next_ms) = (Tally::default(), 0, None::<i64>);
        for (seq, message) in (first..).zip(messages) {
            ids.push(self.insert_message(sql, moment, seq, message)?);
            let delay_s = message.delay_s.or(batch_delay_s).unwrap_or(default_delay_s);
            let at_ms = due_at_ms(now_ms, i64::from(delay_s) * 1_000);
            let bytes = size::packed(message);
            due.push(Due { at_ms, seq, bytes });
            arrived.add(bytes);
            if at_ms > 0 {
                delayed += 1;
                next_ms = Some(next_ms.map_or(at_ms, |next_ms| next_ms.min(at_ms)));
            }
        }
        let queue = self.queue_mut(name)?;
        if let Some(next_ms) = next_ms {
            queue.waits_until(next_ms);
        }
        let tally = &mut queue.tally;
        tally.messages += arrived.messages;
        tally.bytes += arrived.bytes;
        tally.meta += arrived.meta;
        tally.delayed += delayed;
        Ok(ids)
    }

    /// Inserts a message under its number, and answers its id.
    pub(super) fn insert_message(
        &self,
        sql: &mut dyn Sql,
        moment: Moment,
        seq: i64,
        message: &NewMessage,
    ) -> Result<MessageId, StoreError> {
        let id = moment.id(seq);
        let id_bytes = id.to_be_bytes();
        let values = [
            seq.into(),
            id_bytes.as_slice().into(),
            moment.wall_ms.into(),
            self.clock.age_ms(moment).into(),
            message.content.number().into(),
            message.meta.as_deref().into(),
            message.body.as_slice().into(),
        ];
        sql.run(MESSAGE, &values)?;
        Ok(MessageId(id))
    }

    /// Inserts the rows of new messages.
    fn insert_due(&self, sql: &mut dyn Sql, name: &str, due: &[Due]) -> Result<(), BrokerError> {
        let queue = self.queue(name)?.number;
        for run in due.chunk_by(|one, next| one.at_ms == next.at_ms && one.seq + 1 == next.seq) {
            match run {
                [] => {}
                [one] => {
                    sql.run(DUE, &[queue.into(), one.at_ms.into(), one.seq.into(), one.bytes.into()])?;
                }
                [first, ..] => {
                    let lengths = json_list(run.iter().map(|due| due.bytes));
                    let values = [queue.into(), first.at_ms.into(), first.seq.into(), lengths.as_str().into()];
                    sql.run(DUE_RUN, &values)?;
                }
            }
        }
        Ok(())
    }
}

/// Where a new message is to stand, and how much it takes.
struct Due {
    at_ms: i64,
    seq: i64,
    bytes: u32,
}

fn json_list(numbers: impl Iterator<Item = u32>) -> String {
    let mut list = "[".to_owned();
    for number in numbers {
        if list.len() > 1 {
            list.push(',');
        }
        // Writing to a text does not fail.
        let _ = write!(list, "{number}");
    }
    list.push(']');
    list
}

/// When a message may be taken: 0, which is at once and in the order of sending, or a time.
pub(super) fn due_at_ms(now_ms: i64, delay_ms: i64) -> i64 {
    if delay_ms == 0 { 0 } else { now_ms + delay_ms }
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
