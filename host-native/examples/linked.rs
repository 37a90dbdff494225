//! A server with a function of one's own in it: `cargo run --example linked -- dev`, beside an app file that has
//! `functions: { count: { run: count_bytes } }`. It is the whole `jadpo` command line; a queue that names the function
//! calls it with each message.

use std::fs::OpenOptions;
use std::io::Write;

use jadpo::functions::{Linked, LinkedCall};

/// `Ok` is done. An error, or a panic, is tried again and at last dead-lettered with these words.
async fn count_bytes(call: LinkedCall) -> Result<(), String> {
    let file = OpenOptions::new().create(true).append(true).open("counted.txt");
    let mut file = file.map_err(|error| format!("counted.txt cannot be opened: {error}"))?;
    writeln!(file, "{} bytes", call.body.len()).map_err(|error| error.to_string())
}

fn main() -> std::process::ExitCode {
    jadpo::cli::main(Linked::new().with("count_bytes", count_bytes))
}
