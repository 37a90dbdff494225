//! The packaged test host: sources that another workspace depends on by path, without the rest of this one.

use crate::problem::{Problem, Result};
use crate::run;
use crate::workspace::Workspace;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::Write;

/// What the test host needs of the clone, its example apps included.
const PARTS: [&str; 6] = ["core", "host-test", "LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "clippy.toml"];

/// Writes `dist/jadpo-host-test-VERSION.tar.gz`: the same sources give the same bytes.
///
/// # Errors
/// When this is no git clone, or a file cannot be read or written.
pub(super) fn test_host(ws: &Workspace) -> Result<()> {
    let name = format!("jadpo-host-test-{}", ws.locked_version("jadpo-host-test")?);
    let path = ws.path("dist").join(format!("{name}.tar.gz"));
    let io = |e: std::io::Error| Problem::io(format!("writing {}", path.display()), &e);
    let listed = run::ask(run::command("git").current_dir(ws.path("")).args(["ls-files", "-z", "--"]).args(PARTS));
    let listed = listed.filter(|names| !names.is_empty()).ok_or_else(|| {
        Problem::new("git does not list the test host's sources").help("build in a git clone, with git installed")
    })?;
    let mut archive = tar::Builder::new(GzEncoder::new(File::create(&path).map_err(io)?, Compression::best()));
    let mut add = |inside: &str, bytes: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("{name}/{inside}"), bytes)
    };
    add("Cargo.toml", manifest(ws)?.as_bytes()).map_err(io)?;
    for inside in listed.split('\0').filter(|inside| !inside.is_empty()) {
        let bytes = fs::read(ws.path(inside)).map_err(|e| Problem::io(format!("reading {inside}"), &e))?;
        add(inside, &bytes).map_err(io)?;
    }
    archive.into_inner().and_then(GzEncoder::finish).and_then(|mut file| file.flush()).map_err(io)
}

/// The root Cargo.toml with only the members that are in the package.
fn manifest(ws: &Workspace) -> Result<String> {
    let text = fs::read_to_string(ws.path("Cargo.toml")).map_err(|e| Problem::io("reading Cargo.toml", &e))?;
    let lines = text.lines().filter(|line| !line.starts_with("default-members"));
    let lines =
        lines.map(|line| if line.starts_with("members") { "members = [\"core\", \"host-test\"]" } else { line });
    Ok(lines.map(|line| format!("{line}\n")).collect())
}
