//! Ways in which this crate could be wrong, for the simulation whose checkers must find each of them.
//!
//! Without the feature `broken` nothing here ever is, and the compiler leaves the places out. With it a thread may
//! choose one variant, and only that thread is wrong. No host is built with it.

macro_rules! variants {
    ($($about:literal $name:ident,)*) => {
        /// A deliberate mistake.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Variant { $(#[doc = $about] $name,)* }

        impl Variant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What is wrong with the code then, in a sentence without a full stop.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(Self::$name => $about,)* }
            }
        }
    };
}

variants! {
    "A message is acknowledged although the store did not take it"
    AckBeforeCommit,
    "The memory of what was received is written in a transaction before the one that keeps the event"
    DedupeOutsideTheTransaction,
    "A message that is handed over again is kept without its deliveries"
    DeliveryForgottenOnRepeat,
    "A message that became an event leaves its parked copy behind"
    ParkedCopyKept,
    "What cannot be read is acknowledged and parked nowhere"
    UnfitNotParked,
    "What cannot be read is acknowledged and parked nowhere if another message was kept under its key"
    UnfitTakenForARepeat,
    "A delivery that waits gets its attempt back"
    AttemptsFallBack,
    "A delivery without an answer counts as delivered"
    UnansweredCountsAsDone,
    "Results are written whoever holds the claim by now"
    ClaimNotFenced,
    "A delivery has failed one attempt before its last"
    DeliveryGivenUpEarly,
    "A retry counts although its lease has ended"
    LeaseNotChecked,
    "A lease ends a second before its time"
    LeaseEndsEarly,
    "A message is handed over once more than its queue allows"
    OneRetryTooMany,
    "A message that has expired is gone and nobody is told"
    ExpiredUntold,
    "One ack takes all that was leased with it"
    AckTakesTheBatch,
    "A retry comes at once, whatever its delay"
    RetryWithoutDelay,
    "What is done of a message is forgotten when it is retried"
    ProgressLost,
    "A letter that is put back can be taken only after a later transaction"
    RedriveInTwoSteps,
    "A purge does not remember what is to be cleared away"
    PurgeForgetsGarbage,
    "An occurrence is recorded in a transaction after the one that sends its message"
    OccurrenceRecordedLater,
    "A key is remembered in a transaction after the one that sends its message"
    KeyRememberedLater,
    "A key is the same key whatever its scope"
    KeyWithoutScope,
    "A queue that is paused is taken from while anything in it is leased or delayed"
    PauseIgnored,
    "Messages of a queue whose trigger is disabled are handed on"
    DisabledTriggerIgnored,
    "Nothing expires"
    NothingExpires,
    "A function that was done two attempts ago is not known to be done"
    EarlierProgressForgotten,
    "A letter that is put back loses its content type and its metadata"
    RedriveForgetsWhatItIs,
    "An operator takes out another message than the one pointed at"
    RemovalTakesAnother,
}

impl Variant {
    /// The variant of this name, written as in the code.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|variant| format!("{variant:?}").eq_ignore_ascii_case(&name.replace(['-', '_'], "")))
    }
}

#[cfg(feature = "broken")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Variant>> = const { std::cell::Cell::new(None) };
}

/// Makes this thread wrong in one way, or right again.
#[cfg(feature = "broken")]
pub fn choose(variant: Option<Variant>) {
    CHOSEN.set(variant);
}

/// Whether this thread is to be wrong in this way.
#[cfg(feature = "broken")]
#[must_use]
pub fn is(variant: Variant) -> bool {
    CHOSEN.get() == Some(variant)
}

/// Never: the feature `broken` is off.
#[cfg(not(feature = "broken"))]
#[must_use]
pub(crate) const fn is(_: Variant) -> bool {
    false
}
