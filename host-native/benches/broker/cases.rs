//! What is measured: each case on a fresh file, the peers in turn, several rounds, the median told.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::broker::{Content, NewBatch, NewMessage, Settings, Settle, Take};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::http::Server;
use super::peers::{Kind, Peer};
use super::plain::{Layout, Plain};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const BODY_BYTES: usize = 1_024;
const QUEUE: &str = "bench";

/// How much to measure.
pub(crate) struct Options {
    pub(crate) seconds: f64,
    pub(crate) rounds: usize,
    pub(crate) backlog_max: usize,
    /// Only cases whose name holds this.
    pub(crate) only: String,
}

/// One row of the table.
#[derive(Clone, Copy)]
enum Case {
    /// Sends only.
    Send { clients: usize, batch: usize },
    /// Send, lease, acknowledge, each on disk before the next, while so many others wait.
    Cycle { batch: usize, backlog: usize },
}

impl Case {
    fn name(self) -> String {
        let by = |batch| if batch == 1 { "one by one".to_owned() } else { format!("in batches of {batch}") };
        match self {
            Self::Send { clients: 1, batch } => format!("send {}, 1 client", by(batch)),
            Self::Send { clients, batch } => format!("send {}, {clients} clients", by(batch)),
            Self::Cycle { batch, backlog } => format!("send, lease, ack {}, {backlog} waiting", by(batch)),
        }
    }
}

pub(crate) fn run(options: &Options) -> Outcome<Vec<Value>> {
    let mut cases = Vec::new();
    for batch in [1, 100] {
        cases.extend([1, 8, 64, 256].map(|clients| Case::Send { clients, batch }));
    }
    cases.extend([1, 10, 100].map(|batch| Case::Cycle { batch, backlog: 0 }));
    cases.extend([100_000, 1_000_000].map(|backlog| Case::Cycle { batch: 100, backlog }));
    cases.retain(|case| !matches!(case, Case::Cycle { backlog, .. } if *backlog > options.backlog_max));
    cases.retain(|case| case.name().contains(&options.only));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rows = Vec::new();
    for case in cases {
        let row = measure(case, options, &runtime)?;
        println!("{}", json!({ "say": format!("{}: {}", case.name(), said(&row)) }));
        rows.push(json!({ "case": case.name(), "figures": row }));
    }
    Ok(rows)
}

fn said(row: &BTreeMap<&str, f64>) -> String {
    row.iter().map(|(who, rate)| format!("{rate:.0} /s {who}")).collect::<Vec<_>>().join(", ")
}

/// Messages in a second of everybody: plain SQLite with the faster layout, the broker, the server, and the peers that
/// are installed.
fn measure(case: Case, options: &Options, runtime: &Runtime) -> Outcome<BTreeMap<&'static str, f64>> {
    let dir = tempfile::tempdir()?;
    let body = vec![b'x'; BODY_BYTES];
    let mut one = Plain::open(&dir.path().join("one.db"), Layout::One)?;
    let mut two = Plain::open(&dir.path().join("two.db"), Layout::Two)?;
    let (store, broker) = runtime.block_on(open(&dir.path().join("broker.db")))?;
    let peers = runtime.block_on(Peers::start(case, dir.path()))?;
    if let Case::Cycle { backlog, .. } = case {
        for _ in 0..backlog / 10_000 {
            one.send(10_000, &body)?;
            two.send(10_000, &body)?;
        }
        runtime.block_on(fill(&broker, backlog))?;
    }
    let time = Duration::from_secs_f64(options.seconds);
    let mut rates: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for _ in 0..options.rounds {
        let plains = f64::max(plain(case, &mut one, &body, time)?, plain(case, &mut two, &body, time)?);
        rates.entry("plain").or_default().push(plains);
        rates.entry("broker").or_default().push(runtime.block_on(of_broker(case, &broker, time))?);
        for (who, rate) in runtime.block_on(peers.round(case, &body, time))? {
            rates.entry(who).or_default().push(rate);
        }
    }
    drop((broker, peers));
    store.close();
    Ok(rates.into_iter().map(|(who, rates)| (who, median(rates))).collect())
}

/// Who else is measured.
struct Peers {
    server: Option<Server>,
    others: Vec<(&'static str, Peer)>,
}

impl Peers {
    /// The server takes part in what it answers over HTTP, the others in what needs no long filling.
    async fn start(case: Case, dir: &Path) -> Outcome<Self> {
        let server = match case {
            Case::Send { .. } => Some(Server::start(dir)?),
            Case::Cycle { .. } => None,
        };
        let mut others = Vec::new();
        if !matches!(case, Case::Cycle { backlog: 1.., .. }) {
            for (who, kind) in [("redis", Kind::Redis), ("beanstalkd", Kind::Beanstalkd)] {
                let files = dir.join(who);
                std::fs::create_dir(&files)?;
                others.extend(Peer::start(kind, &files).await?.map(|peer| (who, peer)));
            }
        }
        Ok(Self { server, others })
    }

