//! What the simulation believes of the queues, too simple to be wrong.

use std::collections::BTreeMap;

use jadpo_core::broker::{Batch, Gone, How, Lease, MessageId, MessageRef, Taken};

pub(crate) const QUEUES: [&str; 2] = ["jobs", "dead"];
pub(crate) const VISIBILITY_MS: i64 = 30_000;

/// What the model knows of a message; its body is its name.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) queue: &'static str,
    pub(crate) attempts: u32,
    /// Leases given in this queue, the last one last, with the steady time at which they end.
    pub(crate) leases: Vec<(Lease, i64)>,
    pub(crate) gone: bool,
    /// Gone under a lease that was not the last: whoever holds the last may still settle it.
    pub(crate) late: bool,
    /// How often it went from one queue to another.
    pub(crate) moves: u32,
    pub(crate) progress: Option<String>,
    /// What was done of it when it died.
    dead_progress: Option<String>,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) messages: BTreeMap<String, Known>,
    ids: BTreeMap<MessageId, String>,
    /// What was sent once, by its key.
    pub(crate) once: BTreeMap<String, MessageId>,
    pub(crate) last_occurrence: Option<i64>,
    /// Places that were looked at, with the message's moves at that time, and the message.
    pub(crate) seen: Vec<(MessageRef, &'static str, u32, String)>,
    pub(crate) count: Count,
}

/// What happened how often.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) acked: usize,
    pub(crate) expired: usize,
    pub(crate) dropped: usize,
    pub(crate) dead_lettered: usize,
    pub(crate) removed: usize,
    pub(crate) released: usize,
    pub(crate) put_back: usize,
    pub(crate) skipped: usize,
    pub(crate) repeats: usize,
    pub(crate) occurred: usize,
    pub(crate) at_once: usize,
    pub(crate) faults: usize,
}

impl Count {
    pub(crate) fn add(&mut self, other: &Self) {
        for (one, other) in [
            (&mut self.acked, other.acked),
            (&mut self.expired, other.expired),
            (&mut self.dropped, other.dropped),
            (&mut self.dead_lettered, other.dead_lettered),
            (&mut self.removed, other.removed),
            (&mut self.released, other.released),
            (&mut self.put_back, other.put_back),
            (&mut self.skipped, other.skipped),
            (&mut self.repeats, other.repeats),
            (&mut self.occurred, other.occurred),
            (&mut self.at_once, other.at_once),
            (&mut self.faults, other.faults),
        ] {
            *one += other;
        }
    }
}

impl Known {
    fn new(queue: &'static str) -> Self {
        Self {
            queue,
            attempts: 0,
            leases: Vec::new(),
            gone: false,
            late: false,
            moves: 0,
            progress: None,
            dead_progress: None,
        }
    }

    /// Whether somebody holds it.
    pub(crate) fn is_held(&self, now_ms: i64) -> bool {
        self.leases.last().is_some_and(|(_, until_ms)| *until_ms > now_ms)
    }

    /// Whether this is the lease that holds it.
    pub(crate) fn holds(&self, lease: &Lease, now_ms: i64) -> bool {
        self.is_held(now_ms) && self.leases.last().is_some_and(|(last, _)| last == lease)
    }

    fn moved(&self, queue: &'static str) -> Self {
        Self { moves: self.moves + 1, ..Self::new(queue) }
    }
}

impl Model {
    pub(crate) fn sent(&mut self, queue: &'static str, body: &str, id: MessageId) {
        assert!(self.ids.insert(id, body.to_owned()).is_none(), "an id is given once");
        assert!(self.messages.insert(body.to_owned(), Known::new(queue)).is_none());
    }

    pub(crate) fn known(&mut self, body: &str) -> &mut Known {
        self.messages.get_mut(body).expect("a message that was sent")
    }

    pub(crate) fn batch(&mut self, queue: &str, batch: &Batch, now_ms: i64) {
        self.left(&batch.gone);
        for taken in &batch.messages {
            self.taken(queue, taken, now_ms);
        }
    }

    pub(crate) fn taken(&mut self, queue: &str, taken: &Taken, now_ms: i64) {
        let body = String::from_utf8(taken.message.body.clone()).unwrap();
        let known = self.known(&body);
        assert!(!known.gone, "{body} is gone and came again");
        assert_eq!(known.queue, queue, "{body} came from another queue");
        assert_eq!(taken.message.attempts, known.attempts + 1, "{body}: attempts grow by one");
        assert_eq!(taken.message.progress, known.progress, "{body}: what was done is handed on");
        assert!(!known.is_held(now_ms), "{body} has a holder");
        known.attempts += 1;
        known.leases.push((taken.lease, now_ms + VISIBILITY_MS));
    }

    pub(crate) fn left(&mut self, gone: &[Gone]) {
        for one in gone {
            let body = self.ids[&one.id].clone();
            let known = self.known(&body);
            assert!(!known.gone, "{one:?} left twice");
            assert_eq!(known.attempts, one.attempts, "{one:?}");
            match &one.how {
                How::DeadLettered(to) => {
                    assert_eq!((known.queue, to.as_str()), ("jobs", "dead"));
                    assert_eq!(known.attempts, 3, "three deliveries, not fewer");
                    *known = Known { dead_progress: known.progress.take(), ..known.moved("dead") };
                    self.count.dead_lettered += 1;
                }
                How::Dropped => {
                    assert_eq!((known.queue, known.attempts), ("dead", 2));
                    known.gone = true;
                    self.count.dropped += 1;
                }
                How::Expired => {
                    known.gone = true;
                    self.count.expired += 1;
                }
            }
        }
    }

    /// A redrive moved it from `dead` to `jobs`.
    pub(crate) fn put_back(&mut self, body: &str, now_ms: i64) {
        let known = self.known(body);
        assert!(!known.gone && !known.is_held(now_ms), "{body}: who holds it is not disturbed");
        *known = Known { progress: known.dead_progress.take(), ..known.moved("jobs") };
        self.count.put_back += 1;
    }

    pub(crate) fn gone(&mut self, body: &str, late: bool) {
        let known = self.known(body);
        (known.gone, known.late) = (true, late);
    }

    pub(crate) fn left_over(&self) -> usize {
        self.messages.values().filter(|known| !known.gone).count()
    }
}
