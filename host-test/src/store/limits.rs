//! D1's limits and refusals.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jadpo_core::d1::limits;
use jadpo_core::store::Statement;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;

/// Sets the limits that `SQLite` itself can keep.
pub(super) fn set(connection: &Connection) -> rusqlite::Result<()> {
    for (limit, max) in [
        (Limit::SQLITE_LIMIT_LENGTH, limits::VALUE_BYTES_MAX),
        (Limit::SQLITE_LIMIT_COLUMN, limits::COLUMNS_MAX),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, limits::EXPRESSION_DEPTH_MAX),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, limits::COMPOUND_TERMS_MAX),
        (Limit::SQLITE_LIMIT_VDBE_OP, limits::OPERATIONS_MAX),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, limits::FUNCTION_ARGS_MAX),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, limits::PATTERN_BYTES_MAX),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, limits::TRIGGER_DEPTH_MAX),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, i32::try_from(max).unwrap_or(i32::MAX))?;
    }
    // A name in double quotes that is no column is a mistake, never a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false).map(|_| ())
}

/// Refuses statements that D1 refuses, while the returned flag is up.
pub(super) fn fence(connection: &mut Connection) -> rusqlite::Result<Arc<AtomicBool>> {
    let fenced = Arc::new(AtomicBool::new(false));
    let up = fenced.clone();
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        let refused = matches!(
            context.action,
            AuthAction::Transaction { .. }
                | AuthAction::Savepoint { .. }
                | AuthAction::Attach { .. }
                | AuthAction::Detach { .. }
                | AuthAction::Pragma { .. }
        );
        if refused && up.load(Ordering::SeqCst) { Authorization::Deny } else { Authorization::Allow }
    }))?;
    Ok(fenced)
}

/// Checks what `SQLite`'s own limits do not cover.
pub(super) fn check(statement: &Statement) -> Result<(), String> {
    if statement.sql.len() > limits::SQL_BYTES_MAX {
        return Err("D1_ERROR: statement too long: SQLITE_TOOBIG".into());
    }
    if statement.params.len() > limits::PARAMS_MAX {
        return Err("D1_ERROR: too many SQL variables: SQLITE_ERROR".into());
    }
    Ok(())
}

/// D1 hands a row over as a JavaScript object, which loses one of two columns of the same name and moves names that
/// are numbers to the front. No statement of ours may depend on that.
///
/// # Panics
/// When one does.
pub(super) fn check_column_names<'a>(sql: &str, names: impl Iterator<Item = &'a str>) {
    let mut seen = BTreeSet::new();
    for name in names {
        let twice = !seen.insert(name);
        let number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        assert!(!twice && !number, "D1 hands rows over as objects, and the column name {name:?} gets lost in: {sql}");
    }
}
