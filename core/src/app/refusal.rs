//! What a target cannot carry out, said in the same words by `jadpo check`, `jadpo build` and `jadpo serve`.

use super::code::Code;
use crate::program::{Connection, Platform, Program, Target, Trigger};

/// Why a deployable is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of refusal it is.
    pub code: Code,
    /// What is refused, naming the deployable and what it cannot carry out.
    pub message: String,
    /// The way out.
    pub help: String,
}

/// Why `deployable` may not be built or started; nothing when it may, and nothing for a name that is not declared.
///
/// A native host has no queue binding and no service binding, so where it receives the app's queues
/// (`Trigger.subscribers`) it can neither take what Cloudflare pushes nor call another Worker.
pub fn refusal(program: &Program, deployable: &str) -> Vec<Refusal> {
    let receives_natively = program
        .deployables
        .get(deployable)
        .is_some_and(|found| found.target == Platform::Native && found.triggers.contains(&Trigger::Subscribers));
    if !receives_natively {
        return Vec::new();
    }
    let drivers = program.connections.iter().filter_map(|(name, connection)| match connection {
        Connection::CloudflareQueues { .. } => Some(driver_refused(deployable, name)),
        _ => None,
    });
    let subscribers = program.subscribers.iter().filter_map(|(name, subscriber)| match &subscriber.target {
        Target::Service(worker) => Some(subscriber_refused(deployable, name, worker)),
        _ => None,
    });
    drivers.chain(subscribers).collect()
}

fn driver_refused(deployable: &str, connection: &str) -> Refusal {
    Refusal {
        code: Code::TargetDriverRefused,
        message: format!(
            "native deployable `{deployable}` runs Trigger.subscribers, and connection `{connection}` has \
             Driver.cloudflare_queues: Cloudflare pushes its messages to a Worker, so no native server receives them"
        ),
        help: format!(
            "give connection `{connection}` `driver: Driver.cloudflare_pull`, which reads the queue over HTTP; or \
             remove Trigger.subscribers from `{deployable}` and run it in a deployable with `target: Target.workers`"
        ),
    }
}

fn subscriber_refused(deployable: &str, subscriber: &str, worker: &str) -> Refusal {
    Refusal {
        code: Code::TargetSubscriberRefused,
        message: format!(
            "native deployable `{deployable}` runs Trigger.subscribers, and subscriber `{subscriber}` is reached by \
             the service binding of Worker `{worker}`, which only Workers have"
        ),
        help: format!(
            "give subscriber `{subscriber}` `call:` with the Worker's address; or remove Trigger.subscribers from \
             `{deployable}` and run it in a deployable with `target: Target.workers`"
        ),
    }
}
