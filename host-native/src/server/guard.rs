//! Who may ask: in development whoever is on this machine and no page in its browser, in production who has a token.

use std::net::{IpAddr, SocketAddr};

use hyper::http::request::Parts;
use hyper::{StatusCode, header};
use jadpo_core::bindings::ENQUEUE_TOKEN;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::reply::Problem;

/// Whom a server lets in.
#[derive(Debug, Clone)]
pub enum Access {
    /// Everybody on this machine, but no page in a browser.
    Machine {
        /// Where it listens.
        listen: SocketAddr,
        /// Names by which it may be asked, beside `localhost`. In lower case.
        hosts: Vec<String>,
    },
    /// Who has a token.
    Token {
        /// The one for sending; without it nothing is sent over HTTP.
        enqueue: Option<String>,
        /// The operator's, which may look at queues too.
        admin: Option<String>,
    },
}

/// What a request wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Put something onto a queue.
    Send,
    /// Look at queues.
    Look,
}

impl Access {
    /// In development, refuses what comes from elsewhere, or from a page in a browser.
    ///
    /// # Errors
    /// 403.
    pub(super) fn is_here(&self, head: &Parts) -> Result<(), Problem> {
        match self {
            Self::Machine { listen, hosts } => machine(head, *listen, hosts),
            Self::Token { .. } => Ok(()),
        }
    }

    /// Lets a request in, or says why not.
    ///
    /// # Errors
    /// 403 in development, 401 or 403 in production.
    pub(super) fn admit(&self, head: &Parts, act: Act) -> Result<(), Problem> {
        match self {
            Self::Machine { listen, hosts } => machine(head, *listen, hosts),
            Self::Token { enqueue, admin } => {
                let given = bearer(head).unwrap_or_default();
                let may_look = act == Act::Look && admin.as_deref().is_some_and(|token| is_same(token, given));
                if may_look || enqueue.as_deref().is_some_and(|token| is_same(token, given)) {
                    return Ok(());
                }
                Err(match (enqueue, given) {
                    (None, _) => off(),
                    (Some(_), "") => unauthorized(format!(
                        "the header Authorization: Bearer TOKEN is missing; the token is the value of {ENQUEUE_TOKEN}"
                    )),
                    (Some(_), _) => unauthorized(format!("the token is not the value of {ENQUEUE_TOKEN}")),
                })
            }
        }
    }
}

/// Whether two secrets are the same. Both are hashed first, so that neither what differs nor how long they are shows in
/// how long this takes.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    bool::from(Sha256::digest(one.as_bytes()).ct_eq(&Sha256::digest(other.as_bytes())))
}

fn off() -> Problem {
    let message = format!("nothing is sent to queues over HTTP here: {ENQUEUE_TOKEN} is not set for this server");
    Problem::new(StatusCode::FORBIDDEN, "enqueue_off", message)
}

fn unauthorized(message: String) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

fn bearer(head: &Parts) -> Option<&str> {
    let given = head.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A page in a browser names itself by `Origin`; one that reached this machine by a name of its own that leads here
/// names that in `Host`.
fn machine(head: &Parts, listen: SocketAddr, hosts: &[String]) -> Result<(), Problem> {
    let host = match head.headers.get(header::HOST) {
        Some(host) => host.to_str().ok(),
        // HTTP/1.0 need not name it, and no browser speaks that; an absolute address names it itself.
        None => head.uri.authority().map(hyper::http::uri::Authority::as_str).or(Some("localhost")),
    };
    let Some(host) = host.filter(|host| is_here(host, listen, hosts)) else {
        let host = host.unwrap_or("?");
        let message = format!("`Host: {host}` is not this machine; ask for http://{listen} or http://localhost");
        let mut problem = Problem::new(StatusCode::FORBIDDEN, "host_refused", message);
        let name = name_of(host);
        problem.detail.help = Some(format!("if {name} is this machine, start with `jadpo dev --allow-host {name}`"));
        return Err(problem);
    };
    let Some(origin) = head.headers.get(header::ORIGIN) else { return Ok(()) };
    let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
    if own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    let message = "a page in a browser may not reach the queues; send from a server, or from the command line";
    Err(Problem::new(StatusCode::FORBIDDEN, "origin_refused", message))
}

/// A host without its port.
fn name_of(host: &str) -> String {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.to_ascii_lowercase()
}

fn is_here(host: &str, listen: SocketAddr, hosts: &[String]) -> bool {
    let name = name_of(host);
    if hosts.contains(&name) {
        return true;
    }
    match name.parse::<IpAddr>() {
        // Who listens beyond this machine is reached by other addresses of it; a name is what a foreign page would need.
        Ok(address) => address.is_loopback() || address == listen.ip() || !listen.ip().is_loopback(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(headers: &[(&str, &str)]) -> Parts {
        let mut request = hyper::Request::post("/_queues/jobs");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn in_development_only_this_machine_and_no_page_of_a_browser_is_let_in() {
        let access = Access::Machine { listen: "127.0.0.1:7878".parse().unwrap(), hosts: vec!["box.lan".to_owned()] };
        let code =
            |headers: &[(&str, &str)]| access.admit(&head(headers), Act::Send).err().map(|error| error.detail.code);
        for host in [
            "127.0.0.1:7878",
            "localhost:7878",
            "LOCALHOST",
            "[::1]:7878",
            "jadpo.localhost",
            "127.8.8.8",
            "Box.lan:80",
        ] {
            assert_eq!(code(&[("host", host)]), None, "{host}");
        }
        assert_eq!(code(&[]), None, "HTTP/1.0 names no host");
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "", "localhostx", "[::2]", "box.lan.evil"] {
            assert_eq!(code(&[("host", host)]).as_deref(), Some("host_refused"), "{host}");
        }
        let host = ("host", "127.0.0.1:7878");
        assert_eq!(code(&[host, ("origin", "http://127.0.0.1:7878")]), None);
        for origin in ["http://evil.example", "null", "https://127.0.0.1:7878", "http://127.0.0.1:3000", ""] {
            assert_eq!(code(&[host, ("origin", origin)]).as_deref(), Some("origin_refused"), "{origin}");
        }
    }

    #[test]
    fn in_production_sending_needs_the_token_and_looking_takes_the_operator_s_too() {
        let access = Access::Token { enqueue: Some("e".repeat(16)), admin: Some("a".repeat(16)) };
        let code = |token: &str, act| {
            let bearer = format!("Bearer {token}");
            let headers: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("authorization", &bearer)] };
            access.admit(&head(headers), act).err().map(|error| error.detail.code)
        };
        assert_eq!(code(&"e".repeat(16), Act::Send), None);
        assert_eq!(code(&"e".repeat(16), Act::Look), None);
        assert_eq!(code(&"a".repeat(16), Act::Look), None);
        assert_eq!(code(&"a".repeat(16), Act::Send).as_deref(), Some("unauthorized"));
        assert_eq!(code("", Act::Send).as_deref(), Some("unauthorized"));
        let off = Access::Token { enqueue: None, admin: None };
        assert_eq!(
            off.admit(&head(&[("authorization", "Bearer ")]), Act::Send).err().unwrap().detail.code,
            "enqueue_off"
        );
    }
}
