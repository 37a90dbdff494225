//! The Cloudflare Queues REST API, answered from this process's queues. What a request means, who may ask and what is
//! answered is the core's ([`jadpo_core::pull`]); here it is carried out by the store's writer.

use std::sync::Arc;

use jadpo_core::admin::{Request, Response};
use jadpo_core::broker::LeaseKey;
use jadpo_core::pull::{Call, Refusal, Rules};

use crate::broker::Broker;

pub use jadpo_core::pull::{BODY_BYTES_MAX, PREFIX};

/// Reads a request whose path begins with [`PREFIX`].
///
/// # Errors
/// What it is answered, if it cannot be carried out whatever there is in the store.
pub fn read(request: &Request, key: &LeaseKey) -> Result<Call, Refusal> {
    Call::read(request, key)
}

/// Lets a request in whose token is one, before its body is read. What the token is for is seen when it is carried out.
///
/// # Errors
/// What it is answered.
pub async fn admit(broker: &Broker, rules: &Arc<Rules>, request: &Request) -> Result<(), Refusal> {
    broker.admit(rules, request.authorization.clone()).await?
}

/// Carries a request out, and answers it.
pub async fn answer(broker: &Broker, rules: &Arc<Rules>, call: Call) -> Response {
    match carry_out(broker, rules, Arc::new(call)).await {
        Ok(response) => response,
        Err(refusal) => refusal.answer(),
    }
}

async fn carry_out(broker: &Broker, rules: &Arc<Rules>, call: Arc<Call>) -> Result<Response, Refusal> {
    let mut done = broker.call(rules, &call, 0).await??;
    for part in 1..call.parts() {
        done = done.and(broker.call(rules, &call, part).await??);
    }
    Ok(done.answer(broker.lease_key()))
}
