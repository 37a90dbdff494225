//! The Cloudflare Queues REST API: its JSON, for who asks and who answers ([`wire`]), and its rules, for who
//! answers. Who asks is [`crate::pulling`].
//!
//! A server hands a request over as it came ([`Call::read`]), carries it out inside one transaction of the broker's for
//! each of its parts ([`Call::run`]), and sends the answer ([`Done::answer`], [`Refusal::answer`]). Who may do what is
//! decided inside that transaction too, so a token that was revoked is good for nothing from then on.
//!
//! Paths are those of Cloudflare's API, under [`PREFIX`] and `/accounts/ACCOUNT`:
//!
//! | path | methods |
//! | --- | --- |
//! | `/queues` | GET (`page`, `per_page`, `name` any number of times), POST |
//! | `/queues/ID` | GET, PATCH, PUT, DELETE |
//! | `/queues/ID/messages`, `…/messages/batch` | POST: send |
//! | `/queues/ID/messages/pull`, `…/messages/ack` | POST |
//! | `/queues/ID/messages/peek`, `…/messages/purge` | POST: look, and remove what was looked at |
//! | `/queues/ID/metrics` | GET |
//! | `/queues/ID/purge` | POST, GET |
//! | `/queues/ID/consumers`, `…/consumers/ID` | GET, POST; GET, PUT, DELETE |
//! | `/event_subscriptions/subscriptions`, `…/ID` | GET: none; the rest is refused |
//!
//! and without the account `/accounts`, `/memberships`, `/user`, `/user/tokens/verify`.
//!
//! Where what clients expect and what is documented differ, both are served:
//!
//! | point | documented | what a client looks for | here |
//! | --- | --- | --- | --- |
//! | a consumer's Worker | `script_name` | Wrangler and older SDKs: `script` | both are answered and taken |
//! | the answer to a purge | a Queue object (SDKs) | Wrangler: `started_at`, `complete` | the Queue with these two |
//! | the state of a purge | `completed` | SDKs: a text | `"true"`, or `""` if there was none; `complete` beside it |
//! | the length of a lease | `visibility_timeout_ms` | older documentation, Wrangler's hint: `visibility_timeout` | both, in milliseconds; the old name with a word in `messages` |
//! | `warnings` of an ack | a map | older SDKs: a list | a map; as a client, both are read |
//! | `ackCount`, `retryCount` | snake case elsewhere | SDKs: camel case | camel case |
//! | a pulled body of type json | base64 | a sample shows it plain | base64, as bytes and v8 |
//! | an absent `content_type` | not said; a sample sends an object | | json |
//! | `content_type` bytes | not over HTTP | | taken, in base64 |
//! | `messages` of an envelope | objects elsewhere in Cloudflare's API | the queues' SDKs: texts | texts |
//! | an empty body of a pull, peek, ack or purge | `{}` | | as `{}` |

#[cfg(feature = "broker")]
mod access;
#[cfg(feature = "broker")]
mod answer;
#[cfg(feature = "broker")]
mod body;
#[cfg(feature = "broker")]
mod consumers;
#[cfg(feature = "broker")]
mod json;
#[cfg(feature = "broker")]
mod messages;
#[cfg(feature = "broker")]
mod queues;
#[cfg(feature = "broker")]
mod refusal;
#[cfg(feature = "broker")]
mod route;
#[cfg(feature = "broker")]
mod rules;
#[cfg(feature = "broker")]
mod run;
#[cfg(feature = "broker")]
mod settings;
#[cfg(test)]
#[cfg(feature = "broker")]
mod tests;
pub mod wire;

#[cfg(feature = "broker")]
pub use access::Door;
#[cfg(feature = "broker")]
pub use answer::Done;
#[cfg(feature = "broker")]
pub use messages::IDS_MAX;
#[cfg(feature = "broker")]
pub use refusal::Refusal;
#[cfg(feature = "broker")]
pub use route::{BODY_BYTES_MAX, Call, PREFIX};
#[cfg(feature = "broker")]
pub use rules::{Rules, in_words};
