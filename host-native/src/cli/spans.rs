//! Lengths of time and points in time, as they are typed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::host::now_ms;

/// A length of time: `30s`, `5m`, `1h 30m`, `500ms`, or a number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 30s, 5m, 2h, 4d, or seconds"))
}

/// A length of time in whole seconds.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    let duration = duration(text)?;
    if duration.subsec_nanos() > 0 {
        return Err("whole seconds are wanted".to_owned());
    }
    u32::try_from(duration.as_secs()).map_err(|_| "that is too long".to_owned())
}

/// A length of time in whole milliseconds.
pub(crate) fn millis(text: &str) -> Result<u32, String> {
    u32::try_from(duration(text)?.as_millis()).map_err(|_| "that is too long".to_owned())
}

/// A point in time, in milliseconds since 1970: a date, a date with a time in UTC, or how long ago it was.
pub(crate) fn instant(text: &str) -> Result<i64, String> {
    if let Ok(ago) = humantime::parse_duration(text) {
        return Ok(now_ms().saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)));
    }
    let day = format!("{text}T00:00:00Z");
    let at = humantime::parse_rfc3339_weak(text).or_else(|_| humantime::parse_rfc3339_weak(&day));
    let at: SystemTime = at.map_err(|_| {
        "write a time in UTC, as 2026-11-30T12:00:00Z or 2026-11-30, or how long ago it was, as 2h".to_owned()
    })?;
    let since = at.duration_since(UNIX_EPOCH).map_err(|_| "that is before 1970".to_owned())?;
    i64::try_from(since.as_millis()).map_err(|_| "that is too far away".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_with_units_and_in_seconds_without() {
        assert_eq!(seconds("30"), Ok(30));
        assert_eq!([seconds("5m"), seconds("4d"), seconds("1h 30m")], [Ok(300), Ok(345_600), Ok(5_400)]);
        assert_eq!([millis("500ms"), millis("2"), millis("1m")], [Ok(500), Ok(2_000), Ok(60_000)]);
        assert!(seconds("500ms").is_err() && seconds("-1s").is_err() && seconds("soon").is_err());
        assert!(seconds("200y").is_err() && millis("50d").is_err());
    }

    #[test]
    fn points_in_time_are_dates_or_how_long_ago_they_were() {
        let noon = 1_796_040_000_000;
        assert_eq!(instant("2026-11-30T12:00:00Z"), Ok(noon));
        assert_eq!(instant("2026-11-30 12:00:00"), Ok(noon));
        assert_eq!(instant("2026-11-30"), Ok(noon - 43_200_000));
        let ago = now_ms() - instant("2h").unwrap();
        assert!((7_200_000..7_210_000).contains(&ago), "{ago}");
        assert!(instant("yesterday").is_err() && instant("1960-01-01").is_err() && instant("").is_err());
    }
}
