//! The names a Worker finds its surroundings under. `jadpo build` writes them into the Wrangler file and the
//! Workers host looks them up, so they are said once.

/// The D1 database.
pub const STORE: &str = "DB";
/// The Worker itself, by its [`DELIVERIES_ENTRYPOINT`]: what one invocation could not deliver goes on there.
pub const SELF: &str = "JADPO_SELF";
/// The named entrypoint that goes on delivering.
pub const DELIVERIES_ENTRYPOINT: &str = "Deliveries";
/// The secret (natively: the environment variable) that turns the operator's endpoint on.
pub const ADMIN_TOKEN: &str = "JADPO_ADMIN_TOKEN";
/// Natively: the environment variable whose bearer may enqueue.
pub const ENQUEUE_TOKEN: &str = "JADPO_ENQUEUE_TOKEN";

/// The service binding of a subscriber that is reached by `service:`.
///
/// A binding's name is a JavaScript identifier, so whatever else a name may hold is written as `$` and its code
/// point in hex; two names never share a binding.
#[must_use]
pub fn service_binding(subscriber: &str) -> String {
    let mut name = String::from("SUBSCRIBER_");
    for character in subscriber.chars() {
        if character.is_ascii_alphanumeric() || character == '_' {
            name.push(character);
        } else {
            name.push_str(&format!("${:x}_", u32::from(character)));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_an_identifier_and_no_two_subscribers_share_one() {
        assert_eq!(service_binding("reorder"), "SUBSCRIBER_reorder");
        assert_eq!(service_binding("re_order"), "SUBSCRIBER_re_order");
        assert_eq!(service_binding("re-order"), "SUBSCRIBER_re$2d_order");
        assert_ne!(service_binding("re-order"), service_binding("re_order"));
        assert_ne!(service_binding("Reorder"), service_binding("reorder"));
    }
}
