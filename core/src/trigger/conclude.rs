//! What follows from how the functions of a message ended.

use super::call::done;
use crate::broken::{self, Variant};
use crate::broker::Message;
use crate::broker::limits::ERROR_BYTES_MAX;

/// How a function ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionOutcome {
    /// There was an HTTP answer.
    Answered {
        /// Its status.
        status: u16,
    },
    /// The program ended.
    Exited {
        /// Its exit code; `None` if a signal ended it.
        code: Option<i32>,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// The linked function returned, or the message was sent on.
    Returned(Result<(), String>),
    /// It did not end by itself, or could not be called: the reason in words.
    Unanswered(String),
    /// It was not begun, for lack of something on this machine (file descriptors, memory, processes): the reason in
    /// words. Nobody has seen the message.
    NotStarted(String),
}

impl FunctionOutcome {
    /// Whether the function is done with the message.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(
            self,
            Self::Answered { status: 200..=299 } | Self::Exited { code: Some(0), .. } | Self::Returned(Ok(()))
        )
    }

    /// The HTTP status, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Answered { status } => Some(*status),
            _ => None,
        }
    }

    /// What went wrong, for a person; `None` if nothing did.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        if self.is_done() {
            return None;
        }
        Some(match self {
            Self::Answered { status: status @ 300..=399 } => format!("answered {status}; redirects are not followed"),
            Self::Answered { status } => format!("answered {status}"),
            Self::Exited { code, stderr } => {
                let how = match code {
                    Some(code) => format!("ended with exit code {code}"),
                    None => "was ended by a signal".to_owned(),
                };
                let stderr = stderr.trim();
                if stderr.is_empty() { how } else { format!("{how}: {stderr}") }
            }
            Self::Returned(result) => result.as_ref().err().cloned().unwrap_or_default(),
            Self::Unanswered(why) | Self::NotStarted(why) => why.clone(),
        })
    }
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// Every function is done with it: acknowledge it.
    Done,
    /// Hand it over again when its visibility window ends, or dead-letter it if that was the last time.
    Again {
        /// The functions that are done with it, to be kept with the message.
        progress: Option<String>,
        /// What went wrong, by function.
        error: String,
    },
    /// Nothing failed but what this machine had no room to begin: release it, which costs no attempt, and take nothing
    /// more from its queue for [`NOT_STARTED_PAUSE_MS`].
    NotStarted {
        /// The functions that are done with it, to be kept with the message.
        progress: Option<String>,
        /// What was lacking, by function.
        error: String,
    },
}

/// How long a queue is left alone whose functions could not be begun, in milliseconds. What lacks comes back when
/// something else ends, and to try at once would only take more of it.
pub const NOT_STARTED_PAUSE_MS: u32 = 1_000;

/// Concludes an attempt from the outcomes of the calls that [`calls`](super::Triggers::calls) named.
#[must_use]
pub fn conclude(message: &Message, outcomes: &[(String, FunctionOutcome)]) -> Conclusion {
    let failed: Vec<(&str, String)> =
        outcomes.iter().filter_map(|(name, outcome)| Some((name.as_str(), outcome.error()?))).collect();
    if failed.is_empty() {
        return Conclusion::Done;
    }
    let succeeded = outcomes.iter().filter(|(_, outcome)| outcome.is_done()).map(|(name, _)| name.as_str());
    let forgotten = broken::is(Variant::EarlierProgressForgotten);
    let done: Vec<&str> = done(message).into_iter().filter(|_| !forgotten).chain(succeeded).collect();
    let progress = (!done.is_empty()).then(|| done.join("\n"));
    let error = in_words(&failed);
    let all_not_started =
        outcomes.iter().all(|(_, outcome)| outcome.is_done() || matches!(outcome, FunctionOutcome::NotStarted(_)));
    if all_not_started { Conclusion::NotStarted { progress, error } } else { Conclusion::Again { progress, error } }
}

/// Each function's error gets its part of what is kept. Its end is what says most, as of a program's last lines.
fn in_words(failed: &[(&str, String)]) -> String {
    let each_max = ERROR_BYTES_MAX / failed.len().max(1);
    let each = failed.iter().map(|(name, error)| {
        let room = each_max.saturating_sub(name.len() + ": ; ".len());
        format!("{name}: {}", ending(error, room))
    });
    each.collect::<Vec<_>>().join("; ")
}

/// The last bytes of a text, at most so many, cut between characters and marked where it was cut.
fn ending(text: &str, bytes_max: usize) -> String {
    const CUT: &str = "…";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let from = text.len() - bytes_max.saturating_sub(CUT.len());
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("{CUT}{}", text.get(from..).unwrap_or_default())
}
