//! What an app declares and what the store knows of it, put together for an operator.

use std::collections::BTreeMap;

use super::queue::Consumer;
use super::trigger::{Outcome, Run, Trigger, TriggerKind, Webhook};
use super::{Mode, ServedWorker, Serving};
use crate::broker::{self, RunOutcome, TriggerState, queue_trigger, schedule_trigger};
use crate::cron::Cron;
use crate::local;
use crate::program::{Connection, Program, Target, Verify};
use crate::schedule::Schedules;
use crate::trigger::{Consumer as Declared, Triggers};

/// The triggers of a program, by name: those of queues, then those of schedules.
#[must_use]
pub fn triggers(program: &Program, states: &BTreeMap<String, TriggerState>, now_ms: i64) -> Vec<Trigger> {
    let state = |name: &str| states.get(name).cloned().unwrap_or_default();
    let schedules = Schedules::of(program);
    let own: Vec<String> = schedules.names().map(local::queue_of_schedule).collect();
    let declared = Triggers::of(program);
    let mut triggers = Vec::new();
    for declared in declared.declared().filter(|declared| !own.contains(&declared.queue)) {
        let (functions, event) = match &declared.consumer {
            Declared::Functions(functions) => (functions.clone(), None),
            Declared::Receiving => (Vec::new(), event_of(program, &declared.queue)),
            Declared::Nobody => continue,
        };
        let name = queue_trigger(&declared.queue);
        let TriggerState { enabled, last_run, .. } = state(&name);
        triggers.push(Trigger {
            name,
            kind: TriggerKind::Queue,
            queue: declared.queue.clone(),
            schedule: None,
            worker: None,
            functions,
            event,
            enabled,
            last_run: last_run.map(Run::from),
            last_occurrence_ms: None,
            next_at_ms: None,
        });
    }
    for (function, declared) in &program.functions {
        let Some(schedule) = &declared.schedule else { continue };
        let name = schedule_trigger(function);
        let TriggerState { enabled, last_run, last_occurrence_ms } = state(&name);
        let (queue, last_run) = match &declared.target {
            Target::Send(queue) => (queue.clone(), last_run),
            _ => {
                // What it sends is run by its queue's trigger, which knows how that ended.
                let queue = local::queue_of_schedule(function);
                let of_queue = state(&queue_trigger(&queue)).last_run;
                (queue, of_queue)
            }
        };
        triggers.push(Trigger {
            name,
            kind: TriggerKind::Schedule,
            queue,
            schedule: Some(schedule.clone()),
            worker: None,
            functions: vec![function.clone()],
            event: None,
            enabled,
            last_run: last_run.map(Run::from),
            last_occurrence_ms,
            next_at_ms: schedules
                .next_after(function, last_occurrence_ms.map_or(now_ms, |last_ms| last_ms.max(now_ms)))
                .filter(|_| enabled),
        });
    }
    triggers
}

/// The crons of Workers, as triggers.
#[must_use]
pub fn crons(workers: &[ServedWorker], states: &BTreeMap<String, TriggerState>, now_ms: i64) -> Vec<Trigger> {
    let all = workers.iter().flat_map(|worker| worker.crons.iter().map(move |cron| (worker, cron)));
    let all = all.filter_map(|(worker, (schedule, name))| {
        let cron = Cron::parse_of_worker(schedule).ok()?;
        let name = schedule_trigger(name);
        let TriggerState { enabled, last_occurrence_ms, .. } = states.get(&name).cloned().unwrap_or_default();
        let next_at_ms = cron.next_after(last_occurrence_ms.map_or(now_ms, |last_ms| last_ms.max(now_ms)));
        Some(Trigger {
            name,
            kind: TriggerKind::Schedule,
            queue: worker.cron_queue().unwrap_or_default().to_owned(),
            schedule: Some(schedule.clone()),
            worker: Some(worker.name.clone()),
            functions: Vec::new(),
            event: None,
            enabled,
            last_run: None,
            // A schedule that begins is followed from then on, which is no time of its own.
            last_occurrence_ms: last_occurrence_ms.filter(|at_ms| cron.last_at(*at_ms) == Some(*at_ms)),
            next_at_ms: next_at_ms.filter(|_| enabled),
        })
    });
    all.collect()
}

