//! Tokens of the Queues API, and whether a queue can be pulled there.

use jadpo_core::admin::Response;
use jadpo_core::admin::queues::{MadeToken, NewToken, Token, Tokens};
use jadpo_core::broker::{BrokerError, ConsumerKind};
use jadpo_core::pull;
use jadpo_core::trigger::{Consumer, Triggers};

use super::{Call, Refusal, done, invalid, queues};

/// Every token.
pub(super) async fn list(call: &Call<'_>) -> Result<Response, Refusal> {
    let account = call.broker.api_place().await?.account;
    let tokens = call.broker.tokens().await?.into_iter().map(Token::from).collect();
    done(&Tokens { account, tokens })
}

/// Makes a token.
pub(super) async fn create(call: &Call<'_>) -> Result<Response, Refusal> {
    let new: NewToken =
        call.body("a token to be made, as {\"name\": \"puller\", \"scopes\": [\"read\", \"write\"]}")?;
    if new.scopes.is_empty() {
        return Err(invalid("a token without scopes may do nothing; give it read, write, or both"));
    }
    let account = call.broker.api_place().await?.account;
    let (token, secret) = call.broker.create_token(new.into()).await?;
    let url = call.broker.serving().await?.and_then(|serving| serving.url);
    Ok(Response::json(201, &MadeToken { account, secret, url, token: token.into() }))
}

/// Makes a token good for nothing.
pub(super) async fn revoke(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    done(&Token::from(call.broker.revoke_token(name).await?))
}

/// Lets a queue be pulled.
pub(super) async fn let_pull(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    not_handled(call, name)?;
    queues::meant(call, name, call.broker.let_pull(name).await).await?;
    queues::show(call, name).await
}

/// Lets a queue be pulled no more.
pub(super) async fn pull_no_more(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    let consumers = call.broker.consumers().await?;
    match consumers.get(name).map(|consumer| &consumer.kind) {
        Some(ConsumerKind::Worker { script, .. }) => {
            let message = format!("the queue `{name}` is not pulled: its consumer is the Worker `{script}`");
            Err(invalid(message))
        }
        _ => {
            queues::meant(call, name, call.broker.remove_consumer(name).await).await?;
            queues::show(call, name).await
        }
    }
}

/// A queue has one consumer, be it the app.
pub(super) fn not_handled(call: &Call<'_>, name: &str) -> Result<(), Refusal> {
    let triggers = Triggers::of(&call.app.program);
    match triggers.get(name).map(|declared| &declared.consumer) {
        None | Some(Consumer::Nobody) => Ok(()),
        Some(consumer) => {
            let (present, wanted) = (pull::in_words(consumer), ConsumerKind::HttpPull.in_words());
            Err(BrokerError::ConsumerExists { queue: name.to_owned(), present, wanted }.into())
        }
    }
}
