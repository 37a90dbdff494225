//! What is due for Workers, taken: whatever batches there are for those who have room, in one transaction.

use crate::broker::{Broker, BrokerError, ConsumerKind, ConsumerSettings, Gone, Metrics, Moment, Sql, Take, Taken};

use super::LEASE_MS;

/// Bytes of bodies that are taken at once, about: a batch may have 12.8 million, and there may be many.
const BYTES_MAX: usize = 16 << 20;

/// Who asks for batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asks {
    /// The queue.
    pub queue: String,
    /// The Worker that consumes it.
    pub worker: String,
    /// Batches, at most.
    pub batches: usize,
}

/// A batch that is leased for a Worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handed {
    /// Its messages, in their order.
    pub taken: Vec<Taken>,
    /// What the queue holds beside them.
    pub beside: Metrics,
}

/// What there is for one who asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Its batches.
    pub batches: Vec<Handed>,
    /// Messages that left the queue in place of being taken.
    pub gone: Vec<Gone>,
    /// Messages that are ready yet.
    pub ready: u64,
    /// In how many milliseconds there may be more, if nothing is written before; 0 if there was more than it asked for.
    pub again_in_ms: Option<u64>,
    /// How the queue is consumed now; `None` if it is gone, or this Worker is not its consumer.
    pub consumer: Option<ConsumerSettings>,
}

/// Takes the batches that are due, for each who asks, in this order and until it is enough at once. A batch is due when it is full or has waited as long as it may.
/// Nothing is taken from a queue that is paused, whose trigger is disabled, or whose consumer is somebody else.
///
/// # Errors
/// [`BrokerError::Store`].
pub fn take(broker: &mut Broker, sql: &mut dyn Sql, moment: Moment, asks: &[Asks]) -> Result<Vec<Found>, BrokerError> {
    let mut bytes = 0;
    asks.iter().map(|asks| one(broker, sql, moment, asks, &mut bytes)).collect()
}

fn one(
    broker: &mut Broker,
    sql: &mut dyn Sql,
    moment: Moment,
    asks: &Asks,
    bytes: &mut usize,
) -> Result<Found, BrokerError> {
    let mut found = Found::default();
    let Some(consumer) = consumer(broker, asks) else { return Ok(found) };
    let take = Take { max: consumer.batch_size as usize, visibility_ms: Some(LEASE_MS) };
    loop {
        let wakes = broker.wakes(sql, moment, &[&asks.queue])?;
        let Some((_, wake)) = wakes.first() else { break };
        found.ready = wake.ready;
        let in_ms = wake.batch_in_ms(&consumer);
        found.again_in_ms = in_ms.into_iter().chain(wake.next_in_ms).min();
        if in_ms != Some(0) || found.batches.len() == asks.batches || *bytes >= BYTES_MAX {
            break;
        }
        let batch = broker.take(sql, moment, &asks.queue, take)?;
        found.gone.extend(batch.gone);
        if batch.messages.is_empty() {
            // What was due left the queue, and a later round sees the rest.
            break;
        }
        *bytes += batch.messages.iter().map(|taken| taken.message.body.len()).sum::<usize>();
        let beside = broker.metrics_beside(sql, &asks.queue, &batch.messages)?;
        found.batches.push(Handed { taken: batch.messages, beside });
    }
    found.consumer = Some(consumer);
    Ok(found)
}

/// How a queue is consumed, if by this Worker.
fn consumer(broker: &Broker, asks: &Asks) -> Option<ConsumerSettings> {
    match &broker.consumer(&asks.queue).ok()??.kind {
        ConsumerKind::Worker { script, .. } if *script == asks.worker => {
            Some(broker.info(&asks.queue).ok()?.settings.consumer.clone())
        }
        _ => None,
    }
}
