//! Triggers and webhooks.

use std::collections::BTreeMap;

use jadpo_core::admin::Response;
use jadpo_core::admin::queues::{self, Mode, Serving, Trigger, Triggers, Webhook, Webhooks};

use super::{Call, Refusal, done, invalid, nearest, not_found};
use crate::host::now_ms;

/// All triggers.
pub(super) async fn list(call: &Call<'_>) -> Result<Response, Refusal> {
    done(&Triggers { triggers: all(call).await? })
}

/// Turns a trigger on or off.
pub(super) async fn enable(call: &Call<'_>, name: &str, enabled: bool) -> Result<Response, Refusal> {
    let name = meant(name, &all(call).await?)?;
    call.broker.enable_trigger(&name, enabled).await?;
    match all(call).await?.into_iter().find(|trigger| trigger.name == name) {
        Some(trigger) => done(&trigger),
        None => Err(unknown_trigger(&name, &[])),
    }
}

/// All webhooks.
pub(super) async fn webhooks(call: &Call<'_>) -> Result<Response, Refusal> {
    let serving = call.broker.serving().await?;
    let webhooks = known(call, serving.as_ref()).await?;
    done(&Webhooks { webhooks, base: serving.and_then(|serving| serving.url) })
}

/// Gives a webhook a new token.
pub(super) async fn rotate(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    let names = || call.app.program.webhooks.keys().map(String::as_str);
    if !names().any(|known| known == name) {
        return Err(unknown("webhook", name, names(), "`jadpo webhooks list` shows those that there are"));
    }
    let serving = call.broker.serving().await?;
    if serving.as_ref().is_some_and(|serving| serving.mode == Mode::Dev) {
        return Err(invalid(format!(
            "`{name}` has no token where `jadpo dev` runs it: only `jadpo serve` asks for one"
        )));
    }
    call.broker.rotate_webhook_token(name).await?;
    match known(call, serving.as_ref()).await?.into_iter().find(|webhook| webhook.name == name) {
        Some(webhook) => done(&webhook),
        None => Err(unknown("webhook", name, names(), "")),
    }
}

async fn all(call: &Call<'_>) -> Result<Vec<Trigger>, Refusal> {
    let (states, now_ms) = (call.broker.triggers().await?, now_ms());
    let mut all = queues::triggers(&call.app.program, &states, now_ms);
    all.extend(queues::crons(&call.broker.served_workers().await?, &states, now_ms));
    Ok(all)
}

async fn known(call: &Call<'_>, serving: Option<&Serving>) -> Result<Vec<Webhook>, Refusal> {
    let mut tokens = BTreeMap::new();
    for name in call.app.program.webhooks.keys() {
        // A token that nobody asked for yet is made now, and stays.
        tokens.insert(name.clone(), call.broker.webhook_token(name).await?);
    }
    Ok(queues::webhooks(&call.app.program, serving, &tokens))
}

/// The trigger of this name, or of the queue or the function of this name if only one is.
fn meant(name: &str, triggers: &[Trigger]) -> Result<String, Refusal> {
    let fits = |trigger: &&Trigger| trigger.name.split_once(':').is_some_and(|(_, bare)| bare == name);
    if let Some(trigger) = triggers.iter().find(|trigger| trigger.name == name) {
        return Ok(trigger.name.clone());
    }
    let bare: Vec<&Trigger> = triggers.iter().filter(fits).collect();
    match bare.as_slice() {
        [only] => Ok(only.name.clone()),
        [] => Err(unknown_trigger(name, triggers)),
        several => {
            let names: Vec<String> = several.iter().map(|trigger| format!("`{}`", trigger.name)).collect();
            Err(invalid(format!("`{name}` may be {}: say which", names.join(" or "))))
        }
    }
}

fn unknown_trigger(name: &str, triggers: &[Trigger]) -> Refusal {
    let names = triggers.iter().flat_map(|trigger| {
        [Some(trigger.name.as_str()), trigger.name.split_once(':').map(|(_, bare)| bare)].into_iter().flatten()
    });
    unknown("trigger", name, names, "`jadpo triggers list` shows those that there are")
}

fn unknown<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>, help: &str) -> Refusal {
    let name: String = name.chars().take(100).collect();
    let code = if what == "trigger" { "trigger_not_found" } else { "webhook_not_found" };
    let missing = format!("there is no {what} `{name}`");
    match nearest(&name, names) {
        Some(other) => not_found(code, format!("{missing}; did you mean `{other}`?"), None),
        None => not_found(code, missing, Some(help.to_owned())),
    }
}
