//! The `jadpo` binary.
fn main() {}
