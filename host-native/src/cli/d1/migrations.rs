//! `jadpo d1 migrations`.

use std::io::Write;

use clap::Subcommand;
use serde_json::json;

use super::found::Found;
use crate::cli::output::{self, Exit};
use crate::cli::words::{self, count, plain};
use crate::d1::{self, Applied, Databases, MigrateError, MigrateFailure};
use crate::host::now_ms;
use crate::log::rfc3339;
use crate::operator::OperatorError;

/// Arguments of `jadpo d1 migrations`.
#[derive(clap::Args)]
#[command(after_help = "\
The files are those of `migrations_dir`, in the order of the numbers that their names begin with. Each is applied whole or \
not at all, and remembered in `migrations_table`, as Wrangler does.
With --json, list: {\"databases\": [{name, migrations: [{name, applied_at, has_file}]}]}; apply: \
{\"databases\": [{name, before: […], applied: […]}]}; create: {\"file\"}.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the migrations of a database, or of all
    List {
        /// The database [default: all]
        database: Option<String>,
    },
    /// Apply those that were not applied yet, of a database or of all
    Apply {
        /// The database [default: all]
        database: Option<String>,
    },
    /// Make the file of the next migration of a database
    Create {
        /// The database
        database: String,
        /// What it is to do, in a few words: they become its name
        words: String,
    },
}

/// Longest name that words become.
const NAME_LEN_MAX: usize = 100;

pub(super) async fn run(
    args: &Args,
    found: &[Found],
    databases: &Databases,
    as_json: bool,
) -> Result<Exit, OperatorError> {
    let named = match &args.command {
        Command::List { database } | Command::Apply { database } => database.as_ref(),
        Command::Create { database, .. } => Some(database),
    };
    let meant: Vec<&Found> = match named {
        Some(name) => vec![Found::named(found, name)?],
        None => found.iter().collect(),
    };
    if meant.iter().all(|one| one.migrations.is_none()) {
        let help = "a Worker's Wrangler file says where they are, under `d1_databases`; name it with --worker";
        return Err(OperatorError::input("there is no database with migrations", Some(help)).coded("no_migrations"));
    }
    match &args.command {
        Command::List { .. } => list(&meant, databases, as_json).await,
        Command::Apply { .. } => apply(&meant, databases, as_json).await,
        Command::Create { words, .. } => create(&meant, words, as_json),
    }
}

/// Makes the file of the next migration, called as Wrangler calls it: a number of four digits, one more than the highest
/// that is there, and the words.
fn create(meant: &[&Found], words: &str, as_json: bool) -> Result<Exit, OperatorError> {
    let name: String = words.trim().chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let what = format!("a migration's name has 1 to {NAME_LEN_MAX} bytes");
        return Err(OperatorError::input(what, Some("say in a few words what it does")).coded("name_wrong"));
    }
    let folder = meant.iter().find_map(|one| one.migrations.as_ref()).map(|(folder, _)| folder.clone());
    let folder = folder.unwrap_or_default();
    let failed = |error: std::io::Error| OperatorError::failed(format!("{}: {error}", folder.display()), None);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let number = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| name.ends_with(".sql"))?;
        let end = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
        name.get(..end)?.parse::<u32>().ok()
    };
    let last = std::fs::read_dir(&folder).map_err(failed)?.flatten().filter_map(number).max().unwrap_or(0);
    let next = last.saturating_add(1);
    let file = folder.join(format!("{next:04}_{name}.sql"));
    let begin = format!("-- Migration number: {next:04} \t {}\n", rfc3339(now_ms()));
    let mut made = std::fs::File::options().write(true).create_new(true).open(&file).map_err(failed)?;
    made.write_all(begin.as_bytes()).map_err(failed)?;
    if as_json {
        output::line(&json!({"file": file}).to_string());
    } else {
        output::line(&format!("{} is to be filled with SQL", plain(&file.display().to_string())));
    }
    Ok(Exit::Done)
}

async fn list(meant: &[&Found], databases: &Databases, as_json: bool) -> Result<Exit, OperatorError> {
    let mut all = Vec::new();
    for one in meant {
        let Some((folder, table)) = &one.migrations else { continue };
        let migrations = d1::migrations(databases, &one.key, folder, table).await.map_err(|error| told(one, &error))?;
        all.push((one, folder, migrations));
    }
    if as_json {
        let listed = all.iter().map(|(one, _, migrations)| {
            let each = migrations.iter().map(|migration| {
                json!({"name": migration.name, "applied_at": migration.applied_at, "has_file": migration.has_file})
            });
            json!({"name": one.name, "migrations": each.collect::<Vec<_>>()})
        });
        output::line(&json!({ "databases": listed.collect::<Vec<_>>() }).to_string());
        return Ok(Exit::Done);
    }
    for (one, folder, migrations) in &all {
        if migrations.is_empty() {
            output::line(&format!("{}: no migrations in {}", plain(&one.name), plain(&folder.display().to_string())));
            continue;
        }
        let mut table = words::table(["migration", "applied (UTC)"]);
        for migration in migrations {
            let state = match (&migration.applied_at, migration.has_file) {
                (Some(at), true) => plain(at),
                (Some(at), false) => format!("{} (its file is gone)", plain(at)),
                (None, _) => "not yet".to_owned(),
            };
            table.add_row([plain(&migration.name), state]);
        }
        output::line(&plain(&one.name));
        output::line(&table.to_string());
    }
    Ok(Exit::Done)
}

async fn apply(meant: &[&Found], databases: &Databases, as_json: bool) -> Result<Exit, OperatorError> {
    let mut all: Vec<(&Found, Applied)> = Vec::new();
    for one in meant {
        let Some((folder, table)) = &one.migrations else { continue };
        match d1::migrate(databases, &one.key, folder, table).await {
            Ok(applied) => {
                if !as_json {
                    say(one, &applied.now, applied.before.len());
                }
                all.push((one, applied));
            }
            Err(error) => {
                if !as_json && !error.applied.is_empty() {
                    say(one, &error.applied, 0);
                }
                return Err(told(one, &error));
            }
        }
    }
    if as_json {
        let listed = all
            .iter()
            .map(|(one, applied)| json!({"name": one.name, "before": applied.before, "applied": applied.now}));
        output::line(&json!({ "databases": listed.collect::<Vec<_>>() }).to_string());
    }
    Ok(Exit::Done)
}

fn say(one: &Found, applied: &[String], before: usize) {
    if applied.is_empty() {
        output::line(&format!("{}: nothing to apply ({before} applied before)", plain(&one.name)));
        return;
    }
    output::line(&format!("{}: {} applied", plain(&one.name), count(applied.len() as u64, "migration")));
    for name in applied {
        output::line(&format!("  {}", plain(name)));
    }
}

/// What failed, with what stays of it.
fn told(one: &Found, error: &MigrateError) -> OperatorError {
    let what = format!("{}: {error}", one.name);
    match &error.why {
        MigrateFailure::Statement { .. } => {
            let help = "nothing of that file was kept, and those before it stay; mend it and apply again";
            OperatorError::failed(what, Some(help)).coded("migration_failed")
        }
        MigrateFailure::Unreadable { .. } => OperatorError::failed(what, None).coded("migration_unreadable"),
        MigrateFailure::Database(_) => OperatorError::failed(what, None).coded("database_failed"),
    }
}
