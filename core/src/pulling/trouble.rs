//! What keeps a connection from its queue.

/// Something that went wrong between a connection and its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of thing.
    pub kind: Kind,
    /// It in words.
    pub words: String,
    /// How long to stay away, in seconds, if that was said.
    pub after_s: Option<u32>,
}

/// What follows from a trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Somebody paused the queue. It is as it should be.
    Paused,
    /// The server has too much to do, or we asked too often.
    Busy,
    /// There was no whole answer, or one of a server that failed.
    Failed,
    /// The answer is longer than is read.
    TooLong,
    /// The store here took nothing of what was pulled.
    NotKept,
    /// The token is not good for this.
    Token,
    /// There is no such queue.
    NoQueue,
    /// The request is refused, for another reason.
    Refused,
    /// The answer sends it elsewhere, where no token goes.
    Redirected,
    /// What the connection needs is not set here, or wrong.
    Setting,
}

impl Kind {
    /// Whether it lasts until a person does something.
    #[must_use]
    pub fn lasts(self) -> bool {
        matches!(self, Self::Token | Self::NoQueue | Self::Refused | Self::Redirected | Self::Setting)
    }

    /// The word for it in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::TooLong => "too_long",
            Self::NotKept => "not_kept",
            Self::Token => "token",
            Self::NoQueue => "no_queue",
            Self::Refused => "refused",
            Self::Redirected => "redirected",
            Self::Setting => "setting",
        }
    }
}

impl Trouble {
    /// A trouble of this kind.
    #[must_use]
    pub fn new(kind: Kind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into(), after_s: None }
    }

    /// There was no whole answer, for this reason.
    #[must_use]
    pub fn failed(words: impl Into<String>) -> Self {
        Self::new(Kind::Failed, words)
    }

    /// The answer has more bytes than are read.
    #[must_use]
    pub fn too_long(bytes_max: usize) -> Self {
        Self::new(Kind::TooLong, format!("the answer is longer than {bytes_max} bytes"))
    }

    /// The same without a secret that somebody may have put into the words.
    #[must_use]
    pub fn without(mut self, secret: &str) -> Self {
        if !secret.is_empty() && self.words.contains(secret) {
            self.words = self.words.replace(secret, "[the token]");
        }
        self
    }
}
