//! The names that an app has: a name that a test misspells is told, and never passes for one that nothing happened to.

use std::collections::BTreeSet;

use jadpo_core::app::closest;
use jadpo_core::program::{Connection, Program, Setting, Target, Verify};
use jadpo_core::trigger::Triggers;

use crate::TestHost;

/// How many names are told where one is not among them.
const TOLD_MAX: usize = 20;

/// The names in an app, and in those that were deployed over it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Subscribers and functions.
    callees: BTreeSet<String>,
    /// What `run:` names.
    linked: BTreeSet<String>,
    /// Environment variables and secrets that are needed.
    secrets: BTreeSet<String>,
}

impl Known {
    fn add(&mut self, program: &Program) {
        self.callees.extend(callees(program));
        let functions = program.functions.values().map(|function| &function.target);
        let targets = program.subscribers.values().map(|subscriber| &subscriber.target).chain(functions);
        self.linked.extend(targets.filter_map(|target| match target {
            Target::Run(name) => Some(name.clone()),
            Target::Call(_) | Target::Service(_) | Target::Exec(_) | Target::Send(_) => None,
        }));
        let verifying = program.webhooks.values().filter_map(|webhook| webhook.verify.as_ref());
        let verifying = verifying.map(|verify| match verify {
            Verify::Stripe(secret) | Verify::Github(secret) | Verify::Shopify(secret) | Verify::Standard(secret) => {
                secret
            }
        });
        let signing = program.subscribers.values().filter_map(|subscriber| subscriber.secret.as_ref());
        self.secrets.extend(signing.chain(verifying).filter_map(|setting| match setting {
            Setting::Env(name) => Some(name.clone()),
            Setting::Text(_) => None,
        }));
    }
}

/// The name of every subscriber and function of a program.
pub(crate) fn callees(program: &Program) -> BTreeSet<String> {
    program.subscribers.keys().chain(program.functions.keys()).cloned().collect()
}

/// The names of a program's queues, local, of schedules or at Cloudflare, with those of their dead letters.
pub(crate) fn queues(program: &Program) -> BTreeSet<String> {
    let triggers = Triggers::of(program);
    let local = triggers.declared().flat_map(|declared| [declared.queue.clone(), declared.dead_letters().0]);
    let mut all: BTreeSet<String> = local.collect();
    for connection in program.connections.values() {
        if let Connection::CloudflareQueues { queue, dead_letter_queue } = connection {
            all.extend([queue.clone(), dead_letter_queue.clone()]);
        }
    }
    all
}

/// That a name is not among those that are there, with what may have been meant: ``no subscriber `calender`; did you mean
/// `calendar`? It has audit, calendar``.
pub(crate) fn unknown(what: &str, name: &str, there: &BTreeSet<String>) -> String {
    let meant = closest(name, there.iter().map(String::as_str));
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    let more = if there.len() > TOLD_MAX { ", …" } else { "" };
    let has: Vec<&str> = there.iter().take(TOLD_MAX).map(String::as_str).collect();
    let has = if has.is_empty() { "none at all".to_owned() } else { has.join(", ") };
    let ends = if meant.is_empty() { "; it" } else { " It" };
    format!("the app has no {what} `{name}`{meant}{ends} has {has}{more}")
}

impl TestHost {
    /// From now on only names of this program are taken, and of those before it.
    pub(crate) fn knows(&self, program: &Program) {
        self.state().known.get_or_insert_default().add(program);
    }

    fn known(&self) -> Option<Known> {
        self.state().known.clone()
    }

    /// # Panics
    /// When the app has no subscriber and no function of this name.
    #[track_caller]
    pub(crate) fn must_have_callee(&self, name: &str) {
        if let Some(known) = self.known().filter(|known| !known.callees.contains(name)) {
            panic!("{}", unknown("subscriber or function", name, &known.callees));
        }
    }

    /// # Panics
    /// When the app has no `run:` with this name.
    #[track_caller]
    pub(crate) fn must_link(&self, name: &str) {
        if let Some(known) = self.known().filter(|known| !known.linked.contains(name)) {
            panic!("{}", unknown("`run:` with the name", name, &known.linked));
        }
    }

    /// Whether what is not linked is a mistake of the test.
    pub(crate) fn is_of_an_app(&self) -> bool {
        self.state().known.is_some()
    }

    /// Leaves an environment variable or secret of the app unset, where a test is about that. Otherwise a test that needs
    /// one and has not set it fails.
    pub fn unset_env(&self, name: &str) {
        let mut state = self.state();
        state.env.remove(name);
        state.unset.insert(name.to_owned());
    }

    /// Whatever is not set is missing on purpose: a scenario says all that is set.
    pub(crate) fn unset_all_else(&self) {
        let secrets = self.known().map(|known| known.secrets).unwrap_or_default();
        self.state().unset.extend(secrets);
    }

    /// # Panics
    /// When the app needs a secret that the test forgot.
    pub(crate) fn must_not_forget(&self, name: &str) {
        let is_needed = self.known().is_some_and(|known| known.secrets.contains(name));
        assert!(
            !is_needed || self.state().unset.contains(name),
            "the app needs {name}, and the test has not set it: host.set_env({name:?}, …), or host.unset_env({name:?}) \
             where it is to be missing"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_there_is_told_with_those_that_are() {
        let there = BTreeSet::from(["audit".to_owned(), "calendar".to_owned()]);
        assert_eq!(
            unknown("subscriber", "calender", &there),
            "the app has no subscriber `calender`; did you mean `calendar`? It has audit, calendar"
        );
        assert_eq!(unknown("queue", "x", &there), "the app has no queue `x`; it has audit, calendar");
        assert_eq!(unknown("queue", "x", &BTreeSet::new()), "the app has no queue `x`; it has none at all");
    }
}
