use jadpo_core::app::{Code, Compiled, compile, project};

/// A file in which this code is found. The match is whole, so a new code comes with its file.
fn file_with(code: Code) -> String {
    const PUSHED: &str =
        "connections: { c: { driver: Driver.cloudflare_queues, queue: \"q\", dead_letter_queue: \"d\" } }\n";
    let body = match code {
        Code::FileTooLarge => " ".repeat(1024 * 1024 + 1),
        Code::FileTooMany => format!("events: {{{}}}", (0..1_001).map(|n| format!("E{n}: Json,")).collect::<String>()),
        Code::SyntaxUnexpected => "events: { = }".to_owned(),
        Code::SyntaxValueMissing => "events:".to_owned(),
        Code::SyntaxUnclosed => "events: {".to_owned(),
        Code::SyntaxTextInvalid => "functions: \"".to_owned(),
        Code::SyntaxNumberInvalid => "functions: 1.5".to_owned(),
        Code::SyntaxNameInvalid => "events: { a-b: Json }".to_owned(),
        Code::SyntaxKeyTwice => "events: { A: Json, A: Json }".to_owned(),
        Code::SyntaxTooDeep => format!("events: {}{}", "[".repeat(70), "]".repeat(70)),
        Code::AppKeyMissing => return "events: {}".to_owned(),
        Code::AppKeyInvalid => "queues: { jobs: {} }".to_owned(),
        Code::AppValueInvalid => return "app: \"A\"".to_owned(),
        Code::ConnectionKeyMissing => "connections: { c: {} }".to_owned(),
        Code::ConnectionKeyInvalid => {
            "connections: { c: { driver: Driver.local_queue, queue: \"q\", x: 1 } }".to_owned()
        }
        Code::ConnectionValueInvalid => "connections: { c: { driver: Driver.local_queue, queue: \"Q\" } }".to_owned(),
        Code::ConnectionNameUnknown => "connections: { c: { driver: Driver.x } }".to_owned(),
        Code::FunctionKeyMissing => "functions: { f: {} }".to_owned(),
        Code::FunctionKeyInvalid => "functions: { f: { run: f, x: 1 } }".to_owned(),
        Code::FunctionValueInvalid => "functions: { f: { run: 1 } }".to_owned(),
        Code::WebhookKeyMissing => "webhooks: { w: {} }".to_owned(),
        Code::WebhookKeyInvalid => "webhooks: { w: { x: 1 } }".to_owned(),
        Code::WebhookValueInvalid => "webhooks: { w: { queue: 1 } }".to_owned(),
        Code::WebhookNameUnknown => "webhooks: { w: { queue: \"q\" } }".to_owned(),
        Code::EventValueInvalid => "events: { E: 1 }".to_owned(),
        Code::EventNameUnknown => "events: { E: Foo }".to_owned(),
        Code::ReceivingKeyMissing => format!("{PUSHED}receiving: {{ c: {{}} }}"),
        Code::ReceivingKeyInvalid => format!("{PUSHED}receiving: {{ c: {{ x: 1 }} }}"),
        Code::ReceivingValueInvalid => format!("{PUSHED}receiving: {{ c: {{ event: 1 }} }}"),
        Code::ReceivingNameUnknown => "receiving: { c: { event: E } }".to_owned(),
        Code::SubscriberKeyMissing => "subscribers: { s: {} }".to_owned(),
        Code::SubscriberKeyInvalid => "subscribers: { s: { x: 1 } }".to_owned(),
        Code::SubscriberValueInvalid => "subscribers: { s: { on: 1 } }".to_owned(),
        Code::SubscriberNameUnknown => "subscribers: { s: { on: E } }".to_owned(),
        Code::DeployableKeyMissing => "deployables: { d: {} }".to_owned(),
        Code::DeployableKeyInvalid => "deployables: { d: { x: 1 } }".to_owned(),
        Code::DeployableValueInvalid => "deployables: { d: { triggers: [] } }".to_owned(),
        Code::DeployableNameUnknown => "deployables: { d: { target: Target.x } }".to_owned(),
        Code::TargetDriverRefused => {
            format!("{PUSHED}deployables: {{ d: {{ target: Target.native, triggers: [Trigger.subscribers] }} }}")
        }
        Code::TargetSubscriberRefused => "events: { E: Json }\nsubscribers: { s: { on: E, service: \"w\" } }\n\
             deployables: { d: { target: Target.native, triggers: [Trigger.subscribers] } }"
            .to_owned(),
        Code::TargetConsumerTwice => {
            let deployable = "{ target: Target.workers, triggers: [Trigger.subscribers] }";
            format!("{PUSHED}deployables: {{ d: {deployable}, e: {deployable} }}")
        }
        Code::TargetNameRefused => {
            let deployable = "{ target: Target.workers, triggers: [Trigger.http] }";
            format!("deployables: {{ d: {deployable}, D: {deployable} }}")
        }
        Code::SyntaxTomlInvalid
        | Code::ProjectKeyInvalid
        | Code::ProjectValueInvalid
        | Code::QueueKeyMissing
        | Code::QueueKeyInvalid
        | Code::QueueValueInvalid
        | Code::QueueNameUnknown
        | Code::DevKeyInvalid
        | Code::DevValueInvalid => unreachable!("{code} is of a project's files"),
        Code::NoteBlockSkipped => "entities: {}".to_owned(),
        Code::NoteUnused => "events: { E: Json }".to_owned(),
        Code::NoteUnreachable => {
            "deployables: { d: { target: Target.workers, triggers: [Trigger.subscribers] } }".to_owned()
        }
        Code::NotePlainHttp => "events: { E: Json }\n\
             subscribers: { s: { on: E, call: \"http://example.com\", secret: env(\"S\") } }"
            .to_owned(),
    };
    format!("app: \"a\"\n{body}")
}

