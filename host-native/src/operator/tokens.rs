//! Tokens of the Queues API, asked for.

use jadpo_core::admin::queues::{MadeToken, NewToken, Queue, Token, Tokens};

use super::{Operator, OperatorError, segment};

impl Operator {
    /// Every token, and the account.
    ///
    /// # Errors
    /// [`OperatorError`] if there is no answer, or the answer is a refusal.
    pub async fn tokens(&self) -> Result<Tokens, OperatorError> {
        self.get("tokens").await
    }

    /// Makes a token.
    ///
    /// # Errors
    /// As [`Operator::tokens`].
    pub async fn create_token(&self, new: &NewToken) -> Result<MadeToken, OperatorError> {
        self.post("tokens", new).await
    }

    /// Makes a token good for nothing.
    ///
    /// # Errors
    /// As [`Operator::tokens`].
    pub async fn revoke_token(&self, name: &str) -> Result<Token, OperatorError> {
        self.ask("DELETE", &format!("tokens/{}", segment(name)), Vec::new()).await
    }

    /// Lets a queue be pulled over HTTP, or no more.
    ///
    /// # Errors
    /// As [`Operator::tokens`].
    pub async fn let_pull(&self, name: &str, is_pulled: bool) -> Result<Queue, OperatorError> {
        let method = if is_pulled { "POST" } else { "DELETE" };
        self.ask(method, &format!("queues/{}/pull", segment(name)), Vec::new()).await
    }
}
