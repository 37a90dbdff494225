//! The npm packages of host-workers/e2e and a node that is new enough for them.

use super::cache::Cache;
use super::debian;
use crate::problem::{Problem, Result};
use crate::run;
use crate::workspace::Workspace;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// The oldest node that wrangler and miniflare of the lock file run on.
const NODE_MIN: (u32, u32) = (22, 12);

/// What decides which packages are installed.
const INPUTS: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// The node program and the `node_modules` folder, which host-workers/e2e then has a link to.
///
/// # Errors
/// When there is no npm, `npm ci` fails, or no node is new enough.
pub(super) fn ready(ws: &Workspace, cache: &Cache) -> Result<(PathBuf, PathBuf)> {
    let e2e = ws.path("host-workers/e2e");
    let folder = cache.folder(&format!("npm-{}", key(&e2e)?), |into| install(cache, &e2e, into))?;
    let modules = folder.join("node_modules");
    link(&e2e.join("node_modules"), &modules)?;
    Ok((new_enough(&modules)?, modules))
}

/// A name for what the lock file describes on this kind of machine.
fn key(e2e: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for name in INPUTS {
        let path = e2e.join(name);
        hash.update(fs::read(&path).map_err(|e| Problem::io(format!("reading {}", path.display()), &e))?);
    }
    hash.update(std::env::consts::ARCH);
    Ok(hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect())
}

fn install(cache: &Cache, e2e: &Path, into: &Path) -> Result<()> {
    if run::ask(run::command("npm").arg("--version")).is_none() {
        debian::install(cache, &["nodejs", "npm"]).map_err(|p| p.help("install node 22.12 or newer, with npm"))?;
    }
    for name in INPUTS {
        fs::copy(e2e.join(name), into.join(name)).map_err(|e| Problem::io(format!("copying {name}"), &e))?;
    }
    let mut npm = run::command("npm");
    npm.args(["ci", "--no-progress"]).current_dir(into);
    run::step("npm packages (workerd, miniflare, wrangler, …): npm ci", &mut npm, &cache.log("npm-ci"))
        .map_err(|p| p.help("check that npm reaches its registry (`npm ping`), then run the command again"))
}

/// Points `link` at `target`, whatever it pointed at before.
fn link(link: &Path, target: &Path) -> Result<()> {
    if fs::read_link(link).is_ok_and(|now| now == target) {
        return Ok(());
    }
    match fs::symlink_metadata(link) {
        Ok(there) if there.is_symlink() => {
            fs::remove_file(link).map_err(|e| Problem::io(format!("removing the old link {}", link.display()), &e))?;
        }
        Ok(_) => {
            return Err(Problem::new(format!("{} is there and is not a link to the cache", link.display()))
                .help("remove it; set-up installs the same packages into the cache and links them"));
        }
        Err(_) => {}
    }
    match std::os::unix::fs::symlink(target, link) {
        // Another xtask in this clone may have been quicker.
        Err(e) if !fs::read_link(link).is_ok_and(|now| now == target) => {
            Err(Problem::io(format!("linking {}", link.display()), &e))
        }
        _ => Ok(()),
    }
}

/// The machine's own node if it is new enough, else the one among the packages.
fn new_enough(modules: &Path) -> Result<PathBuf> {
    let own = run::ask(run::command("node").args(["-p", "process.version + ' ' + process.execPath"]));
    if let Some((version, path)) = own.as_deref().and_then(|text| text.split_once(' '))
        && is_new_enough(version)
    {
        return Ok(PathBuf::from(path));
    }
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let packaged = modules.join(format!("node-{}-{arch}/bin/node", std::env::consts::OS));
    if packaged.is_file() {
        return Ok(packaged);
    }
    let found = own.map_or("no node".to_owned(), |text| format!("node {text}"));
    Err(Problem::new(format!("this machine has {found}, and {}.{} or newer is needed", NODE_MIN.0, NODE_MIN.1))
        .help("install a newer node and put it on the PATH"))
}

fn is_new_enough(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map_while(|part| part.parse::<u32>().ok());
    matches!((parts.next(), parts.next()), (Some(major), Some(minor)) if (major, minor) >= NODE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_new_enough_from_22_12_on() {
        assert!(is_new_enough("v22.12.0"));
        assert!(is_new_enough("v24.1.0"));
        assert!(!is_new_enough("v22.11.9"));
        assert!(!is_new_enough("v20.20.2"));
        assert!(!is_new_enough("nonsense"));
    }

    #[test]
    fn a_stale_link_is_pointed_anew_and_a_real_folder_is_left_alone() {
        let dir = std::env::temp_dir().join(format!("jadpo-xtask-link-{}", std::process::id()));
        fs::create_dir_all(dir.join("real")).unwrap();
        let name = dir.join("node_modules");
        link(&name, &dir.join("gone")).unwrap();
        link(&name, &dir.join("real")).unwrap();
        assert_eq!(fs::read_link(&name).unwrap(), dir.join("real"));
        assert!(link(&dir.join("real"), &dir.join("gone")).is_err());
        assert!(dir.join("real").is_dir());
        fs::remove_dir_all(&dir).unwrap();
    }
}
