//! Reading parked messages again, with the program running now.

use super::plan::{Fate, Item, Stamp, Verdict};
use super::{Intake, Tally, claim, into_bytes};
use crate::deliver::{Claimed, Event};
use crate::host::Host;
use crate::queue::Message;
use crate::read::{Reading, Reason, read};
use crate::start::App;

/// A parked message that an operator wants read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Its number among the parked.
    pub id: i64,
    /// The connection that it came from.
    pub connection: String,
    /// The queue that handed it over.
    pub queue: String,
    /// When the operator asked for it to be read again, in milliseconds since 1970.
    pub retry_at_ms: i64,
    /// The message, its body's kind as it was received.
    pub message: Message,
}

/// What reading again came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reread {
    /// Deliveries of the messages that are events now, claimed by this host.
    pub claimed: Vec<Claimed>,
    /// Messages that are events now.
    pub kept: u32,
    /// Messages that had been kept before; they are parked no longer.
    pub repeats: u32,
    /// Messages that still cannot be kept and wait for an operator, with the reason found now.
    pub still_parked: u32,
    /// Messages that the store did not take; they are read again at the next tick.
    pub put_off: u32,
    /// Round trips to the store.
    pub store_batches: u32,
}

/// Reads parked messages again: in one atomic batch each becomes an event and is parked no longer, or stays parked
/// with a new reason.
pub async fn reread<H: Host>(host: &H, app: &App, parked: Vec<Parked>) -> Reread {
    let stamp = Stamp { now_ms: host.now_ms(), claim: format!("{:032x}", host.random()) };
    let items: Vec<Item> = parked.into_iter().map(|parked| take_in_again(app, parked)).collect();
    let mut intake = Intake { host, app, stamp: &stamp, tally: Tally::default() };
    let fates = intake.keep(&items).await;
    let mut outcome = Reread { store_batches: intake.tally.store_batches, ..Reread::default() };
    for (item, fate) in items.into_iter().zip(fates) {
        match (fate, item.verdict) {
            (Err(_), _) => outcome.put_off += 1,
            (Ok(Fate::Kept { seq }), Verdict::Keep { event: name, key }) => {
                outcome.kept += 1;
                let sent_at_ms = item.message.sent_at_ms;
                let body = into_bytes(item.message.body);
                let event = Event { seq, connection: item.connection, key, name, sent_at_ms, body };
                claim(app, &stamp, event, &mut outcome.claimed);
            }
            (Ok(_), Verdict::Keep { .. }) => outcome.repeats += 1,
            (Ok(_), Verdict::Park { .. }) => outcome.still_parked += 1,
        }
    }
    outcome
}

fn take_in_again(app: &App, parked: Parked) -> Item {
    let Parked { id, connection, queue, retry_at_ms, message } = parked;
    let verdict = match app.program.receiving.get(&connection) {
        None => Verdict::Park {
            reason: Reason::Rejected,
            detail: format!("the program receives nothing from the connection {connection} now"),
            event: None,
            key: None,
            kept_as: None,
        },
        Some(receiving) => match read(&app.program, receiving, &message) {
            Reading::Event { key } => Verdict::Keep { event: receiving.event.clone(), key },
            Reading::Unfit { reason, detail, key } => {
                let event = key.is_some().then(|| receiving.event.clone());
                Verdict::Park { reason, detail, event, key, kept_as: None }
            }
        },
    };
    Item { connection, queue, message, verdict, reread_of: Some((id, retry_at_ms)) }
}
