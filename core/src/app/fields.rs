//! One named thing of the app file, like a connection: its keys, those it must have and those it may not.

use super::code::Area;
use super::problem::{Span, closest, quote};
use super::syntax::{Block, Entry, What};
use super::values::{Key, Reading};

/// A key that something takes.
pub(super) struct Known {
    pub(super) key: &'static str,
    /// An example line, and that the key must be there.
    pub(super) required: Option<&'static str>,
}

pub(super) const fn required(key: &'static str, example: &'static str) -> Known {
    Known { key, required: Some(example) }
}

pub(super) const fn optional(key: &'static str) -> Known {
    Known { key, required: None }
}

/// The block of one named thing.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) area: Area,
    pub(super) name: &'a str,
    pub(super) name_span: Span,
    pub(super) block: &'a Block,
}

impl<'a> Fields<'a> {
    /// The block of an entry; says so when it is something else.
    pub(super) fn of(reading: &mut Reading<'_>, area: Area, entry: &'a Entry, example: &str) -> Option<Self> {
        let What::Block(block) = &entry.value.what else {
            let key = Key { area, name: &entry.key };
            reading.wrong_kind(key, &entry.value, "a block", format!("write `{}: {example}`", entry.key));
            return None;
        };
        Some(Fields { area, name: &entry.key, name_span: entry.key_span, block })
    }

    /// Says which keys are missing and which do not belong. `refused` says why a key in particular does not.
    /// Answers whether every required key is there.
    pub(super) fn check(&self, reading: &mut Reading<'_>, known: &[Known], refused: &[(&str, &str)]) -> bool {
        for entry in &self.block.entries {
            if known.iter().any(|known| known.key == entry.key) {
                continue;
            }
            let why = refused.iter().find(|(key, _)| *key == entry.key).map(|(_, why)| (*why).to_owned());
            self.refuse_key(reading, entry, known, why);
        }
        let mut is_whole = true;
        for (key, example) in known.iter().filter_map(|known| Some((known.key, known.required?))) {
            if self.block.entry(key).is_none() {
                is_whole = false;
                self.missing(reading, &format!("`{key}:`"), &format!("add a line to it: `{key}: {example}`"));
            }
        }
        is_whole
    }

    fn refuse_key(&self, reading: &mut Reading<'_>, entry: &Entry, known: &[Known], why: Option<String>) {
        let message = format!("{} {} takes no {}", self.area.noun(), quote(self.name), quote(&entry.key));
        let keys = || known.iter().map(|known| known.key);
        let free = keys().filter(|key| self.block.entry(key).is_none());
        let help = why.unwrap_or_else(|| match closest(&entry.key, free) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("it takes {}", keys().collect::<Vec<_>>().join(", ")),
        });
        reading.findings.problem(self.area.key_invalid(), entry.key_span, message).help(help);
    }

    /// Says that something is missing, unless part of the block could not be read and it may be there.
    pub(super) fn missing(&self, reading: &mut Reading<'_>, what: &str, help: &str) {
        if self.block.damaged {
            return;
        }
        let message = format!("{} {} has no {what}", self.area.noun(), quote(self.name));
        reading.findings.problem(self.area.key_missing(), self.name_span, message).help(help);
    }

    pub(super) fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.block.entry(key)
    }

    pub(super) fn key(&self, name: &'a str) -> Key<'a> {
        Key { area: self.area, name }
    }
}
