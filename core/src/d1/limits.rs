//! D1's limits: <https://developers.cloudflare.com/d1/platform/limits/>, and its engine's where that names none. Each is
//! the smaller of the two, so that what runs here is not refused there.

use std::time::Duration;

/// Parameters bound to one statement.
pub const PARAMS_MAX: usize = 100;
/// Bytes of a statement's text.
pub const SQL_BYTES_MAX: usize = 100_000;
/// Bytes of a text, a blob or a row.
pub const VALUE_BYTES_MAX: usize = 2_000_000;
/// Columns of a table or of a result.
pub const COLUMNS_MAX: usize = 100;
/// Levels of an expression (the engine's).
pub const EXPRESSION_DEPTH_MAX: usize = 100;
/// Terms of a compound SELECT (the engine's).
pub const COMPOUND_TERMS_MAX: usize = 5;
/// Operations of a compiled statement (the engine's).
pub const OPERATIONS_MAX: usize = 25_000;
/// Arguments of a function.
pub const FUNCTION_ARGS_MAX: usize = 32;
/// Bytes of a pattern of LIKE or GLOB.
pub const PATTERN_BYTES_MAX: usize = 50;
/// Triggers inside one another (the engine's).
pub const TRIGGER_DEPTH_MAX: usize = 10;
/// How long the statements of one request may run together.
pub const DURATION_MAX: Duration = Duration::from_secs(30);
/// How long a request may wait for those before it. D1 names no figure.
pub const WAIT_MAX: Duration = Duration::from_secs(30);
/// Bytes of an answer. D1 names no figure; an isolate has 128 MB, and holds the answer more than once.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Bytes of a request. D1 names no figure; this is what 100 statements with values of a fair size come to.
pub const REQUEST_BYTES_MAX: usize = 64 << 20;