/// A project.toml and a dev.toml in which this code is found, if it is one of theirs.
fn project_with(code: Code) -> Option<(&'static str, &'static str)> {
    Some(match code {
        Code::SyntaxTomlInvalid => ("a = ", ""),
        Code::ProjectKeyInvalid => ("a = 1", ""),
        Code::ProjectValueInvalid => ("name = 1", ""),
        Code::QueueKeyMissing => ("[[queues]]", ""),
        Code::QueueKeyInvalid => ("[[queues]]\nname = \"q\"\nx = 1", ""),
        Code::QueueValueInvalid => ("[[queues]]\nname = 1", ""),
        Code::QueueNameUnknown => ("[[queues]]\nname = \"q\"\nfunctions = [\"f\"]", ""),
        Code::DevKeyInvalid => ("", "[dev]\nx = 1"),
        Code::DevValueInvalid => ("", "[dev]\nqueues = 1"),
        _ => return None,
    })
}

/// What is found in the file for a code.
fn found_for(code: Code) -> Compiled {
    let Some((project, dev)) = project_with(code) else { return compile(&file_with(code)) };
    let mut found = project::compile(project, Some(dev));
    found.project.problems.extend(found.dev.into_iter().flat_map(|dev| dev.problems));
    found.project
}

#[test]
fn every_code_is_found_where_it_belongs() {
    for code in Code::ALL {
        let compiled = found_for(*code);
        let problems = compiled.problems.iter().map(|found| found.code);
        let mut found = problems.chain(compiled.notes.iter().map(|found| found.code));
        assert!(found.any(|found| found == *code), "{code}: {compiled:?}");
    }
}

#[test]
fn every_code_has_its_own_text_and_is_explained() {
    let mut texts: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    texts.sort_unstable();
    let count = texts.len();
    texts.dedup();
    assert_eq!(texts.len(), count);
    for code in Code::ALL {
        assert_eq!(Code::find(code.as_str()), Some(*code));
        assert!(code.explanation().ends_with('.'), "{code}");
    }
    assert_eq!(Code::find("nothing.of_this_name"), None);
}

#[test]
fn every_problem_says_what_to_write_instead() {
    for code in Code::ALL {
        for found in found_for(*code).problems {
            assert!(found.help.is_some_and(|help| !help.is_empty()), "{}: {}", found.code, found.message);
        }
    }
}
