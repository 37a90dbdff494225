//! The native half of jadpo: what the `jadpo` binary does, as a library.

pub mod build;
