//! What a Worker's binding asks: `POST /query` and `POST /execute`, as workerd's own binding sends them.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use serde_json::value::RawValue;

/// What is asked of a database at once: one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its statements, in order. Those that are nothing but comments are left out.
    pub statements: Vec<Statement>,
    /// How rows are handed back.
    pub form: Form,
}

/// A statement, which may be several with the parameters for the last.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Its text.
    pub sql: String,
    /// What is bound to it.
    pub params: Vec<Value>,
}

/// What is bound: a number is always a JavaScript number, never a whole one.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A number.
    Real(f64),
    /// A text's bytes. They are UTF-8, but for halves of pairs of surrogates, which D1 keeps as three bytes each.
    Text(Vec<u8>),
    /// Bytes: an array of numbers on the wire.
    Blob(Vec<u8>),
}

/// How the rows of a result are handed back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The names of the columns once, then each row as an array.
    RowsAndColumns,
    /// Each row as an object.
    Objects,
}

/// Why a request is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// There is nothing at that path. D1 has no `dump` any more.
    NoSuchPath,
    /// It holds no statement.
    Empty,
    /// It is not what a binding sends: what is wrong with it.
    Malformed(String),
}

impl Request {
    /// Reads a request's path and body.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn read(path_and_query: &str, body: &[u8]) -> Result<Self, Unread> {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        if !matches!(path, "/query" | "/execute") {
            return Err(Unread::NoSuchPath);
        }
        let wants_columns = |pair: (_, _)| pair.0 == "resultsFormat" && pair.1 == "ROWS_AND_COLUMNS";
        let columns = form_urlencoded::parse(query.as_bytes()).any(wants_columns);
        let form = if columns { Form::RowsAndColumns } else { Form::Objects };
        let mut statements = read_statements(body)?;
        statements.retain(|statement| !is_comment(&statement.sql));
        if statements.is_empty() { Err(Unread::Empty) } else { Ok(Self { statements, form }) }
    }
}

/// Whether there is nothing in it but space and lines that begin with `--`.
fn is_comment(sql: &str) -> bool {
    sql.lines().all(|line| {
        let line = line.trim_start();
        line.is_empty() || line.starts_with("--")
    })
}

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    sql: &'a RawValue,
    #[serde(borrow, default)]
    params: Option<Vec<&'a RawValue>>,
}

fn read_statements(body: &[u8]) -> Result<Vec<Statement>, Unread> {
    let malformed = |error: serde_json::Error| Unread::Malformed(error.to_string());
    let is_array = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let written: Vec<Written<'_>> = if is_array {
        serde_json::from_slice(body).map_err(malformed)?
    } else {
        vec![serde_json::from_slice(body).map_err(malformed)?]
    };
    let statement = |written: Written<'_>| {
        let params = written.params.unwrap_or_default().into_iter().map(read_value).collect::<Result<_, _>>()?;
        let sql = String::from_utf8_lossy(&read_text(written.sql)?).into_owned();
        Ok(Statement { sql, params })
    };
    written.into_iter().map(statement).collect::<Result<_, serde_json::Error>>().map_err(malformed)
}

fn read_value(raw: &RawValue) -> Result<Value, serde_json::Error> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'n') => Ok(Value::Null),
        Some(b'"') => read_text(raw).map(Value::Text),
        Some(b'[') => serde_json::from_str(text).map(Value::Blob),
        // The binding makes numbers of them before it sends them.
        Some(b't' | b'f') => serde_json::from_str::<bool>(text).map(|yes| Value::Real(f64::from(u8::from(yes)))),
        // The standard library reads every digit, which the JSON library leaves to a feature.
        _ => text.parse().map(Value::Real).map_err(|_| serde::de::Error::custom("a parameter is an object")),
    }
}

/// The bytes of a text, with halves of pairs of surrogates as they are.
fn read_text(raw: &RawValue) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::from_str::<Halves>(raw.get()).map(|halves| halves.0)
}

/// The bytes of a JSON string, with halves of pairs as they are.
struct Halves(Vec<u8>);

impl<'de> Deserialize<'de> for Halves {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Halves;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Halves, E> {
                Ok(Halves(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}
