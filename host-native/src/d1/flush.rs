//! Puts on disk what was committed. `SQLite` writes each transaction to its log and does not wait for the disk; here one
//! flush of the log serves all transactions that were written before it, and who asked is answered after it. Each request
//! stays a transaction of its own.
//!
//! That is what `synchronous = FULL` promises: with NORMAL, `SQLite` itself flushes the log's header, and the log before
//! the database's file takes anything of it (<https://sqlite.org/pragma.html#pragma_synchronous>). Nobody is told what
//! is not flushed yet: whatever ran after it waits for the flush as well.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Answers that may wait for a flush; past that the database waits too.
const WAITING_MAX: usize = 1024;

/// Sends an answer, if the disk has it, or says why it has not.
pub(super) type Reply = Box<dyn FnOnce(Result<(), &str>) + Send>;

/// A database's flushes, in a thread of their own, which ends when this goes and all is answered.
pub(super) struct Flusher {
    waiting: SyncSender<(u64, Reply)>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The last commit that is on disk, by its number.
    flushed: AtomicU64,
    failed: AtomicBool,
}

impl Flusher {
    /// For the database of this file, which is there and open.
    pub(super) fn start(file: &Path) -> io::Result<Self> {
        // Where SQLite has it, too, if the name leads elsewhere.
        let mut log = file.canonicalize()?.into_os_string();
        log.push("-wal");
        let (waiting, asked) = sync_channel(WAITING_MAX);
        let state = Arc::<State>::default();
        let its_state = Arc::clone(&state);
        let run = move || its_state.run(&PathBuf::from(log), &asked);
        thread::Builder::new().name("d1-flush".to_owned()).spawn(run)?;
        Ok(Self { waiting, state })
    }

    /// Sends an answer that has seen this commit, when the commit is on disk.
    pub(super) fn answer(&self, commit: u64, reply: Reply) {
        if self.state.flushed.load(Ordering::Acquire) >= commit {
            reply(Ok(()));
        } else if let Err(unsent) = self.waiting.send((commit, reply)) {
            (unsent.0.1)(Err("the thread that writes to it ended"));
        }
    }

    /// Whether the disk refused something, of which nobody knows what is on it.
    pub(super) fn failed(&self) -> bool {
        self.state.failed.load(Ordering::Acquire)
    }
}

impl State {
    fn run(&self, log: &Path, asked: &Receiver<(u64, Reply)>) {
        let mut file = None;
        let mut failure: Option<String> = None;
        while let Ok(first) = asked.recv() {
            let all: Vec<_> = std::iter::once(first).chain(asked.try_iter()).collect();
            let last = all.iter().map(|(commit, _)| *commit).max().unwrap_or_default();
            // Once it failed, a flush that does not fail says nothing of what was before it.
            if failure.is_none() {
                match flush(log, &mut file) {
                    Ok(()) => self.flushed.store(last, Ordering::Release),
                    Err(error) => {
                        self.failed.store(true, Ordering::Release);
                        failure = Some(error.to_string());
                    }
                }
            }
            for (_, reply) in all {
                reply(failure.as_deref().map_or(Ok(()), Err));
            }
        }
    }
}

fn flush(log: &Path, file: &mut Option<File>) -> io::Result<()> {
    if let Some(file) = file {
        return file.sync_data();
    }
    // SQLite locks its other files, never this one, so that opening and closing it releases no lock.
    match File::open(log) {
        Ok(opened) => file.insert(opened).sync_data(),
        // SQLite makes it before it commits anything.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn an_answer_comes_when_its_commit_is_flushed_and_not_if_that_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("main.db");
        std::fs::write(&file, "").expect("a file");
        let flusher = Flusher::start(&file).expect("a thread");
        let (say, said) = channel();
        let reply = |what: u64| -> Reply {
            let say = say.clone();
            Box::new(move |flushed| say.send((what, flushed.is_ok())).expect("somebody listens"))
        };
        flusher.answer(0, reply(0));
        assert_eq!(said.try_recv(), Ok((0, true)), "nothing was committed that it could have seen");
        std::fs::write(folder.path().join("main.db-wal"), "x").expect("a file");
        flusher.answer(1, reply(1));
        assert_eq!(said.recv(), Ok((1, true)));
        let other = Flusher::start(&file).expect("a thread");
        let log = folder.path().join("main.db-wal");
        std::fs::remove_file(&log).expect("it was there");
        std::os::unix::fs::symlink(&log, &log).expect("a link to itself");
        other.answer(1, reply(2));
        assert_eq!((said.recv(), other.failed()), (Ok((2, false)), true));
        std::fs::remove_file(&log).expect("it was there");
        std::fs::write(&log, "x").expect("a file");
        other.answer(2, reply(3));
        assert_eq!(said.recv(), Ok((3, false)), "what was lost before stays lost");
    }
}
