//! The Cloudflare Queues REST API, asked over HTTP as clients ask it: a real server, a store's file, real time. Where a
//! boundary is exact to the millisecond or a day away, the same rules run on a clock of the test's.

#[cfg(test)]
mod client;
#[cfg(test)]
#[allow(dead_code)] // shared with the broker's own tests, which need all of it
#[path = "../broker/support.rs"]
mod fixture;
#[cfg(test)]
#[allow(dead_code)] // shared with the server's own tests
#[path = "../server/support.rs"]
mod support;

#[cfg(test)]
mod access;
#[cfg(test)]
mod consumers;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod many;
#[cfg(test)]
mod pull;
#[cfg(test)]
mod push;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod time;
