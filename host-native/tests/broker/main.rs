//! The queue engine, on `SQLite` in memory, with a clock and faults at the test's command; and on files.
#![allow(clippy::string_slice, reason = "tests cut text of ASCII")]

// Marked as tests so that helpers, too, may unwrap.
#[cfg(test)]
mod clients;
#[cfg(test)]
mod clocks;
#[cfg(test)]
mod costs;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod dead;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod handle;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod locked;
#[cfg(test)]
mod looking;
#[cfg(test)]
mod many;
#[cfg(test)]
mod once;
#[cfg(test)]
mod pushing;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod redriving;
#[cfg(test)]
mod said;
#[cfg(test)]
mod settling;
#[cfg(test)]
mod support;
#[cfg(test)]
mod taking;
#[cfg(test)]
mod time;
#[cfg(test)]
mod torn;
#[cfg(test)]
mod triggers;
