//! A JSON value against a declared type. This recurses over the declaration only.

use std::fmt::{self, Write};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::json;
use crate::program::{Field, Type};

/// Problems that are told in full; of more only the number.
const PROBLEMS_SHOWN_MAX: usize = 5;

/// What keeps `value`, a valid JSON text, from being a `kind`; `None` if nothing does.
pub(super) fn problems(kind: &Type, value: &str) -> Option<String> {
    let mut check = Check { path: Vec::new(), told: String::new(), count: 0 };
    check.value(kind, value);
    match check.count {
        0 => None,
        count if count > PROBLEMS_SHOWN_MAX => {
            let _ = write!(check.told, "; and {} more", count - PROBLEMS_SHOWN_MAX);
            Some(check.told)
        }
        _ => Some(check.told),
    }
}

enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

struct Check<'a> {
    path: Vec<Step<'a>>,
    told: String,
    count: usize,
}

impl<'a> Check<'a> {
    fn value(&mut self, kind: &'a Type, value: &str) {
        match kind {
            Type::Json => {}
            Type::Optional(inner) => {
                if json::kind(value) != "null" {
                    self.value(inner, value);
                }
            }
            Type::List(inner) => match json::kind(value) {
                "a list" => json::items(value, |place, item| {
                    self.path.push(Step::Item(place));
                    self.value(inner, item);
                    self.path.pop();
                }),
                found => self.tell(format_args!("expected a list, found {found}")),
            },
            Type::Record(fields) => match json::kind(value) {
                "an object" => self.record(fields, value),
                found => self.tell(format_args!("expected an object, found {found}")),
            },
            Type::Text | Type::Bytes => self.expect("text", "Text", value),
            Type::Bool => self.expect("a boolean", "Bool", value),
            Type::Int => self.int(value),
            Type::Float => self.float(value),
            Type::Instant => self.written("Instant", value, "2026-11-30T12:00:00Z", |text| {
                OffsetDateTime::parse(text, &Rfc3339).is_ok()
            }),
            Type::Uuid => self.written("Uuid", value, "67e55044-10b1-426f-9247-bb680e5fe0c8", |text| {
                matches!(text.len(), 32 | 36) && Uuid::try_parse(text).is_ok()
            }),
        }
    }

    fn record(&mut self, fields: &'a [Field], value: &str) {
        let mut found: Vec<Option<&str>> = vec![None; fields.len()];
        json::fields(value, |name, value| {
            if let Some(place) = fields.iter().position(|field| field.name == name)
                && let Some(slot) = found.get_mut(place)
            {
                *slot = Some(value);
            }
        });
        for (field, value) in fields.iter().zip(found) {
            self.path.push(Step::Field(&field.name));
            match value {
                Some(value) => self.value(&field.kind, value),
                None if matches!(field.kind, Type::Optional(_)) => {}
                None => self.tell(format_args!("missing, expected {}", Named(&field.kind))),
            }
            self.path.pop();
        }
    }

    fn expect(&mut self, kind: &str, name: &str, value: &str) {
        let found = json::kind(value);
        if found != kind {
            self.tell(format_args!("expected {name}, found {found}"));
        }
    }

    fn int(&mut self, value: &str) {
        if json::kind(value) != "a number" {
            return self.expect("a number", "Int", value);
        }
        if value.parse::<i64>().is_ok() {
            return;
        }
        if value.contains(['.', 'e', 'E']) {
            self.tell(format_args!("expected Int, found a number with a fraction or an exponent"));
        } else {
            self.tell(format_args!("expected Int, found a number past 64 bits"));
        }
    }

    fn float(&mut self, value: &str) {
        if json::kind(value) != "a number" {
            return self.expect("a number", "Float", value);
        }
        if !value.parse::<f64>().is_ok_and(f64::is_finite) {
            self.tell(format_args!("expected Float, found a number too large for one"));
        }
    }

    fn written(&mut self, name: &str, value: &str, example: &str, fits: impl Fn(&str) -> bool) {
        if json::kind(value) != "text" {
            return self.expect("text", name, value);
        }
        if !json::string(value).is_some_and(|text| fits(&text)) {
            self.tell(format_args!("expected {name}, found text that is none (as {example})"));
        }
    }

    fn tell(&mut self, problem: fmt::Arguments<'_>) {
        self.count += 1;
        if self.count > PROBLEMS_SHOWN_MAX {
            return;
        }
        if self.count > 1 {
            self.told.push_str("; ");
        }
        if self.path.is_empty() {
            self.told.push_str("the body");
        }
        for (place, step) in self.path.iter().enumerate() {
            let _ = match step {
                Step::Field(name) if place == 0 => write!(self.told, "{name}"),
                Step::Field(name) => write!(self.told, ".{name}"),
                Step::Item(item) => write!(self.told, "[{item}]"),
            };
        }
        let _ = write!(self.told, ": {problem}");
    }
}

/// A type as the app file writes it, records in short.
struct Named<'a>(&'a Type);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Type::Text => f.write_str("Text"),
            Type::Int => f.write_str("Int"),
            Type::Float => f.write_str("Float"),
            Type::Bool => f.write_str("Bool"),
            Type::Instant => f.write_str("Instant"),
            Type::Uuid => f.write_str("Uuid"),
            Type::Json => f.write_str("Json"),
            Type::Bytes => f.write_str("Bytes"),
            Type::Optional(inner) => write!(f, "{}?", Named(inner)),
            Type::List(inner) => write!(f, "[{}]", Named(inner)),
            Type::Record(_) => f.write_str("an object"),
        }
    }
}
