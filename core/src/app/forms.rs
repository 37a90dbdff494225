//! The forms that texts must have: names of queues and apps, addresses, hosts, schedules. Each check answers with
//! what is wrong and, where it can tell, at which byte and what to write instead.

use url::Url;

use super::problem::quote;
use crate::cron::Cron;
use crate::local;

/// Why a text does not have the form it needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Goes on after the quoted text: "`A` is no queue name: …".
    pub(super) why: String,
    /// The bytes of the text that are wrong, when it is not the whole.
    pub(super) bytes: Option<(usize, usize)>,
    /// What to write instead.
    pub(super) fixed: Option<String>,
}

impl Fault {
    fn whole(why: impl Into<String>) -> Self {
        Fault { why: why.into(), bytes: None, fixed: None }
    }
}

/// Longest name of a queue, an app or a Worker, in characters (Cloudflare's own limit for queue names).
pub(super) const LABEL_LEN_MAX: usize = 63;

/// Lowercase letters, digits and dashes, a letter or digit at both ends, 1 to 63 characters: queues, apps, Workers.
pub(super) fn label(text: &str) -> Result<(), Fault> {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let wrong = |(at, c): (usize, char), why: String| {
        Err(Fault { why, bytes: Some((at, at + c.len_utf8())), fixed: fixed_label(text) })
    };
    if text.is_empty() {
        return Err(Fault::whole("it is empty"));
    }
    for (place, (at, c)) in text.char_indices().enumerate() {
        if !(is_end(c) || c == '-') {
            let why = format!("{} at place {} is not allowed", named(c), place + 1);
            return wrong((at, c), why);
        }
    }
    let count = text.chars().count();
    if count > LABEL_LEN_MAX {
        return Err(Fault::whole(format!("it has {count} characters, and {LABEL_LEN_MAX} are the most")));
    }
    match (text.char_indices().next(), text.char_indices().next_back()) {
        (Some(first), _) if !is_end(first.1) => wrong(first, "it starts with a dash".to_owned()),
        (_, Some(last)) if !is_end(last.1) => wrong(last, "it ends with a dash".to_owned()),
        _ => Ok(()),
    }
}

/// A local queue's name, which leaves room for its dead-letter queue's, and no name of a schedule's own queue.
pub(super) fn local_queue(text: &str) -> Result<(), Fault> {
    label(text)?;
    let (count, most) = (text.len(), local::QUEUE_NAME_LEN_MAX);
    if count > most {
        let why = format!(
            "it has {count} characters, and {most} are the most, since its dead-letter queue is named `NAME{}`",
            local::DEAD_SUFFIX
        );
        return Err(Fault::whole(why));
    }
    if text.starts_with(local::SCHEDULE_PREFIX) {
        let why = format!("names that start with `{}` are those of the queues of schedules", local::SCHEDULE_PREFIX);
        return Err(Fault { why, bytes: Some((0, local::SCHEDULE_PREFIX.len())), fixed: None });
    }
    Ok(())
}

fn named(c: char) -> String {
    match c {
        ' ' => "the space".to_owned(),
        c if c.is_ascii_uppercase() => format!("the capital letter `{c}`"),
        c => quote(&c.to_string()),
    }
}

fn fixed_label(text: &str) -> Option<String> {
    let dashed: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(LABEL_LEN_MAX)
        .collect();
    let fixed = dashed.trim_matches('-');
    (!fixed.is_empty()).then(|| fixed.to_owned())
}

/// An `http://` or `https://` address, as it is called.
pub(super) fn address(text: &str) -> Result<Url, Fault> {
    const ADDRESS_LEN_MAX: usize = 2_048;
    if let Some((at, c)) = text.char_indices().find(|(_, c)| c.is_whitespace() || c.is_control()) {
        let why = "an address has no blanks and no line breaks".to_owned();
        return Err(Fault { why, bytes: Some((at, at + c.len_utf8())), fixed: None });
    }
    if text.len() > ADDRESS_LEN_MAX {
        return Err(Fault::whole(format!("it has more than {ADDRESS_LEN_MAX} bytes")));
    }
    if !text.contains("://") {
        let why = "it does not start with http:// or https://".to_owned();
        let is_here = Url::parse(&format!("http://{text}")).is_ok_and(|url| is_loopback(&url));
        let scheme = if is_here { "http" } else { "https" };
        return Err(Fault { why, bytes: None, fixed: (!text.is_empty()).then(|| format!("{scheme}://{text}")) });
    }
    let url = Url::parse(text).map_err(|error| Fault::whole(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::whole(format!("its scheme is {}, and only http and https are called", quote(url.scheme()))));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(Fault::whole("it names no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::whole("it holds a user name or a password, and a secret is never written in the app file"));
    }
    Ok(url)
}

/// The host of an address, with its port when it is not the scheme's own.
pub(super) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether what is sent there stays on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// A host's name with an optional port, and nothing else of an address.
pub(super) fn host(text: &str) -> Result<(), Fault> {
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split('/').next().unwrap_or_default();
        let fixed = (!host.is_empty()).then(|| host.to_owned());
        return Err(Fault { why: "a host has no scheme and no path".to_owned(), bytes: None, fixed });
    }
    let parsed = Url::parse(&format!("https://{text}/")).ok();
    let right = parsed.filter(|url| {
        url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && host_of(url) == text
    });
    right.map(|_| ()).ok_or_else(|| Fault::whole("it is not a host's name in lowercase, like `api.cloudflare.com`"))
}

/// A cron expression of five fields: minute, hour, day of the month, month, day of the week.
pub(super) fn schedule(text: &str) -> Result<(), Fault> {
    Cron::parse(text).map(|_| ()).map_err(Fault::whole)
}

/// The name of an environment variable, a secret or a variable of a Worker.
pub(super) fn is_env_name(text: &str) -> bool {
    const ENV_LEN_MAX: usize = 128;
    text.len() <= ENV_LEN_MAX
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A queue's id at Cloudflare: 32 hex digits.
pub(super) fn queue_id(text: &str) -> Result<(), Fault> {
    const ID_LEN: usize = 32;
    if let Some((place, (at, c))) = text.char_indices().enumerate().find(|(_, (_, c))| !c.is_ascii_hexdigit()) {
        let why = format!("{} at place {} is not a hex digit", named(c), place + 1);
        return Err(Fault { why, bytes: Some((at, at + c.len_utf8())), fixed: None });
    }
    match text.len() {
        ID_LEN => Ok(()),
        count => Err(Fault::whole(format!("an id has {ID_LEN} hex digits, and this has {count}"))),
    }
}
