//! What a broken broker puts off: a statement that belongs to a transaction and is run in a later one. A right broker
//! runs it at once, and there is nothing else here.

use super::Broker;
use super::sql::{Arg, Sql};
use crate::broken::{self, Variant};
use crate::store::{StoreError, Value};

/// Statements and their parameters.
pub(super) type Later = Vec<(&'static str, Vec<Value>)>;

impl Broker {
    /// Runs a statement, unless this thread's broker is one that puts it off.
    pub(super) fn run_or_put_off(
        &mut self,
        variant: Variant,
        sql: &mut dyn Sql,
        statement: &'static str,
        args: &[Arg<'_>],
    ) -> Result<(), StoreError> {
        if broken::is(variant) {
            self.later.push((statement, args.iter().map(owned).collect()));
            return Ok(());
        }
        sql.run(statement, args).map(drop)
    }

    /// Runs what was put off.
    pub(super) fn run_put_off(&mut self, sql: &mut dyn Sql) -> Result<(), StoreError> {
        for (statement, values) in std::mem::take(&mut self.later) {
            let args: Vec<Arg<'_>> = values.iter().map(borrowed).collect();
            sql.run(statement, &args)?;
        }
        Ok(())
    }
}

fn owned(arg: &Arg<'_>) -> Value {
    match *arg {
        Arg::Null => Value::Null,
        Arg::Integer(number) => Value::Integer(number),
        Arg::Text(text) => Value::Text(text.to_owned()),
        Arg::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn borrowed(value: &Value) -> Arg<'_> {
    match value {
        Value::Null | Value::Real(_) => Arg::Null,
        Value::Integer(number) => Arg::Integer(*number),
        Value::Text(text) => Arg::Text(text),
        Value::Blob(bytes) => Arg::Blob(bytes),
    }
}
