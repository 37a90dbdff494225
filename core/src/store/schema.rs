//! The tables and the migrations that make them: numbered, forward only.
//!
//! Rows written are money on D1, so the tables are laid out by what is written per kept message: one row in
//! `jadpo_received`, one in `jadpo_events`, and for each subscriber one that comes and one that goes in
//! `jadpo_deliveries`, which is its own index. Nothing else is indexed but what an operator has marked.

/// A numbered step from one form of the store to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its number, which is the store's version once it has run.
    pub version: u32,
    /// The file's name under `migrations/`.
    pub file_name: &'static str,
    /// Its SQL, as `wrangler d1 migrations apply` takes it.
    pub sql: &'static str,
}

/// All migrations, in the order they run.
pub const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, file_name: "0001_jadpo.sql", sql: include_str!("migrations/0001_jadpo.sql") }];

/// The version that this build needs: a store that is behind it takes nothing.
pub const SCHEMA_VERSION: u32 = 1;

/// `due_at` of a delivery that has failed: never.
pub const NEVER_MS: i64 = 9_007_199_254_740_991;
