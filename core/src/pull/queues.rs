//! Requests about queues, and about who asks.

use serde_json::{Value, json};

use super::access::Grant;
use super::answer::Done;
use super::consumers;
use super::refusal::{Refusal, code};
use super::route::{Listing, Who};
use super::run::{Place, Stop};
use super::settings::QueueBody;
use crate::admin::queues::ServedWorker;
use crate::broker::{BrokerError, Settings};
use crate::inbound::rfc3339;

pub(super) fn list(listing: &Listing, grant: &Grant, place: &mut Place<'_>) -> Result<Done, BrokerError> {
    let workers = place.workers()?;
    let is_wanted = |name: &str| listing.names.is_empty() || listing.names.iter().any(|wanted| wanted == name);
    let names: Vec<&str> = place.broker.list().map(|info| info.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| is_wanted(name) && grant.sees(name)).collect();
    let from = (listing.page - 1).saturating_mul(listing.per_page);
    let page = names.iter().skip(from).take(listing.per_page);
    let page = page.filter_map(|name| with_producers(name, &workers, place).ok()).collect();
    Ok(Done::list(page, listing, names.len()))
}

pub(super) fn create(body: &QueueBody, place: &mut Place<'_>) -> Result<Done, Stop> {
    let Some(name) = &body.name else {
        return Err(Refusal::schema("/queue_name", "`queue_name` is missing").into());
    };
    let settings = body.over(&Settings::default());
    place.broker.create(place.sql, place.moment, name, settings)?;
    let queue = as_json(name, place)?;
    let Some(jurisdiction) = &body.jurisdiction else { return Ok(Done::Value(queue)) };
    let note = format!("a queue is kept where this server's store is: jurisdiction `{jurisdiction}` says nothing here");
    Ok(Done::Noted(queue, vec![note]))
}

pub(super) fn show(name: &str, place: &mut Place<'_>) -> Result<Done, Stop> {
    Ok(Done::Value(as_json(name, place)?))
}

/// Changes what is said, or replaces all that is set for the queue itself.
pub(super) fn edit(body: &QueueBody, replaces: bool, name: &str, place: &mut Place<'_>) -> Result<Done, Stop> {
    if let Some(other) = body.name.as_deref().filter(|other| *other != name) {
        let other: String = other.chars().take(80).collect();
        let message = format!("a queue keeps its name: `{name}` cannot become `{other}`");
        return Err(Refusal::new(400, code::SCHEMA, message).at("/queue_name").into());
    }
    let present = &place.broker.info(name)?.settings;
    let settings = if replaces { body.in_place_of(present) } else { body.over(present) };
    if settings != *present {
        place.broker.update(place.sql, place.moment, name, settings)?;
    }
    show(name, place)
}

pub(super) fn delete(name: &str, place: &mut Place<'_>) -> Result<Done, Stop> {
    let workers = place.workers()?;
    if let Some(worker) = ServedWorker::consuming(&workers, name) {
        return Err(Refusal::new(409, code::NONE, worker.says_who_consumes(name)).into());
    }
    place.broker.delete(place.sql, name)?;
    Ok(match ServedWorker::producing(&workers, name).next() {
        Some(ServedWorker { name: worker, .. }) => {
            let note = format!("the Worker `{worker}` runs here and sends to `{name}`, so it is made again, empty");
            Done::Noted(Value::Null, vec![note])
        }
        None => Done::Nothing,
    })
}

/// A purge is done when it is answered. The answer is the queue, as the SDKs expect, and says when the purge began and
/// that it is complete, as Wrangler does.
pub(super) fn purge(name: &str, place: &mut Place<'_>) -> Result<Done, Stop> {
    place.broker.purge(place.sql, place.moment, name)?;
    let mut queue = as_json(name, place)?;
    if let Some(fields) = queue.as_object_mut() {
        fields.insert("started_at".to_owned(), rfc3339(place.moment.wall_ms).into());
        fields.insert("complete".to_owned(), true.into());
    }
    Ok(Done::Value(queue))
}

/// `completed` is a text, as the SDKs expect.
pub(super) fn purged(name: &str, place: &Place<'_>) -> Result<Done, Stop> {
    Ok(Done::Value(match place.broker.purged_at_ms(name)? {
        Some(at_ms) => json!({ "started_at": rfc3339(at_ms), "completed": "true", "complete": true }),
        None => json!({ "started_at": "", "completed": "" }),
    }))
}

/// What clients look at before they begin: Wrangler's `whoami`, for one.
pub(super) fn who(who: Who, grant: &Grant, place: &Place<'_>) -> Done {
    let account = json!({ "id": grant.account, "name": "jadpo", "type": "standard", "settings": {} });
    let name = grant.token.as_ref().map_or("development", |token| token.name.as_str());
    let id = grant.token.as_ref().map_or("dev", |token| token.id.as_str());
    match who {
        Who::Account => Done::Value(account),
        Who::Accounts => Done::whole_list(vec![account], 1),
        Who::Memberships => {
            let membership = json!({ "id": place.broker.account(), "status": "accepted", "account": account });
            Done::whole_list(vec![membership], 1)
        }
        Who::User => Done::Value(json!({ "id": place.broker.account(), "first_name": name, "email": "" })),
        Who::Token => {
            let expires = grant.token.as_ref().and_then(|token| token.expires_at_ms).map(rfc3339);
            let mut value = json!({ "id": id, "status": "active" });
            if let (Some(fields), Some(expires)) = (value.as_object_mut(), expires) {
                fields.insert("expires_on".to_owned(), expires.into());
            }
            Done::Value(value)
        }
    }
}

fn as_json(name: &str, place: &mut Place<'_>) -> Result<Value, BrokerError> {
    let workers = place.workers()?;
    with_producers(name, &workers, place)
}

/// A queue, as it is answered. Its producers are the Workers that run here and send to it, and whoever has a token, none
/// of whom is listed.
fn with_producers(name: &str, workers: &[ServedWorker], place: &Place<'_>) -> Result<Value, BrokerError> {
    let producers =
        ServedWorker::producing(workers, name).map(|worker| json!({"type": "worker", "script": worker.name}));
    let producers: Vec<Value> = producers.collect();
    let info = place.broker.info(name)?;
    let consumers = consumers::all(name, place)?;
    Ok(json!({
        "queue_id": info.id,
        "queue_name": info.name,
        "created_on": rfc3339(info.created_at_ms),
        "modified_on": rfc3339(info.modified_at_ms),
        "settings": {
            "delivery_delay": info.settings.delivery_delay_s,
            "delivery_paused": info.settings.paused,
            "message_retention_period": info.settings.retention_s,
        },
        "producers_total_count": producers.len(),
        "producers": producers,
        "consumers_total_count": consumers.len(),
        "consumers": consumers,
    }))
}
