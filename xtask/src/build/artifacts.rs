//! The files of `dist/`: their checksums and sizes.

use crate::problem::{Problem, Result};
use comfy_table::{CellAlignment, Table, presets};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::Path;

const SUMS: &str = "SHA256SUMS";

/// One released file.
pub(super) struct Artifact {
    /// Its path below `dist`, with `/`.
    name: String,
    bytes: usize,
    gzip_bytes: usize,
    sha256: String,
}

/// Writes `SHA256SUMS`, in the form that `sha256sum --check` reads, over every other file below `dist`.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn write_checksums(dist: &Path) -> Result<Vec<Artifact>> {
    let mut names = Vec::new();
    collect(dist, "", &mut names)?;
    names.retain(|name| name != SUMS);
    names.sort();
    let files = names.into_iter().map(|name| measure(dist, name)).collect::<Result<Vec<_>>>()?;
    let sums: String = files.iter().map(|file| format!("{}  {}\n", file.sha256, file.name)).collect();
    fs::write(dist.join(SUMS), sums).map_err(|e| Problem::io(format!("writing {SUMS}"), &e))?;
    Ok(files)
}

/// The files with their sizes, for people.
pub(super) fn table(files: &[Artifact]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["in dist/", "size", "gzip", "SHA-256"]);
    for file in files {
        let sha256 = file.sha256.get(..16).unwrap_or_default();
        table.add_row([&file.name, &size(file.bytes), &size(file.gzip_bytes), &format!("{sha256}…")]);
    }
    for column in table.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn collect(dist: &Path, below: &str, names: &mut Vec<String>) -> Result<()> {
    let folder = dist.join(below);
    let io = |e: std::io::Error| Problem::io(format!("reading {}", folder.display()), &e);
    for entry in fs::read_dir(&folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type().map_err(io)?.is_dir() {
            collect(dist, &name, names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}

fn measure(dist: &Path, name: String) -> Result<Artifact> {
    let io = |e: std::io::Error| Problem::io(format!("reading {name}"), &e);
    let bytes = fs::read(dist.join(&name)).map_err(io)?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&bytes).map_err(io)?;
    let gzip_bytes = gzip.finish().map_err(io)?.len();
    let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Artifact { name, bytes: bytes.len(), gzip_bytes, sha256 })
}

/// Bytes as people say them, in units of 1,024.
fn size(bytes: usize) -> String {
    let kib = bytes.div_ceil(1024);
    if kib < 10_000 { format!("{kib} KiB") } else { format!("{}.{} MiB", kib / 1024, kib % 1024 * 10 / 1024) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_cover_every_file_but_themselves_in_a_fixed_order() {
        let dist = std::env::temp_dir().join(format!("jadpo-xtask-dist-{}", std::process::id()));
        fs::create_dir_all(dist.join("worker")).unwrap();
        fs::write(dist.join("worker/worker.js"), "abc").unwrap();
        fs::write(dist.join("jadpo"), "").unwrap();
        write_checksums(&dist).unwrap();
        write_checksums(&dist).unwrap();
        let sums = fs::read_to_string(dist.join(SUMS)).unwrap();
        assert_eq!(
            sums,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  jadpo\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  worker/worker.js\n"
        );
        fs::remove_dir_all(&dist).unwrap();
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(size(1), "1 KiB");
        assert_eq!(size(350 * 1024), "350 KiB");
        assert_eq!(size(12 * 1024 * 1024 + 512 * 1024), "12.5 MiB");
    }
}
