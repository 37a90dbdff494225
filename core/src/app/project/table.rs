//! A table of TOML and its values, each read as what its key wants.

use serde_json::{Map, Number, Value as Json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::code::{Area, Code};
use super::super::forms::Fault;
use super::super::problem::{Span, closest, quote};
use super::{Both, File};

/// A file, parsed as far as it can be.
pub(super) struct Source<'a> {
    file: File,
    table: Spanned<DeTable<'a>>,
    /// Whether something could not be parsed. What seems to be missing may be there.
    damaged: bool,
}

/// One table of a file.
#[derive(Clone)]
pub(super) struct Table<'t> {
    pub(super) file: File,
    pub(super) area: Area,
    /// What it is, for a message: "queue `jobs`".
    pub(super) what: String,
    pub(super) span: Span,
    pub(super) damaged: bool,
    pub(super) table: &'t DeTable<'t>,
}

/// Nests no deeper than the parser lets it; this is for JSON, which goes the same way.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

pub(super) fn span_of<T>(value: &Spanned<T>) -> Span {
    let range = value.span();
    Span::new(range.start, range.end)
}

impl<'a> Source<'a> {
    /// Parses a file, and says what is no TOML.
    pub(super) fn parse(source: &'a str, file: File, found: &mut Both) -> Self {
        let (table, errors) = DeTable::parse_recoverable(source);
        for error in &errors {
            let range = error.span().unwrap_or(0..0);
            let on_boundary = |mut at: usize| {
                at = at.min(source.len());
                while !source.is_char_boundary(at) {
                    at -= 1;
                }
                at
            };
            let (start, end) = (on_boundary(range.start), on_boundary(range.end));
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            let said = found.of(file).problem(Code::SyntaxTomlInvalid, Span::new(start, end.max(start)), message);
            said.help("write it as TOML: `key = \"text\"`, `key = 3`, `key = [\"a\", \"b\"]`, `[table]`");
        }
        Self { file, table, damaged: !errors.is_empty() }
    }

    pub(super) fn top(&self) -> Table<'_> {
        let what = match self.file {
            File::Project => "project.toml",
            File::Dev => "dev.toml",
        };
        let (file, damaged) = (self.file, self.damaged);
        let (area, what, span) = (Area::Project, what.to_owned(), Span::default());
        Table { file, area, what, span, damaged, table: self.table.get_ref() }
    }
}

impl<'t> Table<'t> {
    /// The same file's table under another name.
    pub(super) fn inner(&self, area: Area, what: String, span: Span, table: &'t DeTable<'t>) -> Table<'t> {
        Table { file: self.file, area, what, span, damaged: self.damaged, table }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'t Value<'t>> {
        self.table.get(key)
    }

