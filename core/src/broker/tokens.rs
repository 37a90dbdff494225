//! Tokens of the API: made, listed, revoked, and told apart from what is none.
//!
//! A token is `jadpo_ID_SECRET`. The store keeps a hash of the secret, so whoever reads the store learns no token; the
//! secret is 192 random bits, so a hash that takes no time is enough. It is shown once.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::error::BrokerError;
use super::limits::{TOKEN_NAME_BYTES_MAX, TOKEN_QUEUES_MAX, TOKENS_MAX};
use super::load::{broken, integer, text};
use super::sql::Sql;
use super::{Broker, Moment};
use crate::store::{StoreError, Value};

const ALL: &str = "SELECT id, name, hash, may_read, may_write, queues, created_at, expires_at FROM jadpo_api_tokens";
const INSERT: &str = "INSERT INTO jadpo_api_tokens (id, name, hash, may_read, may_write, queues, created_at, \
    expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const DELETE: &str = "DELETE FROM jadpo_api_tokens WHERE id = ?1";

const PREFIX: &str = "jadpo_";
/// What the developer's token has in place of an id.
const DEV: &str = "dev";
const ID_BYTES: usize = 8;

/// What is known of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    /// Its id, which is a part of it and no secret.
    pub id: String,
    /// Its name, which no other has.
    pub name: String,
    /// Whether it may look at queues and their messages.
    pub may_read: bool,
    /// Whether it may change them. Taking messages and settling them needs both.
    pub may_write: bool,
    /// The queues that it is for, by name; empty for all.
    pub queues: Vec<String>,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// From when on it is good for nothing, in milliseconds since 1970, if ever.
    pub expires_at_ms: Option<i64>,
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiToken {
    /// Its name.
    pub name: String,
    /// Whether it may look at queues and their messages.
    pub may_read: bool,
    /// Whether it may change them.
    pub may_write: bool,
    /// The queues that it is for, by name; empty for all. They need not be there yet.
    pub queues: Vec<String>,
    /// From when on it is good for nothing, in milliseconds since 1970, if ever.
    pub expires_at_ms: Option<i64>,
}

/// A token with the hash of its secret.
#[derive(Debug, Clone)]
pub(super) struct Known {
    token: ApiToken,
    hash: Vec<u8>,
}

impl Broker {
    /// Makes a token. It is in the answer and nowhere else.
    ///
    /// # Errors
    /// [`BrokerError::TokenExists`], a refusal of its name or its queues, [`BrokerError::Store`].
    pub fn create_token(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        new: NewApiToken,
    ) -> Result<(ApiToken, String), BrokerError> {
        check_name("a token's name", &new.name, TOKEN_NAME_BYTES_MAX)?;
        new.queues.iter().try_for_each(|name| super::settings::check_name(name))?;
        if new.queues.len() > TOKEN_QUEUES_MAX {
            let (limit, actual) = (TOKEN_QUEUES_MAX, new.queues.len());
            return Err(BrokerError::TooLong { what: "queues of a token", limit, actual });
        }
        if self.tokens().any(|token| token.name == new.name) {
            return Err(BrokerError::TokenExists(new.name));
        }
        if self.tokens.len() >= TOKENS_MAX {
            return Err(BrokerError::TooLong { what: "tokens", limit: TOKENS_MAX, actual: self.tokens.len() + 1 });
        }
        // Every name is taken once at a time, so no two tokens of one moment are the same.
        let secret = self.key.secret(&format!("token {}", new.name), moment.random);
        let hash = Sha256::digest(&secret).to_vec();
        let id: String = hash.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect();
        let NewApiToken { name, may_read, may_write, queues, expires_at_ms } = new;
        let listed = serde_json::Value::from(queues.clone()).to_string();
        let values = [
            id.as_str().into(),
            name.as_str().into(),
            hash.as_slice().into(),
            may_read.into(),
            may_write.into(),
            listed.as_str().into(),
            moment.wall_ms.into(),
            expires_at_ms.into(),
        ];
        sql.run(INSERT, &values)?;
        let shown = format!("{PREFIX}{id}_{secret}");
        let created_at_ms = moment.wall_ms;
        let token = ApiToken { id: id.clone(), name, may_read, may_write, queues, created_at_ms, expires_at_ms };
        self.tokens.insert(id, Known { token: token.clone(), hash });
        Ok((token, shown))
    }

    /// Every token, in no order that means anything.
    pub fn tokens(&self) -> impl Iterator<Item = &ApiToken> {
        self.tokens.values().map(|known| &known.token)
    }

    /// Makes a token good for nothing.
    ///
    /// # Errors
    /// [`BrokerError::TokenNotFound`] or [`BrokerError::Store`].
    pub fn revoke_token(&mut self, sql: &mut dyn Sql, name: &str) -> Result<ApiToken, BrokerError> {
        let Some(token) = self.tokens().find(|token| token.name == name).cloned() else {
            return Err(BrokerError::TokenNotFound(name.to_owned()));
        };
        sql.run(DELETE, &[token.id.as_str().into()])?;
        self.tokens.remove(&token.id);
        Ok(token)
    }

    /// The token that somebody shows, if it is one and has not expired. Secrets are compared in constant time.
    #[must_use]
    pub fn token(&self, moment: Moment, shown: &str) -> Option<&ApiToken> {
        let (id, secret) = shown.strip_prefix(PREFIX)?.split_once('_')?;
        let known = self.tokens.get(id)?;
        let is_it = bool::from(Sha256::digest(secret).as_slice().ct_eq(&known.hash));
        let lasts = known.token.expires_at_ms.is_none_or(|at_ms| moment.wall_ms < at_ms);
        (is_it && lasts).then_some(&known.token)
    }

    /// The token for development on this store: the same as long as the store is, and none at all in production.
    #[must_use]
    pub fn dev_token(&self) -> String {
        format!("{PREFIX}{DEV}_{}", self.key.secret("the developer's token", 0))
    }

    /// Whether this is the token for development.
    #[must_use]
    pub fn is_dev_token(&self, shown: &str) -> bool {
        let (one, other) = (Sha256::digest(shown), Sha256::digest(self.dev_token()));
        bool::from(one.ct_eq(&other))
    }

    pub(super) fn read_tokens(sql: &mut dyn Sql) -> Result<BTreeMap<String, Known>, StoreError> {
        let mut tokens = BTreeMap::new();
        for row in sql.run(ALL, &[])?.rows {
            let Some(Value::Blob(hash)) = row.0.get(2) else { return Err(broken("a token has no hash")) };
            let queues = serde_json::from_str(&text(&row, 5)?).map_err(|_| broken("a token's queues are no list"))?;
            let token = ApiToken {
                id: text(&row, 0)?,
                name: text(&row, 1)?,
                may_read: integer(&row, 3)? != 0,
                may_write: integer(&row, 4)? != 0,
                queues,
                created_at_ms: integer(&row, 6)?,
                expires_at_ms: row.integer(7),
            };
            tokens.insert(token.id.clone(), Known { token, hash: hash.clone() });
        }
        Ok(tokens)
    }
}

/// A name that is shown to people and looked for by its text.
pub(super) fn check_name(what: &'static str, name: &str, limit: usize) -> Result<(), BrokerError> {
    if name.len() > limit {
        return Err(BrokerError::TooLong { what, limit, actual: name.len() });
    }
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(BrokerError::NotAName(what));
    }
    Ok(())
}
