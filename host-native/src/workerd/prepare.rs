//! From what was asked for to Workers that run: read and bundled first, which touches nothing; then started.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jadpo_core::workers::{Database, Worker, conflicts, strangers};
use rustix::fs::OFlags;
use rustix::process::geteuid;
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::child::Nursery;
use super::failure::Failure;
use super::inner::{self, Asked};
use super::phase::{Phase, Phases};
use super::process::Process;
use super::project::{self, Loading, Project};
use super::proxy::Door;
use super::reload::Seen;
use super::run::{Keeper, Made};
use super::tails::Tails;
use super::told::Told;
use super::tools::{Named, Tool, newest_date};
use super::visitors::Visitors;
use super::{Running, Source, Workerd, proxy, reload};
use crate::server::connections::descriptors;

/// Longest path of the folder of the sockets: the system takes 108 bytes for a socket's whole path, some 104.
const FOLDER_BYTES_MAX: usize = 60;

/// How long requests that run may go on at the end: in development nobody waits long for Ctrl-C.
const GRACE: Duration = Duration::from_secs(5);
const GRACE_DEV: Duration = Duration::from_secs(1);
/// How such a folder's name begins, and what its lock is called.
const SCRATCH: &str = "jadpo-workers-";
const LOCK: &str = "lock";

/// A folder for as long as this lives.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// What is to run, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The Workers.
    pub sources: Vec<Source>,
    /// Tools that were named.
    pub tools: Named,
    /// From where upward workerd is looked for; the first Worker's folder if this says nothing.
    pub tools_near: Option<PathBuf>,
    /// Where what Workers store is kept.
    pub state: PathBuf,
    /// Where the first Worker's HTTP is answered; each next one's at the next port, unless its file names one. With port 0
    /// all of them take free ones.
    pub listen: SocketAddr,
    /// Whether this is development: then changes of the sources are followed.
    pub is_dev: bool,
    /// Whether a Worker that is called and is not here is answered for.
    pub stands_in: bool,
    /// Secrets that this process's environment has.
    pub secrets: Vec<String>,
}

/// Workers that are ready to be started.
#[derive(Debug)]
pub struct Prepared {
    options: Options,
    loading: Loading,
    program: PathBuf,
    scratch: Scratch,
    projects: Vec<Project>,
    seen: Seen,
}

/// Workers that run, and are answered once [`Started::run`] is.
pub struct Started {
    handle: Workerd,
    addresses: Vec<(String, SocketAddr)>,
    options: Options,
    loading: Loading,
    keeper: Keeper,
    process: Process,
    projects: Vec<Project>,
    seen: Seen,
    inner: UnixListener,
    doors: Vec<TcpListener>,
    /// Last, so that it goes after everything that uses it.
    scratch: Scratch,
}

impl std::fmt::Debug for Started {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Started").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Prepared {
    /// Reads the Wrangler files and makes what they describe.
    ///
    /// # Errors
    /// [`Failure`]: a file that is refused, code that cannot be bundled, a tool that is not to be had.
    pub async fn new(options: Options) -> Result<Self, Failure> {
        // Before anything is started, which has as many as we have then.
        descriptors();
        let first = options.sources.first().map(|source| source.file.clone()).unwrap_or_default();
        let folder = project::found(&first)?.parent().map(Path::to_owned).unwrap_or_default();
        let near = options.tools_near.as_deref().unwrap_or(&folder);
        let program = Tool::Workerd.find(&options.tools, near).await?;
        let loading = Loading {
            tools: options.tools.clone(),
            newest_date: newest_date(&program).await,
            is_dev: options.is_dev,
            from_environment: options.secrets.clone(),
            told: Told::default(),
        };
        let scratch = scratch()?;
        let (projects, seen) = reload::load(&options.sources, &loading, scratch.folder.path()).await?;
        agree(&projects, options.stands_in)?;
        Ok(Self { options, loading, program, scratch, projects, seen })
    }

    /// The Workers, as their files describe them.
    #[must_use]
    pub fn workers(&self) -> Vec<Worker> {
        workers_of(&self.projects)
    }

    /// The folder of their databases.
    #[must_use]
    pub fn databases(&self) -> PathBuf {
        self.options.state.join("d1")
    }

    /// The databases, each with the folder of its migrations; one that two Workers have comes once for each such folder.
    #[must_use]
    pub fn migrations(&self) -> Vec<(Database, PathBuf)> {
        let of = |project: &Project| {
            let folder = project.folder.clone();
            let at = move |database: Database| (database.clone(), folder.join(&database.migrations_dir));
            project.worker.databases.clone().into_iter().map(at).collect::<Vec<_>>()
        };
        let mut seen = BTreeSet::new();
        let all = self.projects.iter().flat_map(of);
        all.filter(|(database, folder)| seen.insert((database.key(), folder.clone()))).collect()
    }

