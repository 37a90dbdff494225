//! Triggers and webhooks, asked for.

use jadpo_core::admin::queues::{Trigger, Triggers, Webhook, Webhooks};

use super::{Operator, OperatorError, segment};

impl Operator {
    /// Every trigger, by name.
    ///
    /// # Errors
    /// [`OperatorError`] if there is no answer, or the answer is a refusal.
    pub async fn triggers(&self) -> Result<Vec<Trigger>, OperatorError> {
        Ok(self.get::<Triggers>("triggers").await?.triggers)
    }

    /// Turns a trigger on or off.
    ///
    /// # Errors
    /// As [`Operator::triggers`].
    pub async fn enable_trigger(&self, name: &str, enabled: bool) -> Result<Trigger, OperatorError> {
        let verb = if enabled { "enable" } else { "disable" };
        self.ask("POST", &format!("triggers/{}/{verb}", segment(name)), Vec::new()).await
    }

    /// Every webhook, by name.
    ///
    /// # Errors
    /// As [`Operator::triggers`].
    pub async fn webhooks(&self) -> Result<Webhooks, OperatorError> {
        self.get("webhooks").await
    }

    /// Gives a webhook another token. The address with the old one is dead at once.
    ///
    /// # Errors
    /// As [`Operator::triggers`].
    pub async fn rotate_webhook(&self, name: &str) -> Result<Webhook, OperatorError> {
        self.ask("POST", &format!("webhooks/{}/rotate", segment(name)), Vec::new()).await
    }
}
