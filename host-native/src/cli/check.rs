//! `jadpo check`: every problem of an app file in one run.

use std::path::PathBuf;

use comfy_table::{Table, presets};
use jadpo_core::app::{self, Code, Compiled};

use super::diagnostics::{self, AppFile};
use super::output::{self, Exit};

/// Arguments of `jadpo check`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The app file, or the folder that holds app.jadpo
    #[arg(default_value = "app.jadpo")]
    file: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
    /// Print the network report too: every host that the app reaches
    #[arg(long)]
    network: bool,
    /// Check what one deployable's target refuses, and report its network only
    #[arg(long, value_name = "NAME")]
    deployable: Option<String>,
    /// Explain a code, like connection.key_missing, and end
    #[arg(long, value_name = "CODE", conflicts_with_all = ["json", "network", "deployable"])]
    explain: Option<String>,
}

/// Checks the file and prints what is wrong with it.
pub(crate) fn run(args: &Args) -> Exit {
    if let Some(code) = &args.explain {
        return explain(code);
    }
    let deployable = args.deployable.as_deref();
    let (file, mut compiled) = match AppFile::read(&args.file) {
        Ok(file) => {
            let compiled = app::compile_for(&file.source, deployable);
            (file, compiled)
        }
        Err(error) if args.json => {
            diagnostics::print_json(&diagnostics::unreadable_json(&error));
            return error.exit;
        }
        Err(error) => {
            output::error(&error.message, error.help.as_deref());
            return error.exit;
        }
    };
    if let Some(error) = undeclared(&compiled, deployable) {
        if args.json {
            diagnostics::print_json(&diagnostics::unreadable_json(&diagnostics::Unreadable {
                path: file.path,
                ..error
            }));
        } else {
            output::error(&error.message, error.help.as_deref());
        }
        return Exit::Wrong;
    }
    report(args, &file, &mut compiled)
}

fn report(args: &Args, file: &AppFile, compiled: &mut Compiled) -> Exit {
    let program = compiled.program.as_ref();
    let network = program.filter(|_| args.network).map(|program| app::network(program, args.deployable.as_deref()));
    if args.json {
        diagnostics::print_json(&diagnostics::json(file, compiled, network));
    } else {
        diagnostics::print(file, compiled);
        if let Some(network) = network {
            print_network(&network);
        }
    }
    if compiled.problems.is_empty() { Exit::Done } else { Exit::Wrong }
}

/// Why the deployable that was asked for is not there to check. A file with problems may declare it all the same.
fn undeclared(compiled: &Compiled, deployable: Option<&str>) -> Option<diagnostics::Unreadable> {
    let program = compiled.program.as_ref()?;
    let name = deployable.filter(|name| !program.deployables.contains_key(*name))?;
    let declared: Vec<&str> = program.deployables.keys().map(String::as_str).collect();
    let help = match declared.as_slice() {
        [] => "the app declares no deployables".to_owned(),
        names => format!("the app declares {}", names.join(", ")),
    };
    Some(diagnostics::Unreadable {
        path: String::new(),
        message: format!("the app has no deployable `{name}`"),
        help: Some(help),
        exit: Exit::Wrong,
    })
}

fn explain(text: &str) -> Exit {
    if let Some(code) = Code::find(text) {
        anstream::println!("{code}: {}", code.explanation());
        return Exit::Done;
    }
    let family = text.split('.').next().unwrap_or_default();
    let mut near: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    if near.iter().any(|code| code.split('.').next() == Some(family)) {
        near.retain(|code| code.split('.').next() == Some(family));
    }
    output::error(&format!("there is no code `{text}`"), Some(&format!("the codes are {}", near.join(", "))));
    Exit::Wrong
}

fn print_network(network: &[app::Reach]) {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(["what", "name", "through", "hosts"]);
    for reach in network {
        let hosts = if reach.hosts.is_empty() { "none".to_owned() } else { reach.hosts.join("\n") };
        table.add_row([reach.kind, &reach.name, &reach.through, &hosts]);
    }
    if network.is_empty() {
        anstream::println!("network: the app reaches nothing");
    } else {
        anstream::println!("{table}");
    }
}
