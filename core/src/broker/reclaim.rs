//! What a server leased for Workers that died with it.

use super::Broker;
use super::error::BrokerError;
use super::sql::Sql;

const RECLAIM: &str = "UPDATE jadpo_queue_due SET due_at = 0, leased = 0, attempts = attempts - 1, \
    first_at = CASE WHEN attempts > 1 THEN first_at END WHERE queue = ?1 AND leased = 1";

impl Broker {
    /// Gives back whatever is leased on a queue, also under leases that have ended meanwhile: it can be taken again at
    /// once, in the order in which it was sent, and the attempt does not count, since no handler failed. Only for who
    /// knows that nobody holds any: a server, when it begins with a queue of a Worker's and before it sweeps. Answers how
    /// many there were.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`], [`BrokerError::Store`].
    pub fn reclaim(&mut self, sql: &mut dyn Sql, name: &str) -> Result<u64, BrokerError> {
        let queue = self.queue(name)?;
        if queue.tally.leased == 0 {
            return Ok(0);
        }
        let given_back = sql.run(RECLAIM, &[queue.number.into()])?.changes;
        let queue = self.queue_mut(name)?;
        queue.tally.leased = 0;
        queue.expires_at_age_ms = 0; // it may be older than what was the oldest
        Ok(given_back)
    }
}
