//! What a redrive would do, without doing it.

use std::collections::BTreeMap;

use super::Redrive;
use super::filter::{Cursor, Way};
use crate::broker::error::BrokerError;
use crate::broker::sql::Sql;
use crate::broker::{Broker, Moment};

/// What a redrive would do now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedrivePreview {
    /// Letters that the filter holds for, wherever they would go.
    pub matched: u64,
    /// How many of them would go to which queue.
    pub by_target: BTreeMap<String, u64>,
    /// How many are with a consumer, and would stay.
    pub held: u64,
    /// How many have nowhere to go, and would stay.
    pub without_origin: u64,
}

/// A look that is going on: a long queue is looked through slice by slice, so that nobody waits for it.
#[derive(Debug, Clone)]
pub struct RedriveLook {
    redrive: Redrive,
    cursor: Cursor,
    preview: RedrivePreview,
    over: bool,
}

impl RedriveLook {
    /// What was found, when all has been looked at.
    #[must_use]
    pub fn done(&self) -> Option<&RedrivePreview> {
        self.over.then_some(&self.preview)
    }
}

impl Broker {
    /// Begins to look at what a redrive would do; [`redrive_look_on`](Self::redrive_look_on) until it is done.
    ///
    /// # Errors
    /// As [`redrive`](Self::redrive), but for one that runs.
    pub fn redrive_look(&self, redrive: &Redrive) -> Result<RedriveLook, BrokerError> {
        let (redrive, cursor) = (self.checked(redrive)?, Cursor::start(self.next_seq));
        Ok(RedriveLook { redrive, cursor, preview: RedrivePreview::default(), over: false })
    }

    /// Looks at the next slice.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`] if the source is gone; [`BrokerError::Store`].
    pub fn redrive_look_on(
        &self,
        sql: &mut dyn Sql,
        moment: Moment,
        look: &mut RedriveLook,
    ) -> Result<(), BrokerError> {
        let now_ms = self.clock.time_ms(moment);
        let RedriveLook { redrive, cursor, preview, over } = look;
        let (letters, more) = self.letters(sql, &redrive.source, cursor)?;
        *over = !more;
        for letter in letters {
            cursor.pass(&letter);
            if !redrive.filter.holds_for(&letter) {
                continue;
            }
            match self.way(redrive, &letter, now_ms) {
                Way::Held => preview.held += 1,
                Way::Nowhere => preview.without_origin += 1,
                Way::To(_) if redrive.filter.limit == Some(preview.by_target.values().sum()) => {
                    *over = true;
                    break;
                }
                Way::To(name) => *preview.by_target.entry(name).or_default() += 1,
            }
            preview.matched += 1;
        }
        Ok(())
    }
}
