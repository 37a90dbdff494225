//! Queues, their messages and their dead letters, asked for.

use std::collections::BTreeSet;

use form_urlencoded::Serializer;
use jadpo_core::admin::queues::{
    Emptied, FULL_LIMIT_MAX, MESSAGES_LIMIT_MAX, Messages, NewQueue, NewRedrive, PeekedMessage, Queue, Queues, Redrive,
    RedrivePreview, Redrives, Remove, Removed, Send, Sent,
};

use super::{Operator, OperatorError, segment};

impl Operator {
    /// Every queue, by name.
    ///
    /// # Errors
    /// [`OperatorError`] if there is no answer, or the answer is a refusal.
    pub async fn queues(&self) -> Result<Vec<Queue>, OperatorError> {
        let mut queues: Vec<Queue> = Vec::new();
        let mut path = "queues".to_owned();
        loop {
            let page: Queues = self.get(&path).await?;
            queues.extend(page.queues);
            match page.next {
                Some(next) => path = format!("queues?after={}", segment(&next)),
                None => return Ok(queues),
            }
        }
    }

    /// One queue.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn queue(&self, name: &str) -> Result<Queue, OperatorError> {
        self.get(&format!("queues/{}", segment(name))).await
    }

    /// Makes a queue.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn create(&self, queue: &NewQueue) -> Result<Queue, OperatorError> {
        self.post("queues", queue).await
    }

    /// Pauses a queue or lets it go on.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn pause(&self, name: &str, paused: bool) -> Result<Queue, OperatorError> {
        let verb = if paused { "pause" } else { "resume" };
        self.ask("POST", &format!("queues/{}/{verb}", segment(name)), Vec::new()).await
    }

    /// Empties a queue.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn purge(&self, name: &str) -> Result<Emptied, OperatorError> {
        self.ask("DELETE", &format!("queues/{}/messages", segment(name)), Vec::new()).await
    }

    /// Deletes a queue with all it holds.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn delete(&self, name: &str) -> Result<Emptied, OperatorError> {
        self.ask("DELETE", &format!("queues/{}", segment(name)), Vec::new()).await
    }

    /// Sends messages: all of them are kept, or none. They are kept once there is an answer, and may be if there is
    /// none.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn send(&self, name: &str, send: &Send) -> Result<Sent, OperatorError> {
        self.post(&format!("queues/{}/messages", segment(name)), send).await
    }

    /// The first messages of a queue, `limit` at most, and whether there are more.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn peek(&self, name: &str, limit: usize, full: bool) -> Result<Looked, OperatorError> {
        self.look(&format!("queues/{}/messages", segment(name)), limit, full).await
    }

    /// The same of its dead letters. The name may be that of the dead-letter queue itself.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn dead_letters(&self, name: &str, limit: usize, full: bool) -> Result<Looked, OperatorError> {
        self.look(&format!("queues/{}/dead-letters", segment(name)), limit, full).await
    }

    /// The places of the messages that have these ids, which are taken out of the set. The whole queue is looked
    /// through, page by page, until all are found.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn find(&self, name: &str, ids: &mut BTreeSet<String>) -> Result<Vec<String>, OperatorError> {
        let mut found = Vec::new();
        let mut after = String::new();
        while !ids.is_empty() {
            let page: Messages = self.get(&format!("queues/{}/messages{after}", segment(name))).await?;
            let here = page.messages.into_iter().filter(|message| ids.remove(&message.id));
            found.extend(here.map(|message| message.reference));
            match page.next {
                Some(next) => after = format!("?after={}", segment(&next)),
                None => break,
            }
        }
        Ok(found)
    }

    /// Removes messages that were looked at, [`REMOVE_MAX`](jadpo_core::admin::queues::REMOVE_MAX) at most.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn remove(&self, name: &str, refs: Vec<String>) -> Result<Removed, OperatorError> {
        self.post(&format!("queues/{}/messages/remove", segment(name)), &Remove { refs }).await
    }

    /// Starts a redrive.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn redrive(&self, redrive: &NewRedrive) -> Result<Redrive, OperatorError> {
        self.post("redrives", redrive).await
    }

    /// Counts what a redrive would move.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn redrive_preview(&self, redrive: NewRedrive) -> Result<RedrivePreview, OperatorError> {
        self.post("redrives", &NewRedrive { dry_run: true, ..redrive }).await
    }

    /// Every redrive that is known.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn redrives(&self) -> Result<Vec<Redrive>, OperatorError> {
        Ok(self.get::<Redrives>("redrives").await?.redrives)
    }

    /// One redrive.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn redrive_state(&self, id: u64) -> Result<Redrive, OperatorError> {
        self.get(&format!("redrives/{id}")).await
    }

    /// Ends a redrive. What it moved stays moved.
    ///
    /// # Errors
    /// As [`Operator::queues`].
    pub async fn cancel_redrive(&self, id: u64) -> Result<Redrive, OperatorError> {
        self.ask("POST", &format!("redrives/{id}/cancel"), Vec::new()).await
    }

    async fn look(&self, path: &str, limit: usize, full: bool) -> Result<Looked, OperatorError> {
        let page_max = if full { FULL_LIMIT_MAX } else { MESSAGES_LIMIT_MAX };
        let mut looked = Looked::default();
        let mut after: Option<String> = None;
        loop {
            let wanted = limit.saturating_sub(looked.messages.len()).min(page_max);
            let mut query = Serializer::new(String::new());
            query.append_pair("limit", &wanted.to_string());
            query.append_pair("full", if full { "true" } else { "false" });
            query.extend_pairs(after.as_ref().map(|after| ("after", after)));
            let page: Messages = self.get(&format!("{path}?{}", query.finish())).await?;
            looked.queue = page.queue;
            looked.messages.extend(page.messages);
            match page.next {
                Some(next) if looked.messages.len() < limit => after = Some(next),
                next => {
                    looked.more = next.is_some();
                    return Ok(looked);
                }
            }
        }
    }
}

/// Messages that were looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looked {
    /// The queue that holds them.
    pub queue: String,
    /// The messages.
    pub messages: Vec<PeekedMessage>,
    /// Whether there are more.
    pub more: bool,
}
