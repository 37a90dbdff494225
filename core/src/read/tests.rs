use super::*;
use crate::program::{Field, PROGRAM_FORMAT};

fn program(kind: Type) -> Program {
    Program {
        format: PROGRAM_FORMAT,
        app: "warehouse".into(),
        connections: Default::default(),
        functions: Default::default(),
        webhooks: Default::default(),
        events: [("E".to_owned(), kind)].into(),
        receiving: Default::default(),
        subscribers: Default::default(),
        deployables: Default::default(),
    }
}

fn record() -> Type {
    let field = |name: &str, kind| Field { name: name.into(), kind };
    Type::Record(vec![
        field("sku", Type::Text),
        field("quantity", Type::Int),
        field("moved_at", Type::Instant),
        field("note", Type::Optional(Box::new(Type::Text))),
        field("lines", Type::Optional(Box::new(Type::List(Box::new(Type::Uuid))))),
    ])
}

/// Reads `body` and gives the key, or the reason and the detail.
fn reading(kind: Type, id: Option<&str>, body: Body) -> Result<String, String> {
    let receiving = Receiving { event: "E".into(), id: id.map(Into::into) };
    let message = Message { id: "m1".into(), sent_at_ms: 0, attempts: 1, body };
    match read(&program(kind), &receiving, &message) {
        Reading::Event { key } => Ok(key),
        Reading::Unfit { reason, detail, .. } => Err(format!("{}: {detail}", reason.as_str())),
    }
}

fn text(body: &str) -> Body {
    Body::Text(body.to_owned())
}

const GOOD: &str = r#"{"movement_id":"a-1","sku":"s","quantity":3,"moved_at":"2026-11-30T12:00:00+01:00","extra":[1]}"#;

#[test]
fn a_body_that_fits_is_the_event_under_its_own_id_or_the_message_s() {
    assert_eq!(reading(record(), None, text(GOOD)), Ok("m1".into()));
    assert_eq!(reading(record(), Some("movement_id"), text(GOOD)), Ok("a-1".into()));
    assert_eq!(reading(record(), None, Body::Json(GOOD.into())), Ok("m1".into()));
    assert_eq!(reading(record(), None, Body::Bytes(GOOD.into())), Ok("m1".into()));
}

#[test]
fn a_reason_says_which_field_and_what_was_found() {
    let body = r#"{"sku":7,"quantity":"3","moved_at":"yesterday","note":[],"lines":["x"]}"#;
    assert_eq!(
        reading(record(), None, text(body)).unwrap_err(),
        "rejected: sku: expected Text, found a number; quantity: expected Int, found text; \
         moved_at: expected Instant, found text that is none (as 2026-11-30T12:00:00Z); \
         note: expected Text, found a list; \
         lines[0]: expected Uuid, found text that is none (as 67e55044-10b1-426f-9247-bb680e5fe0c8)"
    );
    assert_eq!(
        reading(record(), None, text("{}")).unwrap_err(),
        "rejected: sku: missing, expected Text; quantity: missing, expected Int; moved_at: missing, expected Instant"
    );
    assert_eq!(
        reading(record(), None, text("[1]")).unwrap_err(),
        "rejected: the body: expected an object, found a list"
    );
}

#[test]
fn whole_numbers_have_64_bits_and_no_fraction() {
    for (number, fits) in [
        ("9223372036854775807", true),
        ("-9223372036854775808", true),
        ("9223372036854775808", false),
        ("1.0", false),
        ("1e2", false),
        ("-0", true),
    ] {
        assert_eq!(reading(Type::Int, None, text(number)).is_ok(), fits, "{number}");
    }
    assert!(reading(Type::Float, None, text("1e999")).is_err());
    assert!(reading(Type::Float, None, text("1e2")).is_ok());
}

