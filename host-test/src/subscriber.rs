//! Subscribers that follow a script, and the calls they got.

use std::collections::VecDeque;
use std::fmt;

use jadpo_core::host::{Call, CallOutcome};

use crate::{Recording, TestHost};

/// What a subscriber does with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Answers with this HTTP status.
    Status(u16),
    /// Answers with this HTTP status and a `Retry-After` header.
    RetryAfter(u16, String),
    /// Is never reached: the host may make no calls any more.
    NotSent,
    /// Never answers.
    Hangs,
    /// Closes the connection without an answer.
    Closes,
    /// A linked function's error.
    Error(String),
}

/// A linked function, or a subscriber that decides by what it is sent.
pub(crate) type Answering = Box<dyn FnMut(&Call) -> Reply + Send>;

/// What a subscriber will do.
#[derive(Default)]
pub(crate) struct Script {
    replies: VecDeque<Reply>,
    always: Option<Reply>,
    by: Option<Answering>,
    takes_ms: u32,
}

impl Script {
    /// What it does with this call, and after how long.
    pub(crate) fn next(&mut self, call: &Call) -> (Reply, u32) {
        let reply = self
            .replies
            .pop_front()
            .or_else(|| self.by.as_mut().map(|by| by(call)))
            .or_else(|| self.always.clone())
            .unwrap_or(Reply::Status(200));
        let takes_ms = if reply == Reply::Hangs { u32::MAX } else { self.takes_ms };
        (reply, takes_ms)
    }
}

/// A subscriber, to be told what it does: `host.subscriber("ledger").answers([500]).hangs()`.
///
/// Without a word it answers 200 at once. Replies are used up in the order they were given; after the last one the
/// subscriber does what [`Subscriber::always`] or [`Subscriber::answers_by`] said, or answers 200.
pub struct Subscriber<'a> {
    pub(crate) host: &'a TestHost,
    pub(crate) name: String,
}

impl Subscriber<'_> {
    fn write(&self, write: impl FnOnce(&mut Script)) -> &Self {
        self.host.write_script(&self.name, write);
        self
    }

    /// Does this with the next call.
    ///
    /// # Panics
    /// When its status is none of an answer: 200 to 599.
    #[track_caller]
    pub fn then(&self, reply: Reply) -> &Self {
        reply.must_be_right();
        self.write(|script| script.replies.push_back(reply))
    }

    /// Answers the next calls with these statuses, one each.
    ///
    /// # Panics
    /// When one is no status of an answer: 200 to 599.
    #[track_caller]
    pub fn answers(&self, statuses: impl IntoIterator<Item = u16>) -> &Self {
        let statuses: Vec<u16> = statuses.into_iter().collect();
        statuses.iter().for_each(|status| must_be_status(*status));
        self.write(|script| script.replies.extend(statuses.into_iter().map(Reply::Status)))
    }

    /// Answers the next call 429 with this `Retry-After` header: seconds, or a date as
    /// `Wed, 21 Oct 2026 07:28:00 GMT`. For a header that is neither there is [`Reply::RetryAfter`].
    ///
    /// # Panics
    /// When it is neither.
    #[track_caller]
    pub fn answers_429(&self, retry_after: &str) -> &Self {
        let is_seconds = !retry_after.is_empty() && retry_after.bytes().all(|byte| byte.is_ascii_digit());
        assert!(
            is_seconds || httpdate::parse_http_date(retry_after).is_ok(),
            "{retry_after:?} is no Retry-After: seconds, or a date as \"Wed, 21 Oct 2026 07:28:00 GMT\""
        );
        self.then(Reply::RetryAfter(429, retry_after.to_owned()))
    }

    /// Leaves the next call without an answer until the caller gives up.
    pub fn hangs(&self) -> &Self {
        self.then(Reply::Hangs)
    }

    /// Closes the connection on the next call.
    pub fn closes(&self) -> &Self {
        self.then(Reply::Closes)
    }

    /// Answers the next calls as a real server once did.
    pub fn plays(&self, recording: &Recording) -> &Self {
        self.write(|script| script.replies.extend(recording.replies().iter().cloned()))
    }

    /// Does this with every call that no earlier word speaks of.
    ///
    /// # Panics
    /// When its status is none of an answer: 200 to 599.
    #[track_caller]
    pub fn always(&self, reply: Reply) -> &Self {
        reply.must_be_right();
        self.write(|script| script.always = Some(reply))
    }

    /// Decides by the call, for every call that no earlier word speaks of.
    pub fn answers_by(&self, answer: impl FnMut(&Call) -> Reply + Send + 'static) -> &Self {
        self.write(|script| script.by = Some(Box::new(answer)))
    }

    /// Takes so long over each call, in milliseconds.
    pub fn takes_ms(&self, takes_ms: u32) -> &Self {
        self.write(|script| script.takes_ms = takes_ms)
    }

    /// Forgets every word: each call is answered 200 at once.
    pub fn recovers(&self) -> &Self {
        self.write(|script| *script = Script::default())
    }
}

/// # Panics
/// When it is none of an answer.
#[track_caller]
fn must_be_status(status: u16) {
    let right = matches!(status, 101 | 200..=599); // 101 ends the exchange; the others below 200 come before the answer
    assert!(right, "{status} is no status of an answer: those are 200 to 599");
}

impl Reply {
    #[track_caller]
    fn must_be_right(&self) {
        if let Self::Status(status) | Self::RetryAfter(status, _) = self {
            must_be_status(*status);
        }
    }

    /// What the core is told of it.
    pub(crate) fn outcome(&self) -> CallOutcome {
        match self {
            Self::Status(status) => CallOutcome::Answered { status: *status, retry_after: None },
            Self::RetryAfter(status, after) => {
                CallOutcome::Answered { status: *status, retry_after: Some(after.clone()) }
            }
            Self::NotSent => CallOutcome::NotSent("Too many subrequests.".into()),
            Self::Hangs => CallOutcome::Unanswered("no answer in time".into()),
            Self::Closes => CallOutcome::Unanswered("the connection was closed before an answer".into()),
            Self::Error(text) => CallOutcome::Unanswered(text.clone()),
        }
    }
}

/// A call that a subscriber got.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordedCall {
    /// When it began, in milliseconds since 1970.
    pub at_ms: i64,
    /// What was sent.
    pub call: Call,
    /// What the subscriber did.
    pub reply: Reply,
}

impl fmt::Debug for RecordedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ms, call, reply } = self;
        let mut all = f.debug_struct("RecordedCall");
        all.field("at_ms", at_ms).field("to", &call.subscriber).field("target", &call.target);
        all.field("headers", &call.headers).field("body", &self.body_text()).field("reply", reply).finish()
    }
}

impl RecordedCall {
    /// A header's value by its lowercase name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.call.headers.iter().find(|(header, _)| *header == name).map(|(_, value)| value.as_str())
    }

    /// The body as text, invalid UTF-8 replaced.
    #[must_use]
    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.call.body).into_owned()
    }
}
