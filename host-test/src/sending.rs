//! What producers do: bodies, and messages into an app's queues at Cloudflare.

use jadpo_core::broker::limits::MESSAGE_BYTES_MAX;
use jadpo_core::program::Connection;
use jadpo_core::queue::{Body, Message};

use crate::{TestApp, known};

/// A text body.
#[must_use]
pub fn text(body: &str) -> Body {
    Body::Text(body.to_owned())
}

/// A json body, by its JSON text. The Worker gets one that is a string as the text message of that string, since nobody
/// tells it a message's content type.
#[must_use]
pub fn json(body: &str) -> Body {
    Body::Json(body.to_owned())
}

/// A bytes body.
#[must_use]
pub fn bytes(body: &[u8]) -> Body {
    Body::Bytes(body.to_vec())
}

/// A value that JSON cannot carry, such as a `Map` that was sent with the content type v8: what an operator is shown of
/// it, and why it cannot be read.
#[must_use]
pub fn unreadable(shown: &str, why: &str) -> Body {
    Body::Unreadable { shown: shown.to_owned(), why: why.to_owned() }
}

impl TestApp {
    /// Sends a message now, to a queue by its name at Cloudflare. Returns its id.
    ///
    /// # Panics
    /// When the app does not receive that queue, or Cloudflare takes no message that long.
    #[track_caller]
    pub fn send(&self, queue: &str, body: Body) -> String {
        let id = self.cloudflare.borrow_mut().new_id();
        self.send_as(queue, &id, body);
        id
    }

    /// Sends a message now under an id of the test's choice.
    ///
    /// # Panics
    /// As [`TestApp::send`].
    #[track_caller]
    pub fn send_as(&self, queue: &str, id: &str, body: Body) {
        let message = Message { id: id.to_owned(), sent_at_ms: self.host.time_ms(), attempts: 0, body };
        self.send_message(queue, message);
    }

    /// Sends a message that is handed over as delivery number `attempts` of itself, from 1. Returns its id.
    ///
    /// # Panics
    /// As [`TestApp::send`]; and when `attempts` is 0.
    #[track_caller]
    pub fn send_at_attempt(&self, queue: &str, body: Body, attempts: u32) -> String {
        assert!(attempts > 0, "attempts begin at 1: that is the first delivery");
        let id = self.cloudflare.borrow_mut().new_id();
        let (sent_at_ms, attempts) = (self.host.time_ms(), attempts.saturating_sub(1));
        self.send_message(queue, Message { id: id.clone(), sent_at_ms, attempts, body });
        id
    }

    /// Puts a message into the queue as it is; its `attempts` are those that lie behind it.
    ///
    /// # Panics
    /// As [`TestApp::send`].
    #[track_caller]
    pub fn send_message(&self, queue: &str, message: Message) {
        self.must_receive(queue);
        self.queue_up(queue, message);
    }

    /// Sends a message to a queue that the app does not receive, and of which the Worker was made a consumer all the
    /// same: it is retried until it is lost. Returns its id.
    ///
    /// # Panics
    /// When Cloudflare takes no message that long.
    #[track_caller]
    pub fn send_unreceived(&self, queue: &str, body: Body) -> String {
        let id = self.cloudflare.borrow_mut().new_id();
        self.queue_up(queue, Message { id: id.clone(), sent_at_ms: self.host.time_ms(), attempts: 0, body });
        id
    }

    #[track_caller]
    fn queue_up(&self, queue: &str, message: Message) {
        let bytes = message.body.len();
        assert!(bytes <= MESSAGE_BYTES_MAX, "the body has {bytes} bytes, and Cloudflare takes {MESSAGE_BYTES_MAX}");
        self.cloudflare.borrow_mut().send(queue, message, self.host.time_ms());
    }

    #[track_caller]
    fn must_receive(&self, queue: &str) {
        let queues = self.cloudflare.borrow().queues();
        if queues.contains(queue) {
            return;
        }
        let why = match self.app.borrow().program.connections.get(queue) {
            Some(Connection::CloudflareQueues { queue: meant, .. }) => {
                format!("`{queue}` is the connection's name; its queue is `{meant}`")
            }
            _ => known::unknown("queue", queue, &queues),
        };
        panic!("{why}. TestServer has an app's local queues; send_unreceived sends to a queue that nobody receives");
    }
}
