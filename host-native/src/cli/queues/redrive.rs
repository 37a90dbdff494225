//! `jadpo queues redrive`: dead letters on their way back.

use clap::ValueEnum;
use jadpo_core::admin::queues::{NewRedrive, Redrive, RedriveFilter, RedrivePreview, RedriveState};
use serde_json::json;

use super::super::output::{self, Exit};
use super::super::place::Opened;
use super::super::spans::instant;
use super::super::words::{self, ago, count, number, plain};
use super::watch;
use crate::host::now_ms;
use crate::operator::OperatorError;

/// Arguments of `jadpo queues redrive`.
#[derive(clap::Args)]
#[command(after_help = "\
Each goes back to the queue that it died in, or all to one that --to names, with its id, its body and a fresh count of \
attempts. What dies after the redrive started is left alone. A redrive is a task in the store: the server there carries \
it out, also over restarts; where none runs this command does it. Ctrl-C leaves it where it is, and --resume goes on.

Examples:
  jadpo queues redrive jobs --dry-run                        how many, and where to
  jadpo queues redrive jobs --rate 10                        slowly, so that what was mended stays mended
  jadpo queues redrive jobs --error 'connection refused' --died-after 2h
  jadpo queues redrive jobs --id 6f0c9a1b2c3d4e5f60718293a4b5c6d7 --to jobs-by-hand
  jadpo queues redrive --list
  jadpo queues redrive --cancel 3

With --json one redrive when it ends (with --detach when it starts): {id, queue, to, filter, rate_per_s, state, letters, \
moved, held, without_origin, started_at_ms, ended_at_ms}; of --dry-run {queue, matched, by_target, held, \
without_origin}; of --list and --resume {\"redrives\": […]}.")]
pub(super) struct Args {
    /// The queue that they died in, or a dead-letter queue
    #[arg(required_unless_present_any = ["list", "cancel", "resume", "watch"])]
    name: Option<String>,
    #[command(flatten)]
    what: What,
    /// Only count what would be put back, and where to
    #[arg(long, conflicts_with_all = ["detach", "list", "cancel", "resume", "watch"])]
    dry_run: bool,
    /// Do not wait until it is done
    #[arg(long)]
    detach: bool,
    /// List the redrives that run and the last that have ended
    #[arg(long, conflicts_with_all = ["name", "cancel", "resume", "watch"])]
    list: bool,
    /// End a redrive; what it put back stays there
    #[arg(long, value_name = "ID", conflicts_with_all = ["name", "resume", "watch"])]
    cancel: Option<u64>,
    /// Go on with the redrives that have not ended
    #[arg(long, conflicts_with_all = ["name", "watch"])]
    resume: bool,
    /// Wait until a redrive has ended
    #[arg(long, value_name = "ID", conflicts_with = "name")]
    watch: Option<u64>,
}

/// Which dead letters, where to, and how fast.
#[derive(clap::Args)]
struct What {
    /// Put them all into this queue [default: each into the one that it died in]
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// So many a second at most, 1 to 10,000 [default: as many as can be]
    #[arg(long, value_name = "MESSAGES")]
    rate: Option<u32>,
    /// Only those that died in this queue
    #[arg(long, value_name = "QUEUE", help_heading = "Which")]
    origin: Option<String>,
    /// Only those whose last attempt ended so
    #[arg(long, value_enum, value_name = "REASON", help_heading = "Which")]
    reason: Option<ReasonArg>,
    /// Only those whose error has this text in it
    #[arg(long, value_name = "TEXT", help_heading = "Which")]
    error: Option<String>,
    /// Only these
    #[arg(long = "id", value_name = "ID", help_heading = "Which")]
    ids: Vec<String>,
    /// Only those that died since: 2026-11-30T12:00:00Z, 2026-11-30, or how long ago, 2h
    #[arg(long, value_name = "TIME", value_parser = instant, help_heading = "Which")]
    died_after: Option<i64>,
    /// Only those that died before
    #[arg(long, value_name = "TIME", value_parser = instant, help_heading = "Which")]
    died_before: Option<i64>,
    /// So many at most
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Which")]
    limit: Option<u64>,
}

impl Args {
    /// Whether nothing is to be changed.
    pub(super) fn only_looks(&self) -> bool {
        self.list || self.dry_run
    }
}

