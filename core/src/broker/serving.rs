//! What a server says of itself, for whoever opens its store.

use super::Broker;
use super::error::BrokerError;
use super::load::text;
use super::sql::Sql;

const GET: &str = "SELECT told FROM jadpo_serving";
const SET: &str = "INSERT INTO jadpo_serving (only, told) VALUES (1, ?1) ON CONFLICT (only) DO UPDATE SET told = ?1";

impl Broker {
    /// What the server said that last started on this store; `None` if none ever did. The broker does not read it.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub fn serving(&self, sql: &mut dyn Sql) -> Result<Option<String>, BrokerError> {
        Ok(sql.run(GET, &[])?.rows.first().map(|row| text(row, 0)).transpose()?)
    }

    /// Keeps what a server says of itself.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub fn set_serving(&mut self, sql: &mut dyn Sql, told: &str) -> Result<(), BrokerError> {
        sql.run(SET, &[told.into()])?;
        Ok(())
    }
}
