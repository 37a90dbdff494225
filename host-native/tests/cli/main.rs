//! The real `jadpo` binary, run as a user runs it.

// Marked as tests so that helpers, too, may unwrap.
#[cfg(test)]
mod build;
#[cfg(test)]
mod d1;
#[cfg(test)]
mod deliveries;
#[cfg(test)]
mod live;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod redrive;
#[cfg(test)]
mod sending;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod store;
#[cfg(test)]
mod support;