/// Who consumes the queues that a program declares, by queue.
#[must_use]
pub fn consumers(program: &Program, states: &BTreeMap<String, TriggerState>) -> BTreeMap<String, Consumer> {
    let declared = Triggers::of(program);
    let consumers = declared.declared().filter_map(|declared| {
        let enabled = states.get(&queue_trigger(&declared.queue)).is_none_or(|state| state.enabled);
        let (functions, event) = match &declared.consumer {
            Declared::Functions(functions) => (functions.clone(), None),
            Declared::Receiving => (Vec::new(), event_of(program, &declared.queue)),
            Declared::Nobody => return None,
        };
        Some((
            declared.queue.clone(),
            Consumer { functions, event, http_pull: false, worker: None, worker_runs: None, enabled },
        ))
    });
    consumers.collect()
}

/// The webhooks of a program. Where `serving` is in production, or nobody served it yet, their addresses hold the
/// tokens that are given here.
#[must_use]
pub fn webhooks(program: &Program, serving: Option<&Serving>, tokens: &BTreeMap<String, String>) -> Vec<Webhook> {
    let open = serving.is_some_and(|serving| serving.mode == Mode::Dev);
    let webhooks = program.webhooks.iter().map(|(name, webhook)| {
        let token = tokens.get(name).filter(|_| !open);
        Webhook {
            name: name.clone(),
            queue: webhook.queue.clone(),
            verify: webhook.verify.as_ref().map(scheme).map(str::to_owned),
            path: token.map_or(format!("/_webhooks/{name}"), |token| format!("/_webhooks/{name}/{token}")),
        }
    });
    webhooks.collect()
}

fn scheme(verify: &Verify) -> &'static str {
    match verify {
        Verify::Stripe(_) => "stripe",
        Verify::Github(_) => "github",
        Verify::Shopify(_) => "shopify",
        Verify::Standard(_) => "standard",
    }
}

/// The event that a local queue's messages become.
fn event_of(program: &Program, queue: &str) -> Option<String> {
    let is_it =
        |connection: &Connection| matches!(connection, Connection::LocalQueue { queue: own, .. } if own == queue);
    let (name, _) = program.connections.iter().find(|(_, connection)| is_it(connection))?;
    program.receiving.get(name).map(|receiving| receiving.event.clone())
}

