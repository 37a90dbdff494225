//! Which request is answered where.

use jadpo_core::admin::{PREFIX, ProblemDetail, Response};
use percent_encoding::percent_decode_str;

use super::{Call, Refusal, messages, not_found, queues, redrives, tokens, triggers};

/// Whether the path, without the endpoint's prefix, belongs to what is answered here and not by the core.
pub(super) fn is_here(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    matches!(first, "queues" | "tokens" | "triggers" | "webhooks" | "redrives")
}

/// Carries out a request that gave the token.
pub(super) async fn run(call: &Call<'_>, path: &str) -> Result<Response, Refusal> {
    let parts: Vec<String> =
        path.split('/').map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let method = call.request.method.as_str();
    match (parts.as_slice(), method) {
        (["queues"], "GET") => queues::list(call).await,
        (["queues"], "POST") => queues::create(call).await,
        (["queues", name], "GET") => queues::show(call, name).await,
        (["queues", name], "DELETE") => queues::delete(call, name).await,
        (["queues", name, "pause"], "POST") => queues::pause(call, name, true).await,
        (["queues", name, "resume"], "POST") => queues::pause(call, name, false).await,
        (["queues", name, "messages"], "POST") => messages::send(call, name).await,
        (["queues", name, "messages"], "DELETE") => queues::purge(call, name).await,
        (["queues", name, "messages"], "GET") => messages::peek(call, name).await,
        (["queues", name, "messages", "remove"], "POST") => messages::remove(call, name).await,
        (["queues", name, "dead-letters"], "GET") => messages::dead_letters(call, name).await,
        (["queues", name, "pull"], "POST") => tokens::let_pull(call, name).await,
        (["queues", name, "pull"], "DELETE") => tokens::pull_no_more(call, name).await,
        (["tokens"], "GET") => tokens::list(call).await,
        (["tokens"], "POST") => tokens::create(call).await,
        (["tokens", name], "DELETE") => tokens::revoke(call, name).await,
        (["triggers"], "GET") => triggers::list(call).await,
        (["triggers", name, "enable"], "POST") => triggers::enable(call, name, true).await,
        (["triggers", name, "disable"], "POST") => triggers::enable(call, name, false).await,
        (["webhooks"], "GET") => triggers::webhooks(call).await,
        (["webhooks", name, "rotate"], "POST") => triggers::rotate(call, name).await,
        (["redrives"], "GET") => redrives::list(call).await,
        (["redrives"], "POST") => redrives::start(call).await,
        (["redrives", id], "GET") => redrives::show(call, id).await,
        (["redrives", id, "cancel"], "POST") => redrives::cancel(call, id).await,
        (parts, _) => Err(refuse(call, parts)),
    }
}

/// The refusal of a path that is not there, or of a method that the path does not take.
fn refuse(call: &Call<'_>, parts: &[&str]) -> Refusal {
    let takes = match parts {
        ["queues"] | ["redrives"] | ["tokens"] => "GET or POST",
        ["queues", _] => "GET or DELETE",
        ["queues", _, "pull"] => "POST or DELETE",
        ["tokens", _] => "DELETE",
        ["queues", _, "messages"] => "GET, POST or DELETE",
        ["queues", _, "dead-letters"] | ["triggers" | "webhooks"] | ["redrives", _] => "GET",
        ["queues", _, "pause" | "resume"]
        | ["queues", _, "messages", "remove"]
        | ["triggers", _, "enable" | "disable"]
        | ["webhooks", _, "rotate"]
        | ["redrives", _, "cancel"] => "POST",
        _ => {
            let there = format!("there are {PREFIX}queues, {PREFIX}triggers, {PREFIX}webhooks and {PREFIX}redrives");
            return not_found("not_found", there, None);
        }
    };
    let message = format!("{} takes {takes}, not {}", call.request.path, call.request.method);
    Refusal { status: 405, detail: ProblemDetail::new("method_not_allowed", message) }
}
