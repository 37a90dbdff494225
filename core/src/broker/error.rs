//! Why the broker did not do what it was asked, with Cloudflare's code where there is one.

use std::fmt;

use crate::store::StoreError;

/// A refusal, or a failure of the store. After either, nothing of the operation is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokerError {
    /// There is no queue of this name.
    QueueNotFound(String),
    /// There is a queue of this name already.
    QueueExists(String),
    /// A queue cannot have this name.
    NameInvalid {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There are as many queues as there may be.
    TooManyQueues {
        /// How many that is.
        limit: usize,
    },
    /// A setting of a queue or its consumer is out of its range.
    SettingInvalid {
        /// The setting.
        setting: &'static str,
        /// Its least value.
        least: u64,
        /// Its greatest value.
        greatest: u64,
        /// The value given.
        actual: u64,
    },
    /// A queue cannot be its own dead-letter queue.
    OwnDeadLetterQueue(String),
    /// A message's body is too big.
    MessageTooBig {
        /// Place in the batch, from 0.
        index: usize,
        /// Bytes that it may have.
        limit: usize,
        /// Bytes that it has.
        actual: usize,
    },
    /// The bodies of a batch are too big together.
    BatchTooBig {
        /// Bytes that they may have.
        limit: usize,
        /// Bytes that they have.
        actual: usize,
    },
    /// A batch of no message, or of too many.
    BatchCount {
        /// Messages that it may have.
        limit: usize,
        /// Messages that it has.
        actual: usize,
    },
    /// A message's own delay is too long.
    DelayTooLong {
        /// Place in the batch, from 0.
        index: usize,
        /// Seconds that it may be.
        limit: u32,
        /// Seconds that it is.
        actual: u32,
    },
    /// A batch's delay is too long.
    BatchDelayTooLong {
        /// Seconds that it may be.
        limit: u32,
        /// Seconds that it is.
        actual: u32,
    },
    /// A message's metadata are too big.
    MetaTooBig {
        /// Place in the batch, from 0.
        index: usize,
        /// Bytes that they may have.
        limit: usize,
        /// Bytes that they have.
        actual: usize,
    },
    /// A JSON body is empty, which no JSON is.
    JsonEmpty {
        /// Place in the batch, from 0.
        index: usize,
    },
    /// The queue is paused: nothing is taken from it.
    Paused(String),
    /// Too much is asked of it at this moment. The same call may succeed a little later.
    Overloaded(String),
    /// The queue holds as much as it may.
    QueueFull {
        /// Bytes that it may hold.
        limit: u64,
        /// Bytes that it would hold.
        actual: u64,
    },
    /// A text is too long.
    TooLong {
        /// What it is.
        what: &'static str,
        /// Bytes that it may have, or members of a list.
        limit: usize,
        /// How many it has.
        actual: usize,
    },
    /// A queue has a consumer, and there can be one.
    ConsumerExists {
        /// The queue.
        queue: String,
        /// The one that it has, in words.
        present: String,
        /// The one that was to be added, in words.
        wanted: String,
    },
    /// A queue has no such consumer.
    ConsumerNotFound {
        /// The queue.
        queue: String,
    },
    /// There is a token of this name already.
    TokenExists(String),
    /// There is no token of this name.
    TokenNotFound(String),
    /// A name is empty or holds what a line of text does not.
    NotAName(&'static str),
    /// There is no redrive of this number.
    RedriveNotFound(u64),
    /// A redrive of this queue's dead letters is running already.
    RedriveRunning {
        /// The queue of dead letters.
        source: String,
        /// The one that runs.
        id: u64,
    },
    /// A queue's messages are to be moved to itself.
    RedriveOntoItself(String),
    /// The store failed.
    Store(StoreError),
}

impl BrokerError {
    /// Cloudflare's code for it; `None` where its documentation names none.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        Some(match self {
            Self::QueueNotFound(_) => 10_104,
            Self::BatchDelayTooLong { .. } => 10_202,
            Self::DelayTooLong { .. } | Self::MetaTooBig { .. } => 10_203,
            Self::MessageTooBig { .. } => 10_204,
            Self::BatchTooBig { .. } => 10_205,
            Self::BatchCount { .. } => 10_206,
            Self::JsonEmpty { .. } => 10_208,
            Self::Overloaded(_) | Self::Store(StoreError::Unavailable(_)) => 10_250,
            Self::QueueFull { .. } => 10_251,
            Self::ConsumerExists { .. } => 11_004,
            Self::Store(_) => 15_000,
            Self::SettingInvalid { .. } | Self::OwnDeadLetterQueue(_) => return self.settings_code(),
            Self::QueueExists(_)
            | Self::NameInvalid { .. }
            | Self::TooManyQueues { .. }
            | Self::Paused(_)
            | Self::TooLong { .. }
            | Self::ConsumerNotFound { .. }
            | Self::TokenExists(_)
            | Self::TokenNotFound(_)
            | Self::NotAName(_)
            | Self::RedriveNotFound(_)
            | Self::RedriveRunning { .. }
            | Self::RedriveOntoItself(_) => return None,
        })
    }

    /// Wrangler knows one code for a queue's settings and one for its consumer's.
    fn settings_code(&self) -> Option<u32> {
        const OF_THE_QUEUE: [&str; 2] = ["delivery_delay", "message_retention_period"];
        match self {
            Self::SettingInvalid { setting, .. } if OF_THE_QUEUE.contains(setting) => Some(100_128),
            _ => Some(100_127),
        }
    }

    /// Whether the same call may succeed a little later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Overloaded(_) | Self::Store(StoreError::Unavailable(_)))
    }
}

