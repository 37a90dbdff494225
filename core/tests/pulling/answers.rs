//! What a server's answers mean, be they good, bad or none of the API's.

use jadpo_core::pulling::{Answer, Found, Kind, Trouble, found, pulled, settled};
use proptest::prelude::*;
use serde_json::json;

use crate::{NOW_MS, answer, source};

fn trouble(status: u16, retry_after: Option<&str>, body: &str) -> Trouble {
    pulled(&Answer { status, retry_after, body: body.as_bytes() }, NOW_MS).unwrap_err()
}

#[test]
fn a_status_says_what_kind_of_trouble_it_is() {
    for (status, kind) in [
        (400, Kind::Refused),
        (401, Kind::Token),
        (403, Kind::Token),
        (404, Kind::NoQueue),
        (405, Kind::Refused),
        (408, Kind::Failed),
        (409, Kind::Paused),
        (413, Kind::Refused),
        (429, Kind::Busy),
        (500, Kind::Failed),
        (502, Kind::Failed),
        (503, Kind::Failed),
        (524, Kind::Failed),
        (302, Kind::Redirected),
        (199, Kind::Refused),
    ] {
        assert_eq!(trouble(status, None, "").kind, kind, "{status}");
    }
}

#[test]
fn how_long_to_stay_away_is_read_in_seconds_or_as_a_date() {
    assert_eq!(trouble(429, Some("7"), "").after_s, Some(7));
    assert_eq!(trouble(429, None, "").after_s, None);
    assert_eq!(trouble(429, Some("soon"), "").after_s, None);
    let busy = trouble(503, Some("3"), "");
    assert_eq!((busy.kind, busy.after_s), (Kind::Busy, Some(3)));
    // NOW_MS is 2026-11-30T00:53:20Z.
    assert_eq!(trouble(429, Some("Mon, 30 Nov 2026 00:53:30 GMT"), "").after_s, Some(10));
    assert_eq!(trouble(429, Some("Mon, 30 Nov 2020 00:53:30 GMT"), "").after_s, Some(0));
    assert_eq!(trouble(429, Some("99999999999999999999"), "").after_s, Some(86_400), "a day at most");
}

#[test]
fn what_the_server_says_is_told_on_one_line_and_no_token_is() {
    let body =
        json!({ "success": false, "errors": [{ "code": 10000, "message": "Authentication\nerror" }], "result": null });
    let refused = trouble(401, None, &body.to_string());
    assert_eq!(refused.words, "answered 401: Authentication error [10000]");
    let told = source().in_words(&refused);
    assert!(told.starts_with("api.cloudflare.com refuses the environment variable TOKEN (answered 401"), "{told}");
    let long = json!({ "errors": [{ "message": "x".repeat(10_000) }] }).to_string();
    assert!(trouble(400, None, &long).words.len() < 300);
    assert_eq!(trouble(500, None, "<html>").words, "answered 500");
    assert!(trouble(301, None, "").words.contains("redirects are not followed"));
    let echoed = Trouble::failed("the token s3cret is bad").without("s3cret");
    assert_eq!(echoed.words, "the token [the token] is bad");
}

