//! The Workers that run beside the server, as producers and consumers of its queues.

#![allow(dead_code, reason = "until workerd is run with it")]

pub(crate) mod producers;

use tokio::sync::watch;

use super::Shared;
use crate::workerd::Workerd;

/// The small Worker inside workerd that hands batches and occurrences on. It needs the compatibility flag
/// `service_binding_extra_handlers`, a service binding for each Worker under its name, and one to itself under
/// [`DISPATCHER`].
pub(crate) const DISPATCHER_JS: &str = include_str!("dispatcher.js");
/// The dispatcher's service, and its binding to itself. No Worker can be called so.
pub(crate) const DISPATCHER: &str = "jadpo:dispatcher";

/// Hands Workers the messages of their queues and the occurrences of their crons, until told to stop. Then nothing more
/// is taken, and what runs may end.
pub(super) async fn run(shared: Shared, workerd: Workerd, mut stopping: watch::Receiver<bool>) {
    let _ = (shared, workerd);
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
