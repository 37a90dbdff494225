//! A place in the file: a value, where it is, and whether what it says will be used.

use std::ops::Range;

use serde_json::Number;

use super::note::{Found, Note};
use super::tree::{Entry, Kind, Value};
use super::{closest, quote};

/// A value and the path to it.
#[derive(Debug, Clone)]
pub(super) struct At<'t> {
    pub(super) path: String,
    pub(super) value: &'t Value,
    /// Whether the Worker that is read gets this. A section that its environment does not inherit is read for what
    /// Wrangler refuses in it, and no more.
    pub(super) is_used: bool,
}

/// A table's entries and where it is.
#[derive(Debug, Clone)]
pub(super) struct Table<'t> {
    pub(super) at: At<'t>,
    pub(super) entries: &'t [Entry],
}

/// A whole number within limits, or one with a fraction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) least: u32,
    pub(super) most: u32,
    /// What it counts, after the number: " messages", " seconds".
    pub(super) unit: &'static str,
}

impl<'t> At<'t> {
    fn note(&self, message: String, help: Option<String>, span: Range<usize>) -> Note {
        Note { path: self.path.clone(), message, help, span: Some(span) }
    }

    /// Refuses what Wrangler refuses too: also where it is not used.
    pub(super) fn wrong(&self, found: &mut Found, message: impl Into<String>, help: impl Into<String>) {
        found.problem(self.note(message.into(), Some(help.into()), self.value.span.clone()));
    }

    /// Refuses what only jadpo refuses, where it would be used.
    pub(super) fn refuse(&self, found: &mut Found, message: impl Into<String>, help: impl Into<String>) {
        if self.is_used {
            self.wrong(found, message, help);
        }
    }

    pub(super) fn warn(&self, found: &mut Found, message: impl Into<String>, help: impl Into<String>) {
        if self.is_used {
            found.warning(self.note(message.into(), Some(help.into()), self.value.span.clone()));
        }
    }

    fn unlike(&self, found: &mut Found, wanted: &str, help: &str) {
        let message = format!("`{}` is {}, and it takes {wanted}", self.path, self.value.kind.noun());
        self.wrong(found, message, help);
    }

    /// Refuses a table for what it has not.
    pub(super) fn missing(&self, found: &mut Found, key: &str, help: &str) {
        let message = format!("the file has no `{key}`");
        found.problem(Note { path: joined(&self.path, key), message, help: Some(help.to_owned()), span: None });
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.value.kind, Kind::List(_))
    }

    /// Whether it is a list or table that holds something.
    pub(super) fn is_filled(&self) -> bool {
        match &self.value.kind {
            Kind::List(items) => !items.is_empty(),
            Kind::Table(entries) => !entries.is_empty(),
            _ => false,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value.kind, Kind::Null)
    }

    pub(super) fn text(&self, found: &mut Found) -> Option<&'t str> {
        match &self.value.kind {
            Kind::Text(text) => Some(text),
            _ => {
                self.unlike(found, "a text", "write it in quotes");
                None
            }
        }
    }

    /// A text that is not empty.
    pub(super) fn filled(&self, found: &mut Found, what: &str) -> Option<&'t str> {
        let text = self.text(found)?;
        if text.trim().is_empty() {
            self.wrong(found, format!("`{}` is empty", self.path), format!("write {what}"));
            return None;
        }
        Some(text)
    }

    pub(super) fn truth(&self, found: &mut Found) -> Option<bool> {
        match self.value.kind {
            Kind::Bool(is_true) => Some(is_true),
            _ => {
                self.unlike(found, "true or false", "write `true` or `false`, without quotes");
                None
            }
        }
    }

    pub(super) fn number(&self, found: &mut Found) -> Option<&'t Number> {
        match &self.value.kind {
            Kind::Number(number) => Some(number),
            _ => {
                self.unlike(found, "a number", "write a number, without quotes; leave it out for the default");
                None
            }
        }
    }

    /// A whole number. Wrangler checks no range here, Cloudflare does.
    pub(super) fn count(&self, found: &mut Found, limits: Limits) -> Option<u32> {
        let number = self.number(found)?;
        let count = number.as_u64().and_then(|count| u32::try_from(count).ok());
        self.within(found, limits, count, number)
    }

    /// Seconds as milliseconds, so that a part of a second is one.
    pub(super) fn seconds_ms(&self, found: &mut Found, limits: Limits) -> Option<u32> {
        const MS: f64 = 1000.0;
        let number = self.number(found)?;
        let seconds = number.as_f64().filter(|s| (f64::from(limits.least)..=f64::from(limits.most)).contains(s));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the limits, which fit")]
        let ms = seconds.map(|seconds| (seconds * MS).round() as u32);
        if ms.is_none() {
            self.out_of_range(found, limits, number, "a number");
        }
        ms
    }

    fn within(&self, found: &mut Found, limits: Limits, count: Option<u32>, written: &Number) -> Option<u32> {
        let count = count.filter(|count| (limits.least..=limits.most).contains(count));
        if count.is_none() {
            self.out_of_range(found, limits, written, "a whole number");
        }
        count
    }

    fn out_of_range(&self, found: &mut Found, Limits { least, most, unit }: Limits, written: &Number, what: &str) {
        let message = format!("`{}` is {written}, and it takes {what} from {least} to {most}", self.path);
        self.refuse(found, message, format!("write {what} of{unit} from {least} to {most}"));
    }

    /// The entries of a list.
    pub(super) fn list(&self, found: &mut Found) -> Option<Vec<At<'t>>> {
        let Kind::List(items) = &self.value.kind else {
            self.unlike(found, "a list", "write `[…]`, in TOML `[[…]]` for tables");
            return None;
        };
        let items = items.iter().enumerate();
        let at = |(i, value)| At { path: format!("{}[{i}]", self.path), value, is_used: self.is_used };
        Some(items.map(at).collect())
    }

    /// The texts of a list; those that are none are left out, and said.
    pub(super) fn texts(&self, found: &mut Found) -> Option<Vec<(At<'t>, &'t str)>> {
        let items = self.list(found)?;
        Some(items.into_iter().filter_map(|item| item.text(found).map(|text| (item.clone(), text))).collect())
    }

    pub(super) fn strings(&self, found: &mut Found) -> Option<Vec<String>> {
        Some(self.texts(found)?.into_iter().map(|(_, text)| text.to_owned()).collect())
    }

    pub(super) fn table(&self, found: &mut Found) -> Option<Table<'t>> {
        match &self.value.kind {
            Kind::Table(entries) => Some(Table { at: self.clone(), entries }),
            _ => {
                self.unlike(found, "a table", "write `{ … }`, in TOML `[…]` and its keys under it");
                None
            }
        }
    }

    /// The tables of a list.
    pub(super) fn tables(&self, found: &mut Found) -> Vec<Table<'t>> {
        let items = self.list(found).unwrap_or_default();
        items.iter().filter_map(|item| item.table(found)).collect()
    }
}