    /// Takes the addresses and starts workerd. What Workers ask is answered from [`Started::run`] on.
    ///
    /// # Errors
    /// [`Failure`]: an address that is taken, a Worker that workerd refuses.
    pub async fn start(self) -> Result<Started, Failure> {
        let Self { options, loading, program, scratch, projects, seen } = self;
        let mut doors = Vec::new();
        let mut addresses = Vec::new();
        for (index, project) in projects.iter().enumerate() {
            let (door, at) = bind(wanted(&options, index, project), &project.worker.name).await?;
            doors.push(door);
            addresses.push((project.worker.name.clone(), at));
        }
        let nursery = Nursery::new().map_err(|error| Failure::failed(format!("cannot start a thread: {error}"), ""))?;
        let (phase, phases) = watch::channel(Phase::Starting);
        let (workers, running) = watch::channel(Arc::new(Vec::new()));
        let tails = Tails::default();
        let mut keeper = Keeper {
            nursery,
            program,
            scratch: scratch.folder.path().to_owned(),
            objects: options.state.join("objects"),
            stands_in: options.stands_in,
            started: 0,
            maps: tails.maps.clone(),
            phase,
            workers,
            made: Made::default(),
        };
        let inner = UnixListener::bind(keeper.inner());
        let inner = inner.map_err(|error| Failure::failed(format!("cannot listen for workerd: {error}"), ""))?;
        let process = keeper.start(&projects).await?;
        let over = Arc::new(watch::Sender::new(false));
        let handle = Workerd { phases: Phases(phases), workers: running, tails, running: Running::default(), over };
        Ok(Started { handle, addresses, options, loading, keeper, process, projects, seen, inner, doors, scratch })
    }
}

impl Started {
    /// What others ask of the Workers.
    #[must_use]
    pub fn handle(&self) -> Workerd {
        self.handle.clone()
    }

    /// The Workers that were started.
    #[must_use]
    pub fn workers(&self) -> Vec<Worker> {
        workers_of(&self.projects)
    }

    /// The names of each Worker's secrets, in the order in which they were given.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        self.projects.iter().map(|project| project.secrets.keys().cloned().collect())
    }

    /// Each Worker's HTTP address, by its name, in the order in which they were given.
    #[must_use]
    pub fn addresses(&self) -> &[(String, SocketAddr)] {
        &self.addresses
    }

    /// Answers the Workers and their clients until `closing` says so.
    pub(crate) async fn run(self, asked: impl Asked, closing: watch::Receiver<bool>) {
        let Self { handle, options, loading, keeper, process, projects, seen, inner, doors, scratch, .. } = self;
        let (ended, is_ended) = watch::channel(false);
        let answering = tokio::spawn(inner::serve(inner, Arc::new(asked), handle.tails.clone(), is_ended.clone()));
        let grace = if options.is_dev { GRACE_DEV } else { GRACE };
        let mut served = JoinSet::new();
        let visitors = Visitors::new(descriptors());
        for (index, listener) in doors.into_iter().enumerate() {
            let (phases, visitors, tails) = (handle.phases.clone(), visitors.clone(), handle.tails.clone());
            let (is_dev, workers) = (options.is_dev, handle.workers());
            let door = Door { index, phases, visitors, is_dev, workers, tails };
            served.spawn(proxy::serve(listener, door, grace, closing.clone()));
        }
        let (reloaded, changed) = mpsc::channel(1);
        let made = keeper.made.clone();
        let watching = options.is_dev.then(|| {
            let folder = scratch.folder.path().to_owned();
            tokio::spawn(reload::watch(
                options.sources,
                options.stands_in,
                loading,
                folder,
                (projects.clone(), seen),
                (reloaded, made),
            ))
        });
        // First the clients get their answers, then workerd goes, then what it asks.
        let keeping = tokio::spawn(keeper.run(process, projects, changed, handle.over.subscribe()));
        while served.join_next().await.is_some() {}
        handle.end();
        if let Some(watching) = watching {
            watching.abort();
        }
        let _ = keeping.await;
        let _ = ended.send(true);
        let _ = answering.await;
        drop(scratch);
    }
}

fn workers_of(projects: &[Project]) -> Vec<Worker> {
    projects.iter().map(|project| project.worker.clone()).collect()
}

/// Whether the Workers can run beside each other.
pub(super) fn agree(projects: &[Project], stands_in: bool) -> Result<(), Failure> {
    let workers = workers_of(projects);
    let mut found = conflicts(&workers);
    if !stands_in {
        found.extend(strangers(&workers));
    }
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found
        .iter()
        .map(|note| {
            let help = note.help.as_ref().map(|help| format!("\n    help: {help}")).unwrap_or_default();
            format!("  {}: {}{help}", note.path, note.message)
        })
        .collect();
    Err(Failure::wrong(format!("the Workers cannot run together:\n{}", lines.join("\n")), ""))
}

