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

    /// In development, refuses a page in a browser at an address that others may know: a tunnel leads there, and whose
    /// name `Host` has does not matter.
    ///
    /// # Errors
    /// 403.
    pub(super) fn is_no_page(&self, head: &Parts) -> Result<(), Problem> {
        match self {
            Self::Machine { listen, hosts } => {
                let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
                no_page(head, host.filter(|host| is_here(host, *listen, hosts)))
            }
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
    no_page(head, Some(host))
}

/// A page in a browser says where it is from, when it posts; this server's own, from `host`, may.
fn no_page(head: &Parts, host: Option<&str>) -> Result<(), Problem> {
    let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let from = head.headers.get("sec-fetch-site").map(text);
    let is_strange = matches!(from.as_deref(), Some("cross-site" | "same-site"));
    let is_refused = match head.headers.get(header::ORIGIN).map(text) {
        Some(origin) => {
            let own = origin.strip_prefix("http://");
            is_strange || !own.zip(host).is_some_and(|(own, host)| own.eq_ignore_ascii_case(host))
        }
        // To follow a link from elsewhere is no harm: the page that has it does not get to see the answer.
        None => is_strange && !head.method.is_safe(),
    };
    if !is_refused {
        return Ok(());
    }
    let message = "a page in a browser may not reach the queues; send from a server, or from the command line";
    Err(Problem::new(StatusCode::FORBIDDEN, "origin_refused", message))
}

/// What stands before a host's port, and the port with its colon.
fn parts_of(host: &str) -> (&str, &str) {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => host.find(':').and_then(|at| host.split_at_checked(at)).unwrap_or((host, "")),
    }
}

/// A host without its port.
fn name_of(host: &str) -> String {
    parts_of(host).0.to_ascii_lowercase()
}

fn is_here(host: &str, listen: SocketAddr, hosts: &[String]) -> bool {
    let (name, port) = parts_of(host);
    // Whatever stands behind the name is a port, or the name is another.
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return false;
    }
    let name = name.to_ascii_lowercase();
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
        for host in [
            "evil.example",
            "box.lan.evil",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "localhostx",
            "[::2]",
            "[::1]evil.example",
            "[::1]:80@evil.example",
            "localhost:80@evil.example",
            "localhost:evil",
            "127.0.0.1:80:80",
            "[::1",
            "[]",
        ] {
            assert_eq!(code(&[("host", host)]).as_deref(), Some("host_refused"), "{host}");
        }
        let host = ("host", "127.0.0.1:7878");
        assert_eq!(code(&[host, ("origin", "http://127.0.0.1:7878")]), None);
        for origin in ["http://evil.example", "null", "https://127.0.0.1:7878", "http://127.0.0.1:3000", ""] {
            assert_eq!(code(&[host, ("origin", origin)]).as_deref(), Some("origin_refused"), "{origin}");
        }
        assert_eq!(code(&[host, ("sec-fetch-site", "cross-site")]).as_deref(), Some("origin_refused"));
        assert_eq!(code(&[host, ("sec-fetch-site", "same-origin")]), None);
    }

    #[test]
    fn a_webhook_in_development_is_for_tunnels_and_no_page_of_a_browser() {
        let access = Access::Machine { listen: "127.0.0.1:7878".parse().unwrap(), hosts: Vec::new() };
        let code = |headers: &[(&str, &str)]| access.is_no_page(&head(headers)).err().map(|error| error.detail.code);
        let (own, tunnel) = (("host", "127.0.0.1:7878"), ("host", "abc.tunnel.example"));
        assert_eq!((code(&[own]), code(&[tunnel]), code(&[])), (None, None, None));
        assert_eq!(code(&[own, ("origin", "http://127.0.0.1:7878")]), None);
        for host in [own, tunnel, ("host", "evil.example")] {
            for (name, value) in [
                ("origin", "http://evil.example"),
                ("origin", "null"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-site", "same-site"),
            ] {
                assert_eq!(code(&[host, (name, value)]).as_deref(), Some("origin_refused"), "{host:?} {name} {value}");
            }
        }
        let served = Access::Token { enqueue: None, admin: None };
        assert!(served.is_no_page(&head(&[("origin", "http://evil.example")])).is_ok(), "there the token decides");
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
