//! `body:` — a body that the app file writes out: a text, or anything else that JSON has.

use serde_json::{Map, Value as Json};

use super::code::Code;
use super::problem::Findings;
use super::syntax::{Value, What};
use super::values::{Key, Reading};
use crate::local::BODY_BYTES_MAX;
use crate::program::Written;

/// A text is sent as that text. A block, a list, a number and a truth value are sent as JSON.
pub(super) fn body(reading: &mut Reading<'_>, key: Key<'_>, value: &Value) -> Option<Written> {
    let (written, len) = match &value.what {
        What::Text(text) => (Written::Text(text.clone()), text.len()),
        _ => {
            let json = json(reading.findings, key, value)?.to_string();
            let len = json.len();
            (Written::Json(json), len)
        }
    };
    if len > BODY_BYTES_MAX {
        let message = format!("the body has {len} bytes, and a message has at most {BODY_BYTES_MAX}");
        reading.findings.problem(key.area.value_invalid(), value.span, message).help("send less");
        return None;
    }
    Some(written)
}

/// The value as JSON. It nests no deeper than the syntax lets it.
fn json(findings: &mut Findings, key: Key<'_>, value: &Value) -> Option<Json> {
    match &value.what {
        What::Text(text) => Some(Json::from(text.as_str())),
        What::Int(number) => Some(Json::from(*number)),
        What::Bool(is_true) => Some(Json::from(*is_true)),
        What::List(items) => {
            items.iter().map(|item| json(findings, key, item)).collect::<Option<Vec<_>>>().map(Json::from)
        }
        What::Block(block) => {
            let entries =
                block.entries.iter().map(|entry| Some((entry.key.clone(), json(findings, key, &entry.value)?)));
            entries.collect::<Option<Map<_, _>>>().map(Json::from)
        }
        What::Broken => None,
        What::Duration(_) | What::Name(_) | What::Call(..) | What::Optional(_) => {
            let message = format!("`{}` cannot hold {}", key.name, value.kind());
            let help = "write texts in double quotes, whole numbers, true, false, lists and blocks";
            findings.problem(Code::FunctionValueInvalid, value.span, message).help(help);
            None
        }
    }
}
