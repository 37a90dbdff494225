//! Recorded HTTP: answers that a subscriber really gave, played back.

use std::path::Path;

use crate::Reply;

/// Answers of a real server, in the order they came.
///
/// A recording is what `curl -i` prints, one answer after another; a line that begins with `###` stands between them
/// and may say anything. So `curl -i -X POST https://ledger.example.com/events -d … >> ledger.http` makes one.
///
/// ```
/// use jadpo_host_test::{Recording, TestApp, text};
///
/// let busy = Recording::of("HTTP/1.1 429 Too Many Requests\nRetry-After: 120\n\nslow down");
/// let app = TestApp::load("apps/warehouse/app.jadpo");
/// app.host.set_env("LEDGER_SECRET", "whsec_bm90LWEtcmVhbC1zZWNyZXQ=");
/// app.host.subscriber("reorder").plays(&busy);
/// app.send("warehouse-events", text(r#"{"movement_id":"m1","sku":"A-1","quantity":3,"moved_at":"2026-11-30T12:00:00Z"}"#));
/// app.run_until_idle();
/// let calls = app.host.calls_to("reorder");
/// assert!(calls[1].at_ms - calls[0].at_ms >= 120_000);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    answers: Vec<Reply>,
}

impl Recording {
    /// The recording in a file.
    ///
    /// # Panics
    /// When the file cannot be read or is none.
    #[must_use]
    pub fn read(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        parse(&String::from_utf8_lossy(&text)).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    }

    /// The recording in a text.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn of(text: &str) -> Self {
        parse(text).unwrap_or_else(|why| panic!("the recording: {why}"))
    }

    /// What the subscriber does, call by call.
    #[must_use]
    pub fn replies(&self) -> &[Reply] {
        &self.answers
    }
}

/// Where in an answer a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Before,
    Head,
    Body,
}

/// An answer that is being read.
#[derive(Default)]
struct Answer {
    status: u16,
    retry_after: Option<String>,
}

fn parse(text: &str) -> Result<Recording, String> {
    let (mut answers, mut part) = (Vec::new(), Part::Before);
    let mut answer = Answer::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end();
        let wrong = |what: &str| format!("line {}: {what}: {line:?}", at + 1);
        if line.starts_with("###") {
            answers.extend(reply(std::mem::take(&mut answer)));
            part = Part::Before;
        } else if let Some(rest) = line.strip_prefix("HTTP/").filter(|_| part != Part::Head) {
            // curl prints an interim answer, such as 100, before the one that counts; the next answer may follow at once.
            answers.extend(reply(std::mem::take(&mut answer)));
            let status = rest.split(' ').nth(1).and_then(|status| status.parse().ok());
            let status = status.filter(|status| (100..600).contains(status));
            answer.status = status.ok_or_else(|| wrong("no status line, as HTTP/1.1 200 OK"))?;
            part = Part::Head;
        } else if part == Part::Before && !line.is_empty() {
            return Err(wrong("an answer begins with its status line, as HTTP/1.1 200 OK"));
        } else if part == Part::Head && line.is_empty() {
            part = Part::Body;
        } else if part == Part::Head {
            let (name, value) = line.split_once(':').ok_or_else(|| wrong("no header, as Retry-After: 120"))?;
            if name.eq_ignore_ascii_case("retry-after") {
                answer.retry_after = Some(value.trim().to_owned());
            }
        }
    }
    answers.extend(reply(answer));
    if answers.is_empty() { Err("there is no answer in it".to_owned()) } else { Ok(Recording { answers }) }
}

/// The reply that an answer comes to; an interim one is none.
fn reply(Answer { status, retry_after }: Answer) -> Option<Reply> {
    match (status, retry_after) {
        (0..200, _) => None,
        (status, Some(after)) => Some(Reply::RetryAfter(status, after)),
        (status, None) => Some(Reply::Status(status)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_curl_prints_is_a_recording() {
        let printed = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain\r\n\
            Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n\r\nbusy\r\n\r\nstill busy\r\n### the next day\r\n\
            HTTP/2 204 \r\nserver: x\r\n\r\n";
        let after = "Wed, 21 Oct 2026 07:28:00 GMT".to_owned();
        assert_eq!(Recording::of(printed).replies(), [Reply::RetryAfter(429, after), Reply::Status(204)]);
    }

    #[test]
    fn what_is_no_recording_is_told_with_its_line() {
        for (text, why) in [
            ("", "there is no answer in it"),
            ("### nothing\n", "there is no answer in it"),
            ("busy", "line 1: an answer begins with its status line, as HTTP/1.1 200 OK: \"busy\""),
            ("HTTP/1.1 999 X\n\n", "line 1: no status line, as HTTP/1.1 200 OK: \"HTTP/1.1 999 X\""),
            ("HTTP/1.1 200 OK\nserver\n", "line 2: no header, as Retry-After: 120: \"server\""),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()), "{text:?}");
        }
    }
}
