//! Reading a request's JSON: whatever it holds, an answer in words comes of it, and where in the request it is.
//!
//! No tree is built of it, so nothing is as deep as what was sent; fields that are not known are passed over.

use std::collections::BTreeMap;

use serde_json::error::Category;
use serde_json::value::RawValue;

use super::refusal::{Refusal, code};

/// Characters of a value that a refusal shows.
const SHOWN_CHARS: usize = 40;

/// An object, and its place in the request.
pub(super) struct Object<'a> {
    fields: BTreeMap<String, &'a RawValue>,
    at: String,
}

/// A value, and its place in the request.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) raw: &'a RawValue,
    pub(super) at: String,
}

impl<'a> Object<'a> {
    /// The object that a request's body is. A body of nothing is one without fields, where that may be.
    pub(super) fn of(body: &'a [u8], may_be_empty: bool) -> Result<Self, Refusal> {
        if may_be_empty && body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self { fields: BTreeMap::new(), at: String::new() });
        }
        let fields = serde_json::from_slice(body).map_err(|error| match error.classify() {
            Category::Data => Refusal::schema("", "the body must be a JSON object"),
            _ => Refusal::new(400, code::NOT_JSON, format!("the body is no JSON: {error}")),
        })?;
        Ok(Self { fields, at: String::new() })
    }

    /// A field that is there and not null.
    pub(super) fn field(&self, name: &str) -> Option<Field<'a>> {
        self.written(name).filter(|field| field.raw.get() != "null")
    }

    /// A field that is there, be it null.
    pub(super) fn written(&self, name: &str) -> Option<Field<'a>> {
        self.fields.get(name).map(|raw| Field { raw, at: format!("{}/{name}", self.at) })
    }

    pub(super) fn at(&self) -> &str {
        &self.at
    }

    pub(super) fn required(&self, name: &str) -> Result<Field<'a>, Refusal> {
        self.field(name).ok_or_else(|| Refusal::schema(&format!("{}/{name}", self.at), format!("`{name}` is missing")))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Refusal> {
        self.field(name).map(|field| field.text()).transpose()
    }

    pub(super) fn truth(&self, name: &str) -> Result<Option<bool>, Refusal> {
        self.field(name).map(|field| field.truth()).transpose()
    }

    /// A whole number within a range; past it, `code`.
    pub(super) fn number(&self, name: &str, range: (u32, u32), code: i64) -> Result<Option<u32>, Refusal> {
        self.field(name).map(|field| field.number(range, code)).transpose()
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Self>, Refusal> {
        self.field(name).map(|field| field.object()).transpose()
    }

    pub(super) fn list(&self, name: &str, most: usize) -> Result<Vec<Field<'a>>, Refusal> {
        self.field(name).map_or(Ok(Vec::new()), |field| field.list(most))
    }
}

impl<'a> Field<'a> {
    pub(super) fn text(&self) -> Result<String, Refusal> {
        serde_json::from_str(self.raw.get()).map_err(|_| self.must_be("a text"))
    }

    fn truth(&self) -> Result<bool, Refusal> {
        serde_json::from_str(self.raw.get()).map_err(|_| self.must_be("true or false"))
    }

    fn number(&self, (least, greatest): (u32, u32), code: i64) -> Result<u32, Refusal> {
        let written = self.raw.get();
        let Ok(number) = written.parse::<f64>() else {
            return Err(self.must_be(&format!("a whole number from {least} to {greatest}")));
        };
        let is_in_range = number.fract() == 0.0 && (f64::from(least)..=f64::from(greatest)).contains(&number);
        if is_in_range {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole, and in a u32's range"
            )]
            return Ok(number as u32);
        }
        let mut refusal = self.must_be(&format!("a whole number from {least} to {greatest}"));
        refusal.error.code = code;
        refusal.error.limit = Some(greatest.into());
        refusal.error.actual = written.parse().ok();
        Err(refusal)
    }

    pub(super) fn object(&self) -> Result<Object<'a>, Refusal> {
        let fields = serde_json::from_str(self.raw.get()).map_err(|_| self.must_be("an object"))?;
        Ok(Object { fields, at: self.at.clone() })
    }

    fn list(&self, most: usize) -> Result<Vec<Field<'a>>, Refusal> {
        let items: Vec<&'a RawValue> = serde_json::from_str(self.raw.get()).map_err(|_| self.must_be("a list"))?;
        if items.len() > most {
            let message = format!("{} holds {} entries; it may hold {most}", self.at, items.len());
            let mut refusal = Refusal::schema(&self.at, message);
            (refusal.error.limit, refusal.error.actual) = (Some(most as u64), Some(items.len() as u64));
            return Err(refusal);
        }
        let field = |(index, raw)| Field { raw, at: format!("{}/{index}", self.at) };
        Ok(items.into_iter().enumerate().map(field).collect())
    }

    fn must_be(&self, what: &str) -> Refusal {
        let name = self.at.trim_start_matches('/').replace('/', ".");
        let written = self.raw.get();
        let mut shown: String = written.chars().take(SHOWN_CHARS).collect();
        if shown.len() < written.len() {
            shown.push('…');
        }
        Refusal::schema(&self.at, format!("{name} must be {what}, not {shown}"))
    }
}
