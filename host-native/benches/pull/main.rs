//! Pull and ack over HTTP beside the broker as a library doing the same, in one run. `cargo xtask bench pull` starts it
//! and shows its figures; it prints lines of JSON.

mod client;
mod reader;
mod server;

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::broker::{Content, NewBatch, NewMessage, Settings, Settle, Take};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use server::Server;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const BODY_BYTES: usize = 1_024;
const QUEUE: &str = "bench";
/// What is leased and not acknowledged when the time is over must not come back in another round.
const VISIBILITY_MS: u32 = 43_200_000;

/// How much to measure.
struct Options {
    seconds: f64,
    rounds: usize,
}

/// One row of the table.
#[derive(Clone, Copy)]
struct Case {
    batch: usize,
    clients: usize,
}

fn main() {
    let mut options = Options { seconds: 1.0, rounds: 3 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|value| value.parse::<f64>().ok());
        match arg.as_str() {
            "--seconds" => options.seconds = number().unwrap_or(options.seconds),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small figures of a bench")]
            "--rounds" => options.rounds = number().map_or(options.rounds, |rounds| rounds as usize),
            _ => {} // cargo adds one of its own
        }
    }
    match run(&options) {
        Ok(report) => println!("{}", json!({ "report": report })),
        Err(error) => {
            eprintln!("the bench failed: {error}");
            std::process::exit(1);
        }
    }
}

fn run(options: &Options) -> Outcome<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rows = Vec::new();
    for batch in [1, 10, 100] {
        for clients in [1, 8, 64] {
            let case = Case { batch, clients };
            let figures = measure(case, options, &runtime)?;
            let said: Vec<String> = figures.iter().map(|(who, rate)| format!("{rate:.0} /s {who}")).collect();
            println!("{}", json!({ "say": format!("{batch} at a time, {clients} clients: {}", said.join(", ")) }));
            rows.push(json!({ "batch": batch, "clients": clients, "figures": figures }));
        }
    }
    let mut reads = Vec::new();
    for (batch, delivers) in [(10, false), (100, false), (100, true)] {
        let read = runtime.block_on(reader::measure(reader::Case { batch, delivers }))?;
        println!("{}", json!({ "say": format!("a connection that reads {batch} at a time: {read}") }));
        reads.push(read);
    }
    Ok(json!({ "rows": rows, "reads": reads }))
}

/// Messages pulled and acknowledged in a second, by the server's clients and by tasks that use the broker; the median.
fn measure(case: Case, options: &Options, runtime: &Runtime) -> Outcome<BTreeMap<&'static str, f64>> {
    let dir = tempfile::tempdir()?;
    let (store, broker) = runtime.block_on(open(&dir.path().join("broker.db")))?;
    let server = Server::start(dir.path())?;
    let time = Duration::from_secs_f64(options.seconds);
    let mut rates: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for _ in 0..options.rounds {
        runtime.block_on(fill(&broker, case, time))?;
        rates.entry("broker").or_default().push(runtime.block_on(of_broker(&broker, case, time))?);
        runtime.block_on(server.fill(case.enough(time), BODY_BYTES))?;
        rates.entry("server").or_default().push(runtime.block_on(of_server(&server, case, time))?);
    }
    drop((broker, server));
    store.close();
    Ok(rates.into_iter().map(|(who, rates)| (who, median(rates))).collect())
}

impl Case {
    /// More messages than anybody pulls in that time, in hundreds.
    fn enough(self, time: Duration) -> usize {
        let a_second = if self.batch == 1 { 25_000.0 } else { 100_000.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred thousand at most")]
        let hundreds = (a_second * time.as_secs_f64() / 100.0).ceil() as usize;
        hundreds * 100
    }
}

async fn open(path: &std::path::Path) -> Outcome<(OpenStore, Broker)> {
    let store = OpenStore::create(path)?;
    let broker = Broker::open(store.handle()).await?;
    broker.create(QUEUE, Settings::default()).await?;
    Ok((store, broker))
}

async fn fill(broker: &Broker, case: Case, time: Duration) -> Outcome<()> {
    broker.purge(QUEUE).await?;
    let message = NewMessage { content: Content::Text, body: vec![b'x'; BODY_BYTES], delay_s: None, meta: None };
    for _ in 0..case.enough(time) / 100 {
        broker.send(QUEUE, NewBatch { messages: vec![message.clone(); 100], delay_s: None }).await?;
    }
    Ok(())
}

async fn of_broker(broker: &Broker, case: Case, time: Duration) -> Outcome<f64> {
    let begun = Instant::now();
    let task = |broker: Broker| async move {
        let mut settled = 0;
        while begun.elapsed() < time {
            let take = Take { max: case.batch, visibility_ms: Some(VISIBILITY_MS) };
            let taken = broker.take(QUEUE, take).await?.messages;
            if taken.is_empty() {
                break;
            }
            let acks = taken.iter().map(|taken| taken.lease).collect();
            settled += broker.settle(QUEUE, Settle { acks, ..Settle::default() }).await?.acked;
        }
        Outcome::Ok(settled)
    };
    let tasks: Vec<_> = (0..case.clients).map(|_| tokio::spawn(task(broker.clone()))).collect();
    rate(tasks, begun).await
}

async fn of_server(server: &Server, case: Case, time: Duration) -> Outcome<f64> {
    let mut clients = Vec::new();
    for _ in 0..case.clients {
        clients.push(server.client().await?);
    }
    let begun = Instant::now();
    let task = |mut client: client::Client| async move {
        let mut settled = 0;
        while begun.elapsed() < time {
            let leases = client.pull(case.batch, VISIBILITY_MS).await?;
            if leases.is_empty() {
                break;
            }
            client.ack(&leases).await?;
            settled += leases.len();
        }
        Outcome::Ok(settled)
    };
    let tasks: Vec<_> = clients.into_iter().map(|client| tokio::spawn(task(client))).collect();
    rate(tasks, begun).await
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
async fn rate(tasks: Vec<tokio::task::JoinHandle<Outcome<usize>>>, begun: Instant) -> Outcome<f64> {
    let mut settled = 0;
    for task in tasks {
        settled += task.await??;
    }
    Ok(settled as f64 / begun.elapsed().as_secs_f64())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
