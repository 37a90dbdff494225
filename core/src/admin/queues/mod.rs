//! What the operator's endpoint takes and gives about queues, triggers and webhooks, for it and for the commands
//! alike. Native only: a Worker has no queues of its own. Times are milliseconds since 1970 and their names end in
//! `_ms`; lengths of time are named for their unit.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET queues?limit=&after=` | [`Queues`] |
//! | `POST queues` with [`NewQueue`] | 201 [`Queue`] |
//! | `GET queues/NAME` | [`Queue`] |
//! | `DELETE queues/NAME` | [`Emptied`] |
//! | `POST queues/NAME/pause`, `…/resume` | [`Queue`] |
//! | `POST queues/NAME/messages` with [`Send`] | 202 [`Sent`] |
//! | `GET queues/NAME/messages?limit=&after=&full=true` | [`Messages`] |
//! | `DELETE queues/NAME/messages` | [`Emptied`] |
//! | `POST queues/NAME/messages/remove` with [`Remove`] | [`Removed`] |
//! | `GET queues/NAME/dead-letters?limit=&after=&full=true` | [`Messages`] of its dead-letter queue |
//! | `POST queues/NAME/pull`, `DELETE queues/NAME/pull` | [`Queue`] |
//! | `GET tokens` | [`Tokens`] |
//! | `POST tokens` with [`NewToken`] | 201 [`MadeToken`] |
//! | `DELETE tokens/NAME` | [`Token`] |
//! | `GET triggers` | [`Triggers`] |
//! | `POST triggers/NAME/enable`, `…/disable` | [`Trigger`] |
//! | `GET webhooks` | [`Webhooks`] |
//! | `POST webhooks/NAME/rotate` | [`Webhook`] |
//! | `GET redrives` | [`Redrives`] |
//! | `POST redrives` with [`NewRedrive`] | 202 [`Redrive`], or of a dry run 200 [`RedrivePreview`] |
//! | `GET redrives/ID` | [`Redrive`] |
//! | `POST redrives/ID/cancel` | [`Redrive`] |

mod listed;
mod messages;
mod problem;
mod queue;
mod redrive;
mod serving;
mod token;
mod trigger;

pub use listed::{consumers, crons, triggers, webhooks};
pub use messages::{DeadLetter, Messages, NewMessage, PeekedMessage, Remove, Removed, Send, Sent, State};
pub use problem::{problem, status};
pub use queue::{Consumer, Emptied, NewQueue, Queue, QueueSettings, Queues};
pub use redrive::{NewRedrive, Redrive, RedriveFilter, RedrivePreview, RedriveState, Redrives};
pub use serving::{Mode, ServedWorker, Serving};
pub use token::{MadeToken, NewToken, Scope, Token, Tokens};
pub use trigger::{Outcome, Run, Trigger, TriggerKind, Triggers, Webhook, Webhooks};

/// Most bytes of a request's body: a full batch in base64, with room to spare. A host need not read more: one byte
/// more is refused as too large.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Most queues of a page, and how many it has when the request names no limit.
pub const QUEUES_LIMIT_MAX: usize = 1_000;
/// Most messages of a page.
pub const MESSAGES_LIMIT_MAX: usize = 100;
/// Most messages of a page with their bodies, so that an answer stays below 10 MB.
pub const FULL_LIMIT_MAX: usize = 25;
/// Most messages removed by one request.
pub const REMOVE_MAX: usize = 100;
