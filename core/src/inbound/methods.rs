//! Which methods an address takes. Senders probe a webhook's before they use it.

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// A webhook's address.
    Webhook,
    /// A queue's address, which also tells of the queue.
    Queue,
    /// The address that takes a batch.
    Batch,
}

/// An answer that needs nothing but the method. It has no body, unless it is a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodAnswer {
    /// 200 for a probe, 204 for OPTIONS, 405 for what is not taken.
    pub status: u16,
    /// The `Allow` header.
    pub allow: &'static str,
}

/// The answer to a method that stores nothing; `None` if the request is to be handled. HTTP tells methods apart by
/// case.
#[must_use]
pub fn answer_to(surface: Surface, method: &str) -> Option<MethodAnswer> {
    let (handled, allow): (&[&str], _) = match surface {
        Surface::Webhook => (&["POST"], "POST, HEAD, OPTIONS"),
        Surface::Queue => (&["POST", "GET"], "POST, GET, HEAD, OPTIONS"),
        Surface::Batch => (&["POST"], "POST, OPTIONS"),
    };
    let status = match (method, surface) {
        (method, _) if handled.contains(&method) => return None,
        ("OPTIONS", _) => 204,
        ("HEAD", Surface::Webhook) => 200,
        ("HEAD", Surface::Queue) => return None, // as GET, without its body
        _ => 405,
    };
    Some(MethodAnswer { status, allow })
}