impl From<StoreError> for BrokerError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueNotFound(name) => write!(f, "there is no queue {}", Name(name)),
            Self::QueueExists(name) => write!(f, "there is a queue {} already", Name(name)),
            Self::NameInvalid { name, why } => write!(f, "a queue cannot be named {}: {why}", Name(name)),
            Self::TooManyQueues { limit } => write!(f, "there are {limit} queues, and there can be no more"),
            Self::SettingInvalid { setting, least, greatest, actual } => {
                write!(f, "{setting} is {actual}; it must be between {least} and {greatest}")
            }
            Self::OwnDeadLetterQueue(name) => write!(f, "{} cannot be its own dead-letter queue", Name(name)),
            Self::MessageTooBig { index, limit, actual } => {
                write!(f, "message {} has {actual} bytes; a message has at most {limit}", index + 1)
            }
            Self::BatchTooBig { limit, actual } => {
                write!(f, "the batch has {actual} bytes; a batch has at most {limit}")
            }
            Self::BatchCount { limit, actual } => {
                write!(f, "the batch has {actual} messages; a batch has 1 to {limit}")
            }
            Self::DelayTooLong { index, limit, actual } => {
                write!(f, "message {} is delayed by {actual} s; a delay is at most {limit} s", index + 1)
            }
            Self::BatchDelayTooLong { limit, actual } => {
                write!(f, "the batch is delayed by {actual} s; a delay is at most {limit} s")
            }
            Self::MetaTooBig { index, limit, actual } => {
                write!(f, "message {} has {actual} bytes of metadata; at most {limit} are kept", index + 1)
            }
            Self::JsonEmpty { index } => write!(f, "message {} is sent as JSON and has no bytes", index + 1),
            Self::Paused(name) => write!(f, "the queue `{name}` is paused"),
            Self::Overloaded(why) => write!(f, "the broker is overloaded: {why}; try again a little later"),
            Self::QueueFull { limit, actual } => {
                write!(f, "the queue would hold {actual} bytes; a queue holds at most {limit}")
            }
            Self::TooLong { what, limit, actual } => write!(f, "{what}: {actual}; at most {limit}"),
            Self::ConsumerExists { queue, present, wanted } => write!(
                f,
                "the queue `{queue}` has a consumer already, {present}, and can have one: {wanted} is not added; \
                 remove the other first"
            ),
            Self::ConsumerNotFound { queue } => write!(f, "the queue `{queue}` has no such consumer"),
            Self::TokenExists(name) => write!(f, "there is a token `{name}` already"),
            Self::TokenNotFound(name) => write!(f, "there is no token `{name}`"),
            Self::NotAName(what) => write!(f, "{what} is empty, or holds what a line of text does not"),
            Self::RedriveNotFound(id) => write!(f, "there is no redrive {id}"),
            Self::RedriveRunning { source, id } => {
                write!(f, "redrive {id} of `{source}` is running; wait for its end or cancel it")
            }
            Self::RedriveOntoItself(name) => write!(f, "the messages of `{name}` are in `{name}` already"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BrokerError {}

/// A name as somebody wrote it: not longer than a line, and nothing in it that a terminal would follow.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 80;
        let mut chars = self.0.chars();
        write!(f, "`")?;
        for one in chars.by_ref().take(SHOWN) {
            match one {
                '\'' | '"' | '\\' => write!(f, "{one}")?,
                one => write!(f, "{}", one.escape_debug())?,
            }
        }
        f.write_str(if chars.next().is_some() { "…`" } else { "`" })
    }
}
