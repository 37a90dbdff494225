//! Every code of a problem or a note, with one line of explanation each. This is the one place that lists them.

use std::fmt;

macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident = $text:literal, $explanation:literal;)*) => {
        /// A stable code: tools may match on its text, which does not change between releases.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the explanation beside each is its documentation")]
        pub enum Code { $($name,)* }

        impl Code {
            /// Every code, in the order in which they are listed here.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The code as people and tools see it, like `connection.key_missing`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// What the code means and what to do, in a sentence or two.
            pub const fn explanation(self) -> &'static str {
                match self { $(Code::$name => $explanation,)* }
            }
        }
    };
}

codes! {
    FileTooLarge = "file.too_large", "An app file has at most 1 MiB (1,048,576 bytes). Data does not belong in it.";
    FileTooMany = "file.too_many", "A block holds at most 1,000 named things.";
    SyntaxUnexpected = "syntax.unexpected", "Something stands where it cannot. An entry is `key: value`, and entries are parted by a comma or a new line.";
    SyntaxValueMissing = "syntax.value_missing", "A key has no value after its `:`.";
    SyntaxUnclosed = "syntax.unclosed", "A `{`, `[` or `(` is never closed, or something closes what was never opened.";
    SyntaxTextInvalid = "syntax.text_invalid", "A text stands in double quotes on one line. Its escapes are \\\" \\\\ \\n \\r \\t and \\u{HEX}.";
    SyntaxNumberInvalid = "syntax.number_invalid", "A number is a whole number of 64 bits, or a duration: a whole number with ms, s, m, h or d.";
    SyntaxNameInvalid = "syntax.name_invalid", "A name has ASCII letters, digits and underscores, starts with a letter, and has at most 64 characters.";
    SyntaxKeyTwice = "syntax.key_twice", "A key or a name is written twice in one block; only one of them could count.";
    SyntaxTooDeep = "syntax.too_deep", "Blocks, lists and calls nest at most 64 deep.";
    AppKeyMissing = "app.key_missing", "The file does not say the app's name: `app: \"NAME\"`.";
    AppKeyInvalid = "app.key_invalid", "Queues and schedules have no block of their own: a queue is a connection with Driver.local_queue, a schedule is a key of its function.";
    AppValueInvalid = "app.value_invalid", "The app's name is a text of lowercase letters, digits and dashes, at most 63 characters.";
    ConnectionKeyMissing = "connection.key_missing", "A connection lacks a key that its driver needs.";
    ConnectionKeyInvalid = "connection.key_invalid", "A connection has a key that its driver does not take.";
    ConnectionValueInvalid = "connection.value_invalid", "A connection's value has the wrong kind, form or range, or names a queue that another connection already has.";
    ConnectionNameUnknown = "connection.name_unknown", "A connection names a driver or a function that does not exist.";
    FunctionKeyMissing = "function.key_missing", "A function needs exactly one of call:, exec:, run: and send:.";
    FunctionKeyInvalid = "function.key_invalid", "A function has a key that functions do not take, more than one of call:, exec:, run: and send:, or a body: that nothing sends.";
    FunctionValueInvalid = "function.value_invalid", "A function's value has the wrong kind or form, its schedule has no queue's name, or it sends messages round without end.";
    WebhookKeyMissing = "webhook.key_missing", "A webhook needs `queue:`, the local queue that it writes to.";
    WebhookKeyInvalid = "webhook.key_invalid", "A webhook takes queue: and verify:, nothing else.";
    WebhookValueInvalid = "webhook.value_invalid", "A webhook's value has the wrong kind or form.";
    WebhookNameUnknown = "webhook.name_unknown", "A webhook names a queue that no Driver.local_queue connection has, or a verification that does not exist.";
    EventValueInvalid = "event.value_invalid", "An event's type is not well formed. It is a record of fields or the type of a whole body.";
    EventNameUnknown = "event.name_unknown", "A type does not exist. The types are Text, Int, Float, Bool, Instant, Uuid, Json, T?, [T], a record, and Bytes for a whole body.";
    ReceivingKeyMissing = "receiving.key_missing", "An entry of receiving: needs `event:`, what the connection's messages become.";
    ReceivingKeyInvalid = "receiving.key_invalid", "An entry of receiving: takes event: and id:, nothing else.";
    ReceivingValueInvalid = "receiving.value_invalid", "A value in receiving: has the wrong kind or form, or the connection's messages already go elsewhere.";
    ReceivingNameUnknown = "receiving.name_unknown", "receiving: names a connection or an event that does not exist.";
    SubscriberKeyMissing = "subscriber.key_missing", "A subscriber needs `on:` and exactly one of call:, service: and run:.";
    SubscriberKeyInvalid = "subscriber.key_invalid", "A subscriber has a key that subscribers do not take, or more than one of call:, service: and run:.";
    SubscriberValueInvalid = "subscriber.value_invalid", "A subscriber's value has the wrong kind or form.";
    SubscriberNameUnknown = "subscriber.name_unknown", "A subscriber is on an event that does not exist.";
    DeployableKeyMissing = "deployable.key_missing", "A deployable needs `target:` and `triggers:`.";
    DeployableKeyInvalid = "deployable.key_invalid", "A deployable takes target: and triggers:, nothing else.";
    DeployableValueInvalid = "deployable.value_invalid", "A deployable's value has the wrong kind, or a trigger is named twice.";
    DeployableNameUnknown = "deployable.name_unknown", "A deployable names a target or a trigger that does not exist.";
    TargetDriverRefused = "target.driver_refused", "A native deployable that runs Trigger.subscribers cannot receive a queue that Cloudflare pushes to a Worker. Read it with Driver.cloudflare_pull.";
    TargetSubscriberRefused = "target.subscriber_refused", "A native deployable that runs Trigger.subscribers has no service bindings, so it cannot reach a `service:` subscriber. Use call:.";
    TargetConsumerTwice = "target.consumer_twice", "A Cloudflare queue has one consumer, so one Workers deployable at most runs Trigger.subscribers with its connection.";
    TargetNameRefused = "target.name_refused", "The Worker of a deployable would have a name that Cloudflare does not take, or that another has.";
    SyntaxTomlInvalid = "syntax.toml_invalid", "project.toml or dev.toml is no TOML there.";
    ProjectKeyInvalid = "project.key_invalid", "project.toml takes name, [[queues]], [[webhooks]] and [functions]; dev.toml takes [dev] and [functions].";
    ProjectValueInvalid = "project.value_invalid", "A value at the top of project.toml or dev.toml has the wrong kind or form.";
    QueueKeyMissing = "queue.key_missing", "A queue of project.toml needs `name`.";
    QueueKeyInvalid = "queue.key_invalid", "A queue of project.toml takes name, functions, max_receives, visibility_ms and concurrency, nothing else.";
    QueueValueInvalid = "queue.value_invalid", "A queue's value has the wrong kind, form or range, or names a queue that is there already.";
    QueueNameUnknown = "queue.name_unknown", "A queue of project.toml names a function that has no entry under [functions].";
    DevKeyInvalid = "dev.key_invalid", "[dev] in dev.toml takes queues, queue_tick_ms and queue_visibility_ms, nothing else.";
    DevValueInvalid = "dev.value_invalid", "A value under [dev] has the wrong kind or range.";
    NoteBlockSkipped = "note.block_skipped", "A block that jadpo does not know is skipped; it belongs to other parts of a larger Jadpo file.";
    NoteUnused = "note.unused", "Something is declared and nothing uses it.";
    NoteUnreachable = "note.unreachable", "Something is declared that a deployable cannot carry out.";
    NotePlainHttp = "note.plain_http", "A token or a signed body travels over http:// to another machine, so anyone on the way can read it.";
}

