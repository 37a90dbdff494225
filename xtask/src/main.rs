//! Builds and checks.
fn main() {}
