//! What a server leased for Workers that died with it.

use super::error::BrokerError;
use super::sql::Sql;
use super::{Broker, Moment};

const RECLAIM: &str = "UPDATE jadpo_queue_due SET due_at = ?1 WHERE queue = ?2 AND due_at > ?1 AND leased = 1";

impl Broker {
    /// Ends every lease on a queue: what is leased can be taken again at once, in the order in which it was sent, and the
    /// attempt counts, since nobody knows how far it got. Only for who knows that nobody holds any: a server, when it
    /// begins with a queue of a Worker's. Answers how many there were.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`], [`BrokerError::Store`].
    pub fn reclaim(&mut self, sql: &mut dyn Sql, moment: Moment, name: &str) -> Result<u64, BrokerError> {
        let now_ms = self.clock.time_ms(moment);
        let queue = self.queue(name)?;
        if queue.tally.leased == 0 {
            return Ok(0);
        }
        let ended = sql.run(RECLAIM, &[now_ms.into(), queue.number.into()])?.changes;
        self.queue_mut(name)?.waits_until(now_ms);
        Ok(ended)
    }
}
