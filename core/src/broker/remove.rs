//! Removing messages that an operator or a caller points at, wherever they stand.

use super::error::BrokerError;
use super::lease::MessageRef;
use super::limits::BATCH_COUNT_MAX;
use super::sql::Sql;
use super::{Broker, settle};
use crate::broken::{self, Variant};

/// What a removal gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    /// Messages that are gone now.
    pub removed: usize,
    /// Those that were gone before, or never were in this queue.
    pub unknown: Vec<MessageRef>,
}

/// What there was of a message that was removed.
pub(super) struct Was {
    pub(super) had_row: bool,
    pub(super) had_body: bool,
}

impl Broker {
    /// Removes up to 100 messages of one queue, as an ack does: whether they are ready, delayed or with a consumer. What
    /// a consumer that has one of them does with it changes nothing any more.
    ///
    /// # Errors
    /// [`BrokerError::BatchCount`], [`BrokerError::QueueNotFound`], [`BrokerError::Store`].
    pub fn remove(&mut self, sql: &mut dyn Sql, name: &str, references: &[MessageRef]) -> Result<Removed, BrokerError> {
        if references.is_empty() || references.len() > BATCH_COUNT_MAX {
            return Err(BrokerError::BatchCount { limit: BATCH_COUNT_MAX, actual: references.len() });
        }
        let queue = self.queue(name)?.number;
        let mut removed = Removed::default();
        for reference in references {
            let seq = reference.seq - i64::from(broken::is(Variant::RemovalTakesAnother));
            let reference = &MessageRef { seq, ..*reference };
            // Numbers are never used twice, so of another queue's contents nothing is touched.
            if reference.queue == queue && self.remove_at(sql, name, reference)?.had_body {
                removed.removed += 1;
            } else {
                removed.unknown.push(*reference);
            }
        }
        Ok(removed)
    }

    /// Removes a message that stood at this place: from there, or from among the ready ones. If it stands elsewhere,
    /// under a lease or a delay that came later, only its body goes, and its row when that ends, so that nobody has to
    /// look for it.
    pub(super) fn remove_at(
        &mut self,
        sql: &mut dyn Sql,
        name: &str,
        reference: &MessageRef,
    ) -> Result<Was, BrokerError> {
        let MessageRef { queue, due_at_ms, seq } = *reference;
        let rows = sql.run(settle::STOOD, &[queue.into(), due_at_ms.into(), seq.into()])?.rows;
        let found = rows.first().map(|row| super::leave::place(queue, row)).transpose()?;
        if let Some(place) = &found {
            self.forget(sql, name, place)?;
        }
        let had_body = sql.run(settle::ACK_MESSAGE, &[seq.into()])?.changes > 0;
        Ok(Was { had_row: found.is_some(), had_body })
    }
}