    /// Every key with its value, by name.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'t str, Span, &'t Value<'t>)> + use<'t> {
        let table: &'t DeTable<'t> = self.table;
        table.iter().map(|(key, value)| (key.get_ref().as_ref(), span_of(key), value))
    }

    /// Says which keys do not belong. `refused` says why one in particular does not. At the top of a file, a table
    /// that is unlike any of ours is another program's and is skipped.
    pub(super) fn check(&self, found: &mut Both, known: &[&'static str], refused: &[(&str, &str)]) {
        for (key, span, value) in self.entries() {
            if known.contains(&key) {
                continue;
            }
            let why = refused.iter().find(|(refused, _)| *refused == key).map(|(_, why)| (*why).to_owned());
            let meant = closest(key, known.iter().copied());
            let is_table = matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
            if matches!(self.area, Area::Project) && is_table && why.is_none() && meant.is_none() {
                let message = format!("{} is not a table that jadpo reads, so it is skipped", quote(key));
                found.of(self.file).note(Code::NoteBlockSkipped, span, message, None);
                continue;
            }
            let help = why.unwrap_or_else(|| match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("it takes {}", known.join(", ")),
            });
            let message = format!("{} takes no {}", self.what, quote(key));
            found.of(self.file).problem(self.area.key_invalid(), span, message).help(help);
        }
    }

    pub(super) fn missing(&self, found: &mut Both, what: &str, help: impl Into<String>) {
        if !self.damaged {
            let message = format!("{} has no {what}", self.what);
            found.of(self.file).problem(self.area.key_missing(), self.span, message).help(help);
        }
    }

    pub(super) fn wrong_kind(&self, found: &mut Both, key: &str, value: &Value<'_>, wanted: &str, help: &str) {
        let message = format!("`{key}` takes {wanted}, and this is {}", kind(value.get_ref()));
        found.of(self.file).problem(self.area.value_invalid(), span_of(value), message).help(help);
    }

    /// The table under a key.
    pub(super) fn table(&self, found: &mut Both, key: &str, area: Area, what: &str) -> Option<Table<'t>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(self.inner(area, what.to_owned(), span_of(value), table)),
            other => {
                let help = match other {
                    DeValue::Array(_) => format!("write `[{key}]` with one bracket, and under it `NAME = …` for each"),
                    _ => format!("write `[{key}]` and its keys under it"),
                };
                self.wrong_kind(found, key, value, "a table", &help);
                None
            }
        }
    }

    /// The tables of `[[key]]`.
    pub(super) fn tables(&self, found: &mut Both, key: &str) -> Vec<(Span, &'t DeTable<'t>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let help = format!("write `[[{key}]]` with two brackets, and its keys under it, for each of them");
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong_kind(found, key, value, "a list of tables", &help);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(table) => tables.push((span_of(item), table)),
                _ => self.wrong_kind(found, key, item, "tables", &help),
            }
        }
        tables
    }

    pub(super) fn text(&self, found: &mut Both, key: &str) -> Option<(&'t str, Span)> {
        let value = self.get(key)?;
        if let DeValue::String(text) = value.get_ref() {
            return Some((text.as_ref(), span_of(value)));
        }
        self.wrong_kind(found, key, value, "a text", &format!("write it in quotes: `{key} = \"…\"`"));
        None
    }

    /// A text of a given form. `noun` completes "… is no NOUN".
    pub(super) fn formed<T>(
        &self,
        found: &mut Both,
        key: &str,
        noun: &str,
        form: impl FnOnce(&str) -> Result<T, Fault>,
        rule: &str,
    ) -> Option<&'t str> {
        let (text, span) = self.text(found, key)?;
        match form(text) {
            Ok(_) => Some(text),
            Err(fault) => {
                let help = match fault.fixed {
                    Some(fixed) => format!("write `\"{fixed}\"`; {rule}"),
                    None => rule.to_owned(),
                };
                let message = format!("{} is no {noun}: {}", quote(text), fault.why);
                found.of(self.file).problem(self.area.value_invalid(), span, message).help(help);
                None
            }
        }
    }

    /// The texts of a list, with their places.
    pub(super) fn texts(&self, found: &mut Both, key: &str, example: &str) -> Option<Vec<(&'t str, Span)>> {
        let value = self.get(key)?;
        self.texts_of(found, key, value, example)
    }

    pub(super) fn texts_of(
        &self,
        found: &mut Both,
        key: &str,
        value: &'t Value<'t>,
        example: &str,
    ) -> Option<Vec<(&'t str, Span)>> {
        let help = format!("write `{key} = {example}`");
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong_kind(found, key, value, "a list of texts", &help);
            return None;
        };
        let mut texts = Vec::new();
        let mut is_right = true;
        for item in items.iter() {
            if let DeValue::String(text) = item.get_ref() {
                texts.push((text.as_ref(), span_of(item)));
            } else {
                is_right = false;
                self.wrong_kind(found, key, item, "a list of texts", &help);
            }
        }
        is_right.then_some(texts)
    }

    pub(super) fn count(&self, found: &mut Both, key: &str, least: u32, most: u32) -> Option<u32> {
        let value = self.get(key)?;
        let DeValue::Integer(written) = value.get_ref() else {
            let help = format!("write a whole number from {least} to {most}: `{key} = {least}`");
            self.wrong_kind(found, key, value, "a number", &help);
            return None;
        };
        let number = i64::from_str_radix(written.as_str(), written.radix()).ok();
        let count = number.and_then(|number| u32::try_from(number).ok()).filter(|count| (least..=most).contains(count));
        if count.is_none() {
            let message = format!("`{key}` is {written}, which is out of range");
            let said = found.of(self.file).problem(self.area.value_invalid(), span_of(value), message);
            said.help(format!("write a number from {least} to {most}"));
        }
        count
    }
}

pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A value as JSON; the place and the kind of what JSON has not.
pub(super) fn json(value: &Value<'_>) -> Result<Json, (Span, &'static str)> {
    let no = |what| Err((span_of(value), what));
    match value.get_ref() {
        DeValue::String(text) => Ok(Json::from(text.as_ref())),
        DeValue::Boolean(is_true) => Ok(Json::from(*is_true)),
        DeValue::Integer(written) => match i64::from_str_radix(written.as_str(), written.radix()) {
            Ok(number) => Ok(Json::from(number)),
            Err(_) => no("a number of more than 64 bits"),
        },
        DeValue::Float(written) => match written.as_str().parse().ok().and_then(Number::from_f64) {
            Some(number) => Ok(Json::from(number)),
            None => no("a number without end"),
        },
        DeValue::Datetime(_) => no("a time without quotes"),
        DeValue::Array(items) => items.iter().map(json).collect::<Result<Vec<_>, _>>().map(Json::from),
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, value)| Ok((key.get_ref().to_string(), json(value)?)));
            entries.collect::<Result<Map<_, _>, _>>().map(Json::from)
        }
    }
}
