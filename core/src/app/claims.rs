//! Who has which queue, so that no two connections name one.

use std::collections::BTreeMap;

use super::code::Code;
use super::forms;
use super::problem::{Span, quote};
use super::values::{Reading, Text};
use crate::local;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Queue,
    /// A queue that is read over HTTP: it is at Cloudflare, and no batch of it meets a local queue's.
    Pulled,
    DeadLetterQueue,
}

impl Role {
    const fn noun(self) -> &'static str {
        match self {
            Role::Queue | Role::Pulled => "queue",
            Role::DeadLetterQueue => "dead-letter queue",
        }
    }
}

/// Who has which queue. A queue at Cloudflare has one consumer, and the Worker consumes dead-letter queues too.
#[derive(Default)]
pub(super) struct Claims<'a> {
    cloudflare: BTreeMap<&'a str, (&'a str, Role, Span)>,
    ids: BTreeMap<String, (&'a str, Span)>,
    local: BTreeMap<&'a str, (&'a str, Span)>,
}

impl<'a> Claims<'a> {
    pub(super) fn cloudflare(&mut self, reading: &mut Reading<'_>, connection: &'a str, role: Role, queue: Text<'a>) {
        let local = self.local.get(queue.text).copied().filter(|_| role != Role::Pulled);
        if let Some((owner, span)) = local {
            claimed(reading, owner, span, connection, queue);
            return;
        }
        let Some((owner, owner_role, span)) = self.cloudflare.get(queue.text).copied() else {
            self.cloudflare.insert(queue.text, (connection, role, queue.span));
            return;
        };
        let name = quote(queue.text);
        let (message, help) = if owner == connection {
            (
                format!("{name} is connection {}'s queue and its own dead-letter queue", quote(connection)),
                format!("write another name: `dead_letter_queue: \"{}\"`", with_suffix(queue.text)),
            )
        } else {
            (
                format!("{name} is already connection {}'s {}", quote(owner), owner_role.noun()),
                format!(
                    "a queue has one consumer, and dead-letter queues are consumed too: give {} a {} of its own",
                    quote(connection),
                    role.noun()
                ),
            )
        };
        let said = reading.findings.problem(Code::ConnectionValueInvalid, queue.span, message);
        said.help(help).related(span, "it is named here first");
    }

    pub(super) fn pulled_id(&mut self, reading: &mut Reading<'_>, connection: &'a str, id: Text<'a>) {
        match self.ids.get(&id.text.to_ascii_lowercase()).copied() {
            Some((owner, span)) => claimed(reading, owner, span, connection, id),
            None => {
                self.ids.insert(id.text.to_ascii_lowercase(), (connection, id.span));
            }
        }
    }

    pub(super) fn local(&mut self, reading: &mut Reading<'_>, connection: &'a str, queue: Text<'a>) {
        match self.owner(queue.text) {
            Some((owner, span)) => claimed(reading, owner, span, connection, queue),
            None => {
                self.local.insert(queue.text, (connection, queue.span));
            }
        }
    }

    fn owner(&self, queue: &str) -> Option<(&'a str, Span)> {
        let pushed = || {
            let found = self.cloudflare.get(queue).filter(|(_, role, _)| *role != Role::Pulled);
            found.map(|(owner, _, span)| (*owner, *span))
        };
        self.local.get(queue).copied().or_else(pushed)
    }

    /// Sees to it that no connection has the dead-letter queue of a local one, wherever it is declared.
    pub(super) fn finish(&self, reading: &mut Reading<'_>) {
        for (queue, (connection, span)) in &self.local {
            let dead = local::dead_letters_of(queue);
            let Some((owner, theirs)) = self.owner(&dead) else { continue };
            let message = format!(
                "{} is the dead-letter queue of connection {}, so connection {} cannot have it",
                quote(&dead),
                quote(connection),
                quote(owner)
            );
            let said = reading.findings.problem(Code::ConnectionValueInvalid, theirs, message);
            said.help("name another queue").related(*span, "the queue that it belongs to");
        }
    }
}

fn claimed(reading: &mut Reading<'_>, owner: &str, span: Span, connection: &str, queue: Text<'_>) {
    let message = format!("{} is already connection {}'s queue", quote(queue.text), quote(owner));
    let help = format!(
        "no two connections name one queue: use {} or name another queue for {}",
        quote(owner),
        quote(connection)
    );
    let said = reading.findings.problem(Code::ConnectionValueInvalid, queue.span, message);
    said.help(help).related(span, "it is named here first");
}

/// The queue's name with `-dead` behind it, cut so that it is a queue's name still.
fn with_suffix(queue: &str) -> String {
    const SUFFIX: &str = "-dead";
    let kept: String = queue.chars().take(forms::LABEL_LEN_MAX - SUFFIX.len()).collect();
    format!("{}{SUFFIX}", kept.trim_end_matches('-'))
}
