//! Debian's packages: node where there is none, and the second road to a Wasm target.
//!
//! Debian ships a recent compiler for its browsers' sake (rustc-web) but not the Wasm standard library. Its sources
//! (rust-web-src) are enough to build one, once per compiler version.

use super::cache::Cache;
use super::wasm_target::{TRIPLE, WasmTarget};
use crate::problem::{Problem, Result};
use crate::run;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";
const PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// The crates of the standard library that a Worker and its tests are linked with.
const BUILD_STD: &str = "-Zbuild-std=std,panic_abort,panic_unwind,proc_macro,test";

/// Stands before Debian's rustc and points it to the standard library beside it.
const WRAPPER: &str = "#!/bin/sh\nexec /usr/bin/rustc --sysroot \"${0%/*}/../sysroot\" \"$@\"\n";

/// Whether this machine has Debian's packages.
pub(super) fn is_possible() -> bool {
    Path::new("/usr/bin/apt-get").exists()
}

/// Installs packages, as root or by a sudo that asks nothing.
///
/// # Errors
/// When this is no Debian, or the packages cannot be installed.
pub(super) fn install(cache: &Cache, packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    if !is_possible() {
        return Err(Problem::new(format!("{names}: missing, and there is no apt-get to install it with")));
    }
    cache.hold_lock()?;
    let root = run::ask(run::command("id").arg("-u")).is_some_and(|id| id == "0");
    let apt = |args: &[&str]| {
        let mut command = if root { run::command("apt-get") } else { run::command("sudo") };
        if !root {
            command.args(["-n", "apt-get"]);
        }
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let help = format!("run: sudo apt-get install --no-install-recommends {names}");
    run::step("Debian's package lists: apt-get update", &mut apt(&["update"]), &cache.log("apt-update"))
        .map_err(|p| p.help(help.clone()))?;
    let args: Vec<&str> = ["install", "-y", "--no-install-recommends"].iter().chain(packages).copied().collect();
    run::step(&format!("{names}: apt-get install"), &mut apt(&args), &cache.log("apt-install"))
        .map_err(|p| p.help(help))
}

/// Debian's compiler with a Wasm standard library, built once per version of the compiler.
///
/// # Errors
/// When the packages cannot be installed or the standard library cannot be built.
pub(super) fn wasm_target(cache: &Cache) -> Result<WasmTarget> {
    if compiler_version().is_none() || run::ask(Command::new(CARGO).arg("--version")).is_none() || !has_sources() {
        install(cache, &PACKAGES)?;
    }
    let version = compiler_version().ok_or_else(|| {
        Problem::new(format!("{RUSTC} does not run")).help(format!("reinstall {}", PACKAGES.join(" ")))
    })?;
    let folder = cache.folder(&folder_name(&version), |into| build(cache, into))?;
    let bin = folder.join("bin");
    ensure_linker(cache, &bin)?;
    Ok(WasmTarget::Debian { bin, version })
}

/// Whether [`wasm_target`] was got before, for the compiler that is there now.
pub(super) fn is_built(cache: &Cache) -> bool {
    compiler_version().is_some_and(|version| cache.path(&folder_name(&version)).is_dir())
}

fn folder_name(version: &str) -> String {
    format!("wasm-std-debian-{version}")
}

/// Such as `1.96.0`; rebuilt packages of one version are compatible.
fn compiler_version() -> Option<String> {
    about_compiler("release: ")
}

/// A line of what the compiler says about itself, without its label.
fn about_compiler(label: &str) -> Option<String> {
    let text = run::ask(Command::new(RUSTC).arg("-vV"))?;
    text.lines().find_map(|line| line.strip_prefix(label)).map(str::to_owned)
}

/// rustc links Wasm with `rust-lld`, which Debian's package leaves out: the one of a rustup toolchain does, and so does
/// LLVM's own `lld` of the compiler's LLVM version. It is looked at every time, since a toolchain may go away.
fn ensure_linker(cache: &Cache, bin: &Path) -> Result<()> {
    let linker = bin.join("rust-lld");
    if links_wasm(&linker) {
        return Ok(());
    }
    cache.hold_lock()?;
    let llvm = about_compiler("LLVM version: ").unwrap_or_default();
    let package = format!("lld-{}", llvm.split('.').next().unwrap_or_default());
    let of_debian = Path::new("/usr/bin").join(&package);
    let libs = run::ask(run::command("rustc").args(["--print", "target-libdir"])).unwrap_or_default();
    let of_rustup = Path::new(&libs).with_file_name("bin").join("rust-lld");
    let found = if links_wasm(&of_rustup) {
        of_rustup
    } else {
        if !links_wasm(&of_debian) {
            install(cache, &[&package])?;
        }
        of_debian
    };
    let io = |e: std::io::Error| Problem::io(format!("linking {}", linker.display()), &e);
    if linker.is_symlink() {
        fs::remove_file(&linker).map_err(io)?;
    }
    symlink(found, &linker).map_err(io)
}

fn links_wasm(linker: &Path) -> bool {
    run::ask(Command::new(linker).args(["-flavor", "wasm", "--version"])).is_some()
}

fn has_sources() -> bool {
    run::ask(Command::new(RUSTC).args(["--print", "sysroot"]))
        .is_some_and(|sysroot| Path::new(&sysroot).join("lib/rustlib/src/rust/library/std/Cargo.toml").exists())
}

fn build(cache: &Cache, into: &Path) -> Result<()> {
    let io = |e: std::io::Error| Problem::io("preparing the Wasm standard library", &e);
    let empty = into.join("empty");
    fs::create_dir_all(empty.join("src")).map_err(io)?;
    fs::write(empty.join("Cargo.toml"), "[package]\nname = \"empty\"\nedition = \"2021\"\n[workspace]\n")
        .map_err(io)?;
    fs::write(empty.join("src/lib.rs"), "").map_err(io)?;

    let mut cargo = run::command(CARGO);
    cargo.current_dir(&empty).args(["build", "--release", "--target", TRIPLE, BUILD_STD]);
    cargo.env("RUSTC", RUSTC).env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", empty.join("target"));
    cargo.env_remove("RUSTFLAGS").env_remove("RUSTC_WRAPPER");
    run::step("the Wasm standard library for Debian's rustc", &mut cargo, &cache.log("wasm-std"))
        .map_err(|p| p.help("check that cargo reaches its registry, then run the command again"))?;

    let libs = into.join("sysroot/lib/rustlib").join(TRIPLE).join("lib");
    fs::create_dir_all(&libs).map_err(io)?;
    let built = empty.join("target").join(TRIPLE).join("release/deps");
    for entry in fs::read_dir(&built).map_err(io)?.flatten() {
        if entry.path().extension().is_some_and(|ext| ext == "rlib") {
            fs::copy(entry.path(), libs.join(entry.file_name())).map_err(io)?;
        }
    }
    add_host_libraries(into)?;
    add_programs(into).map_err(io)?;
    fs::remove_dir_all(&empty).map_err(io)
}

/// Build scripts and macros are compiled for the host, with Debian's own standard library.
fn add_host_libraries(into: &Path) -> Result<()> {
    let missing = || Problem::new("Debian's rustc does not say where its libraries are");
    let libs = run::ask(Command::new(RUSTC).args(["--print", "target-libdir"])).ok_or_else(missing)?;
    let host = Path::new(&libs).parent().ok_or_else(missing)?; // …/rustlib/HOST, with rust-lld in its bin
    let name = host.file_name().ok_or_else(missing)?;
    symlink(host, into.join("sysroot/lib/rustlib").join(name))
        .map_err(|e| Problem::io("linking Debian's own standard library", &e))
}

fn add_programs(into: &Path) -> std::io::Result<()> {
    let bin = into.join("bin");
    fs::create_dir_all(&bin)?;
    let rustc = bin.join("rustc");
    fs::write(&rustc, WRAPPER)?;
    fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755))?;
    symlink(CARGO, bin.join("cargo"))
}
