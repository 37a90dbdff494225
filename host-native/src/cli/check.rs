//! `jadpo check`: every problem of an app file, or of a Wrangler file, in one run.

use std::path::PathBuf;

use comfy_table::{Table, presets};
use jadpo_core::app::{self, Code};

use super::diagnostics::{self, Checked, Unreadable};
use super::output::{self, Exit};
use super::{programs, running, wrangler};

/// Arguments of `jadpo check`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The app file, a project.toml, a Wrangler file, or the folder that holds one of them
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
    /// Read a Wrangler file for this environment
    #[arg(long, value_name = "NAME", conflicts_with_all = ["network", "deployable"])]
    env: Option<String>,
    /// Explain a code, like connection.key_missing, and end
    #[arg(long, value_name = "CODE", conflicts_with_all = ["json", "network", "deployable"])]
    explain: Option<String>,
}

/// Checks the file and prints what is wrong with it.
pub(crate) fn run(args: &Args) -> Exit {
    if let Some(code) = &args.explain {
        return explain(code);
    }
    if let Some(file) = wrangler::found(&args.file) {
        return wrangler::check(&file, args.env.as_deref(), args.json);
    }
    if args.env.is_some() {
        output::error(
            &format!("`{}` is no Wrangler file, and only such a file has environments", args.file.display()),
            Some("leave `--env` out, or name a wrangler.json, wrangler.jsonc or wrangler.toml"),
        );
        return Exit::Wrong;
    }
    let deployable = args.deployable.as_deref();
    let mut checked = match Checked::read(&args.file, deployable, true) {
        Ok(checked) => checked,
        Err(error) => return cannot_check(args, &error),
    };
    if let Some(error) = undeclared(&checked, deployable) {
        return cannot_check(args, &error);
    }
    if let Some(program) = checked.program.take() {
        programs::note_missing(&mut checked, &program, &running::folder_of(&diagnostics::found(&args.file)));
        checked.program = Some(program);
    }
    report(args, &checked)
}

fn cannot_check(args: &Args, error: &Unreadable) -> Exit {
    if args.json {
        diagnostics::print_json(&diagnostics::unreadable_json(error));
    } else {
        output::error(&error.message, error.help.as_deref());
    }
    error.exit
}

fn report(args: &Args, checked: &Checked) -> Exit {
    let program = checked.program.as_ref();
    let network = program.filter(|_| args.network).map(|program| app::network(program, args.deployable.as_deref()));
    if args.json {
        diagnostics::print_json(&diagnostics::json(checked, network));
    } else {
        checked.files.iter().for_each(|(file, compiled)| diagnostics::print(file, compiled));
        if let Some(network) = network {
            print_network(&network);
        }
    }
    if checked.is_right() { Exit::Done } else { Exit::Wrong }
}

/// Why the deployable that was asked for is not there to check. A file with problems may declare it all the same.
fn undeclared(checked: &Checked, deployable: Option<&str>) -> Option<Unreadable> {
    let program = checked.program.as_ref()?;
    let name = deployable.filter(|name| !program.deployables.contains_key(*name))?;
    let declared: Vec<&str> = program.deployables.keys().map(String::as_str).collect();
    let help = match declared.as_slice() {
        [] => "the app declares no deployables".to_owned(),
        names => format!("the app declares {}", names.join(", ")),
    };
    Some(Unreadable {
        path: checked.files.first().map(|(file, _)| file.path.clone()).unwrap_or_default(),
        message: format!("the app has no deployable `{name}`"),
        help: Some(help),
        exit: Exit::Wrong,
    })
}

fn explain(text: &str) -> Exit {
    if let Some(code) = Code::find(text) {
        output::line(&format!("{code}: {}", code.explanation()));
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
        output::line("network: the app reaches nothing");
    } else {
        output::line(&table.to_string());
    }
}
