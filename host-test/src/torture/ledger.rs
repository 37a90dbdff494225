//! What was seen of one store's messages, events and deliveries, and what must hold of them.

use std::collections::{BTreeMap, BTreeSet};

use jadpo_core::broker::Arg;
use jadpo_core::host::Call;
use jadpo_core::program::{Program, Type};
use jadpo_core::queue::Body;
use jadpo_core::read::event_id;
use jadpo_core::store::Value;
use jadpo_core::store::schema::NEVER_MS;

use super::sim::Sim;
use super::state::{Place, Side, State};
use super::trace;

/// An event's number and a subscriber.
type Delivery = (i64, String);

/// A delivery, in words.
fn named((seq, subscriber): &Delivery) -> String {
    format!("the delivery of event {seq} to {subscriber}")
}

/// A message that was sent to a queue that is received.
pub(super) struct Sent {
    pub(super) connection: &'static str,
    pub(super) body: Body,
    /// The key that its body gives it, if it has one.
    pub(super) key: Option<String>,
}

impl Sent {
    /// Whether a build reads the body of a message that has a key. Those differ from each other in one value, which
    /// comes last: a number, or a text in quotes.
    fn is_read_by(&self, program: &Program) -> bool {
        let (Body::Text(text) | Body::Json(text)) = &self.body else { return false };
        let event = program.receiving.get(self.connection).and_then(|one| program.events.get(&one.event));
        let Some(Type::Record(fields)) = event else { return false };
        let wants_text = fields.iter().any(|field| field.kind == Type::Text);
        text.ends_with("\"}") == wants_text
    }
}

/// An event, as it was first seen.
struct Kept {
    name: String,
    body: Vec<u8>,
}

/// What was seen.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) sent: BTreeMap<String, Sent>,
    pub(super) acknowledged: BTreeSet<String>,
    /// Those that were another message's event again, for a build that could read them.
    repeats: BTreeSet<String>,
    /// Whether an operator has wanted parked messages read again.
    pub(super) reread: bool,
    events: BTreeMap<i64, Kept>,
    /// The messages that became events, and the keys of events, with their connections.
    messages: BTreeSet<String>,
    keys: BTreeSet<(String, String)>,
    /// The number of the event that has this public id.
    ids: BTreeMap<String, i64>,
    /// The attempt of each delivery's last call, and the key that it carried.
    calls: BTreeMap<Delivery, (u32, String)>,
    running: BTreeSet<Delivery>,
    delivered: BTreeSet<Delivery>,
    pub(super) parked_ever: u64,
}

/// Who must get an event, whatever build keeps it. Subscribers that come and go with builds are not among them.
fn subscribers_of(event: &str) -> &'static [&'static str] {
    match event {
        "StockMoved" => &["audit", "ledger"],
        "Noted" => &["archive"],
        "Ordered" => &["billing"],
        _ => &[],
    }
}

impl Ledger {
    /// A message under whose key there is an event, its own or another's.
    fn has_its_key(&self, id: &str) -> Option<&Sent> {
        let sent = self.sent.get(id)?;
        let key = sent.key.clone()?;
        self.keys.contains(&(sent.connection.to_owned(), key)).then_some(sent)
    }
}

impl Side {
    /// Takes note of events that are new.
    fn refresh(&mut self) -> Result<(), String> {
        let last = self.ledger.events.last_key_value().map_or(0, |(seq, _)| *seq);
        let rows = self.database.look(
            "SELECT seq, connection, key, event, message_id, body FROM jadpo_events WHERE seq > ?1 ORDER BY seq",
            &[last.into()],
        );
        for mut row in rows {
            let body = match row.0.pop() {
                Some(Value::Text(text)) => text.into_bytes(),
                Some(Value::Blob(bytes)) => bytes,
                _ => Vec::new(),
            };
            let text = |column| row.text(column).unwrap_or_default().to_owned();
            let (seq, connection, key, name, id) = (row.integer(0).unwrap_or(0), text(1), text(2), text(3), text(4));
            let ledger = &mut self.ledger;
            let Some(sent) = ledger.sent.get(&id) else {
                return Err(format!("event {seq} is of {id}, which nobody sent"));
            };
            let same = match &sent.body {
                Body::Text(text) | Body::Json(text) => text.as_bytes() == body,
                Body::Bytes(bytes) => *bytes == body,
                Body::Unreadable { .. } => false,
            };
            if !same {
                return Err(format!("the body of event {seq} is not what was sent"));
            }
            ledger.ids.insert(event_id(&self.app.program.app, &connection, &key), seq);
            if !ledger.keys.insert((connection, key)) {
                return Err(format!("event {seq} is there twice"));
            }
            if !ledger.messages.insert(id.clone()) {
                return Err(format!("message {id} became two events"));
            }
            trace::note(|| format!("event {seq} is kept: {name} of {}", id.get(..8).unwrap_or(&id)));
            ledger.events.insert(seq, Kept { name, body });
        }
        Ok(())
    }