impl Code {
    /// Finds a code by its text.
    pub fn find(text: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A block of the app file. Each has its own codes of the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    App,
    Connection,
    Function,
    Webhook,
    Event,
    Receiving,
    Subscriber,
    Deployable,
    /// The top of project.toml or dev.toml.
    Project,
    /// `[[queues]]` of project.toml.
    Queue,
    /// `[dev]` of dev.toml.
    Dev,
}

impl Area {
    /// The blocks of an app file.
    pub(super) const ALL: [Area; 8] = [
        Area::App,
        Area::Connection,
        Area::Function,
        Area::Webhook,
        Area::Event,
        Area::Receiving,
        Area::Subscriber,
        Area::Deployable,
    ];

    /// The key of the block at the top of the file.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Area::App => "app",
            Area::Connection => "connections",
            Area::Function => "functions",
            Area::Webhook => "webhooks",
            Area::Event => "events",
            Area::Receiving => "receiving",
            Area::Subscriber => "subscribers",
            Area::Deployable => "deployables",
            Area::Project => "project.toml",
            Area::Queue => "queues",
            Area::Dev => "dev",
        }
    }

    /// What one entry of the block is called.
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Area::App => "app",
            Area::Connection => "connection",
            Area::Function => "function",
            Area::Webhook => "webhook",
            Area::Event => "event",
            Area::Receiving => "receiving entry",
            Area::Subscriber => "subscriber",
            Area::Deployable => "deployable",
            Area::Project => "file",
            Area::Queue => "queue",
            Area::Dev => "table",
        }
    }

    pub(super) const fn key_missing(self) -> Code {
        match self {
            Area::App | Area::Event => Code::AppKeyMissing,
            Area::Connection => Code::ConnectionKeyMissing,
            Area::Function => Code::FunctionKeyMissing,
            Area::Webhook => Code::WebhookKeyMissing,
            Area::Receiving => Code::ReceivingKeyMissing,
            Area::Subscriber => Code::SubscriberKeyMissing,
            Area::Deployable => Code::DeployableKeyMissing,
            Area::Queue => Code::QueueKeyMissing,
            Area::Project | Area::Dev => Code::ProjectKeyInvalid,
        }
    }

    pub(super) const fn key_invalid(self) -> Code {
        match self {
            Area::App => Code::AppValueInvalid,
            Area::Event => Code::EventValueInvalid,
            Area::Connection => Code::ConnectionKeyInvalid,
            Area::Function => Code::FunctionKeyInvalid,
            Area::Webhook => Code::WebhookKeyInvalid,
            Area::Receiving => Code::ReceivingKeyInvalid,
            Area::Subscriber => Code::SubscriberKeyInvalid,
            Area::Deployable => Code::DeployableKeyInvalid,
            Area::Project => Code::ProjectKeyInvalid,
            Area::Queue => Code::QueueKeyInvalid,
            Area::Dev => Code::DevKeyInvalid,
        }
    }

    pub(super) const fn value_invalid(self) -> Code {
        match self {
            Area::App => Code::AppValueInvalid,
            Area::Event => Code::EventValueInvalid,
            Area::Connection => Code::ConnectionValueInvalid,
            Area::Function => Code::FunctionValueInvalid,
            Area::Webhook => Code::WebhookValueInvalid,
            Area::Receiving => Code::ReceivingValueInvalid,
            Area::Subscriber => Code::SubscriberValueInvalid,
            Area::Deployable => Code::DeployableValueInvalid,
            Area::Project => Code::ProjectValueInvalid,
            Area::Queue => Code::QueueValueInvalid,
            Area::Dev => Code::DevValueInvalid,
        }
    }

    pub(super) const fn name_unknown(self) -> Code {
        match self {
            Area::App => Code::AppValueInvalid,
            Area::Function => Code::FunctionValueInvalid,
            Area::Event => Code::EventNameUnknown,
            Area::Connection => Code::ConnectionNameUnknown,
            Area::Webhook => Code::WebhookNameUnknown,
            Area::Receiving => Code::ReceivingNameUnknown,
            Area::Subscriber => Code::SubscriberNameUnknown,
            Area::Deployable => Code::DeployableNameUnknown,
            Area::Queue => Code::QueueNameUnknown,
            Area::Project => Code::ProjectValueInvalid,
            Area::Dev => Code::DevValueInvalid,
        }
    }
}
