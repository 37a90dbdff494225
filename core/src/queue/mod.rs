//! Cloudflare's queue rules, shared by every host: what a message is, when it is retried, what the limits are.

mod message;
mod retry;

pub use message::{Answer, Batch, Body, Message};
pub use retry::{ATTEMPTS_MAX, RETRY_DELAY_FIRST_S, RETRY_DELAY_MAX_S, retry_delay_s};
