//! Pulling: a native server reads a Cloudflare queue over HTTP, as its connection says.
//!
//! [`Course`] is what one connection does, decided: when it pulls and how much, what is acknowledged together, what an
//! answer or the lack of one means, and whether the connection is ready. A host makes the requests ([`Source::request`])
//! and hands back what came of them ([`pulled`], [`settled`], [`found`]).
//!
//! | what came | what follows |
//! | --- | --- |
//! | messages | the next pull at once, and with every full answer one more pull beside it, up to [`PULLS_MAX`] |
//! | none | a wait that grows to [`IDLE_MAX_MS`], never longer than the host's tick |
//! | 409 | the queue is paused: a wait, and no complaint |
//! | 429, or 503 with `Retry-After` | a wait as long as was asked for, an hour at most |
//! | 5xx, half an answer, none | a wait that grows; what was lent meanwhile comes again when its lease ends |
//! | 401, 403, 404, another 4xx | a person has to do something: not ready, and a long wait |
//! | a redirect | the same: the token goes to no other address |
//! | an acknowledgement that must wait | no more is pulled either: what cannot be settled comes again |
//! | a longer answer than is read | fewer messages are asked for |
//! | the store takes nothing | no more is pulled until it does: every delivery that comes to nothing is one fewer |
//!
//! An answer is sent back only for what the store has committed, and nothing depends on it: a message whose
//! acknowledgement is lost comes again and is a repeat.

mod answer;
mod course;
mod message;
mod settles;
mod source;
mod trouble;

pub use answer::{Answer, Found, Lent, Pulled, found, pulled, settled};
pub use course::{Act, Course, HELD_MAX, IDLE_MAX_MS, PULLS_MAX};
pub use settles::{Group, SETTLED_AT_ONCE_MAX};
pub use source::{Request, Source, Token};
pub use trouble::{Kind, Trouble};
