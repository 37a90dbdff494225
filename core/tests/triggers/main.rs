//! Triggers and schedules: who is called with what, what follows from it, and when something is due.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::string_slice, clippy::panic)]

mod calls;
mod conclusions;
mod cron;
mod declared;
mod received;
mod schedules;

use jadpo_core::app;
use jadpo_core::broker::{Content, Message, MessageId};
use jadpo_core::program::Program;

/// The program of an app file that is right.
pub(crate) fn program(source: &str) -> Program {
    let compiled = app::compile(&format!("app: \"shop\"\n{source}"));
    compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.problems))
}

/// A message of these bytes, handed over for the first time.
pub(crate) fn message(content: Content, body: &[u8]) -> Message {
    Message {
        id: MessageId(0xAB),
        sent_at_ms: 1_790_000_003_000,
        attempts: 1,
        content,
        body: body.to_vec(),
        meta: None,
        progress: None,
        dead: None,
    }
}
