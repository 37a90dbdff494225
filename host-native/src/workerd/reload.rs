//! Looks for changes of what Workers are made of, and makes them anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::Source;
use super::failure::Failure;
use super::prepare::agree;
use super::project::{Loading, Project};
use super::run::{Made, broken};

/// How often it is looked, and how long nothing may have changed before something is made: an editor writes in steps.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_millis(30);
/// Files that are looked at.
const FILES_MAX: usize = 20_000;

/// When a file was last written and how long it is; `None` while it is not there.
pub(super) type Seen = BTreeMap<PathBuf, Option<(SystemTime, u64)>>;

/// Makes the Workers anew when something of theirs has changed, and hands them over if that made a difference.
pub(super) async fn watch(
    sources: Vec<Source>,
    stands_in: bool,
    loading: Loading,
    scratch: PathBuf,
    (mut projects, mut seen): (Vec<Project>, Seen),
    (changed, made): (mpsc::Sender<Vec<Project>>, Made),
) {
    loop {
        sleep(LOOK_EVERY).await;
        let mut now = look_again(&seen);
        if now == seen {
            continue;
        }
        loop {
            sleep(QUIET).await;
            let later = look_again(&now);
            if later == now {
                break;
            }
            now = later;
        }
        let builds = projects.iter().any(|project| project.worker.code.build.is_some());
        let loaded = load(&sources, &loading, &scratch).await;
        match loaded.and_then(|(next, made_of)| agree(&next, stands_in).map(|()| (next, made_of))) {
            Ok((next, made_of)) => {
                seen = made_of;
                if next != projects {
                    projects.clone_from(&next);
                    if changed.send(next).await.is_err() {
                        return;
                    }
                }
            }
            Err(failure) => {
                broken(&failure, &made);
                // What a build has written is no change that makes another.
                seen = if builds { look_again(&now) } else { now };
            }
        }
    }
}

/// Loads all of them; with them, what they were made of as it was then.
pub(super) async fn load(
    sources: &[Source],
    loading: &Loading,
    scratch: &Path,
) -> Result<(Vec<Project>, Seen), Failure> {
    let since = SystemTime::now();
    let mut projects = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        projects.push(Project::load(source, loading, &scratch.join(format!("b{index}"))).await?);
    }
    let mut seen = look(&paths(&projects));
    if projects.iter().all(|project| project.worker.code.build.is_none()) {
        // What was written while they were made is a change still to come. A build writes itself.
        for stamp in seen.values_mut() {
            *stamp = stamp.filter(|(written, _)| *written < since);
        }
    }
    Ok((projects, seen))
}

/// What is looked at: the files, and the folders of those that are the Worker's own, where one may appear or go.
fn paths(projects: &[Project]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for project in projects {
        paths.extend(project.files.iter().cloned());
        for source in &project.bundle.sources {
            paths.push(source.clone());
            if !source.components().any(|part| part.as_os_str() == "node_modules") {
                paths.extend(source.parent().map(Path::to_owned));
            }
        }
        if let Some(build) = &project.worker.code.build {
            for folder in &build.watch_dirs {
                all_within(&project.folder.join(folder), &mut paths);
            }
        }
    }
    paths.sort();
    paths.dedup();
    paths.truncate(FILES_MAX);
    paths
}

fn all_within(folder: &Path, paths: &mut Vec<PathBuf>) {
    paths.push(folder.to_owned());
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten().take(FILES_MAX) {
        if paths.len() >= FILES_MAX {
            return;
        }
        let path = entry.path();
        let name = entry.file_name();
        if name == "node_modules" || name == "target" || name.to_string_lossy().starts_with('.') {
            continue;
        }
        // A link could lead round in a circle.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all_within(&path, paths);
        } else {
            paths.push(path);
        }
    }
}

fn look(paths: &[PathBuf]) -> Seen {
    paths.iter().map(|path| (path.clone(), stamp(path))).collect()
}

fn look_again(seen: &Seen) -> Seen {
    seen.keys().map(|path| (path.clone(), stamp(path))).collect()
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
