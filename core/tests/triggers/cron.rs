//! Cron expressions, in UTC.

use jadpo_core::cron::Cron;
use jadpo_core::inbound::rfc3339;

fn at(text: &str) -> i64 {
    let time = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).unwrap();
    time.unix_timestamp() * 1_000
}

/// The first occurrences after a time.
fn next(expression: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(expression).unwrap();
    let mut at_ms = at(after);
    let mut found = Vec::new();
    for _ in 0..count {
        at_ms = cron.next_after(at_ms).unwrap();
        found.push(rfc3339(at_ms).replace(":00.000Z", ""));
    }
    found
}

#[test]
fn no_change_of_clocks_skips_or_repeats_an_hour() {
    // The nights in which New York's and Berlin's clocks change.
    for (day, after) in [
        ("2026-03-08", "2026-03-07T23:59:00Z"),
        ("2026-11-01", "2026-10-31T23:59:00Z"),
        ("2026-03-29", "2026-03-28T23:59:00Z"),
        ("2026-10-25", "2026-10-24T23:59:00Z"),
    ] {
        let hours: Vec<String> = (0..24).map(|hour| format!("{day}T{hour:02}:30")).collect();
        assert_eq!(next("30 * * * *", after, 24), hours);
        assert_eq!(next("30 2 * * *", after, 1), [format!("{day}T02:30")]);
    }
}

#[test]
fn the_29th_of_february_comes_in_leap_years_and_in_no_other() {
    assert_eq!(next("0 12 29 2 *", "2026-01-01T00:00:00Z", 2), ["2028-02-29T12:00", "2032-02-29T12:00"]);
    assert_eq!(next("0 0 29 2 *", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00"], "2100 is no leap year");
}

#[test]
fn lists_ranges_steps_and_names_are_read() {
    assert_eq!(
        next("*/20 9-10 * * MON", "2026-11-29T00:00:00Z", 4),
        ["2026-11-30T09:00", "2026-11-30T09:20", "2026-11-30T09:40", "2026-11-30T10:00"]
    );
    assert_eq!(next("0 0 1,15 JAN *", "2026-11-29T00:00:00Z", 2), ["2027-01-01T00:00", "2027-01-15T00:00"]);
    assert_eq!(next("0 0 L * *", "2026-02-01T00:00:00Z", 2), ["2026-02-28T00:00", "2026-03-31T00:00"]);
}

#[test]
fn the_last_occurrence_may_be_this_very_moment() {
    let cron = Cron::parse("0 * * * *").unwrap();
    let noon = at("2026-11-30T12:00:00Z");
    assert_eq!(cron.last_at(noon), Some(noon));
    assert_eq!(cron.last_at(noon - 1), Some(noon - 3_600_000));
    assert_eq!(cron.next_after(noon), Some(noon + 3_600_000));
    assert_eq!(cron.next_after(noon - 1), Some(noon));
}

#[test]
fn what_never_comes_true_is_refused_and_so_is_what_is_none() {
    for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 2 *"] {
        assert_eq!(Cron::parse(never).unwrap_err(), "no such day ever comes", "{never}");
    }
    for (text, why) in [
        ("", "a schedule has five fields, and this has 0"),
        ("* * * *", "a schedule has five fields, and this has 4"),
        ("0 * * * * *", "a schedule has five fields, and this has 6"),
        ("@daily", "a schedule has five fields, and this has 1"),
        ("60 * * * *", "number out of bounds"),
    ] {
        assert_eq!(Cron::parse(text).unwrap_err(), why);
    }
    let long = format!("{}0 * * * *", "0,".repeat(100));
    assert_eq!(Cron::parse(&long).unwrap_err(), "it has more than 200 bytes");
    for odd in
        ["5-1 * * * *", "*/0 * * * *", "a * * * *", "0 0 * * 8", "? ? ? ? ?", "0 0 0 * *", "-1 * * * *", "é * * * *"]
    {
        let _ = Cron::parse(odd); // whatever it says of it, it ends
    }
}
