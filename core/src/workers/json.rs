//! JSON with comments and trailing commas: both of Wrangler's JSON files are read like that.

use std::collections::BTreeMap;
use std::ops::Range;

use jsonc_parser::ast::{ObjectProp, Value as Ast};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::note::{Found, Note};
use super::tree::{DEPTH_MAX, Entry, Kind, Value, number};

/// What Wrangler's parser takes beside JSON, and no more.
const LANGUAGE: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads the text; nothing, if it is no JSON, which is said.
pub(super) fn parse(text: &str, found: &mut Found) -> Option<Value> {
    let parsed = match parse_to_ast(text, &CollectOptions::default(), &LANGUAGE) {
        Ok(parsed) => parsed,
        Err(error) => {
            let range = error.range();
            let message = format!("the file is no JSON: {}", lowered(&error.kind().to_string()));
            let help = "write it as JSON; comments and a comma after the last entry are allowed".to_owned();
            found.problem(Note { path: String::new(), message, help: Some(help), span: Some(range.start..range.end) });
            return None;
        }
    };
    let Some(root) = parsed.value else {
        let message = "the file is empty".to_owned();
        let help = "write `{ \"name\": \"…\", \"main\": \"src/index.ts\", \"compatibility_date\": \"…\" }`".to_owned();
        found.problem(Note { path: String::new(), message, help: Some(help), span: None });
        return None;
    };
    convert(&root, text, 0, found)
}

fn lowered(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn span(node: &impl Ranged) -> Range<usize> {
    node.start()..node.end()
}

fn convert(value: &Ast<'_>, text: &str, depth: usize, found: &mut Found) -> Option<Value> {
    if depth > DEPTH_MAX {
        let message = format!("values are nested more than {DEPTH_MAX} deep");
        let help = Some("put what is nested into a file of its own and import that".to_owned());
        found.problem(Note { path: String::new(), message, help, span: Some(span(value)) });
        return None;
    }
    let kind = match value {
        Ast::NullKeyword(_) => Kind::Null,
        Ast::BooleanLit(lit) => Kind::Bool(lit.value),
        Ast::StringLit(lit) => Kind::Text(lit.value.to_string()),
        Ast::NumberLit(lit) => {
            let Some(number) = number(lit.value) else {
                let message = "the number is larger than any that JSON carries".to_owned();
                found.problem(Note { path: String::new(), message, help: None, span: Some(span(value)) });
                return None;
            };
            Kind::Number(number)
        }
        Ast::Array(list) => {
            let items: Vec<_> = list.elements.iter().map(|item| convert(item, text, depth + 1, found)).collect();
            separated(list.elements.iter().map(span), text, found)?;
            Kind::List(items.into_iter().collect::<Option<_>>()?)
        }
        Ast::Object(object) => {
            let entries = entries(&object.properties, text, depth, found);
            separated(object.properties.iter().map(span), text, found)?;
            Kind::Table(entries?)
        }
    };
    Some(Value { kind, span: span(value) })
}

/// A key that is written twice counts as it is written last, as for JavaScript, and that is said.
fn entries(properties: &[ObjectProp<'_>], text: &str, depth: usize, found: &mut Found) -> Option<Vec<Entry>> {
    let mut entries: Vec<Option<Entry>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut is_whole = true;
    for property in properties {
        let (key, key_span) = (property.name.as_str(), span(&property.name));
        if let Some(earlier) = places.insert(key, entries.len()).and_then(|at| entries.get_mut(at)?.take()) {
            let message = format!("{} is written twice, and what is written last counts", quote(key));
            let help = Some("leave one of them out".to_owned());
            found.warning(Note { path: String::new(), message, help, span: Some(earlier.key_span) });
        }
        match convert(&property.value, text, depth + 1, found) {
            Some(value) => entries.push(Some(Entry { key: key.to_owned(), key_span, value })),
            None => is_whole = false,
        }
    }
    is_whole.then(|| entries.into_iter().flatten().collect())
}

use super::quote;

/// The parser lets a comma be missing before a table or a list; JSON does not.
fn separated(spans: impl Iterator<Item = Range<usize>>, text: &str, found: &mut Found) -> Option<()> {
    let mut last_end: Option<usize> = None;
    for span in spans {
        let between = last_end.and_then(|end| text.get(end..span.start));
        if between.is_some_and(|between| !has_comma(between)) {
            let at = last_end.unwrap_or_default();
            let message = "the file is no JSON: a comma is missing".to_owned();
            let help = Some("write a comma between two entries".to_owned());
            found.problem(Note { path: String::new(), message, help, span: Some(at..at) });
            return None;
        }
        last_end = Some(span.end);
    }
    Some(())
}

/// Whether there is a comma that is not in a comment.
fn has_comma(between: &str) -> bool {
    let mut rest = between;
    while let Some(at) = rest.find([',', '/']) {
        let from = rest.get(at..).unwrap_or_default();
        rest = if let Some(comment) = from.strip_prefix("//") {
            comment.find(['\n', '\r']).and_then(|end| comment.get(end..)).unwrap_or_default()
        } else if let Some(comment) = from.strip_prefix("/*") {
            comment.find("*/").and_then(|end| comment.get(end + 2..)).unwrap_or_default()
        } else {
            return from.starts_with(',');
        };
    }
    false
}