/// Where a Worker's HTTP is to be answered.
fn wanted(options: &Options, index: usize, project: &Project) -> SocketAddr {
    let mut address = options.listen;
    if address.port() != 0 {
        let next = address.port().saturating_add(u16::try_from(index).unwrap_or(u16::MAX));
        address.set_port(project.worker.port.unwrap_or(next));
    }
    address
}

async fn bind(address: SocketAddr, worker: &str) -> Result<(TcpListener, SocketAddr), Failure> {
    let bound = TcpListener::bind(address).await.and_then(|door| Ok((door.local_addr()?, door)));
    match bound {
        Ok((at, door)) => Ok((door, at)),
        Err(error) => {
            let why = match error.kind() {
                std::io::ErrorKind::AddrInUse => "another program listens there".to_owned(),
                _ => error.to_string(),
            };
            let what = format!("the Worker `{worker}` cannot listen on {address}: {why}");
            Err(Failure::failed(
                what,
                "name another with --worker-listen, or `dev.port` in its file; port 0 takes a free one",
            ))
        }
    }
}

/// A folder that nobody else may enter, with a path that is short enough for sockets in it. Whoever has the lock in it
/// lives, so that those of servers that were killed can be removed.
pub(crate) fn scratch() -> Result<Scratch, Failure> {
    let mut last = None;
    for base in [std::env::temp_dir(), PathBuf::from("/tmp")] {
        if base.as_os_str().len() > FOLDER_BYTES_MAX {
            continue;
        }
        left_behind(&base);
        // Ours alone whatever the umask is: in it are the Workers' code and the socket that answers for databases.
        let folder =
            tempfile::Builder::new().prefix(SCRATCH).permissions(Permissions::from_mode(0o700)).tempdir_in(&base);
        let locked = folder.and_then(|folder| {
            let lock = File::create(folder.path().join(LOCK))?;
            lock.lock()?;
            Ok(Scratch { folder, _lock: lock })
        });
        match locked {
            Ok(scratch) => return Ok(scratch),
            Err(error) => last = Some(format!("{}: {error}", base.display())),
        }
    }
    let why = last.unwrap_or_else(|| "its path is too long for sockets".to_owned());
    Err(Failure::failed(format!("a temporary folder cannot be made: {why}"), "name another by TMPDIR"))
}

/// Removes the folders of servers that were killed. Anybody may put things into a temporary folder, so nothing is
/// touched but folders of ours, and a lock is opened only as the file of ours that it is.
fn left_behind(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    let ours = geteuid().as_raw();
    for entry in entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(SCRATCH.as_bytes()))
    {
        let folder = entry.path();
        let is_ours = folder.symlink_metadata().is_ok_and(|it| it.is_dir() && it.uid() == ours);
        if is_ours && lock_of(&folder, ours).is_some_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// The lock of such a folder. Another thing than a file may be there instead, and whoever opens a pipe waits for its
/// other end.
fn lock_of(folder: &Path, ours: u32) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let lock = File::options().read(true).custom_flags(i32::try_from(flags).ok()?).open(folder.join(LOCK)).ok()?;
    lock.metadata().is_ok_and(|it| it.is_file() && it.uid() == ours).then_some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    #[test]
    fn a_folder_that_a_dead_server_left_goes_and_nothing_else_does() {
        let base = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let folder = base.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            folder
        };
        let (dead, lives, other) = (made("jadpo-workers-dead"), made("jadpo-workers-lives"), made("other"));
        let locks = [&dead, &lives, &other].map(|folder| File::create(folder.join(LOCK)).unwrap());
        locks[1].lock().unwrap();
        // A pipe whose other end nobody has, in another's folder and in one that is called as ours are.
        let pipes = [made("x"), made("jadpo-workers-x")];
        for folder in &pipes {
            assert!(Command::new("mkfifo").arg(folder.join(LOCK)).status().unwrap().success());
        }
        symlink(&other, base.path().join("jadpo-workers-link")).unwrap();
        let (told, is_over) = std::sync::mpsc::channel();
        let at = base.path().to_owned();
        std::thread::spawn(move || {
            left_behind(&at);
            told.send(()).unwrap();
        });
        is_over.recv_timeout(Duration::from_secs(5)).expect("it waits for a pipe");
        assert!(!dead.exists());
        assert!(lives.exists() && other.join(LOCK).exists() && pipes.iter().all(|folder| folder.exists()));
    }

    #[test]
    fn what_comes_of_a_worker_is_read_by_nobody_else() {
        let scratch = scratch().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(scratch.path()), 0o700);
        let within = scratch.path().join("b0");
        crate::workerd::private_folder(&within).unwrap();
        assert_eq!(mode(&within), 0o700);
    }
}
