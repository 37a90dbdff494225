//! The names of what belongs to a local queue or a schedule, said once for the checks of an app and for the server.

/// Ends the name of a local queue's dead-letter queue.
pub const DEAD_SUFFIX: &str = "-dead";
/// Starts the name of the queue that a schedule's messages go to. No declared queue may.
pub const SCHEDULE_PREFIX: &str = "schedule-";
/// Longest name of a local queue, in characters, so that its dead-letter queue's name is one too.
pub const QUEUE_NAME_LEN_MAX: usize = 63 - DEAD_SUFFIX.len();
/// What a local queue's name is, for people.
pub const QUEUE_NAME_RULE: &str = "a local queue's name is 1 to 58 lowercase letters, digits and dashes, with a letter \
    or digit at both ends, and does not start with `schedule-`";
/// Deliveries of a message before it is dead-lettered, where the app does not say, and at most: Cloudflare's most
/// retries, and the first delivery.
pub const MAX_RECEIVES: u32 = 3;
/// See [`MAX_RECEIVES`].
pub const MAX_RECEIVES_MAX: u32 = 101;
/// How long a failed message stays hidden where the app does not say, in milliseconds.
pub const VISIBILITY_MS: u64 = 30_000;
/// How long it does at most, in milliseconds: 12 hours, Cloudflare's limit.
pub const VISIBILITY_MS_MAX: u64 = 43_200_000;
/// Messages of one queue handled side by side, at most.
pub const CONCURRENCY_MAX: u32 = 250;
/// Bytes of a message's body, at most.
pub const BODY_BYTES_MAX: usize = 128_000;
/// Functions of one queue, at most: the names of those that are done are kept with a message, in 4 KiB.
pub const FUNCTIONS_MAX: usize = 50;

/// The dead-letter queue of a local queue.
#[must_use]
pub fn dead_letters_of(queue: &str) -> String {
    format!("{queue}{DEAD_SUFFIX}")
}

/// The queue that the messages of a function's schedule go to: its name in lowercase, with dashes for underscores.
#[must_use]
pub fn queue_of_schedule(function: &str) -> String {
    format!("{SCHEDULE_PREFIX}{}", function.to_ascii_lowercase().replace('_', "-"))
}