#[test]
fn an_id_is_text_or_a_whole_number_and_two_ids_never_share_a_key() {
    let key = |id: &str| reading(Type::Json, Some("id"), Body::Text(format!(r#"{{"id":{id}}}"#)));
    assert_eq!(key("17"), Ok("17".into()));
    assert_eq!(key("12345678901234567890123"), Ok("12345678901234567890123".into()));
    assert!(key("1.5").is_err() && key("null").is_err() && key("{}").is_err() && key("\"\"").is_err());
    assert_eq!(
        key(r#""\ud800""#).unwrap_err(),
        "rejected: id: expected an id, found text with half of a surrogate pair"
    );
    assert_ne!(key(r#""a\u0000b""#), key(r#""a\u0000c""#));
    assert_ne!(key_of(&"x".repeat(300)), key_of(&"x".repeat(301)));
    assert_ne!(key_of(&key_of("a\0")), key_of("a\0"), "an id in the form of a hashed one is hashed itself");
    assert_eq!(
        reading(Type::Json, Some("id"), text("[]")).unwrap_err(),
        "rejected: id: missing, since the body is a list and has no fields"
    );
}

#[test]
fn bytes_that_are_not_utf_8_are_unreadable_unless_the_event_is_bytes() {
    let bytes = || Body::Bytes(vec![0, 0x80, 0xff]);
    assert_eq!(
        reading(record(), None, bytes()).unwrap_err(),
        "unreadable: the body is not UTF-8: byte 0x80 at offset 1"
    );
    assert!(reading(Type::Text, None, bytes()).is_err());
    assert_eq!(reading(Type::Bytes, None, bytes()), Ok("m1".into()));
    assert_eq!(reading(Type::Bytes, None, Body::Bytes(vec![])), Ok("m1".into()));
}

#[test]
fn one_bom_is_skipped_and_a_second_is_not() {
    assert!(reading(record(), None, text(&format!("\u{feff}{GOOD}"))).is_ok());
    assert!(reading(record(), None, text(&format!("\u{feff}\u{feff}{GOOD}"))).is_err());
}

#[test]
fn deep_nesting_is_read_to_a_thousand_levels_and_never_by_recursion() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(reading(Type::Json, None, text(&nested(200))).is_ok());
    assert!(reading(Type::Json, None, text(&nested(1000))).is_ok());
    assert_eq!(
        reading(Type::Json, None, text(&nested(60_000))).unwrap_err(),
        "unreadable: the body is nested 60000 levels deep; 1000 are allowed"
    );
    assert!(reading(Type::Json, None, text(&"[".repeat(60_000))).unwrap_err().contains("not JSON"));
    assert!(reading(Type::Json, None, text(r#"["[[[[\"[[[",{"a":"]"}]"#)).is_ok());
}

#[test]
fn every_scalar_is_a_whole_body_where_the_event_is_json() {
    for body in ["{}", "[]", "0", "-0", "false", "true", "null", "\"\"", "\" \"", "\"{\\\"a\\\":1}\"", "[null]", "1e2"]
    {
        assert!(reading(Type::Json, None, text(body)).is_ok(), "{body}");
    }
    assert!(reading(Type::Json, None, text("")).unwrap_err().starts_with("unreadable: the body is empty"));
    assert!(reading(Type::Json, None, text("hello")).unwrap_err().starts_with("unreadable: the body is not JSON"));
}

#[test]
fn a_whole_body_of_text_needs_no_json_and_takes_no_other_value() {
    assert!(reading(Type::Text, None, text("hello")).is_ok());
    assert!(reading(Type::Text, None, text("")).is_ok());
    assert_eq!(
        reading(Type::Text, None, Body::Json("5".into())).unwrap_err(),
        "rejected: the body: expected Text, found a number"
    );
}

#[test]
fn half_a_surrogate_pair_in_a_text_body_does_no_harm() {
    assert!(reading(Type::Json, None, text(r#"{"\ud800":1,"a":"\udfff"}"#)).is_ok());
    assert!(reading(record(), Some("movement_id"), text(&GOOD.replace("\"s\"", r#""\ud83d""#))).is_ok());
}

#[test]
fn of_two_fields_of_one_name_the_last_counts() {
    let body = GOOD.replacen("\"quantity\":3", "\"quantity\":\"x\",\"quant\\u0069ty\":3", 1);
    assert!(reading(record(), None, text(&body)).is_ok());
}

#[test]
fn an_event_s_id_depends_on_app_connection_and_key_and_on_nothing_else() {
    assert_eq!(event_id("a", "b", "c"), event_id("a", "b", "c"));
    assert_ne!(event_id("a", "bc", ""), event_id("ab", "c", ""));
    assert_eq!(event_id("a", "b", "c").len(), 36);
}
