//! The broker beside plain `SQLite` doing the least that such a queue must, in one run. `cargo xtask bench broker`
//! starts it and shows its figures; it prints lines of JSON.

mod cases;
mod http;
mod peers;
mod plain;

use serde_json::json;

fn main() {
    let mut options = cases::Options { seconds: 0.7, rounds: 3, backlog_max: 1_000_000, only: String::new() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|value| value.parse::<f64>().ok());
        match arg.as_str() {
            "--seconds" => options.seconds = number().unwrap_or(options.seconds),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small figures of a bench")]
            "--rounds" => options.rounds = number().map_or(options.rounds, |rounds| rounds as usize),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small figures of a bench")]
            "--backlog" => options.backlog_max = number().map_or(options.backlog_max, |most| most as usize),
            "--only" => options.only = args.next().unwrap_or_default(),
            _ => {} // cargo adds one of its own
        }
    }
    match cases::run(&options) {
        Ok(rows) => println!("{}", json!({ "report": { "rows": rows } })),
        Err(error) => {
            eprintln!("the bench failed: {error}");
            std::process::exit(1);
        }
    }
}
