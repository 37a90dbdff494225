//! Errors in D1's words, as they follow the `D1_ERROR: ` that the binding puts before them.

/// The answer when too many requests wait for one database.
pub const OVERLOADED: &str = "D1 DB is overloaded. Too many requests queued.";
/// The answer when a request waited for longer than [`WAIT_MAX`](super::limits::WAIT_MAX).
pub const QUEUED_TOO_LONG: &str = "D1 DB is overloaded. Requests queued for too long.";
/// The answer when the statements of a request ran for longer than
/// [`DURATION_MAX`](super::limits::DURATION_MAX).
pub const TIMED_OUT: &str = "D1 DB storage operation exceeded timeout which caused object to be reset.";
/// The answer when a result is larger than [`ANSWER_BYTES_MAX`](super::limits::ANSWER_BYTES_MAX). D1 has no text for it.
pub const TOO_LARGE: &str = "the result is larger than 64 MiB: ask for fewer rows at a time, with LIMIT";
/// The answer when a request is larger than [`REQUEST_BYTES_MAX`](super::limits::REQUEST_BYTES_MAX).
pub const UNHOLDABLE: &str = "the request is larger than 64 MiB: send fewer statements at a time";

/// An error of `SQLite`'s: what it said, where in the statement (a byte, if it is about a place in it), and the name of
/// its code, with the extended one for a constraint.
#[must_use]
pub fn text(message: &str, extended_code: i32, offset: Option<u32>) -> String {
    let name = primary_name(extended_code & 0xff);
    let place = offset.map(|at| format!(" at offset {at}")).unwrap_or_default();
    match constraint_name(extended_code) {
        Some(constraint) => format!("{message}{place}: {name} (extended: SQLITE_CONSTRAINT_{constraint})"),
        None => format!("{message}{place}: {name}"),
    }
}

/// The name of a primary result code, as <https://sqlite.org/rescode.html> lists them.
fn primary_name(code: i32) -> &'static str {
    match code {
        3 => "SQLITE_PERM",
        4 => "SQLITE_ABORT",
        5 => "SQLITE_BUSY",
        6 => "SQLITE_LOCKED",
        7 => "SQLITE_NOMEM",
        8 => "SQLITE_READONLY",
        9 => "SQLITE_INTERRUPT",
        10 => "SQLITE_IOERR",
        11 => "SQLITE_CORRUPT",
        13 => "SQLITE_FULL",
        14 => "SQLITE_CANTOPEN",
        15 => "SQLITE_PROTOCOL",
        17 => "SQLITE_SCHEMA",
        18 => "SQLITE_TOOBIG",
        19 => "SQLITE_CONSTRAINT",
        20 => "SQLITE_MISMATCH",
        21 => "SQLITE_MISUSE",
        23 => "SQLITE_AUTH",
        25 => "SQLITE_RANGE",
        26 => "SQLITE_NOTADB",
        _ => "SQLITE_ERROR",
    }
}

/// The last part of an extended constraint code's name, from the same list.
fn constraint_name(extended_code: i32) -> Option<&'static str> {
    if extended_code & 0xff != 19 {
        return None;
    }
    Some(match extended_code >> 8 {
        1 => "CHECK",
        2 => "COMMITHOOK",
        3 => "FOREIGNKEY",
        4 => "FUNCTION",
        5 => "NOTNULL",
        6 => "PRIMARYKEY",
        7 => "TRIGGER",
        8 => "UNIQUE",
        9 => "VTAB",
        10 => "ROWID",
        11 => "PINNED",
        12 => "DATATYPE",
        _ => return None,
    })
}
