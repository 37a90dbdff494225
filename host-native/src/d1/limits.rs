//! D1's limits, those that SQLite itself can keep.

use jadpo_core::d1::limits;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;

pub(super) fn set(connection: &Connection) -> rusqlite::Result<()> {
    for (limit, max) in [
        (Limit::SQLITE_LIMIT_LENGTH, limits::VALUE_BYTES_MAX),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, limits::SQL_BYTES_MAX),
        (Limit::SQLITE_LIMIT_COLUMN, limits::COLUMNS_MAX),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, limits::EXPRESSION_DEPTH_MAX),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, limits::COMPOUND_TERMS_MAX),
        (Limit::SQLITE_LIMIT_VDBE_OP, limits::OPERATIONS_MAX),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, limits::FUNCTION_ARGS_MAX),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, limits::PATTERN_BYTES_MAX),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, limits::PARAMS_MAX),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, limits::TRIGGER_DEPTH_MAX),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, i32::try_from(max).unwrap_or(i32::MAX))?;
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map(drop)
}
