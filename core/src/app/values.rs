//! Reading one value as what its key wants, and saying what it should have been.

use super::code::Area;
use super::forms::{self, Fault};
use super::literal;
use super::problem::{Findings, Span, closest, quote};
use super::syntax::{Value, What};
use crate::bindings;
use crate::program::Setting;

/// What every reader works on: the source, and what was found in it so far.
pub(super) struct Reading<'a> {
    pub(super) source: &'a str,
    pub(super) findings: &'a mut Findings,
}

/// A text and its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) text: &'a str,
    pub(super) span: Span,
}

/// A key whose value is read: where its problems belong, and how it is named.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) area: Area,
    pub(super) name: &'a str,
}

impl Reading<'_> {
    /// Says that a value is of the wrong kind. Silent for a value whose problem is already said.
    pub(super) fn wrong_kind(&mut self, key: Key<'_>, value: &Value, wanted: &str, help: impl Into<String>) {
        if matches!(value.what, What::Broken) {
            return;
        }
        let message = format!("`{}` takes {wanted}, and this is {}", key.name, value.kind());
        self.findings.problem(key.area.value_invalid(), value.span, message).help(help);
    }

    pub(super) fn text<'v>(&mut self, key: Key<'_>, value: &'v Value) -> Option<Text<'v>> {
        if let What::Text(text) = &value.what {
            return Some(Text { text, span: value.span });
        }
        let help = match &value.what {
            What::Name(parts) => format!("write it in double quotes: `\"{}\"`", parts.join(".")),
            What::Call(..) => {
                "write it out in double quotes; it is needed when the app is checked and built".to_owned()
            }
            _ => "write a text in double quotes, like `\"…\"`".to_owned(),
        };
        self.wrong_kind(key, value, "a text", help);
        None
    }

    /// A text of a given form. `noun` completes "… is no NOUN".
    pub(super) fn formed<'v, T>(
        &mut self,
        key: Key<'_>,
        value: &'v Value,
        noun: &str,
        form: impl FnOnce(&str) -> Result<T, Fault>,
        rule: &str,
    ) -> Option<(Text<'v>, T)> {
        let text = self.text(key, value)?;
        match form(text.text) {
            Ok(read) => Some((text, read)),
            Err(fault) => {
                self.fault(key, text, noun, fault, rule);
                None
            }
        }
    }

    fn fault(&mut self, key: Key<'_>, text: Text<'_>, noun: &str, fault: Fault, rule: &str) {
        let span = fault.bytes.map_or(text.span, |(start, end)| self.inside(text, start, end));
        let message = format!("{} is no {noun}: {}", quote(text.text), fault.why);
        let help = match fault.fixed {
            Some(fixed) => format!("write `\"{fixed}\"`; {rule}"),
            None => rule.to_owned(),
        };
        self.findings.problem(key.area.value_invalid(), span, message).help(help);
    }

    /// The place of some bytes of a text, when the text has no escapes before them to move them.
    fn inside(&self, text: Text<'_>, start: usize, end: usize) -> Span {
        let written = self.source.get(text.span.start + 1..text.span.end.saturating_sub(1));
        if written == Some(text.text) {
            Span::new(text.span.start + 1 + start, text.span.start + 1 + end)
        } else {
            text.span
        }
    }

    /// A name without dots: another thing of the app.
    pub(super) fn name<'v>(&mut self, key: Key<'_>, value: &'v Value, noun: &str) -> Option<Text<'v>> {
        if let What::Name(parts) = &value.what
            && let [name] = parts.as_slice()
        {
            return Some(Text { text: name, span: value.span });
        }
        let help = match &value.what {
            What::Text(text) if literal::is_name(text) => format!("write it without quotes: `{text}`"),
            _ => format!("write the name of {noun}"),
        };
        self.wrong_kind(key, value, &format!("the name of {noun}"), help);
        None
    }

    /// One of a few names with the same first part, like `Driver.local_queue`.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: Key<'_>,
        value: &Value,
        family: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let all: Vec<String> = choices.iter().map(|(name, _)| format!("{family}.{name}")).collect();
        let Some(written) = value.name() else {
            let help = format!("write one of {}", all.join(", "));
            self.wrong_kind(key, value, &format!("a {family}"), help);
            return None;
        };
        let bare = written.strip_prefix(family).and_then(|rest| rest.strip_prefix('.'));
        if let Some(found) = bare.and_then(|bare| choices.iter().find(|(name, _)| *name == bare)) {
            return Some(found.1);
        }
        let last = written.rsplit('.').next().unwrap_or_default();
        let meant = closest(last, choices.iter().map(|(name, _)| *name));
        let help = match meant {
            Some(meant) => format!("did you mean `{family}.{meant}`?"),
            None => format!("write one of {}", all.join(", ")),
        };
        let message = format!("there is no {}", quote(&written));
        self.findings.problem(key.area.name_unknown(), value.span, message).help(help);
        None
    }

    pub(super) fn list<'v>(&mut self, key: Key<'_>, value: &'v Value, example: &str) -> Option<&'v [Value]> {
        if let What::List(items) = &value.what {
            return Some(items);
        }
        self.wrong_kind(key, value, "a list", format!("write `{}: {example}`", key.name));
        None
    }

    pub(super) fn count(&mut self, key: Key<'_>, value: &Value, least: u32, most: u32) -> Option<u32> {
        let What::Int(written) = value.what else {
            let help = format!("write a whole number from {least} to {most}: `{}: {least}`", key.name);
            self.wrong_kind(key, value, "a number", help);
            return None;
        };
        let count = u32::try_from(written).ok().filter(|count| (least..=most).contains(count));
        if count.is_none() {
            let message = format!("`{}` is {written}, which is out of range", key.name);
            self.findings
                .problem(key.area.value_invalid(), value.span, message)
                .help(format!("write a number from {least} to {most}"));
        }
        count
    }

    /// A duration in milliseconds, of 1 s at least.
    pub(super) fn duration_ms(&mut self, key: Key<'_>, value: &Value, most_ms: u64, most: &str) -> Option<u64> {
        const LEAST_MS: u64 = 1_000;
        let What::Duration(ms) = value.what else {
            let help = match value.what {
                What::Int(number) => format!("say the unit: `{}: {number}s` is {number} seconds", key.name),
                _ => format!("write a number with its unit, as in `{}: 30s`", key.name),
            };
            self.wrong_kind(key, value, "a duration", help);
            return None;
        };
        if !(LEAST_MS..=most_ms).contains(&ms) {
            let message = format!("`{}` is out of range", key.name);
            self.findings
                .problem(key.area.value_invalid(), value.span, message)
                .help(format!("write a duration from 1s to {most}"));
            return None;
        }
        Some(ms)
    }

    /// A value from the environment, always: what it is must not stand in the file.
    pub(super) fn secret(&mut self, key: Key<'_>, value: &Value, example: &str) -> Option<Setting> {
        if let What::Text(_) = value.what {
            let message = "a secret is never written in the app file";
            self.findings
                .problem(key.area.value_invalid(), value.span, message)
                .help(format!("write `env(\"{example}\")` and set {example} where the app runs"));
            return None;
        }
        self.setting(key, value, example)
    }

    /// A text, or a value from the environment.
    pub(super) fn setting(&mut self, key: Key<'_>, value: &Value, example: &str) -> Option<Setting> {
        match &value.what {
            What::Text(text) => Some(Setting::Text(text.clone())),
            What::Call(name, given) if name.len() == 1 && name.iter().all(|part| part == "env") => {
                if let [Value { what: What::Text(name), span }] = given.as_slice()
                    && (name == bindings::STORE || name == bindings::SELF)
                {
                    let message = format!("{} is taken: a Worker's own binding has that name", quote(name));
                    self.findings.problem(key.area.value_invalid(), *span, message).help("use another name");
                    return None;
                }
                let wants = format!("write `env(\"{example}\")`: letters, digits and underscores, in quotes");
                if let [one] = given.as_slice() {
                    match &one.what {
                        What::Text(text) if forms::is_env_name(text) => return Some(Setting::Env(text.clone())),
                        What::Broken => return None,
                        _ => {}
                    }
                }
                let message = "env() takes one name of an environment variable, in quotes";
                self.findings.problem(key.area.value_invalid(), value.span, message).help(wants);
                None
            }
            _ => {
                let help = format!("write `env(\"{example}\")`");
                self.wrong_kind(key, value, "a value from the environment", help);
                None
            }
        }
    }

    /// Says that a name is not declared, and which one may have been meant.
    pub(super) fn unknown<'c>(
        &mut self,
        area: Area,
        name: Text<'_>,
        noun: &str,
        declared: impl IntoIterator<Item = &'c str>,
        help: impl FnOnce() -> String,
    ) {
        let meant = if self.findings.is_full() { None } else { closest(name.text, declared) };
        let help = meant.map_or_else(help, |meant| format!("did you mean `{meant}`?"));
        let message = format!("there is no {noun} {}", quote(name.text));
        self.findings.problem(area.name_unknown(), name.span, message).help(help);
    }
}
