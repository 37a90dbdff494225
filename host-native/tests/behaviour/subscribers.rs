//! Subscribers over real HTTP that do what a scenario says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use jadpo_host_test::scenario::{Does, SeenCall, Subscribing};

use crate::support::{Answer, Call, Function};

#[derive(Default)]
struct Script {
    next: VecDeque<Does>,
    then: Option<Does>,
    only: Option<String>,
}

struct Subscriber {
    script: Arc<Mutex<Script>>,
    function: Function,
    calls: Vec<Call>,
}

/// Every subscriber of an app, each at an address of its own.
#[derive(Default)]
pub(crate) struct Subscribers(BTreeMap<String, Subscriber>);

impl Subscribers {
    /// The app's text with `https://NAME.example.com` as the address of the subscriber NAME on this machine.
    pub(crate) fn reached_by(&mut self, app: &str) -> String {
        let mut text = app.to_owned();
        while let Some((before, after)) = text.split_once("https://") {
            let (name, path) = after.split_once(".example.com").expect("every address is https://NAME.example.com");
            let subscriber = self.0.entry(name.to_owned()).or_insert_with(Subscriber::start);
            let address = subscriber.function.url.trim_end_matches("/handle");
            text = format!("{before}{address}{path}");
        }
        text
    }

    pub(crate) fn does(&mut self, does: &Subscribing) {
        let subscriber = self.0.get(&does.name).unwrap_or_else(|| panic!("the app has no subscriber {}", does.name));
        let next = does.answers.iter().cloned().collect();
        *subscriber.script.lock().unwrap() = Script { next, then: does.then.clone(), only: does.only.clone() };
    }

    /// Every call so far.
    pub(crate) fn calls(&mut self) -> Vec<SeenCall> {
        let seen = |name: &String, call: &Call| SeenCall {
            to: name.clone(),
            headers: call.head.lines().filter_map(|line| line.split_once(": ")).map(header).collect(),
            body: String::from_utf8_lossy(&call.body).into_owned(),
        };
        let mut all = Vec::new();
        for (name, subscriber) in &mut self.0 {
            subscriber.calls.extend(subscriber.function.calls());
            all.extend(subscriber.calls.iter().map(|call| seen(name, call)));
        }
        all
    }
}

fn header((name, value): (&str, &str)) -> (String, String) {
    (name.to_lowercase(), value.to_owned())
}

impl Subscriber {
    fn start() -> Self {
        let script = Arc::<Mutex<Script>>::default();
        let own = script.clone();
        let function = Function::with(move |call| {
            let mut script = own.lock().unwrap();
            if script.only.as_ref().is_some_and(|text| !String::from_utf8_lossy(&call.body).contains(text)) {
                return Answer::Status(200);
            }
            match script.next.pop_front().or_else(|| script.then.clone()).unwrap_or(Does::Answers(200)) {
                Does::Answers(status) => Answer::Status(status),
                Does::AnswersAfter(status, after) => Answer::Bytes(
                    format!(
                        "HTTP/1.1 {status} X\r\nretry-after: {after}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    )
                    .into_bytes(),
                ),
                Does::Hangs => Answer::Bytes(Vec::new()),
                Does::Closes => Answer::Close,
            }
        });
        Self { script, function, calls: Vec::new() }
    }
}
