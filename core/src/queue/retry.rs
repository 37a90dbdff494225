//! The one schedule of retries, for messages and for deliveries.

/// The delay after the first attempt, in seconds.
pub const RETRY_DELAY_FIRST_S: u32 = 10;
/// The longest delay, in seconds.
pub const RETRY_DELAY_MAX_S: u32 = 3_600;
/// Attempts of a delivery before it has failed. With [`retry_delay_s`] between them they take about 22 hours,
/// as do the 30 retries of a queue's consumer.
pub const ATTEMPTS_MAX: u32 = 30;

/// The delay before the attempt after attempt number `attempts`, in seconds: 10 doubled for each earlier attempt,
/// at most an hour. An `attempts` of 0, which no queue should give, counts as 1.
#[must_use]
pub fn retry_delay_s(attempts: u32) -> u32 {
    let doublings = attempts.saturating_sub(1).min(16);
    (RETRY_DELAY_FIRST_S << doublings).min(RETRY_DELAY_MAX_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_from_ten_seconds_to_an_hour() {
        let delays: Vec<u32> = (1..=11).map(retry_delay_s).collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
    }

    #[test]
    fn thirty_retries_outlast_a_day_s_night_and_stay_inside_a_day() {
        let total: u32 = (1..=30).map(retry_delay_s).sum();
        assert!((22 * 3600..24 * 3600).contains(&total), "{total} s");
    }

    #[test]
    fn attempts_that_no_queue_gives_do_no_harm() {
        assert_eq!(retry_delay_s(0), 10);
        assert_eq!(retry_delay_s(u32::MAX), 3600);
    }
}
