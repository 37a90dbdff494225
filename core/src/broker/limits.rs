//! Cloudflare's limits for queues and messages, as its documentation gives them. One KB is 1,000 bytes.

/// Queues in one store.
pub const QUEUES_MAX: usize = 10_000;
/// Longest name of a queue, in characters.
pub const NAME_LEN_MAX: usize = 63;
/// Bytes of one message's body.
pub const MESSAGE_BYTES_MAX: usize = 128_000;
/// Bytes of all bodies sent at once.
pub const BATCH_BYTES_MAX: usize = 256_000;
/// Messages sent, taken, looked at or removed at once.
pub const BATCH_COUNT_MAX: usize = 100;
/// Bytes that may wait in one queue. Here metadata count, since they take as much room as bodies do.
pub const QUEUE_BYTES_MAX: u64 = 25_000_000_000;
/// Longest delay of a send or a retry, in seconds: a day.
pub const DELAY_MAX_S: u32 = 86_400;
/// Shortest and longest time that a message is kept, in seconds: a minute and 14 days.
pub const RETENTION_S: (u32, u32) = (60, 1_209_600);
/// Longest visibility timeout, in milliseconds: 12 hours.
pub const VISIBILITY_MAX_MS: u32 = 43_200_000;
/// Longest time to wait for a batch to fill, in milliseconds: a minute.
pub const BATCH_WAIT_MAX_MS: u32 = 60_000;
/// Most retries.
pub const RETRIES_MAX: u32 = 100;
/// Most batches handed to one consumer side by side.
pub const CONCURRENCY_MAX: u32 = 250;
/// Calls to one queue's producer side by side; what comes on top is told to come back.
pub const PRODUCERS_MAX: usize = 256;
/// Bytes of a message's metadata. Ours: Cloudflare's messages carry none.
pub const META_BYTES_MAX: usize = 65_536;
/// Bytes kept of what a consumer said went wrong.
pub const ERROR_BYTES_MAX: usize = 2_000;
/// Bytes of what a consumer says is done of a message.
pub const PROGRESS_BYTES_MAX: usize = 4_096;
/// Longest name of a trigger or a webhook, in bytes: room for a prefix before a queue's or a function's name.
pub const TRIGGER_NAME_BYTES_MAX: usize = 200;
/// How long a key is remembered under which a message was sent once, in milliseconds: a week, which is longer than any
/// provider repeats a webhook.
pub const ONCE_KEPT_MS: i64 = 604_800_000;
/// Letters that a redrive may name by their ids.
pub const REDRIVE_IDS_MAX: usize = 1_000;
/// Bytes of the text that a redrive looks for in errors.
pub const REDRIVE_TEXT_BYTES_MAX: usize = 1_000;
/// Letters that a redrive may be told to move in a second, at most.
pub const REDRIVE_RATE_MAX: u32 = 10_000;
/// Redrives that have ended and are listed still.
pub const REDRIVES_KEPT: usize = 100;
/// Tokens of the API, at most.
pub const TOKENS_MAX: usize = 1_000;
/// Bytes of a token's or a script's name.
pub const TOKEN_NAME_BYTES_MAX: usize = 200;
/// Queues that a token may be limited to.
pub const TOKEN_QUEUES_MAX: usize = 100;