#[test]
fn a_success_that_is_none_is_no_success() {
    let refused = trouble(200, None, r#"{"success":false,"errors":[{"code":10250,"message":"overloaded"}]}"#);
    assert_eq!((refused.kind, refused.words.as_str()), (Kind::Refused, "answered 200: overloaded [10250]"));
    for body in ["", "<html>", "{", "null", "[]", "{}", r#"{"success":true}"#, r#"{"success":true,"result":null}"#] {
        assert_eq!(trouble(200, None, body).kind, Kind::Failed, "{body}");
    }
    assert_eq!(trouble(200, None, r#"{"success":true,"result":{"messages":{}}}"#).kind, Kind::Failed);
    assert_eq!(
        pulled(&Answer { status: 200, retry_after: None, body: b"{\"success\":\xff}" }, 0).unwrap_err().kind,
        Kind::Failed
    );
}

#[test]
fn half_an_answer_is_none() {
    let whole =
        json!({ "success": true, "result": { "messages": [{ "id": "m", "lease_id": "l", "body": "x" }] } }).to_string();
    assert_eq!(pulled(&answer(200, &whole), NOW_MS).unwrap().lent.len(), 1);
    for end in 0..whole.len() {
        assert_eq!(trouble(200, None, &whole[..end]).kind, Kind::Failed, "{end}");
    }
}

#[test]
fn an_empty_queue_and_a_sparing_server_give_nothing_and_that_is_no_trouble() {
    for result in [json!({ "messages": [] }), json!({}), json!({ "messages": null, "message_backlog_count": 3 })] {
        let body = json!({ "success": true, "result": result }).to_string();
        assert_eq!(pulled(&answer(200, &body), NOW_MS).unwrap().lent.len(), 0);
    }
}

#[test]
fn an_answer_to_a_settle_counts_by_its_success_and_its_warnings_are_told() {
    let body = json!({ "success": true, "result": { "ackCount": 1, "retryCount": 0, "warnings": { "l": "expired" } } });
    assert_eq!(settled(&answer(200, &body.to_string()), NOW_MS).unwrap().warnings["l"], "expired");
    for body in
        [r#"{"success":true}"#, r#"{"success":true,"result":5}"#, r#"{"success":true,"result":{"ackCount":-1}}"#]
    {
        assert_eq!(settled(&answer(200, body), NOW_MS).unwrap().warnings.len(), 0, "{body}");
    }
    assert_eq!(settled(&answer(200, "garbage"), NOW_MS).unwrap_err().kind, Kind::Failed);
}

#[test]
fn a_queue_is_found_by_its_whole_name_over_all_pages() {
    let page = |names: &[&str], info: serde_json::Value| {
        let queues: Vec<_> =
            names.iter().map(|name| json!({ "queue_name": name, "queue_id": format!("id-{name}") })).collect();
        json!({ "success": true, "result": queues, "result_info": info }).to_string()
    };
    let find = |body: &str, number| found(&answer(200, body), "jobs", number, NOW_MS);
    assert_eq!(find(&page(&["jobs-dead", "jobs"], json!(null)), 1), Ok(Found::Id("id-jobs".to_owned())));
    assert_eq!(find(&page(&["jobs-dead"], json!({ "page": 1, "total_pages": 2 })), 1), Ok(Found::More));
    assert_eq!(find(&page(&["jobs-dead"], json!({ "page": 2, "total_pages": 2 })), 2), Ok(Found::Nowhere));
    assert_eq!(find(&page(&["a"], json!({ "per_page": 1, "total_count": 2 })), 1), Ok(Found::More));
    assert_eq!(find(&page(&[], json!({ "total_pages": 9 })), 1), Ok(Found::Nowhere), "an empty page is the last");
    assert_eq!(find(&page(&["a"], json!({ "total_pages": u64::MAX })), 500), Ok(Found::Nowhere), "not for ever");
    let odd = r#"{"success":true,"result":[{"queue_name":"jobs","queue_id":"../x"}]}"#;
    assert_eq!(find(odd, 1).unwrap_err().kind, Kind::Failed);
    assert_eq!(find(r#"{"success":true,"result":{}}"#, 1).unwrap_err().kind, Kind::Failed);
}

proptest! {
    #[test]
    fn no_answer_makes_a_panic(status in 0..1_000_u16, retry_after in "\\PC{0,20}", body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let answer = Answer { status, retry_after: Some(&retry_after), body: &body };
        let _ = (pulled(&answer, NOW_MS), settled(&answer, NOW_MS), found(&answer, "jobs", 1, NOW_MS));
    }

    #[test]
    fn nor_does_a_whole_answer_of_which_a_byte_is_another(place in 0..300_usize, byte in any::<u8>()) {
        let metadata = json!({ "CF-Content-Type": "json" });
        let message = json!({ "id": "m", "lease_id": "l", "body": "e30=", "attempts": 1, "timestamp_ms": 5, "metadata": metadata });
        let mut body = json!({ "success": true, "errors": [], "result": { "messages": [message] } }).to_string().into_bytes();
        let place = place % body.len();
        body[place] = byte;
        let answer = Answer { status: 200, retry_after: None, body: &body };
        let _ = (pulled(&answer, NOW_MS), settled(&answer, NOW_MS), found(&answer, "jobs", 1, NOW_MS));
    }
}

#[test]
fn deep_nesting_is_no_way_to_the_end_of_the_stack() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        for body in [
            deep.clone(),
            format!(r#"{{"success":true,"result":{deep}}}"#),
            format!(
                r#"{{"success":true,"result":{{"messages":[{{"id":"m","lease_id":"l","metadata":{deep},"body":"x"}}]}}}}"#
            ),
            format!(r#"{{"success":true,"result":{{"messages":[{{"id":"m","lease_id":"l","body":{deep}}}]}}}}"#),
            format!(r#"{{"success":false,"errors":{deep}}}"#),
        ] {
            let answer = answer(200, &body);
            let _ = (pulled(&answer, NOW_MS), settled(&answer, NOW_MS), found(&answer, "jobs", 1, NOW_MS));
        }
    }
}
