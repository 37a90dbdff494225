//! `jadpo triggers`: what runs functions, and how that last ended.

use clap::{Parser, Subcommand};
use jadpo_core::admin::queues::{Outcome, Trigger, TriggerKind};
use serde_json::json;

use super::output::{self, Exit};
use super::place::{self, Needs, Opened, Place};
use super::words::{self, ago, brief, count, plain, when};
use crate::host::now_ms;
use crate::operator::{Operator, OperatorError};

/// Characters of an error in the table.
const ERROR_SHOWN_CHARS: usize = 100;

/// Arguments of `jadpo triggers`. All flags go before or after the subcommand alike.
#[derive(Parser)]
#[command(after_help = "\
A queue with functions has the trigger queue:NAME, a function with a schedule the trigger schedule:FUNCTION, and a cron \
of a Worker that runs the trigger \"schedule:WORKER: CRON\"; the bare name will do where only one has it. While a trigger is disabled, a queue's messages wait and a schedule's times pass.

Examples:
  jadpo triggers
  jadpo triggers disable jobs
  jadpo triggers enable schedule:sweep

Exit codes: 0 it is done, 1 it could not be done, 2 it was asked wrongly.
With --json: {\"triggers\": […]}, or of enable and disable one trigger: {name, kind (queue, schedule), queue, schedule, \
worker, functions, event, enabled, last_run {at_ms, outcome (done, failed), error, message_id}, last_occurrence_ms, next_at_ms}.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    place: Place,
}

#[derive(Subcommand)]
enum Command {
    /// List the triggers, their last run and its outcome (the default)
    List,
    /// Let a trigger run
    Enable {
        /// The trigger, or its queue or function
        name: String,
    },
    /// Keep a trigger from running, until it is enabled
    Disable {
        /// The trigger, or its queue or function
        name: String,
    },
}

/// Asks and prints.
pub(crate) fn run(args: &Args) -> Exit {
    let needs = match &args.command {
        None | Some(Command::List) => Needs::Look,
        Some(Command::Enable { .. } | Command::Disable { .. }) => Needs::Change,
    };
    place::run(&args.place, needs, async |opened: &Opened| answer(args, &opened.operator).await)
}

async fn answer(args: &Args, operator: &Operator) -> Result<Exit, OperatorError> {
    let (name, enabled) = match &args.command {
        None | Some(Command::List) => {
            let triggers = operator.triggers().await?;
            if args.place.json {
                output::line(&json!({ "triggers": triggers }).to_string());
            } else {
                list(&triggers);
            }
            return Ok(Exit::Done);
        }
        Some(Command::Enable { name }) => (name, true),
        Some(Command::Disable { name }) => (name, false),
    };
    let trigger = operator.enable_trigger(name, enabled).await?;
    if args.place.json {
        output::line(&json!(trigger).to_string());
        return Ok(Exit::Done);
    }
    let name = plain(&trigger.name);
    output::line(&match (enabled, trigger.kind) {
        (true, _) => format!("{name} is enabled"),
        (false, TriggerKind::Queue) => format!("{name} is disabled; messages of {} wait", plain(&trigger.queue)),
        (false, TriggerKind::Schedule) => format!("{name} is disabled; its times pass"),
    });
    Ok(Exit::Done)
}

fn list(triggers: &[Trigger]) {
    if triggers.is_empty() {
        output::line(
            "there are no triggers: queues with functions, functions with a schedule, and crons of Workers that run are \
             some",
        );
        return;
    }
    let mut table = words::table(["trigger", "runs", "state", "last run", "outcome", "next"]);
    let now_ms = now_ms();
    for trigger in triggers {
        let runs = match (&trigger.event, &trigger.schedule) {
            (Some(event), _) => format!("event {event}"),
            (None, Some(schedule)) if let Some(worker) = &trigger.worker => format!("Worker {worker} at {schedule}"),
            (None, Some(schedule)) => format!("{} at {schedule}", trigger.functions.join(", ")),
            (None, None) => trigger.functions.join(", "),
        };
        let outcome = trigger.last_run.as_ref().map(|run| match (run.outcome, &run.error) {
            (Outcome::Done, _) => "done".to_owned(),
            (Outcome::Failed, None) => "failed".to_owned(),
            (Outcome::Failed, Some(error)) => format!("failed: {}", brief(error, ERROR_SHOWN_CHARS)),
        });
        table.add_row([
            plain(&trigger.name),
            plain(&runs),
            (if trigger.enabled { "on" } else { "disabled" }).to_owned(),
            last_ms(trigger).map_or("never".to_owned(), |at_ms| ago(at_ms, now_ms)),
            outcome.unwrap_or_default(),
            trigger.next_at_ms.map(|at_ms| next(at_ms, now_ms)).unwrap_or_default(),
        ]);
    }
    words::unbroken(&mut table, &[0, 3, 5]);
    output::line(&table.to_string());
    output::line(&count(triggers.len() as u64, "trigger"));
    for (trigger, until_ms) in triggers.iter().filter_map(|trigger| Some((trigger, trigger.waits_until_ms(now_ms)?))) {
        output::line(&format!(
            "{} does not run before {}: it was followed up to there while the clock was ahead",
            plain(&trigger.name),
            when(until_ms, now_ms)
        ));
    }
}

/// When it last ran. How a cron's occurrence ended its queue and the log know.
fn last_ms(trigger: &Trigger) -> Option<i64> {
    let occurred = trigger.last_occurrence_ms.filter(|_| trigger.worker.is_some());
    trigger.last_run.as_ref().map(|run| run.at_ms).or(occurred)
}

/// When a schedule is next, in two short lines.
fn next(at_ms: i64, now_ms: i64) -> String {
    when(at_ms, now_ms).replace(" (", "\n(")
}
