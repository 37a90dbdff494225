//! What a Wrangler file says of a consumer, as the broker takes it.

use super::LEASE_MS;
use crate::broker::ConsumerSettings;
use crate::workers::Consumer;

impl Consumer {
    /// What is set for its queue; Cloudflare's default for what the file does not say.
    #[must_use]
    pub fn settings(&self) -> ConsumerSettings {
        let default = ConsumerSettings::default();
        ConsumerSettings {
            batch_size: self.max_batch_size.unwrap_or(default.batch_size),
            batch_wait_ms: self.max_batch_timeout_ms.unwrap_or(default.batch_wait_ms),
            max_retries: self.max_retries.unwrap_or(default.max_retries),
            retry_delay_s: self.retry_delay_s.unwrap_or(default.retry_delay_s),
            visibility_ms: LEASE_MS,
            dead_letter_queue: self.dead_letter_queue.clone(),
            max_concurrency: self.max_concurrency,
        }
    }
}