impl<'t> Table<'t> {
    /// The value under a key, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<At<'t>> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| self.under(entry))
    }

    pub(super) fn under(&self, entry: &'t Entry) -> At<'t> {
        At { path: joined(&self.at.path, &entry.key), value: &entry.value, is_used: self.at.is_used }
    }

    /// Every value with its key.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'t str, At<'t>)> + use<'t, '_> {
        self.entries.iter().map(|entry| (entry.key.as_str(), self.under(entry)))
    }

    /// The text under a key that must be there.
    pub(super) fn required(&self, found: &mut Found, key: &str, help: &str) -> Option<&'t str> {
        match self.get(key) {
            Some(at) => at.filled(found, help.strip_prefix("write ").unwrap_or(help)),
            None => {
                self.at.wrong(found, format!("`{}` has no `{key}`", self.at.path), help);
                None
            }
        }
    }

    pub(super) fn text(&self, found: &mut Found, key: &str) -> Option<&'t str> {
        self.get(key)?.text(found)
    }

    pub(super) fn truth(&self, found: &mut Found, key: &str) -> Option<bool> {
        self.get(key)?.truth(found)
    }

    pub(super) fn count(&self, found: &mut Found, key: &str, limits: Limits) -> Option<u32> {
        self.get(key)?.count(found, limits)
    }

    /// Says which keys are not known: refused where that is asked for, a warning elsewhere, as in Wrangler.
    pub(super) fn unknown(&self, found: &mut Found, known: &[&'static str], is_refused: bool) {
        for entry in self.entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let meant = if found.is_full() { None } else { closest(&entry.key, known.iter().copied()) };
            let help = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("it takes {}", known.join(", ")),
            };
            self.unknown_key(found, entry, help, is_refused);
        }
    }

    pub(super) fn unknown_key(&self, found: &mut Found, entry: &Entry, help: String, is_refused: bool) {
        if !self.at.is_used {
            return;
        }
        let what = if self.at.path.is_empty() { "the file".to_owned() } else { format!("`{}`", self.at.path) };
        let so = if is_refused { "" } else { ", so it does nothing" };
        let message = format!("{what} takes no {}{so}", quote(&entry.key));
        let path = joined(&self.at.path, &entry.key);
        let note = Note { path, message, help: Some(help), span: Some(entry.key_span.clone()) };
        if is_refused { found.problem(note) } else { found.warning(note) }
    }
}

/// A path and one more key; one that is no plain name is quoted, a long one is cut.
pub(super) fn joined(path: &str, key: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let shown: String = key.chars().take(SHOWN_MAX).collect();
    let is_cut = shown.len() < key.len();
    let is_plain =
        !is_cut && !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    match (is_plain, path) {
        (true, "") => shown,
        (true, _) => format!("{path}.{shown}"),
        (false, _) => format!("{path}[{shown:?}{}]", if is_cut { "…" } else { "" }),
    }
}
