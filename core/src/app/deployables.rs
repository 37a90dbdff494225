//! `deployables:` — what runs where.

use std::collections::BTreeMap;

use super::code::{Area, Code};
use super::fields::{Fields, required};
use super::problem::{Span, quote};
use super::syntax::{Block, Entry};
use super::values::Reading;
use crate::program::{Deployable, Platform, Trigger};

const PLATFORMS: [(&str, Platform); 2] = [("workers", Platform::Workers), ("native", Platform::Native)];
const TRIGGERS: [(&str, Trigger); 3] =
    [("http", Trigger::Http), ("subscribers", Trigger::Subscribers), ("tick", Trigger::Tick)];

pub(super) fn read(reading: &mut Reading<'_>, block: &Block) -> BTreeMap<String, Deployable> {
    let mut deployables = BTreeMap::new();
    for entry in &block.entries {
        if let Some(deployable) = deployable(reading, entry) {
            deployables.insert(entry.key.clone(), deployable);
        }
    }
    deployables
}

fn deployable(reading: &mut Reading<'_>, entry: &Entry) -> Option<Deployable> {
    let example = "{ target: Target.workers, triggers: [Trigger.http, Trigger.subscribers, Trigger.tick] }";
    let fields = Fields::of(reading, Area::Deployable, entry, example)?;
    let known = [
        required("target", "Target.workers"),
        required("triggers", "[Trigger.http, Trigger.subscribers, Trigger.tick]"),
    ];
    fields.check(reading, &known, &[]);
    let target = fields.entry("target");
    let target = target.and_then(|entry| reading.choice(fields.key("target"), &entry.value, "Target", &PLATFORMS));
    let triggers = fields.entry("triggers").and_then(|entry| triggers(reading, fields, entry));
    Some(Deployable { target: target?, triggers: triggers? })
}

fn triggers(reading: &mut Reading<'_>, fields: Fields<'_>, entry: &Entry) -> Option<Vec<Trigger>> {
    let key = fields.key("triggers");
    let items = reading.list(key, &entry.value, "[Trigger.http, Trigger.tick]")?;
    let mut triggers: Vec<Trigger> = Vec::new();
    let mut is_right = true;
    for item in items {
        match reading.choice(key, item, "Trigger", &TRIGGERS) {
            Some(trigger) if triggers.contains(&trigger) => {
                is_right = false;
                let message = format!("{} is named twice", quote(&item.name().unwrap_or_default()));
                reading.findings.problem(Code::DeployableValueInvalid, item.span, message).help("remove one of them");
            }
            Some(trigger) => triggers.push(trigger),
            None => is_right = false,
        }
    }
    if is_right && triggers.is_empty() {
        let message = format!("deployable {} has no trigger, so it does nothing", quote(fields.name));
        let help = "write what it does: `triggers: [Trigger.http, Trigger.subscribers, Trigger.tick]`";
        reading.findings.problem(Code::DeployableValueInvalid, entry.value.span, message).help(help);
        return None;
    }
    is_right.then_some(triggers)
}

/// Where a deployable's trigger is written, for a problem that is about it.
pub(super) fn trigger_span(block: &Block, deployable: &str, trigger: &str) -> Span {
    let Some(entry) = block.entry(deployable) else { return Span::default() };
    let super::syntax::What::Block(fields) = &entry.value.what else { return entry.key_span };
    let Some(triggers) = fields.entry("triggers") else { return entry.key_span };
    let super::syntax::What::List(items) = &triggers.value.what else { return triggers.value.span };
    let named = items.iter().find(|item| item.name().is_some_and(|name| name == trigger));
    named.map_or(triggers.value.span, |item| item.span)
}