impl What {
    fn is_given(&self) -> bool {
        let Self { to, rate, origin, reason, error, ids, died_after, died_before, limit } = self;
        let texts = [to, origin, error].into_iter().any(Option::is_some);
        let times = [died_after, died_before].into_iter().any(Option::is_some);
        texts || times || rate.is_some() || reason.is_some() || !ids.is_empty() || limit.is_some()
    }
}

/// How a message's last attempt ended.
#[derive(Clone, Copy, ValueEnum)]
enum ReasonArg {
    /// The consumer gave it back
    Retried,
    /// The consumer failed
    Failed,
    /// The consumer took too long, or died
    LeaseEnded,
}

pub(super) async fn run(args: &Args, opened: &Opened, as_json: bool) -> Result<Exit, OperatorError> {
    let operator = &opened.operator;
    // A flag that would change nothing is not passed over: whoever gave it meant something.
    if args.name.is_none() && args.what.is_given() {
        let help = "a redrive keeps what it was started with; cancel it and start another";
        return Err(OperatorError::input("filters, --to and --rate go with a queue's name", Some(help)));
    }
    if args.list {
        return Ok(list(&operator.redrives().await?, as_json));
    }
    if let Some(id) = args.cancel {
        return Ok(told(&operator.cancel_redrive(id).await?, Exit::Done, as_json));
    }
    if args.resume {
        return resume(args, opened, as_json).await;
    }
    if let Some(id) = args.watch {
        return Ok(ended(&watch::to_the_end(opened, id).await?, as_json));
    }
    let new = new(args)?;
    if args.dry_run {
        preview(&operator.redrive_preview(new).await?, as_json);
        return Ok(Exit::Done);
    }
    let redrive = operator.redrive(&new).await?;
    if args.detach {
        return Ok(told(&redrive, Exit::Done, as_json));
    }
    Ok(ended(&watch::to_the_end(opened, redrive.id).await?, as_json))
}

fn new(args: &Args) -> Result<NewRedrive, OperatorError> {
    let what = &args.what;
    let reason = what.reason.map(|reason| match reason {
        ReasonArg::Retried => "retried",
        ReasonArg::Failed => "failed",
        ReasonArg::LeaseEnded => "lease_ended",
    });
    let filter = RedriveFilter {
        origin: what.origin.clone(),
        reason: reason.map(str::to_owned),
        error_contains: what.error.clone(),
        ids: what.ids.clone(),
        died_from_ms: what.died_after,
        died_before_ms: what.died_before,
        limit: what.limit,
    };
    let queue = args.name.clone().ok_or_else(|| OperatorError::input("which queue's dead letters?", None))?;
    Ok(NewRedrive { queue, to: what.to.clone(), filter, rate_per_s: what.rate, dry_run: false })
}

/// Goes on with all that have not ended, one after the other: they are of different queues, so none waits for another's
/// messages.
async fn resume(args: &Args, opened: &Opened, as_json: bool) -> Result<Exit, OperatorError> {
    let redrives = opened.operator.redrives().await?;
    let running = redrives.into_iter().filter(|redrive| redrive.state == RedriveState::Running);
    let mut gone_on = Vec::new();
    for redrive in running {
        let redrive = if args.detach { redrive } else { watch::to_the_end(opened, redrive.id).await? };
        if !as_json {
            told(&redrive, Exit::Done, false);
        }
        gone_on.push(redrive);
    }
    if as_json {
        output::line(&json!({ "redrives": gone_on }).to_string());
    } else if gone_on.is_empty() {
        output::line("no redrive runs");
    }
    let ended = |redrive: &Redrive| args.detach || redrive.state == RedriveState::Done;
    Ok(if gone_on.iter().all(ended) { Exit::Done } else { Exit::Failed })
}

/// Tells how a redrive that was waited for ended. One that somebody ended, or that was left, is not done.
fn ended(redrive: &Redrive, as_json: bool) -> Exit {
    let exit = if redrive.state == RedriveState::Done { Exit::Done } else { Exit::Failed };
    told(redrive, exit, as_json)
}