    fn is_parked(&self, id: &str) -> bool {
        let parked = "SELECT count(*) FROM jadpo_parked_messages WHERE message_id = ?1";
        self.database.number(parked, &[Arg::Text(id)]) > Some(0)
    }

    /// Whether a message is an event, a repeat of one, or parked. One that comes again, or is read again, may have become
    /// a repeat by any build that there was.
    fn is_stored(&self, id: &str) -> bool {
        let ledger = &self.ledger;
        ledger.messages.contains(id)
            || ledger.repeats.contains(id)
            || self.is_parked(id)
            || ((ledger.reread || ledger.acknowledged.contains(id))
                && ledger
                    .has_its_key(id)
                    .is_some_and(|sent| self.builds.iter().any(|app| sent.is_read_by(&app.program))))
    }

    /// Acknowledged means committed: what a program that received it from a queue acknowledged.
    pub(super) fn acknowledge(&mut self, id: &str, queue: &str, program: &Program) -> Result<(), String> {
        self.refresh()?;
        let repeats = self.ledger.has_its_key(id).is_some_and(|sent| sent.is_read_by(program));
        // A dead letter is parked, whatever it holds.
        if repeats && !queue.ends_with("-dead") {
            self.ledger.repeats.insert(id.to_owned());
        }
        if !self.is_stored(id) {
            return Err(format!("{id} is acknowledged and not in the store"));
        }
        self.ledger.acknowledged.insert(id.to_owned());
        Ok(())
    }

    /// What must hold at any moment.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.refresh()?;
        let events = self.database.number("SELECT count(*) FROM jadpo_events", &[]).unwrap_or_default();
        let both = "SELECT count(*) FROM jadpo_received AS r JOIN jadpo_events AS e ON e.seq = r.seq \
            AND e.connection = r.connection AND e.key = r.key";
        let received = self.database.number("SELECT count(*) FROM jadpo_received", &[]).unwrap_or_default();
        if self.database.number(both, &[]) != Some(events) || received != events {
            return Err(format!("{events} events, and {received} keys that were received"));
        }
        if usize::try_from(events) != Ok(self.ledger.events.len()) {
            return Err("an event is gone".to_owned());
        }
        self.check_parked()?;
        let acknowledged: Vec<&String> = self.ledger.acknowledged.iter().collect();
        if let Some(id) = acknowledged.into_iter().find(|id| !self.is_stored(id)) {
            return Err(format!("{id} was acknowledged and is in the store no more"));
        }
        self.check_deliveries()
    }

    /// A message is in one place. Only a dead letter is parked whatever became of it before, and stays so, under another
    /// reason, when it is read again by a build that cannot.
    fn check_parked(&mut self) -> Result<(), String> {
        let rows = self.database.look("SELECT message_id, reason, queue FROM jadpo_parked_messages", &[]);
        self.ledger.parked_ever = self.ledger.parked_ever.max(rows.len() as u64);
        for row in rows {
            let (id, reason) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
            let is_dead_letter = row.text(2).is_some_and(|queue| queue.ends_with("-dead"));
            if !is_dead_letter && self.ledger.messages.contains(id) {
                return Err(format!("{id} is parked ({reason}) and an event too"));
            }
        }
        Ok(())
    }

    /// Every delivery is open, or done, or has failed with its attempts spent.
    fn check_deliveries(&mut self) -> Result<(), String> {
        let sql = "SELECT seq, subscriber, attempt, attempt_max, due_at, error IS NULL FROM jadpo_deliveries";
        let mut open = BTreeSet::new();
        for row in self.database.look(sql, &[]) {
            let number = |column| row.integer(column).unwrap_or_default();
            let delivery = (number(0), row.text(1).unwrap_or_default().to_owned());
            if number(4) == NEVER_MS && (number(2) != number(3) || number(5) != 0) && delivery.1 != "late" {
                return Err(format!("{} has failed at attempt {} of {}", named(&delivery), number(2), number(3)));
            }
            if number(2) > number(3) {
                return Err(format!("{} has had {} attempts of {}", named(&delivery), number(2), number(3)));
            }
            if !open.insert(delivery.clone()) {
                return Err(format!("{} is there twice", named(&delivery)));
            }
        }
        for (seq, event) in &self.ledger.events {
            for subscriber in subscribers_of(&event.name) {
                let delivery = (*seq, (*subscriber).to_owned());
                if !open.contains(&delivery) && !self.ledger.delivered.contains(&delivery) {
                    return Err(format!("{} is neither open nor done", named(&delivery)));
                }
            }
        }
        Ok(())
    }

    /// Whether everything has come to its end.
    pub(super) fn is_settled(&self) -> bool {
        self.ledger.running.is_empty() && self.next_due_ms().is_none()
    }
}