impl From<broker::Run> for Run {
    fn from(run: broker::Run) -> Self {
        let outcome = match run.outcome {
            RunOutcome::Done => Outcome::Done,
            RunOutcome::Failed => Outcome::Failed,
        };
        Self { at_ms: run.at_ms, outcome, error: run.error, message_id: run.message.map(|id| id.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::MessageId;

    const PROGRAM: &str = r#"{"format":1,"app":"a",
        "connections":{"jobs":{"driver":"local_queue","queue":"jobs","functions":["pay"],"max_receives":3,
            "visibility_ms":30000},"moves":{"driver":"local_queue","queue":"stock-moves","max_receives":3,
            "visibility_ms":30000},"kept":{"driver":"local_queue","queue":"kept","max_receives":3,
            "visibility_ms":30000}},
        "functions":{"pay":{"target":{"call":"http://127.0.0.1:9/"}},
            "Clean_Up":{"target":{"call":"http://127.0.0.1:9/"},"schedule":"0 * * * *"},
            "Nightly":{"target":{"send":"jobs"},"schedule":"0 * * * *"}},
        "webhooks":{"stripe":{"queue":"jobs","verify":{"stripe":{"env":"S"}}},"open":{"queue":"kept"}},
        "events":{"Moved":"json"},"receiving":{"moves":{"event":"Moved"}}}"#;

    fn program() -> Program {
        serde_json::from_str(PROGRAM).unwrap()
    }

    fn ran(at_ms: i64, outcome: RunOutcome) -> TriggerState {
        let run = broker::Run { at_ms, outcome, error: None, message: Some(MessageId(7)) };
        TriggerState { last_run: Some(run), ..TriggerState::default() }
    }

    #[test]
    fn every_queue_that_somebody_handles_and_every_schedule_is_a_trigger() {
        let mut states = BTreeMap::new();
        states.insert("queue:jobs".to_owned(), TriggerState { enabled: false, ..TriggerState::default() });
        states.insert("queue:schedule-clean-up".to_owned(), ran(5, RunOutcome::Failed));
        states.insert(
            "schedule:Clean_Up".to_owned(),
            TriggerState { last_occurrence_ms: Some(4), ..ran(6, RunOutcome::Done) },
        );
        states.insert("schedule:Nightly".to_owned(), TriggerState { enabled: false, ..ran(6, RunOutcome::Done) });
        let hour_ms = 3_600_000;
        let triggers = triggers(&program(), &states, hour_ms + 1);
        let names: Vec<&str> = triggers.iter().map(|trigger| trigger.name.as_str()).collect();
        assert_eq!(names, ["queue:jobs", "queue:stock-moves", "schedule:Clean_Up", "schedule:Nightly"]);
        assert_eq!((&triggers[0].functions, triggers[0].enabled), (&vec!["pay".to_owned()], false));
        assert_eq!((triggers[1].event.as_deref(), triggers[1].enabled), (Some("Moved"), true));
        let schedule = &triggers[2];
        assert_eq!((schedule.queue.as_str(), schedule.next_at_ms), ("schedule-clean-up", Some(2 * hour_ms)));
        assert_eq!((schedule.last_occurrence_ms, schedule.waits_until_ms(hour_ms + 1)), (Some(4), None));
        let last = schedule.last_run.as_ref().unwrap();
        assert_eq!((last.at_ms, last.outcome), (5, Outcome::Failed), "its queue's trigger knows how it ended");
        let sends = &triggers[3];
        assert_eq!(sends.last_run.as_ref().map(|run| run.at_ms), Some(6), "that it was sent is its run");
        assert_eq!((sends.enabled, sends.next_at_ms), (false, None), "what is disabled comes at no time");
    }

    #[test]
    fn a_queue_s_consumer_is_what_the_program_says_and_a_disabled_trigger_shows() {
        let mut states = BTreeMap::new();
        states.insert("queue:jobs".to_owned(), TriggerState { enabled: false, ..TriggerState::default() });
        let consumers = consumers(&program(), &states);
        assert_eq!(consumers.keys().collect::<Vec<_>>(), ["jobs", "schedule-clean-up", "stock-moves"]);
        assert!(!consumers["jobs"].enabled && consumers["stock-moves"].enabled);
    }

    #[test]
    fn a_webhook_s_address_holds_its_token_everywhere_but_in_dev() {
        let tokens: BTreeMap<String, String> = [("stripe".to_owned(), "t0ken".to_owned())].into();
        let paths = |mode: Option<Mode>| {
            let serving = mode.map(|mode| Serving::new(program(), mode, None, 0));
            let webhooks = webhooks(&program(), serving.as_ref(), &tokens);
            webhooks.into_iter().map(|webhook| webhook.path).collect::<Vec<_>>()
        };
        assert_eq!(paths(Some(Mode::Dev)), ["/_webhooks/open", "/_webhooks/stripe"]);
        for mode in [None, Some(Mode::Serve)] {
            assert_eq!(paths(mode), ["/_webhooks/open", "/_webhooks/stripe/t0ken"]);
        }
        assert_eq!(webhooks(&program(), None, &tokens)[1].verify.as_deref(), Some("stripe"));
    }
}