fn told(redrive: &Redrive, exit: Exit, as_json: bool) -> Exit {
    if as_json {
        output::line(&json!(redrive).to_string());
        return exit;
    }
    let (id, moved) = (redrive.id, count(redrive.moved, "message"));
    let whereto = match &redrive.to {
        Some(to) => format!("into {}", plain(to)),
        None => "into the queues they died in".to_owned(),
    };
    let queue = plain(&redrive.queue);
    output::line(&match redrive.state {
        RedriveState::Done => format!("redrive {id} is done: {moved} of {queue} put back {whereto}"),
        RedriveState::Cancelled => {
            format!("redrive {id} was cancelled: {moved} of {queue} had been put back {whereto}")
        }
        RedriveState::Running => format!("redrive {id} goes on: {moved} of {queue} put back so far {whereto}"),
    });
    if redrive.held > 0 {
        output::line(&format!("{} stayed: a consumer of {queue} has them", count(redrive.held, "message")));
    }
    if redrive.without_origin > 0 {
        let stayed = count(redrive.without_origin, "message");
        output::line(&format!("{stayed} stayed: there is no queue to go back to; --to QUEUE names one"));
    }
    if redrive.state == RedriveState::Running {
        output::line(&format!(
            "a server on its store carries it out; without one: jadpo queues redrive --resume; \
             to end it: jadpo queues redrive --cancel {id}"
        ));
    }
    exit
}

fn preview(preview: &RedrivePreview, as_json: bool) {
    if as_json {
        output::line(&json!(preview).to_string());
        return;
    }
    let queue = plain(&preview.queue);
    let moved: u64 = preview.by_target.values().sum();
    output::line(&format!("{} of {queue} would be put back", count(moved, "message")));
    for (target, messages) in &preview.by_target {
        output::line(&format!("{:>12} into {}", number(*messages), plain(target)));
    }
    if preview.held > 0 {
        output::line(&format!("{:>12} would stay: a consumer of {queue} has them", number(preview.held)));
    }
    if preview.without_origin > 0 {
        let stay = number(preview.without_origin);
        output::line(&format!("{stay:>12} would stay: there is no queue to go back to; --to QUEUE names one"));
    }
    output::line("nothing was done yet: without --dry-run it is");
}

fn list(redrives: &[Redrive], as_json: bool) -> Exit {
    if as_json {
        output::line(&json!({ "redrives": redrives }).to_string());
        return Exit::Done;
    }
    if redrives.is_empty() {
        output::line("there was no redrive yet");
        return Exit::Done;
    }
    let mut table = words::table(["id", "of", "to", "which", "rate", "state", "moved", "stayed", "started"]);
    let now_ms = now_ms();
    for redrive in redrives {
        table.add_row([
            redrive.id.to_string(),
            plain(&redrive.queue),
            redrive.to.as_deref().map_or("where they died".to_owned(), plain),
            plain(&which(&redrive.filter)),
            redrive.rate_per_s.map_or(String::new(), |rate| format!("{}/s", number(rate.into()))),
            match redrive.state {
                RedriveState::Running => "running".to_owned(),
                RedriveState::Done => "done".to_owned(),
                RedriveState::Cancelled => "cancelled".to_owned(),
            },
            format!("{} of {}", number(redrive.moved), number(redrive.letters)),
            number(redrive.held + redrive.without_origin),
            ago(redrive.started_at_ms, now_ms),
        ]);
    }
    words::figures(&mut table, &[0, 4, 6, 7]);
    words::unbroken(&mut table, &[8]);
    output::line(&table.to_string());
    Exit::Done
}

/// A filter in few words.
fn which(filter: &RedriveFilter) -> String {
    let mut parts = Vec::new();
    parts.extend(filter.origin.as_ref().map(|origin| format!("died in {origin}")));
    parts.extend(filter.reason.clone());
    parts.extend(filter.error_contains.as_ref().map(|text| format!("error has `{text}`")));
    if !filter.ids.is_empty() {
        parts.push(count(filter.ids.len() as u64, "id"));
    }
    let time = |at_ms: i64| crate::log::rfc3339(at_ms / 1000 * 1000);
    parts.extend(filter.died_from_ms.map(|at_ms| format!("died since {}", time(at_ms))));
    parts.extend(filter.died_before_ms.map(|at_ms| format!("died before {}", time(at_ms))));
    parts.extend(filter.limit.map(|limit| format!("{} at most", number(limit))));
    if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
}
