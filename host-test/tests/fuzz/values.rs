//! Bodies of messages against their events.

use jadpo_core::app::compile;
use jadpo_core::program::Program;
use jadpo_core::queue::{Body, Message};
use jadpo_core::read::{Reading, read};

use crate::document::fuzz;

const APP: &str = r#"
app: "shop"
connections: {
    a: { driver: Driver.local_queue, queue: "a" }
    b: { driver: Driver.local_queue, queue: "b" }
    c: { driver: Driver.local_queue, queue: "c" }
    d: { driver: Driver.local_queue, queue: "d" }
}
events: {
    Full: { id: Text, n: Int, f: Float, b: Bool, at: Instant, who: Uuid, any: Json, maybe: Text?, many: [Int] }
    Any: Json
    Written: Text
    Dropped: Bytes
}
receiving: { a: { event: Full, id: "id" }, b: { event: Any }, c: { event: Written }, d: { event: Dropped } }
"#;

fn program() -> Program {
    let compiled = compile(APP);
    compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.problems))
}

#[test]
fn message() {
    let program = program();
    fuzz("message", move |bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        for body in [Body::Bytes(bytes.to_vec()), Body::Text(text.clone()), Body::Json(text.clone())] {
            let message = Message {
                id: format!("m{}", text.chars().take(40).collect::<String>()),
                sent_at_ms: 0,
                attempts: 1,
                body,
            };
            for receiving in program.receiving.values() {
                match read(&program, receiving, &message) {
                    Reading::Event { key } => assert!(!key.is_empty() && key.len() <= 1_000, "{key:?}"),
                    Reading::Unfit { detail, .. } => assert!(!detail.is_empty() && detail.len() < 2_000, "{detail}"),
                }
            }
        }
        // JSON is read as serde_json reads it, as far as that goes: it gives up past 128 levels.
        let deep = bytes.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > 100;
        let message = Message { id: "m".into(), sent_at_ms: 0, attempts: 1, body: Body::Text(text.clone()) };
        let ours = matches!(read(&program, &program.receiving["b"], &message), Reading::Event { .. });
        let theirs = serde_json::from_str::<&serde_json::value::RawValue>(text.trim_start_matches('\u{feff}'));
        if !deep && !text.starts_with("\u{feff}\u{feff}") {
            assert_eq!(ours, theirs.is_ok(), "{theirs:?}");
        }
    });
}
