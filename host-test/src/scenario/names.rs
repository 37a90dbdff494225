//! The names in a scenario are those of its app: a misspelled one would see nothing on any host, and hold.

use std::collections::BTreeSet;

use jadpo_core::program::Program;

use super::{Answered, Answers, Scenario, Step};
use crate::known::{callees, queues, unknown};
use crate::load::built;

/// The names that are there, of the app and of what is deployed over it.
#[derive(Default)]
struct There {
    callees: BTreeSet<String>,
    queues: BTreeSet<String>,
    webhooks: BTreeSet<String>,
}

impl There {
    fn add(&mut self, program: &Program) {
        self.callees.extend(callees(program));
        self.queues.extend(queues(program));
        self.webhooks.extend(program.webhooks.keys().cloned());
    }
}

/// The first name that is none, in words.
pub(super) fn wrong(scenario: &Scenario) -> Option<String> {
    let mut there = There::default();
    there.add(&built(&scenario.app, None).program);
    scenario.steps.iter().find_map(|step| {
        if let Step::Deploy(app) = step {
            there.add(&built(app, None).program);
        }
        wrong_in(step, &there)
    })
}

fn all_go_back(answers: &Answers) -> bool {
    let goes_back = |answer: &Answered| matches!(answer, Answered::Retry(_));
    match answers {
        Answers::All(answer) => goes_back(answer),
        Answers::Each(answers) => !answers.is_empty() && answers.iter().all(goes_back),
    }
}

fn wrong_in(step: &Step, there: &There) -> Option<String> {
    let callee = |name: &String| (!there.callees.contains(name)).then(|| ("subscriber or function", name.clone()));
    let queue = |name: &String| (!there.queues.contains(name)).then(|| ("queue", name.clone()));
    let webhook = |name: &String| (!there.webhooks.contains(name)).then(|| ("webhook", name.clone()));
    let (what, name) = match step {
        Step::Subscriber(does) => callee(&does.name),
        // What nobody receives goes back, all of it.
        Step::HandOver(batch) if !all_go_back(&batch.answers) => queue(&batch.queue),
        // What is not there is answered so.
        Step::Send(send) if send.status != Some(404) => {
            send.queue.as_ref().and_then(queue).or_else(|| send.webhook.as_ref().and_then(webhook))
        }
        Step::Redrive(redrive) => queue(&redrive.queue),
        Step::Purge(purge) => queue(&purge.queue),
        Step::See(seen) => seen.iter().find_map(|(what, expected)| {
            let mut names = expected.as_object().into_iter().flat_map(|names| names.keys());
            match what.as_str() {
                "calls" => names.find_map(callee),
                "queues" => names.find_map(queue),
                "events" | "parked" | "deliveries" | "log" | "log_without" | "bodies" => None,
                what => Some(("way to look at", what.to_owned())),
            }
        }),
        _ => None,
    }?;
    let names = match what {
        "queue" => &there.queues,
        "webhook" => &there.webhooks,
        "way to look at" => return Some(format!("{name} is nothing that can be seen")),
        _ => &there.callees,
    };
    Some(unknown(what, &name, names))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const APP: &str = r#"
        app: "office"
        connections: { jobs: { driver: Driver.local_queue, queue: "jobs", functions: [ledger] } }
        functions: { ledger: { call: "https://ledger.example.com/" } }
        webhooks: { plain: { queue: "jobs" } }
        "#;

    /// What is wrong with the names of a step, written as in a file.
    fn told(step: &str) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Steps {
            steps: Vec<Step>,
        }
        let Steps { steps } = toml::from_str(&format!("steps = [{{ {step} }}]")).unwrap();
        let (env, not_on) = (BTreeMap::new(), BTreeMap::new());
        let (file, says) = ("f".to_owned(), "s".to_owned());
        wrong(&Scenario { file, says, app: APP.to_owned(), env, immediate: false, not_on, steps, written: Vec::new() })
    }

    #[test]
    fn a_name_that_the_app_has_not_is_told_wherever_a_scenario_has_it() {
        for right in [
            r#"subscriber = { name = "ledger", then = 500 }"#,
            r#"send = { queue = "jobs", message = { id = "m", text = "x" } }"#,
            r#"send = { queue = "surprise", message = { id = "m", text = "x" }, status = 404 }"#,
            r#"hand_over = { queue = "surprise", messages = [{ id = "m", text = "x" }], answers = [10] }"#,
            r#"see = { calls = { ledger = 1 }, queues = { jobs-dead = { messages = 0 } } }"#,
        ] {
            assert_eq!(told(right), None, "{right}");
        }
        for (wrong, what) in [
            (
                r#"subscriber = { name = "leger", then = 500 }"#,
                "no subscriber or function `leger`; did you mean `ledger`?",
            ),
            (r#"send = { queue = "job", message = { id = "m", text = "x" } }"#, "no queue `job`; did you mean `jobs`?"),
            (
                r#"send = { webhook = "plan", message = { id = "m", text = "x" } }"#,
                "no webhook `plan`; did you mean `plain`?",
            ),
            (r#"hand_over = { queue = "job", messages = [], answers = "ack" }"#, "no queue `job`"),
            (r#"redrive = { queue = "job", moved = 1 }"#, "no queue `job`"),
            (r#"see = { calls = { leger = 0 } }"#, "no subscriber or function `leger`"),
            (r#"see = { queues = { job = { messages = 0 } } }"#, "no queue `job`"),
            (r#"see = { event = 0 }"#, "event is nothing that can be seen"),
        ] {
            let told = told(wrong).unwrap_or_default();
            assert!(told.contains(what), "{wrong}: {told}");
        }
    }
}
