//! Webhooks' tokens: the part of a public address that nobody can guess.

use std::collections::BTreeMap;

use super::error::BrokerError;
use super::load::text;
use super::sql::Sql;
use super::triggers::check_trigger;
use super::{Broker, Moment};

const ALL: &str = "SELECT name, token FROM jadpo_webhook_tokens";
const ONE: &str = "SELECT token FROM jadpo_webhook_tokens WHERE name = ?1";
const SET: &str = "INSERT INTO jadpo_webhook_tokens (name, token) VALUES (?1, ?2) \
    ON CONFLICT (name) DO UPDATE SET token = excluded.token";

impl Broker {
    /// A webhook's token, made when it is first asked for: 32 letters, digits, `-` and `_`, 192 bits.
    ///
    /// # Errors
    /// [`BrokerError::TooLong`] for a name that no webhook has; [`BrokerError::Store`].
    pub fn webhook_token(&self, sql: &mut dyn Sql, moment: Moment, name: &str) -> Result<String, BrokerError> {
        match sql.run(ONE, &[name.into()])?.rows.first() {
            Some(row) => Ok(text(row, 0)?),
            None => self.rotate_webhook_token(sql, moment, name),
        }
    }

    /// Gives a webhook a new token. The old one is good for nothing from now on.
    ///
    /// # Errors
    /// As [`webhook_token`](Self::webhook_token).
    pub fn rotate_webhook_token(&self, sql: &mut dyn Sql, moment: Moment, name: &str) -> Result<String, BrokerError> {
        check_trigger(name)?;
        // The old one is part of it, so that two rotations in one moment give two tokens.
        let old = sql.run(ONE, &[name.into()])?.rows.first().map(|row| text(row, 0)).transpose()?;
        let token = self.key.secret(&format!("webhook {name} {}", old.unwrap_or_default()), moment.random);
        sql.run(SET, &[name.into(), token.as_str().into()])?;
        Ok(token)
    }

    /// Every token that was made, by the webhook's name.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub fn webhook_tokens(&self, sql: &mut dyn Sql) -> Result<BTreeMap<String, String>, BrokerError> {
        let rows = sql.run(ALL, &[])?.rows;
        Ok(rows
            .iter()
            .map(|row| Ok((text(row, 0)?, text(row, 1)?)))
            .collect::<Result<_, crate::store::StoreError>>()?)
    }
}
