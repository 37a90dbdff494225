//! The network report: every host that an app reaches, and through what.

use serde::Serialize;

use super::forms;
use crate::program::{Connection, Platform, Program, Target};

/// What one part of an app reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// `connection`, `subscriber` or `function`.
    pub kind: &'static str,
    /// Its name in the app file.
    pub name: String,
    /// How: a driver, or what stands before the target.
    pub through: String,
    /// The hosts, with a port where it is not the scheme's own. None for what reaches no host.
    pub hosts: Vec<String>,
}

/// What the app reaches: connections, then subscribers, then functions, each by name. With a deployable's name, only
/// what that deployable can reach; a name that is not declared reaches nothing.
pub fn network(program: &Program, deployable: Option<&str>) -> Vec<Reach> {
    let platform = match deployable.map(|name| program.deployables.get(name).map(|found| found.target)) {
        None => None,
        Some(Some(platform)) => Some(platform),
        Some(None) => return Vec::new(),
    };
    let on = |wanted: Platform| platform.is_none_or(|platform| platform == wanted);
    let connections = program.connections.iter().filter_map(|(name, connection)| {
        let (through, hosts, runs) = match connection {
            Connection::CloudflareQueues { .. } => ("Driver.cloudflare_queues", Vec::new(), on(Platform::Workers)),
            Connection::CloudflarePull { domains, .. } => {
                ("Driver.cloudflare_pull", domains.clone(), on(Platform::Native))
            }
            Connection::LocalQueue { .. } => ("Driver.local_queue", Vec::new(), on(Platform::Native)),
        };
        runs.then(|| Reach { kind: "connection", name: name.clone(), through: through.to_owned(), hosts })
    });
    let subscribers = program
        .subscribers
        .iter()
        .filter(|(_, subscriber)| on(Platform::Workers) || !matches!(subscriber.target, Target::Service(_)));
    let subscribers = subscribers.map(|(name, subscriber)| reach("subscriber", name, &subscriber.target));
    let functions = program.functions.iter().filter(|_| on(Platform::Native));
    let functions = functions.map(|(name, function)| reach("function", name, &function.target));
    connections.chain(subscribers).chain(functions).collect()
}

fn reach(kind: &'static str, name: &str, target: &Target) -> Reach {
    let (through, hosts) = match target {
        Target::Call(address) => {
            // A checked program holds addresses that parse; any other is shown as it is.
            let host = forms::address(address).map_or_else(|_| address.clone(), |url| forms::host_of(&url));
            ("call:".to_owned(), vec![host])
        }
        Target::Service(worker) => (format!("service: {worker}"), Vec::new()),
        Target::Run(function) => (format!("run: {function}"), Vec::new()),
        Target::Exec(words) => (format!("exec: {}", words.join(" ")), Vec::new()),
        Target::Send(queue) => (format!("send: {queue}"), Vec::new()),
    };
    Reach { kind, name: name.to_owned(), through, hosts }
}