    async fn round(&self, case: Case, body: &[u8], time: Duration) -> Outcome<Vec<(&'static str, f64)>> {
        let mut rates = Vec::new();
        let (clients, batch) = match case {
            Case::Send { clients, batch } => (clients, batch),
            Case::Cycle { batch, .. } => (1, batch),
        };
        if let Some(server) = &self.server {
            let mut all = Vec::new();
            for _ in 0..clients {
                let mut client = server.client(body, batch).await?;
                all.push(async move |until: Instant| {
                    let mut messages = 0;
                    while Instant::now() < until {
                        client.send().await?;
                        messages += batch as u64;
                    }
                    Ok(messages)
                });
            }
            rates.push(("server", together(all, time).await?));
        }
        for (who, peer) in &self.others {
            let mut all = Vec::new();
            for _ in 0..clients {
                let mut client = peer.client(body).await?;
                all.push(async move |until: Instant| {
                    let mut messages = 0;
                    while Instant::now() < until {
                        client.send(batch).await?;
                        if matches!(case, Case::Cycle { .. }) {
                            client.take_and_ack(batch).await?;
                        }
                        messages += batch as u64;
                    }
                    Ok(messages)
                });
            }
            rates.push((who, together(all, time).await?));
        }
        Ok(rates)
    }
}

/// Lets clients run side by side, and tells what they reached together in a second.
async fn together<F>(clients: Vec<F>, time: Duration) -> Outcome<f64>
where
    F: AsyncFnOnce(Instant) -> Outcome<u64>,
{
    let started = Instant::now();
    let until = started + time;
    let all = futures_util::future::try_join_all(clients.into_iter().map(|client| client(until))).await?;
    Ok(per_second(all.iter().sum(), started))
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

fn per_second(messages: u64, since: Instant) -> f64 {
    messages as f64 / since.elapsed().as_secs_f64()
}

/// Each client's call has a place in one commit: what so many clients could reach if they cost nothing.
fn plain(case: Case, plain: &mut Plain, body: &[u8], time: Duration) -> Outcome<f64> {
    let (started, mut messages) = (Instant::now(), 0);
    while started.elapsed() < time {
        match case {
            Case::Send { clients, batch } => {
                plain.send(clients * batch, body)?;
                messages += (clients * batch) as u64;
            }
            Case::Cycle { batch, .. } => {
                plain.send(batch, body)?;
                let taken = plain.take(batch)?;
                assert_eq!(taken.len(), batch);
                plain.ack(&taken)?;
                messages += batch as u64;
            }
        }
    }
    Ok(per_second(messages, started))
}

async fn open(path: &Path) -> Outcome<(OpenStore, Broker)> {
    let store = OpenStore::create(path)?;
    let broker = Broker::open(store.handle()).await?;
    broker.create(QUEUE, Settings::default()).await?;
    Ok((store, broker))
}

fn batch(count: usize) -> NewBatch {
    let message = NewMessage { content: Content::Bytes, body: vec![b'x'; BODY_BYTES], delay_s: None, meta: None };
    NewBatch { messages: vec![message; count], delay_s: None }
}

async fn fill(broker: &Broker, backlog: usize) -> Outcome<()> {
    for _ in 0..backlog / 10_000 {
        let sends = (0..100).map(|_| broker.send(QUEUE, batch(100)));
        futures_util::future::try_join_all(sends).await?;
    }
    Ok(())
}

async fn of_broker(case: Case, broker: &Broker, time: Duration) -> Outcome<f64> {
    match case {
        Case::Send { clients, batch } => sends(broker, clients, batch, time).await,
        Case::Cycle { batch, .. } => cycle(broker, batch, time).await,
    }
}

/// Each client sends, waits for its answer, and sends again.
async fn sends(broker: &Broker, clients: usize, count: usize, time: Duration) -> Outcome<f64> {
    let over = Arc::new(AtomicBool::new(false));
    let messages = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let (broker, over, messages) = (broker.clone(), over.clone(), messages.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    broker.send(QUEUE, batch(count)).await?;
                    messages.fetch_add(count as u64, Ordering::Relaxed);
                }
                Ok::<_, jadpo_core::broker::BrokerError>(())
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await??;
    }
    Ok(per_second(messages.load(Ordering::Relaxed), started))
}

async fn cycle(broker: &Broker, count: usize, time: Duration) -> Outcome<f64> {
    let (started, mut messages) = (Instant::now(), 0);
    while started.elapsed() < time {
        broker.send(QUEUE, batch(count)).await?;
        let taken = broker.take(QUEUE, Take { max: count, visibility_ms: None }).await?.messages;
        assert_eq!(taken.len(), count);
        let acks = taken.iter().map(|taken| taken.lease).collect();
        let settled = broker.settle(QUEUE, Settle { acks, ..Settle::default() }).await?;
        assert_eq!(settled.acked, count);
        messages += count as u64;
    }
    Ok(per_second(messages, started))
}
