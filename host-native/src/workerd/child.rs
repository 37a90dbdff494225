//! workerd as a process that dies with this one, however this one ends.
//!
//! A process can ask the system for a signal at the end of the thread that started it. So `jadpo` starts itself, which
//! asks for that and then becomes workerd; and what starts it is a thread of its own, which lives as long as the server.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The hidden subcommand that becomes another program. What follows it: the parent's process id, the program, and its
/// arguments.
pub const BECOME: &str = "become-workerd";

/// Variables of the environment that workerd gets. Ours hold tokens and secrets.
const KEPT: [&str; 8] =
    ["PATH", "HOME", "TMPDIR", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH", "RUST_BACKTRACE"];

type Order = (Command, oneshot::Sender<io::Result<Child>>);

/// A thread that starts processes. They die with it.
#[derive(Debug, Clone)]
pub(super) struct Nursery {
    orders: mpsc::Sender<Order>,
}

impl Nursery {
    /// Starts the thread; it ends when nobody can ask it any more. To be called within a runtime.
    pub(super) fn new() -> io::Result<Self> {
        let (orders, taken) = mpsc::channel::<Order>();
        let runtime = Handle::current();
        std::thread::Builder::new().name("workerd-parent".to_owned()).spawn(move || {
            let _within = runtime.enter();
            for (mut command, answer) in taken {
                // Whoever asked and is gone has dropped the answer, and with it the child is killed.
                let _ = answer.send(command.spawn());
            }
        })?;
        Ok(Self { orders })
    }

    /// Starts workerd on a config. Its log comes on standard output, and with it when its sockets are open.
    pub(super) async fn workerd(&self, program: &Path, config: &Path, cwd: &Path) -> io::Result<Child> {
        let mut command = Command::new(this_program()?);
        command
            .arg(BECOME)
            .arg(std::process::id().to_string())
            .arg(program)
            .args(["serve", "--experimental", "--control-fd=1"])
            .arg(config)
            .arg("config")
            .current_dir(cwd)
            .env_clear()
            .envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal is for us: workerd is told when what runs in it has ended.
            .process_group(0)
            .kill_on_drop(true);
        let (answer, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes is gone");
        self.orders.send((command, answer)).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }
}

/// This program, also if its file has been replaced since.
fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() { Ok(running) } else { std::env::current_exe() }
}

/// Becomes the program, unless the parent is gone. Returns only if that failed.
pub fn become_program(arguments: &[OsString]) -> ExitCode {
    let [parent, program, rest @ ..] = arguments else {
        eprintln!("error: this subcommand is for jadpo itself");
        return ExitCode::from(2);
    };
    die_with_parent();
    // It may have died before the system was asked.
    let is_orphan = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().to_string())
        != parent.to_str().map(str::to_owned);
    if is_orphan {
        return ExitCode::FAILURE;
    }
    let error = std::process::Command::new(program).args(rest).exec();
    eprintln!("{}: {error}", Path::new(program).display());
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
fn die_with_parent() {
    // Where it is refused, a server that is killed leaves workerd behind, which then has nobody to talk to.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() {}
