//! Cron expressions of five fields, in UTC: there is no hour that a change of clocks skips or repeats.

use chrono::{DateTime, TimeZone, Utc};
use croner::parser::{CronParser, Seconds, Year};

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
        let fields = text.split_whitespace().count();
        if fields != FIELDS {
            return Err(format!("a schedule has five fields, and this has {fields}"));
        }
        if text.len() > LEN_MAX {
            return Err(format!("it has more than {LEN_MAX} bytes"));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
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
