//! Who may do what: the token, the account and the queue that a request names.

use super::refusal::{Refusal, code};
use super::route::{Call, OfQueue, Who, Wish, bearer};
use super::rules::Rules;
use crate::broker::{ApiToken, Broker, Moment};

/// How a server lets clients of the API in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// On a developer's machine: any account will do, and beside the store's tokens there is one for development.
    Dev,
    /// In production: the store's own account, and its tokens.
    Serve,
}

/// What a request may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    /// `None` for the developer, who may do everything.
    pub(super) token: Option<ApiToken>,
    /// The account, as the request named it, or the store's.
    pub(super) account: String,
}

impl Grant {
    /// What the token of a request allows.
    pub(super) fn of(call: &Call, door: Door, broker: &Broker, moment: Moment) -> Result<Self, Refusal> {
        let own = broker.account();
        let account = call.account.clone().unwrap_or_else(|| own.to_owned());
        if door == Door::Dev && broker.is_dev_token(&call.token) {
            return Ok(Self { token: None, account });
        }
        let Some(token) = broker.token(moment, &call.token) else { return Err(no_token()) };
        if door == Door::Serve && !account.eq_ignore_ascii_case(own) {
            let account: String = account.chars().take(64).collect();
            let message = format!("the token is not for the account `{account}`; this server's is {own}");
            return Err(Refusal::new(403, code::UNAUTHORIZED, message));
        }
        let grant = Self { token: Some(token.clone()), account };
        grant.allows(needs(&call.wish)).map(|()| grant)
    }

    fn allows(&self, needs: Needs) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let missing = [("read", needs.read && !token.may_read), ("write", needs.write && !token.may_write)];
        if let Some((scope, _)) = missing.into_iter().find(|(_, is_missing)| *is_missing) {
            let message = format!("the token `{}` lacks the scope {scope}, which this needs", token.name);
            return Err(Refusal::new(403, code::UNAUTHORIZED, message));
        }
        if needs.account && !token.queues.is_empty() {
            let message = format!("the token `{}` is for some queues, and this is for the whole account", token.name);
            return Err(Refusal::new(403, code::UNAUTHORIZED, message));
        }
        Ok(())
    }

    /// Whether it is for this queue.
    pub(super) fn sees(&self, queue: &str) -> bool {
        self.token.as_ref().is_none_or(|token| token.queues.is_empty() || token.queues.iter().any(|name| name == queue))
    }
}

impl Rules {
    /// Lets in who has a token, whatever it is for: so much is known from a request's head.
    ///
    /// # Errors
    /// Why the token is none.
    pub fn admit(&self, authorization: Option<&str>, broker: &Broker, moment: Moment) -> Result<(), Refusal> {
        let token = bearer(authorization)?;
        let is_known =
            (self.door == Door::Dev && broker.is_dev_token(&token)) || broker.token(moment, &token).is_some();
        if is_known { Ok(()) } else { Err(no_token()) }
    }
}

fn no_token() -> Refusal {
    let message = "Authentication error: the token is none of this server's, was revoked, or has expired; \
        `jadpo tokens list` shows those that there are";
    Refusal::new(401, code::NOT_AUTHENTICATED, message)
}

/// What a request must be allowed to do.
struct Needs {
    read: bool,
    write: bool,
    /// It is about no queue that there is.
    account: bool,
}

/// To pull is to read and to write, for the queue is another afterwards; so is to settle.
fn needs(wish: &Wish) -> Needs {
    let (read, write, account) = match wish {
        Wish::Queue(_, of) => match of {
            OfQueue::Pull(_) | OfQueue::Ack(_) => (true, true, false),
            OfQueue::Show
            | OfQueue::Metrics
            | OfQueue::Purged
            | OfQueue::Peek(_)
            | OfQueue::Consumers
            | OfQueue::Consumer(_) => (true, false, false),
            _ => (false, true, false),
        },
        Wish::Queues(_) | Wish::Subscriptions(_) | Wish::Subscription { is_new: false } => (true, false, false),
        Wish::Create(_) | Wish::Subscription { is_new: true } => (false, true, true),
        Wish::Who(Who::Accounts | Who::Account | Who::Memberships | Who::User | Who::Token) => (false, false, false),
    };
    Needs { read, write, account }
}
