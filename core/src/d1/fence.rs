//! What a statement may not do, asked while it is compiled: `SQLite` tells each thing that it would do.

/// One thing that a statement would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish<'a> {
    /// Call a function.
    Function(&'a str),
    /// Read or set something of the connection's.
    Pragma {
        /// Which.
        name: &'a str,
        /// What it is set to, or is about.
        value: Option<&'a str>,
    },
    /// Make or drop a table that a module stands behind.
    Module(&'a str),
    /// Begin or end a transaction or a savepoint.
    Transaction,
    /// Open or close another file, or use one.
    OtherFile,
    /// Make or drop what only this connection sees.
    Temporary,
    /// Read, write, make or drop something that has this name.
    Named(&'a str),
}

/// Why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// D1 has an explanation of its own: [`TRANSACTION_REFUSED`].
    Transaction,
    /// `SQLite`'s own text.
    Denied,
}

/// What D1 says of BEGIN, COMMIT, SAVEPOINT and the like: word for word, since code may look for it.
pub const TRANSACTION_REFUSED: &str = "To execute a transaction, please use the state.storage.transaction() or \
    state.storage.transactionSync() APIs instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements. The JavaScript \
    API is safer because it will automatically roll back on exceptions, and because it interacts correctly with \
    Durable Objects' automatic atomic write coalescing.";

/// Whether a statement that would do this is refused.
#[must_use]
pub fn refusal(wish: Wish<'_>) -> Option<Refusal> {
    let allowed = match wish {
        Wish::Transaction => return Some(Refusal::Transaction),
        Wish::OtherFile | Wish::Temporary => false,
        Wish::Named(name) => is_users(name),
        Wish::Module(name) => MODULES.iter().any(|module| name.eq_ignore_ascii_case(module)),
        Wish::Function(name) => FUNCTIONS.iter().any(|function| name.eq_ignore_ascii_case(function)),
        Wish::Pragma { name, value } => PRAGMAS
            .iter()
            .find(|(pragma, _)| name.eq_ignore_ascii_case(pragma))
            .is_some_and(|(_, takes)| takes.allows(value)),
    };
    (!allowed).then_some(Refusal::Denied)
}

/// Names that begin with `_cf_` are the platform's.
fn is_users(name: &str) -> bool {
    !name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("_cf_"))
}

/// What a pragma may be given.
#[derive(Clone, Copy)]
enum Takes {
    Nothing,
    Switch,
    Name,
    NameOrNothing,
    NumberOrNothing,
    NumberNameOrNothing,
}

impl Takes {
    fn allows(self, value: Option<&str>) -> bool {
        let Some(value) = value else { return !matches!(self, Self::Name) };
        let is_number = value.parse::<i32>().is_ok();
        match self {
            Self::Nothing => false,
            Self::Switch => {
                let bare = value.trim_matches(['\'', '"']);
                SWITCHES.iter().any(|switch| bare.eq_ignore_ascii_case(switch))
            }
            Self::Name | Self::NameOrNothing => is_users(value),
            Self::NumberOrNothing => is_number,
            Self::NumberNameOrNothing => is_number || is_users(value),
        }
    }
}

const SWITCHES: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "1", "0"];

/// The pragmas that D1 runs: <https://developers.cloudflare.com/d1/sql-api/sql-statements/#compatible-pragma-statements>.
const PRAGMAS: [(&str, Takes); 19] = [
    ("case_sensitive_like", Takes::Switch),
    ("data_version", Takes::Nothing),
    ("defer_foreign_keys", Takes::Switch),
    ("foreign_key_check", Takes::NameOrNothing),
    ("foreign_key_list", Takes::Name),
    ("foreign_keys", Takes::Switch),
    ("ignore_check_constraints", Takes::Switch),
    ("index_info", Takes::Name),
    ("index_list", Takes::Name),
    ("index_xinfo", Takes::Name),
    ("legacy_alter_table", Takes::Switch),
    ("optimize", Takes::NumberOrNothing),
    ("page_size", Takes::Nothing),
    ("quick_check", Takes::NumberNameOrNothing),
    ("recursive_triggers", Takes::Switch),
    ("reverse_unordered_selects", Takes::Switch),
    ("table_info", Takes::Name),
    ("table_list", Takes::NameOrNothing),
    ("table_xinfo", Takes::Name),
];

/// The kinds of virtual tables that D1 has.
const MODULES: [&str; 4] = ["fts5", "fts5vocab", "rtree", "rtree_i32"];

/// The functions that D1 has, by the pages of <https://sqlite.org> that describe them: core, dates, aggregates, windows,
/// mathematics, JSON, full-text search, and those that ALTER TABLE itself calls. What tells of `SQLite`'s inside is not
/// among them.
const FUNCTIONS: &[&str] = &[
    "abs",
    "changes",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "format",
    "glob",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "last_insert_rowid",
    "length",
    "like",
    "likelihood",
    "likely",
    "load_extension",
    "lower",
    "ltrim",
    "nullif",
    "octet_length",
    "printf",
    "quote",
    "random",
    "randomblob",
    "replace",
    "round",
    "rtrim",
    "sign",
    "substr",
    "substring",
    "total_changes",
    "trim",
    "typeof",
    "unhex",
    "unicode",
    "unlikely",
    "upper",
    "zeroblob",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "julianday",
    "strftime",
    "time",
    "timediff",
    "unixepoch",
    "avg",
    "count",
    "group_concat",
    "max",
    "min",
    "string_agg",
    "sum",
    "total",
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "degrees",
    "exp",
    "floor",
    "ln",
    "log",
    "log2",
    "mod",
    "pi",
    "pow",
    "radians",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "->",
    "->>",
    "json",
    "json_array",
    "json_array_length",
    "json_each",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_object",
    "json_patch",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_tree",
    "json_type",
    "json_valid",
    "jsonb",
    "jsonb_array",
    "jsonb_extract",
    "jsonb_group_array",
    "jsonb_group_object",
    "jsonb_insert",
    "jsonb_object",
    "jsonb_patch",
    "jsonb_remove",
    "jsonb_replace",
    "jsonb_set",
    "bm25",
    "highlight",
    "match",
    "snippet",
    "rtreecheck",
    "rtreedepth",
    "rtreenode",
    "sqlite_drop_column",
    "sqlite_rename_column",
    "sqlite_rename_quotefix",
    "sqlite_rename_table",
    "sqlite_rename_test",
];
