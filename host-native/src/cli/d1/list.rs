//! `jadpo d1 list`.

use serde_json::json;

use super::found::Found;
use crate::cli::output::{self, Exit};
use crate::cli::words::{self, bytes, count, plain};
use crate::d1::{self, Databases};
use crate::operator::OperatorError;

pub(super) async fn run(found: &[Found], databases: &Databases, as_json: bool) -> Result<Exit, OperatorError> {
    let mut all = Vec::new();
    for one in found {
        all.push((one, Stands::of(one, databases).await?));
    }
    if as_json {
        let listed = all.iter().map(|(one, stands)| {
            json!({
                "name": one.name,
                "key": one.key,
                "bindings": one.bindings,
                "file": databases.file(&one.key).map(|file| file.display().to_string()).ok(),
                "bytes": stands.bytes,
                "migrations": stands.migrations.map(|(applied, waiting)| json!({"applied": applied, "waiting": waiting})),
            })
        });
        output::line(&json!({ "databases": listed.collect::<Vec<_>>() }).to_string());
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        output::line("there are no databases");
        output::note("a Worker's Wrangler file lists them under `d1_databases`; name it with --worker");
        return Ok(Exit::Done);
    }
    let mut table = words::table(["database", "bindings", "size", "migrations", "file"]);
    for (one, stands) in &all {
        let file = databases.file(&one.key).map(|file| file.display().to_string()).unwrap_or_default();
        table.add_row([
            plain(&one.name),
            plain(&one.bindings.join(", ")),
            stands.bytes.map_or_else(|| "not made yet".to_owned(), bytes),
            stands.words(),
            plain(&file),
        ]);
    }
    words::unbroken(&mut table, &[0, 2, 3]);
    output::line(&table.to_string());
    output::line(&count(all.len() as u64, "database"));
    Ok(Exit::Done)
}

/// How a database stands.
struct Stands {
    /// Its file's bytes, if there is one.
    bytes: Option<u64>,
    /// Migrations that were applied, and that are to be.
    migrations: Option<(usize, usize)>,
}

impl Stands {
    /// Looks, and makes nothing.
    async fn of(one: &Found, databases: &Databases) -> Result<Self, OperatorError> {
        let failed = |error: &dyn std::fmt::Display| OperatorError::failed(error.to_string(), None);
        let file = databases.file(&one.key).map_err(|error| failed(&error))?;
        let bytes = std::fs::metadata(file).map(|file| file.len()).ok();
        let Some((folder, table)) = &one.migrations else { return Ok(Self { bytes, migrations: None }) };
        let all = d1::migrations(databases, &one.key, folder, table).await.map_err(|error| failed(&error))?;
        let applied = all.iter().filter(|migration| migration.applied_at.is_some()).count();
        Ok(Self { bytes, migrations: Some((applied, all.len() - applied)) })
    }

    fn words(&self) -> String {
        match self.migrations {
            None | Some((0, 0)) => "-".to_owned(),
            Some((applied, 0)) => format!("{applied} applied"),
            Some((applied, waiting)) => format!("{applied} applied, {waiting} to apply"),
        }
    }
}
