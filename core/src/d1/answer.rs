//! What a Worker's binding is answered. It is written row by row, so that a result that is too large is given up as soon
//! as it is.

use serde_json::json;

use super::limits::ANSWER_BYTES_MAX;
use super::request::Form;

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// Nothing.
    Null,
    /// A whole number, which past 2^53 loses its last digits on the way to JavaScript.
    Integer(i64),
    /// A number. One that is infinite becomes null, as in JSON.
    Real(f64),
    /// A text; bytes that are no UTF-8 become replacement characters.
    Text(&'a [u8]),
    /// Bytes: an array of numbers on the wire.
    Blob(&'a [u8]),
}

/// What a statement did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Meta {
    /// How long it ran.
    pub duration_ms: f64,
    /// Rows inserted, changed and deleted, by its triggers too.
    pub changes: u64,
    /// The connection's last row id, which a statement that inserts nothing leaves as it was.
    pub last_row_id: i64,
    /// Whether anything of the database changed.
    pub changed_db: bool,
    /// Bytes that the database's pages take.
    pub size_after: u64,
    /// Rows read.
    pub rows_read: u64,
    /// Rows written, with those of indexes.
    pub rows_written: u64,
}

/// An answer is larger than [`ANSWER_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// The answer to a request, as far as it is written.
#[derive(Debug)]
pub struct Answer {
    body: Vec<u8>,
    form: Form,
    /// The keys of a row's object, written once.
    keys: Vec<Vec<u8>>,
    rows: usize,
}

impl Answer {
    /// An answer that holds nothing yet.
    #[must_use]
    pub fn new(form: Form) -> Self {
        Self { body: b"[".to_vec(), form, keys: Vec::new(), rows: 0 }
    }

    /// Begins the result of a statement that has these columns.
    pub fn begin(&mut self, columns: &[&str]) {
        if self.body.len() > 1 {
            self.body.push(b',');
        }
        self.rows = 0;
        self.body.extend_from_slice(br#"{"success":true,"results":"#);
        match self.form {
            Form::RowsAndColumns => {
                self.body.extend_from_slice(br#"{"columns":"#);
                put(&mut self.body, columns);
                self.body.extend_from_slice(br#","rows":["#);
            }
            Form::Objects => {
                self.keys = columns.iter().map(|name| key(name)).collect();
                self.body.push(b'[');
            }
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn row<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) -> Result<(), TooLarge> {
        if self.rows > 0 {
            self.body.push(b',');
        }
        self.rows += 1;
        let (open, close) = if self.form == Form::RowsAndColumns { (b'[', b']') } else { (b'{', b'}') };
        self.body.push(open);
        for (index, cell) in cells.enumerate() {
            if index > 0 {
                self.body.push(b',');
            }
            if let (Form::Objects, Some(key)) = (self.form, self.keys.get(index)) {
                self.body.extend_from_slice(key);
            }
            put_cell(&mut self.body, cell);
        }
        self.body.push(close);
        if self.body.len() > ANSWER_BYTES_MAX { Err(TooLarge) } else { Ok(()) }
    }

    /// Ends the result of a statement.
    pub fn end(&mut self, meta: &Meta) {
        self.body.extend_from_slice(if self.form == Form::RowsAndColumns { b"]}" } else { b"]" });
        self.body.extend_from_slice(br#","meta":"#);
        put(
            &mut self.body,
            &json!({
                "served_by": "jadpo",
                "served_by_primary": true,
                "total_attempts": 1,
                "timings": { "sql_duration_ms": meta.duration_ms },
                "duration": meta.duration_ms,
                "changes": meta.changes,
                "last_row_id": meta.last_row_id,
                "changed_db": meta.changed_db,
                "size_after": meta.size_after,
                "rows_read": meta.rows_read,
                "rows_written": meta.rows_written,
            }),
        );
        self.body.push(b'}');
    }

    /// The whole of it: a JSON text.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.body.push(b']');
        self.body
    }
}

/// The answer when a request failed: the text without the `D1_ERROR: ` that the binding puts before it.
#[must_use]
pub fn failure(error: &str) -> Vec<u8> {
    json!({ "success": false, "error": error }).to_string().into_bytes()
}

fn key(name: &str) -> Vec<u8> {
    let mut key = Vec::new();
    put(&mut key, name);
    key.push(b':');
    key
}

fn put_cell(body: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Null => put(body, &()),
        #[expect(clippy::cast_precision_loss, reason = "D1 loses it too")]
        Cell::Integer(number) if number.unsigned_abs() > 1 << 53 => put(body, &(number as f64)),
        Cell::Integer(number) => put(body, &number),
        Cell::Real(number) => put(body, &number),
        Cell::Text(bytes) => put(body, &*String::from_utf8_lossy(bytes)),
        Cell::Blob(bytes) => put(body, bytes),
    }
}

fn put<T: serde::Serialize + ?Sized>(body: &mut Vec<u8>, value: &T) {
    // Nothing that is written here can fail: a vector takes it, and there are no maps with keys that are no texts.
    let _ = serde_json::to_writer(body, value);
}
