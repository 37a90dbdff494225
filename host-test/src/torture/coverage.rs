//! Which fault met which step, and how often.

use std::fmt;

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$what])* $variant,)* }

        impl $name {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name, for people.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

words! {
    /// What goes wrong.
    Fault {
        /// Whoever was to do it dies first.
        DiesBefore = "dies before",
        /// Whoever did it dies before it learns how it ended.
        DiesAfter = "dies after",
        /// The store cannot be reached.
        Down = "store down",
        /// A statement fails.
        Statement = "statement fails",
        /// The commit fails.
        Commit = "commit fails",
        /// It commits, and the answer is lost.
        AnswerLost = "answer lost",
        /// The store is behind the build.
        Behind = "store behind",
        /// The store refuses what one message holds.
        Refused = "refused",
        /// It takes long.
        Slow = "slow",
        /// It is done twice.
        Twice = "twice",
        /// Whoever is called answers that it failed.
        Fails = "callee fails",
        /// Whoever is called never answers.
        Hangs = "callee hangs",
        /// The host makes no more calls.
        NotSent = "not sent",
    }
}

words! {
    /// What is done, as far as something can go wrong with it.
    Step {
        /// A batch of messages into the store.
        Keep = "keep messages",
        /// The answer for one message.
        Answer = "answer a message",
        /// Results of deliveries into the store.
        SettleDeliveries = "settle deliveries",
        /// A claim on deliveries that are due.
        Claim = "claim deliveries",
        /// Results, and a claim with them.
        SettleAndClaim = "settle and claim",
        /// A subscriber's call.
        Call = "call a subscriber",
        /// The wait for results to be written together.
        Window = "wait for results",
        /// Looking for parked messages to be read again.
        Reread = "look for retried",
        /// Looking for what is old, and clearing it away.
        Prune = "prune",
        /// What an operator asks of events and deliveries.
        Operator = "operator's retry",
        /// One invocation going on as another.
        HandOn = "hand on",
        /// A send.
        Send = "send",
        /// A send under a key.
        SendOnce = "send once",
        /// A send that leases at once.
        SendTaken = "send and lease",
        /// Looking whether there is something to take.
        Wake = "look for messages",
        /// A take.
        Take = "take",
        /// A settle.
        Settle = "settle",
        /// An attempt that ends and begins anew.
        RetryTaken = "retry at once",
        /// A function's call.
        Function = "call a function",
        /// A sweep.
        Sweep = "sweep",
        /// A schedule's occurrence, or that it has none.
        Occur = "occurrence",
        /// A redrive's slice.
        RedriveStep = "redrive a slice",
        /// A redrive that begins or is cancelled.
        Redrive = "begin or cancel redrive",
        /// A purge, a pause, a removal, a switched trigger.
        Manage = "manage queues",
        /// A server that starts.
        Start = "start",
        /// Nothing that matters.
        Idle = "wait",
    }
}

impl Step {
    /// Whether it is done so often, and says so little, that it is not told when a run is explained.
    pub(super) fn is_quiet(self) -> bool {
        matches!(self, Self::Idle | Self::Wake | Self::Window | Self::HandOn | Self::Sweep | Self::Answer)
    }
}

/// Counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    met: Vec<u64>,
    done: Vec<u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { met: vec![0; Fault::ALL.len() * Step::ALL.len()], done: vec![0; Step::ALL.len()] }
    }
}

impl Coverage {
    pub(super) fn met(&mut self, fault: Fault, step: Step) {
        self.met[fault as usize * Step::ALL.len() + step as usize] += 1;
    }

    pub(super) fn done(&mut self, step: Step) {
        self.done[step as usize] += 1;
    }

    /// How often a fault met a step.
    #[must_use]
    pub fn of(&self, fault: Fault, step: Step) -> u64 {
        self.met[fault as usize * Step::ALL.len() + step as usize]
    }

    /// How often a step was begun.
    #[must_use]
    pub fn steps(&self, step: Step) -> u64 {
        self.done[step as usize]
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.met.iter_mut().zip(&other.met).for_each(|(one, other)| *one += other);
        self.done.iter_mut().zip(&other.done).for_each(|(one, other)| *one += other);
    }
}
