//! Functions, carried out: what queues, schedules and subscribers call.

mod linked;

pub use linked::{Linked, LinkedCall};
