//! The app file as it is written: entries of keys and values, with their places. No meaning yet.

use super::problem::Span;

/// The entries between two braces, or of the whole file.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) entries: Vec<Entry>,
    /// Whether something in it could not be read. A key that seems to be missing may be there.
    pub(super) damaged: bool,
}

impl Block {
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

/// `key: value`.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Span,
    pub(super) value: Value,
}

/// What stands after a key or in a list.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) what: What,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) enum What {
    Text(String),
    Int(i64),
    /// In milliseconds.
    Duration(u64),
    Bool(bool),
    /// `A.b` is `["A", "b"]`.
    Name(Vec<String>),
    /// A name and what is given to it.
    Call(Vec<String>, Vec<Value>),
    /// `T?`
    Optional(Box<Value>),
    List(Vec<Value>),
    Block(Block),
    /// Could not be read; the problem is already said.
    Broken,
}

impl Value {
    /// What kind of value it is, for a message that wanted another.
    pub(super) fn kind(&self) -> &'static str {
        match &self.what {
            What::Text(_) => "a text",
            What::Int(_) => "a number",
            What::Duration(_) => "a duration",
            What::Bool(_) => "a truth value",
            What::Name(_) => "a name",
            What::Call(..) => "a call",
            What::Optional(_) => "an optional type",
            What::List(_) => "a list",
            What::Block(_) => "a block",
            What::Broken => "something else",
        }
    }

    /// The dotted name it is.
    pub(super) fn name(&self) -> Option<String> {
        match &self.what {
            What::Name(parts) => Some(parts.join(".")),
            _ => None,
        }
    }
}
