//! Cron expressions of five fields, in UTC: there is no hour that a change of clocks skips or repeats.

use chrono::{DateTime, TimeZone, Utc};
use croner::parser::{CronParser, CronParserBuilder, Seconds, Year};

/// Bytes of an expression, at most.
const LEN_MAX: usize = 200;
/// Minute, hour, day of the month, month, day of the week.
const FIELDS: usize = 5;

/// When something happens.
#[derive(Debug, Clone)]
pub struct Cron(croner::Cron);

impl Cron {
    /// Reads an expression. One that never comes true, as on the 30th of February, is refused.
    ///
    /// # Errors
    /// In words that go on after "is no schedule: ".
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::of(text, CronParser::builder())
    }

    /// Reads an expression as Cloudflare does for a Worker: days of the week are 1 to 7, from Sunday.
    ///
    /// # Errors
    /// As [`Cron::parse`].
    pub fn parse_of_worker(text: &str) -> Result<Self, String> {
        Self::of(text, CronParser::builder().alternative_weekdays(true))
    }

    fn of(text: &str, parser: CronParserBuilder) -> Result<Self, String> {
        let fields = text.split_whitespace().count();
        if fields != FIELDS {
            return Err(format!("a schedule has five fields, and this has {fields}"));
        }
        if text.len() > LEN_MAX {
            return Err(format!("it has more than {LEN_MAX} bytes"));
        }
        let parser = parser.seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|error| {
            let why = error.to_string().to_lowercase();
            why.trim_start_matches("component error: ").trim_end_matches('.').to_owned()
        })?;
        if !ever_comes_true(&cron) {
            return Err("no such day ever comes".to_owned());
        }
        Ok(Self(cron))
    }

    /// The first occurrence after this time, both in milliseconds since 1970; `None` past the year 5000.
    #[must_use]
    pub fn next_after(&self, at_ms: i64) -> Option<i64> {
        let from = Utc.timestamp_millis_opt(at_ms).single()?;
        self.0.find_next_occurrence(&from, false).ok().map(|at| at.timestamp_millis())
    }

    /// The last occurrence that is not after this time, both in milliseconds since 1970.
    #[must_use]
    pub fn last_at(&self, at_ms: i64) -> Option<i64> {
        let from = Utc.timestamp_millis_opt(at_ms).single()?;
        self.0.find_previous_occurrence(&from, true).ok().map(|at| at.timestamp_millis())
    }
}

/// Searches 40 years, in which every date meets every day of the week. It searches them backwards from the year 41,
/// since that ends at the year 1, where a search forwards would go on to the year 5000.
fn ever_comes_true(cron: &croner::Cron) -> bool {
    let from: Option<DateTime<Utc>> = Utc.with_ymd_and_hms(41, 1, 1, 0, 0, 0).single();
    from.is_some_and(|from| cron.find_previous_occurrence(&from, false).is_ok())
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike, Timelike};

    use super::*;

    /// 2026-12-01T00:00:00Z, a Tuesday.
    const TUESDAY_MS: i64 = 1_796_083_200_000;

    /// Of December 2026.
    fn next(cron: &Cron) -> (u32, u32, u32) {
        let at = Utc.timestamp_millis_opt(cron.next_after(TUESDAY_MS).unwrap()).unwrap();
        assert_eq!((at.year(), at.month()), (2026, 12));
        (at.day(), at.hour(), at.minute())
    }

    #[test]
    fn a_worker_s_days_of_the_week_begin_with_sunday_as_one() {
        let of_worker = |text| next(&Cron::parse_of_worker(text).unwrap());
        assert_eq!(of_worker("0 12 * * 1"), (6, 12, 0));
        assert_eq!(of_worker("0 12 * * SUN"), (6, 12, 0));
        assert_eq!(of_worker("10 7 * * 2-6"), (1, 7, 10));
        assert_eq!(of_worker("0 18 * * 6L"), (25, 18, 0));
        assert_eq!(of_worker("0 18 * * FRIL"), (25, 18, 0));
        assert_eq!(of_worker("0 0 * * 7#2"), (12, 0, 0));
        assert_eq!(of_worker("59 23 LW * *"), (31, 23, 59));
        assert_eq!(of_worker("0 9 L * *"), (31, 9, 0));
        assert_eq!(of_worker("0 9 5W * *"), (4, 9, 0));
        assert!(Cron::parse_of_worker("0 0 * * 0").is_err() && Cron::parse_of_worker("0 0 * * 8").is_err());
        assert_eq!(next(&Cron::parse("0 12 * * 1").unwrap()), (7, 12, 0), "an app's begin with Monday");
    }
}
