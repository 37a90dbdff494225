//! The native half of jadpo: what the `jadpo` binary does, as a library.

pub mod admin;
pub mod api;
pub mod broker;
pub mod build;
pub mod cli;
pub mod d1;
pub mod functions;
pub mod host;
pub mod http;
pub mod log;
pub mod operator;
pub mod server;
pub mod store;
pub mod workerd;
