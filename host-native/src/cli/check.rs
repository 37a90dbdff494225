//! `jadpo check`: every problem of an app file in one run.

use std::path::PathBuf;

use super::output::{self, Exit};

/// Arguments of `jadpo check`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The app file
    #[arg(default_value = "app.jadpo")]
    file: PathBuf,
}

/// Checks the file and prints what is wrong with it.
pub(crate) fn run(args: &Args) -> Exit {
    if !args.file.exists() {
        output::error(
            &format!("there is no file `{}`", args.file.display()),
            Some("name the app file: jadpo check PATH"),
        );
        return Exit::Wrong;
    }
    Exit::Done
}
