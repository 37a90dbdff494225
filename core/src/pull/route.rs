//! A request, read: what it wants, before anything is asked of the store.

use super::messages::{self, Ack, Pull, Remove};
use super::refusal::{Refusal, code};
use super::settings::{ConsumerBody, QueueBody};
use crate::admin::Request;
use crate::broker::{LeaseKey, NewBatch};

/// What every path of the API begins with.
pub const PREFIX: &str = "/client/v4";
/// Most bytes of a request's body: as much as a batch's bodies may have, or [`IDS_MAX`](messages::IDS_MAX) ids, with
/// room for escapes.
pub const BODY_BYTES_MAX: usize = 2_000_000;
/// Queues on a page when the request does not say, and at most.
const PER_PAGE: usize = 100;
const PER_PAGE_MAX: usize = 1_000;

/// A request that can be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub(super) token: String,
    /// The account that the path names.
    pub(super) account: Option<String>,
    pub(super) wish: Wish,
}

/// What a request wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// Something of one queue, by its id.
    Queue(String, OfQueue),
    /// A page of queues.
    Queues(Listing),
    /// A queue to be made.
    Create(QueueBody),
    /// Who asks, and where: what clients look at before they begin.
    Who(Who),
    /// Events of Cloudflare's own products, of which there are none here.
    Subscriptions(Listing),
    /// One of those, or one to be made.
    Subscription { is_new: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OfQueue {
    Show,
    Edit(QueueBody),
    Replace(QueueBody),
    Delete,
    Metrics,
    Purge,
    Purged,
    Pull(Pull),
    Ack(Ack),
    Push(NewBatch),
    Peek(usize),
    Remove(Remove),
    Consumers,
    AddConsumer(ConsumerBody),
    Consumer(String),
    PutConsumer(String, ConsumerBody),
    DeleteConsumer(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Accounts,
    Account,
    Memberships,
    User,
    Token,
}

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    /// From 1.
    pub(super) page: usize,
    pub(super) per_page: usize,
    /// Only these; empty for all.
    pub(super) names: Vec<String>,
}

impl Call {
    /// Reads a request whose path begins with [`PREFIX`].
    ///
    /// # Errors
    /// Why it cannot be carried out, whatever there is in the store.
    pub fn read(request: &Request, key: &LeaseKey) -> Result<Self, Refusal> {
        let token = bearer(request.authorization.as_deref())?;
        let path = request.path.strip_prefix(PREFIX).unwrap_or_default();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (account, wish) = match parts.as_slice() {
            ["accounts"] => (None, who(request, Who::Accounts)?),
            ["memberships"] => (None, who(request, Who::Memberships)?),
            ["user"] => (None, who(request, Who::User)?),
            ["user", "tokens", "verify"] => (None, who(request, Who::Token)?),
            ["accounts", account, "tokens", "verify"] => (Some(account), who(request, Who::Token)?),
            ["accounts", account] => (Some(account), who(request, Who::Account)?),
            ["accounts", account, "queues"] => (Some(account), queues(request)?),
            ["accounts", account, "queues", id, rest @ ..] => {
                (Some(account), Wish::Queue(queue_id(id)?, of_queue(request, rest, key)?))
            }
            ["accounts", account, "event_subscriptions", "subscriptions", rest @ ..] => {
                (Some(account), subscriptions(request, rest)?)
            }
            _ => return Err(Refusal::no_route(&request.path)),
        };
        Ok(Self { token, account: account.map(|account| (*account).to_owned()), wish })
    }

    /// Whether the request sends messages to a queue, and to which: such calls have places at the queue.
    #[must_use]
    pub fn sends_to(&self) -> Option<&str> {
        match &self.wish {
            Wish::Queue(id, OfQueue::Push(_)) => Some(id),
            _ => None,
        }
    }

    /// About how many bytes it writes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.wish {
            Wish::Queue(_, OfQueue::Push(batch)) => batch.messages.iter().map(|message| message.body.len()).sum(),
            _ => 0,
        }
    }

    /// In how many transactions it is carried out.
    #[must_use]
    pub fn parts(&self) -> usize {
        match &self.wish {
            Wish::Queue(_, OfQueue::Ack(ack)) => ack.parts.len().max(1),
            Wish::Queue(_, OfQueue::Remove(remove)) => remove.parts.len().max(1),
            _ => 1,
        }
    }
}

pub(super) fn bearer(authorization: Option<&str>) -> Result<String, Refusal> {
    let token = authorization.and_then(|value| value.trim().split_once(' '));
    match token.filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()) {
        Some((_, token)) => Ok(token.trim().to_owned()),
        None => {
            let message = "Authentication error: the header Authorization: Bearer TOKEN is missing; \
                `jadpo tokens create NAME` makes a token";
            Err(Refusal::new(401, code::NOT_AUTHENTICATED, message))
        }
    }
}

/// Ids are 32 hex digits, as Cloudflare's are.
fn queue_id(id: &str) -> Result<String, Refusal> {
    if is_id(id) {
        return Ok(id.to_ascii_lowercase());
    }
    let id: String = id.chars().take(64).collect();
    let message = format!(
        "`{id}` is no id of a queue, which is 32 hex digits; find a queue's by its name with \
         GET {PREFIX}/accounts/ACCOUNT/queues?name=NAME"
    );
    Err(Refusal::new(400, code::QUEUE_ID_MALFORMED, message))
}

