//! What an address means. Names are taken as they are written: none that may be asked for needs an escape, so one that
//! holds any is nobody's.

use jadpo_core::{admin, pull};

/// What is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// The process is alive.
    Alive,
    /// It does its work.
    Ready,
    /// Every queue.
    Queues,
    /// One queue.
    Queue(&'a str),
    /// Many messages for one queue.
    Batch(&'a str),
    /// A webhook, and the token that the address holds.
    Webhook(&'a str, Option<&'a str>),
    /// The Cloudflare Queues REST API.
    Api,
    /// The operator's endpoint.
    Operator,
    /// Nothing.
    Nothing,
}

/// What begins the address of queues, and of webhooks.
const QUEUES: [&str; 2] = ["/_queues", "/api/queues/v1"];
const WEBHOOKS: [&str; 2] = ["/_webhooks", "/api/webhooks"];

impl<'a> Route<'a> {
    /// What is at this path.
    pub(super) fn of(path: &'a str) -> Self {
        if path == "/healthz" {
            return Self::Alive;
        }
        if path == "/readyz" {
            return Self::Ready;
        }
        if path == pull::PREFIX || path.strip_prefix(pull::PREFIX).is_some_and(|rest| rest.starts_with('/')) {
            return Self::Api;
        }
        if path.starts_with(admin::PREFIX) {
            return Self::Operator;
        }
        if let Some(rest) = under(path, QUEUES) {
            let mut parts = rest.split('/');
            return match (parts.next(), parts.next(), parts.next()) {
                (None | Some(""), None, None) => Self::Queues,
                (Some(name), None | Some(""), None) if !name.is_empty() => Self::Queue(name),
                (Some(name), Some("batch"), None) if !name.is_empty() => Self::Batch(name),
                _ => Self::Nothing,
            };
        }
        if let Some(rest) = under(path, WEBHOOKS) {
            let mut parts = rest.split('/');
            return match (parts.next(), parts.next(), parts.next()) {
                (Some(name), token, None) if !name.is_empty() => {
                    Self::Webhook(name, token.filter(|token| !token.is_empty()))
                }
                _ => Self::Nothing,
            };
        }
        Self::Nothing
    }
}

/// What follows one of these, without the slash between.
fn under<'a>(path: &'a str, prefixes: [&str; 2]) -> Option<&'a str> {
    let rest = prefixes.iter().find_map(|prefix| path.strip_prefix(prefix))?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_one_thing_however_it_is_written() {
        for (path, route) in [
            ("/healthz", Route::Alive),
            ("/readyz", Route::Ready),
            ("/_queues", Route::Queues),
            ("/_queues/", Route::Queues),
            ("/_queues/jobs", Route::Queue("jobs")),
            ("/_queues/jobs/", Route::Queue("jobs")),
            ("/_queues/jobs/batch", Route::Batch("jobs")),
            ("/api/queues/v1/jobs", Route::Queue("jobs")),
            ("/api/queues/v1/jobs/batch", Route::Batch("jobs")),
            ("/_webhooks/stripe", Route::Webhook("stripe", None)),
            ("/_webhooks/stripe/", Route::Webhook("stripe", None)),
            ("/api/webhooks/stripe/token", Route::Webhook("stripe", Some("token"))),
            ("/.jadpo/status", Route::Operator),
            ("/client/v4/accounts", Route::Api),
            ("/_queues/..%2f..", Route::Queue("..%2f..")),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
        for path in [
            "/",
            "",
            "/_queuesjobs",
            "/_queues//batch",
            "/_queues/a/b",
            "/_queues/a/batch/b",
            "/_webhooks",
            "/client/v4x",
        ] {
            assert_eq!(Route::of(path), Route::Nothing, "{path}");
        }
        for path in ["/_queues/../healthz", "/_webhooks/a/b/c", "/_webhooks/", "/healthz/", "//_queues/jobs"] {
            assert_eq!(Route::of(path), Route::Nothing, "{path}");
        }
    }
}
