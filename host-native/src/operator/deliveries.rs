//! What is parked or has failed, asked for.

use form_urlencoded::Serializer;
use jadpo_core::admin::{Filter, Item, Kind, LIMIT_MAX, Listing, RETRY_IDS_MAX, Retried, RetryRequest};

use super::{Operator, OperatorError, segment};

impl Operator {
    /// What is parked or has failed, `limit` items at most, and whether there is more.
    ///
    /// # Errors
    /// [`OperatorError`] if there is no answer, or the answer is a refusal.
    pub async fn list(&self, filter: &Filter, limit: usize) -> Result<(Vec<Item>, bool), OperatorError> {
        let mut items: Vec<Item> = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let wanted = limit.saturating_sub(items.len()).min(LIMIT_MAX as usize);
            let path = format!("deliveries?{}", query(filter, wanted, after.as_deref()));
            let page: Listing = self.get(&path).await?;
            let got = page.items.len();
            items.extend(page.items);
            match page.next {
                Some(next) if items.len() < limit && got > 0 => after = Some(next),
                next => return Ok((items, next.is_some())),
            }
        }
    }

    /// One item, whole.
    ///
    /// # Errors
    /// As [`Operator::list`].
    pub async fn show(&self, id: &str) -> Result<Item, OperatorError> {
        self.get(&format!("deliveries/{}", segment(id))).await
    }

    /// Retries these items.
    ///
    /// # Errors
    /// As [`Operator::list`]. Ids before the failure may have been retried.
    pub async fn retry(&self, ids: &[String]) -> Result<Retried, OperatorError> {
        let mut all = Retried::default();
        for some in ids.chunks(RETRY_IDS_MAX) {
            let retried: Retried = self.post("deliveries/retry", &RetryRequest::ids(some.to_vec())).await?;
            all.retried += retried.retried;
            all.unknown.extend(retried.unknown);
        }
        Ok(all)
    }

    /// Retries everything that fits the filter.
    ///
    /// # Errors
    /// As [`Operator::list`]. Some items may have been retried.
    pub async fn retry_all(&self, filter: &Filter) -> Result<Retried, OperatorError> {
        let mut all = Retried::default();
        loop {
            let retried: Retried = self.post("deliveries/retry", &RetryRequest::all(filter.clone())).await?;
            all.retried += retried.retried;
            if !retried.more || retried.retried == 0 {
                return Ok(all);
            }
        }
    }
}

fn query(filter: &Filter, limit: usize, after: Option<&str>) -> String {
    let kind = filter.kind.map(|kind| match kind {
        Kind::Parked => "parked",
        Kind::Failed => "failed",
    });
    let mut query = Serializer::new(String::new());
    query.append_pair("limit", &limit.to_string());
    for (name, value) in [
        ("kind", kind),
        ("queue", filter.queue.as_deref()),
        ("connection", filter.connection.as_deref()),
        ("reason", filter.reason.as_deref()),
        ("subscriber", filter.subscriber.as_deref()),
        ("event", filter.event.as_deref()),
        ("after", after),
    ] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    query.finish()
}
