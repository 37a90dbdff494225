//! The `jadpo` binary: the command line, with no functions linked in.

fn main() -> std::process::ExitCode {
    jadpo::cli::main(jadpo::functions::Linked::new())
}
