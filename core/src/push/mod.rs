//! Workers as producers and consumers of queues: what workerd's bindings say on the wire, what a batch is on its way to
//! a `queue` handler, and what follows from what the handler recorded.

mod concurrency;
#[cfg(feature = "compile")]
mod consumed;
#[cfg(feature = "compile")]
mod declare;
mod frame;
mod producer;
#[cfg(feature = "compile")]
mod settings;
mod suspects;
mod take;
#[cfg(test)]
mod tests;
mod verdict;

pub use concurrency::Concurrency;
#[cfg(feature = "compile")]
pub use consumed::{Consumed, Handler, consumed, cron_name, served};
#[cfg(feature = "compile")]
pub use declare::{Told, declare, declare_again};
pub use frame::frame;
pub use producer::{Call, Refused, metrics, sent};
pub use suspects::{CutOff, IN_COMPANY_MAX, Next, Suspects, Turn};
pub use take::{Asks, Found, Handed, take};
pub use verdict::{Verdict, ended, foreign, occurred, occurrence, released, verdict};

/// How long an invocation of a Worker may take, in milliseconds: 15 minutes, as on Cloudflare.
pub const WALL_LIMIT_MS: u32 = 900_000;
/// How long a Worker's batch is leased, in milliseconds: a minute longer, so that it always ends before its lease does.
pub const LEASE_MS: u32 = WALL_LIMIT_MS + 60_000;
