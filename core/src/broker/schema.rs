//! The broker's tables. They have a list and a version of their own, since only the native store has them.

use crate::store::schema::Migration;

/// The broker's migrations, in the order they run, beside and after the store's own.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, file_name: "0001_broker.sql", sql: include_str!("migrations/0001_broker.sql") },
    Migration { version: 2, file_name: "0002_operations.sql", sql: include_str!("migrations/0002_operations.sql") },
    Migration { version: 3, file_name: "0003_serving.sql", sql: include_str!("migrations/0003_serving.sql") },
    Migration { version: 4, file_name: "0004_api.sql", sql: include_str!("migrations/0004_api.sql") },
    Migration { version: 5, file_name: "0005_clock.sql", sql: include_str!("migrations/0005_clock.sql") },
];

/// The version that this build needs; one that is later has only more.
pub(super) const VERSION: i64 = 5;