pub(super) fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn who(request: &Request, who: Who) -> Result<Wish, Refusal> {
    match request.method.as_str() {
        "GET" | "HEAD" => Ok(Wish::Who(who)),
        method => Err(Refusal::method(&request.path, "GET", method)),
    }
}

fn queues(request: &Request) -> Result<Wish, Refusal> {
    match request.method.as_str() {
        "GET" | "HEAD" => Ok(Wish::Queues(listing(&request.query)?)),
        "POST" => Ok(Wish::Create(QueueBody::read(&request.body)?)),
        method => Err(Refusal::method(&request.path, "GET, POST", method)),
    }
}

fn subscriptions(request: &Request, rest: &[&str]) -> Result<Wish, Refusal> {
    match (rest, request.method.as_str()) {
        ([], "GET" | "HEAD") => Ok(Wish::Subscriptions(listing(&request.query)?)),
        ([], "POST") => Ok(Wish::Subscription { is_new: true }),
        ([_], "GET" | "HEAD" | "PATCH" | "DELETE") => Ok(Wish::Subscription { is_new: false }),
        ([], method) => Err(Refusal::method(&request.path, "GET, POST", method)),
        ([_], method) => Err(Refusal::method(&request.path, "GET, PATCH, DELETE", method)),
        _ => Err(Refusal::no_route(&request.path)),
    }
}

fn of_queue(request: &Request, rest: &[&str], key: &LeaseKey) -> Result<OfQueue, Refusal> {
    let body = &request.body;
    let consumer = |id: &str| {
        let malformed = || Refusal::new(400, code::QUEUE_ID_MALFORMED, "a consumer's id is 32 hex digits");
        if is_id(id) { Ok(id.to_ascii_lowercase()) } else { Err(malformed()) }
    };
    Ok(match (rest, request.method.as_str()) {
        ([], "GET" | "HEAD") => OfQueue::Show,
        ([], "PATCH") => OfQueue::Edit(QueueBody::read(body)?),
        ([], "PUT") => OfQueue::Replace(QueueBody::read(body)?),
        ([], "DELETE") => OfQueue::Delete,
        (["metrics"], "GET" | "HEAD") => OfQueue::Metrics,
        (["purge"], "GET" | "HEAD") => OfQueue::Purged,
        (["purge"], "POST") => purge(body)?,
        (["messages"], "POST") => OfQueue::Push(messages::push(body)?),
        (["messages", "batch"], "POST") => OfQueue::Push(messages::push_batch(body)?),
        (["messages", "pull"], "POST") => OfQueue::Pull(messages::pull(body)?),
        (["messages", "ack"], "POST") => OfQueue::Ack(messages::ack(body, key)?),
        (["messages", "peek"], "POST") => OfQueue::Peek(messages::peek(body)?),
        (["messages", "purge"], "POST") => OfQueue::Remove(messages::remove(body, key)?),
        (["consumers"], "GET" | "HEAD") => OfQueue::Consumers,
        (["consumers"], "POST") => OfQueue::AddConsumer(ConsumerBody::read(body)?),
        (["consumers", id], "GET" | "HEAD") => OfQueue::Consumer(consumer(id)?),
        (["consumers", id], "PUT") => OfQueue::PutConsumer(consumer(id)?, ConsumerBody::read(body)?),
        (["consumers", id], "DELETE") => OfQueue::DeleteConsumer(consumer(id)?),
        (rest, method) => return Err(refuse(&request.path, rest, method)),
    })
}

/// The refusal of a path that is not there, or of a method that it does not take.
fn refuse(path: &str, rest: &[&str], method: &str) -> Refusal {
    let takes = match rest {
        [] => "GET, PUT, PATCH, DELETE",
        ["metrics"] => "GET",
        ["purge"] | ["consumers"] => "GET, POST",
        ["messages"] | ["messages", "batch" | "pull" | "ack" | "peek" | "purge"] => "POST",
        ["consumers", _] => "GET, PUT, DELETE",
        _ => return Refusal::no_route(path),
    };
    Refusal::method(path, takes, method)
}

/// A purge is for good, and may have to say so.
fn purge(body: &[u8]) -> Result<OfQueue, Refusal> {
    match super::json::Object::of(body, true)?.truth("delete_messages_permanently")? {
        Some(false) => {
            let message = "a purge deletes for good: `delete_messages_permanently` must be true";
            Err(Refusal::schema("/delete_messages_permanently", message))
        }
        _ => Ok(OfQueue::Purge),
    }
}

fn listing(query: &str) -> Result<Listing, Refusal> {
    let mut listing = Listing { page: 1, per_page: PER_PAGE, names: Vec::new() };
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let number = |most: usize| {
            value.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(|| {
                let shown: String = value.chars().take(40).collect();
                Refusal::new(
                    400,
                    code::SCHEMA,
                    format!("{name} must be a whole number from 1 to {most}, not `{shown}`"),
                )
            })
        };
        match &*name {
            "page" => listing.page = number(1_000_000)?,
            "per_page" => listing.per_page = number(PER_PAGE_MAX)?,
            "name" => listing.names.push(value.into_owned()),
            _ => {}
        }
    }
    Ok(listing)
}