/// A call that is under way, until it ends or whoever makes it dies.
pub(super) struct Running {
    sim: Sim,
    place: Place,
    delivery: Option<Delivery>,
}

impl Running {
    /// A call begins: attempts grow, what is repeated says so, what is done is left alone, and nobody else holds it.
    pub(super) fn begin(sim: &Sim, place: Place, call: &Call) -> Self {
        let state = &mut *sim.state();
        let State { scheduler, sides, skewed, .. } = state;
        let side = &mut sides[place as usize];
        let delivery = side.refresh().and_then(|()| side.call_begins(call, *skewed));
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(what) => {
                scheduler.violated(|| what);
                None
            }
        };
        Self { sim: sim.clone(), place, delivery }
    }

    /// The subscriber has done it, or has not.
    pub(super) fn end(self, done: bool) {
        let state = &mut *self.sim.state();
        if let (Some(delivery), true) = (&self.delivery, done) {
            trace::note(|| format!("{} has done event {}", delivery.1, delivery.0));
            state.side(self.place).ledger.delivered.insert(delivery.clone());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.take() {
            self.sim.state().side(self.place).ledger.running.remove(&delivery);
        }
    }
}

impl Side {
    fn call_begins(&mut self, call: &Call, skewed: bool) -> Result<Option<Delivery>, String> {
        let header = |wanted| call.headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str());
        let id = header("jadpo-event-id").unwrap_or_default();
        let Some(seq) = self.ledger.ids.get(id).copied() else {
            return Err(format!("a call for event {id}, which is none"));
        };
        let delivery = (seq, call.subscriber.clone());
        if self.ledger.events[&seq].body != call.body {
            return Err(format!("{} is sent another body", named(&delivery)));
        }
        let attempt: u32 = header("jadpo-attempt").and_then(|text| text.parse().ok()).unwrap_or_default();
        let key = header("idempotency-key").unwrap_or_default().to_owned();
        trace::note(|| format!("{} is called for event {seq}, attempt {attempt}", delivery.1));
        let last = self.ledger.calls.insert(delivery.clone(), (attempt, key.clone()));
        if let Some((_, first)) = last.as_ref().filter(|(_, first)| *first != key) {
            return Err(format!("{}: the key of a repeat is {key}, not {first}", named(&delivery)));
        }
        if skewed {
            return Ok(Some(delivery));
        }
        if let Some((before, _)) = last.filter(|(before, _)| *before >= attempt) {
            return Err(format!("{}: attempt {attempt} begins after attempt {before}", named(&delivery)));
        }
        let row = "SELECT attempt, attempt_max FROM jadpo_deliveries WHERE seq = ?1 AND subscriber = ?2";
        let rows = self.database.look(row, &[seq.into(), Arg::Text(&delivery.1)]);
        let Some(row) = rows.first() else { return Err(format!("{} is done, and is called again", named(&delivery))) };
        if row.integer(0) != Some(attempt.into()) {
            let stored = row.integer(0);
            return Err(format!("{}: attempt {attempt}, and the store says {stored:?}", named(&delivery)));
        }
        if !self.ledger.running.insert(delivery.clone()) {
            return Err(format!("{} has two holders", named(&delivery)));
        }
        Ok(Some(delivery))
    }
}
