//! Tokens of the Queues API, as they are listed and made.

use serde::{Deserialize, Serialize};

use crate::broker::{ApiToken, NewApiToken};

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look at queues and their messages.
    Read,
    /// Change them. Taking messages and settling them needs both.
    Write,
}

/// A token, without its secret, which nobody has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// Its id, which is a part of it and no secret.
    pub id: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The queues that it is for; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// When it was made.
    pub created_at_ms: i64,
    /// From when on it is good for nothing, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
}

/// Every token, and the account that they are for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The account, which clients name.
    pub account: String,
    /// By name.
    pub tokens: Vec<Token>,
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The queues that it is for; empty for all. They need not be there yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// From when on it is good for nothing, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
}

/// A token that was made. What is shown here is shown nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeToken {
    /// The account, which clients name.
    pub account: String,
    /// What clients show.
    pub secret: String,
    /// Where the store's server answers HTTP, or did when it last ran: `http://127.0.0.1:7878`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What is known of it.
    #[serde(flatten)]
    pub token: Token,
}

impl From<ApiToken> for Token {
    fn from(token: ApiToken) -> Self {
        let ApiToken { id, name, may_read, may_write, queues, created_at_ms, expires_at_ms } = token;
        let scopes = [(Scope::Read, may_read), (Scope::Write, may_write)];
        let scopes = scopes.into_iter().filter_map(|(scope, may)| may.then_some(scope)).collect();
        Self { name, id, scopes, queues, created_at_ms, expires_at_ms }
    }
}

impl From<NewToken> for NewApiToken {
    fn from(new: NewToken) -> Self {
        let NewToken { name, scopes, queues, expires_at_ms } = new;
        let (may_read, may_write) = (scopes.contains(&Scope::Read), scopes.contains(&Scope::Write));
        Self { name, may_read, may_write, queues, expires_at_ms }
    }
}
