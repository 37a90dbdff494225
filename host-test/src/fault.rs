//! What can go wrong with the store, by name.

use jadpo_core::store::{Statement, Value};

/// What happens to a batch of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// The store cannot be reached: nothing runs.
    Down,
    /// The statements run, the transaction is rolled back, an error comes back.
    BeforeCommit,
    /// The statements commit, but the answer is lost: an error comes back.
    AfterCommit,
    /// It works, but takes this long, in milliseconds.
    Slow(u32),
}

/// Chooses the fault of a batch by its number, which starts at 1 and counts every round trip.
pub(crate) type Plan = Box<dyn FnMut(u64) -> Option<StoreFault> + Send>;

/// The faults in force.
#[derive(Default)]
pub(crate) struct Faults {
    /// Until it is lifted.
    standing: Option<StoreFault>,
    /// For so many more batches; goes before what stands.
    counted: Option<(StoreFault, u32)>,
    /// Asked when neither of the two applies.
    plan: Option<Plan>,
    /// A batch whose parameters hold one of these fails with a constraint error.
    refused: Vec<String>,
}

impl Faults {
    pub(crate) fn for_batches(&mut self, fault: StoreFault, batches: u32) {
        self.counted = Some((fault, batches));
    }

    pub(crate) fn until_lifted(&mut self, fault: StoreFault) {
        self.standing = Some(fault);
    }

    pub(crate) fn planned(&mut self, plan: Plan) {
        self.plan = Some(plan);
    }

    pub(crate) fn refuse(&mut self, text: &str) {
        self.refused.push(text.to_owned());
    }

    pub(crate) fn lift(&mut self) {
        *self = Self::default();
    }

    /// The fault of batch number `batch`.
    pub(crate) fn next(&mut self, batch: u64) -> Option<StoreFault> {
        if let Some((fault, left)) = self.counted.take_if(|(_, left)| *left > 0) {
            self.counted = Some((fault, left - 1));
            return Some(fault);
        }
        self.standing.or_else(|| self.plan.as_mut().and_then(|plan| plan(batch)))
    }

    /// Whether a statement carries a text that the test has the store refuse.
    pub(crate) fn refuses(&self, statement: &Statement) -> bool {
        self.refused.iter().any(|text| statement.params.iter().any(|param| holds(param, text)))
    }
}

fn holds(param: &Value, text: &str) -> bool {
    match param {
        Value::Text(param) => param.contains(text),
        Value::Blob(bytes) => bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes()),
        Value::Null | Value::Integer(_) | Value::Real(_) => false,
    }
}
