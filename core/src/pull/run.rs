//! Carrying a request out, inside one transaction of the broker's.

use std::collections::BTreeMap;

use super::access::Grant;
use super::answer::Done;
use super::messages::Pull;
use super::refusal::{Refusal, code};
use super::route::{Call, OfQueue, Wish};
use super::rules::Rules;
use super::{consumers, queues};
use crate::admin::queues::{ServedWorker, Serving};
use crate::broker::{Broker, BrokerError, Content, MessageRef, Moment, Peek, Settle, Sql, State, Take, Warning};

/// Where a request is carried out.
pub(super) struct Place<'a> {
    pub(super) broker: &'a mut Broker,
    pub(super) sql: &'a mut dyn Sql,
    pub(super) moment: Moment,
    pub(super) rules: &'a Rules,
}

/// What stops a request: a refusal, or a failure of the store, after which the transaction must be given up.
pub(super) enum Stop {
    Refused(Refusal),
    Failed(BrokerError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<BrokerError> for Stop {
    fn from(error: BrokerError) -> Self {
        match error {
            BrokerError::Store(_) => Self::Failed(error),
            error => Self::Refused(error.into()),
        }
    }
}

impl Place<'_> {
    /// The Workers that run here.
    pub(super) fn workers(&mut self) -> Result<Vec<ServedWorker>, BrokerError> {
        let told = self.broker.serving(self.sql)?;
        Ok(told.as_deref().and_then(Serving::from_json).map(|serving| serving.workers).unwrap_or_default())
    }
}

impl Call {
    /// Carries out one of its [`parts`](Self::parts), the first of which is 0. Nothing is written before it is known that
    /// it is not refused.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub fn run(
        &self,
        part: usize,
        rules: &Rules,
        broker: &mut Broker,
        sql: &mut dyn Sql,
        moment: Moment,
    ) -> Result<Result<Done, Refusal>, BrokerError> {
        let mut place = Place { broker, sql, moment, rules };
        match self.carry_out(part, &mut place) {
            Ok(done) => Ok(Ok(done)),
            Err(Stop::Refused(refusal)) => Ok(Err(refusal)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn carry_out(&self, part: usize, place: &mut Place<'_>) -> Result<Done, Stop> {
        let grant = Grant::of(self, place.rules.door, place.broker, place.moment)?;
        match &self.wish {
            Wish::Queue(id, of) => {
                let name = named(id, &grant, place)?;
                sees_dead_letters(of, &grant)?;
                of_queue(of, part, &name, place)
            }
            Wish::Queues(listing) => Ok(queues::list(listing, &grant, place)?),
            Wish::Create(body) => queues::create(body, place),
            Wish::Who(who) => Ok(queues::who(*who, &grant, place)),
            Wish::Subscriptions(listing) => Ok(Done::list(Vec::new(), listing, 0)),
            Wish::Subscription { is_new: true } => Err(Refusal::new(
                400,
                code::NONE,
                "event subscriptions carry events of Cloudflare's products, and there are none of those here",
            )
            .into()),
            Wish::Subscription { is_new: false } => {
                Err(Refusal::new(404, code::NONE, "there is no such event subscription").into())
            }
        }
    }
}

/// The queue of this id, if the token is for it.
fn named(id: &str, grant: &Grant, place: &Place<'_>) -> Result<String, Refusal> {
    match place.broker.name_of(id) {
        Some(name) if grant.sees(name) => Ok(name.to_owned()),
        Some(_) => Err(Refusal::new(403, code::UNAUTHORIZED, "the token is not for this queue")),
        None => Err(Refusal::new(404, 10_104, format!("there is no queue of the id {id}"))),
    }
}

/// Whoever says where a queue's dead letters go sends there, by letting messages die; it may make that queue, too.
fn sees_dead_letters(of: &OfQueue, grant: &Grant) -> Result<(), Refusal> {
    let (OfQueue::AddConsumer(body) | OfQueue::PutConsumer(_, body)) = of else { return Ok(()) };
    match body.dead_letters() {
        Some(queue) if !grant.sees(queue) => {
            let message = format!("the token is not for `{queue}`, where the dead letters would go");
            Err(Refusal::new(403, code::UNAUTHORIZED, message))
        }
        _ => Ok(()),
    }
}

fn of_queue(of: &OfQueue, part: usize, name: &str, place: &mut Place<'_>) -> Result<Done, Stop> {
    match of {
        OfQueue::Pull(pull) => pulled(pull, name, place),
        OfQueue::Ack(ack) => {
            let warnings = if part == 0 { ack.warnings.clone() } else { BTreeMap::new() };
            settled(ack.parts.get(part), warnings, name, place)
        }
        OfQueue::Push(batch) => {
            place.broker.send(place.sql, place.moment, name, batch)?;
            Ok(Done::Sent(place.broker.metrics(place.sql, name)?))
        }
        OfQueue::Peek(max) => {
            let peek = Peek { max: *max, after: None };
            Ok(Done::Peeked(place.broker.peek(place.sql, place.moment, name, peek)?))
        }
        OfQueue::Remove(remove) => {
            let warnings = if part == 0 { remove.warnings.clone() } else { BTreeMap::new() };
            removed(remove.parts.get(part), warnings, name, place)
        }
        OfQueue::Metrics => Ok(Done::Metrics(place.broker.metrics(place.sql, name)?)),
        OfQueue::Show => queues::show(name, place),
        OfQueue::Edit(body) => queues::edit(body, false, name, place),
        OfQueue::Replace(body) => queues::edit(body, true, name, place),
        OfQueue::Delete => queues::delete(name, place),
        OfQueue::Purge => queues::purge(name, place),
        OfQueue::Purged => queues::purged(name, place),
        OfQueue::Consumers => consumers::list(name, place),
        OfQueue::AddConsumer(body) => consumers::add(body, None, name, place),
        OfQueue::Consumer(id) => consumers::show(id, name, place),
        OfQueue::PutConsumer(id, body) => consumers::put(id, body, name, place),
        OfQueue::DeleteConsumer(id) => consumers::remove(id, name, place),
    }
}

fn pulled(pull: &Pull, name: &str, place: &mut Place<'_>) -> Result<Done, Stop> {
    consumers::is_pulled(name, place)?;
    let batch_size = place.broker.info(name)?.settings.consumer.batch_size;
    let max = pull.max.unwrap_or(batch_size as usize);
    let take = Take { max, visibility_ms: pull.visibility_ms };
    let batch = place.broker.take(place.sql, place.moment, name, take)?;
    let metrics = place.broker.metrics(place.sql, name)?;
    let mut notes = Vec::new();
    if pull.old_name {
        notes.push(
            "`visibility_timeout` is read as milliseconds; the field's name is `visibility_timeout_ms` now".to_owned(),
        );
    }
    if batch.messages.iter().any(|taken| taken.message.content == Content::V8) {
        notes.push(
            "messages of the content type v8 can be read by a Worker only; send them as json or bytes".to_owned(),
        );
    }
    Ok(Done::Pulled { messages: batch.messages, metrics, notes, gone: batch.gone })
}

fn settled(
    settle: Option<&Settle>,
    mut warnings: BTreeMap<String, String>,
    name: &str,
    place: &mut Place<'_>,
) -> Result<Done, Stop> {
    let Some(settle) = settle else {
        return Ok(Done::Settled { acked: 0, retried: 0, warnings, gone: Vec::new() });
    };
    let settled = place.broker.settle(place.sql, place.moment, name, settle)?;
    let key = place.broker.lease_key();
    for (lease, warning) in &settled.warnings {
        let what = match warning {
            Warning::Unknown => "no message of this queue is leased under it: it was settled, removed, or handed on",
            Warning::Late => "the lease has ended, so the message is to be handed over again already",
            Warning::Repeated => "it is named twice and counts once",
        };
        warnings.insert(key.seal(lease), what.to_owned());
    }
    Ok(Done::Settled { acked: settled.acked, retried: settled.retried, warnings, gone: settled.gone })
}

fn removed(
    references: Option<&Vec<MessageRef>>,
    mut warnings: BTreeMap<String, String>,
    name: &str,
    place: &mut Place<'_>,
) -> Result<Done, Stop> {
    if let Some(references) = references {
        let removed = place.broker.remove(place.sql, name, references)?;
        let key = place.broker.lease_key();
        for reference in &removed.unknown {
            warnings.insert(key.seal_ref(reference), "no message of this queue stands there any more".to_owned());
        }
    }
    Ok(Done::Removed { warnings })
}

/// Whether a message that was looked at can be taken.
pub(super) fn state(state: State) -> &'static str {
    match state {
        State::Ready => "ready",
        State::Leased { .. } => "leased",
        State::Delayed { .. } => "delayed",
    }
}
