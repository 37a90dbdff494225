//! Triggers: which functions a local queue's messages go to, what each of them is told, and what follows from how it
//! ended.
//!
//! A host takes a message, makes the [`FunctionCall`]s side by side, and does what [`conclude`] says. All functions
//! must succeed before the message is done; one that did is not called again because another failed.

mod call;
mod conclude;
mod declared;
mod received;

pub use call::FunctionCall;
pub(crate) use call::written_body;
pub use conclude::{Conclusion, FunctionOutcome, NOT_STARTED_PAUSE_MS, conclude};
pub use declared::{Consumer, Declared, GRACE_MS, RETENTION_S, Triggers};
pub use received::{batch, message, settle};
