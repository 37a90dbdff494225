//! What a simulation holds, all behind one lock.

use std::sync::Arc;

use jadpo_core::start::App;

use super::coverage::{Fault, Step};
use super::ledger::Ledger;
use super::native::Native;
use super::sim::Scheduler;
use super::store::Lent;
use crate::cloudflare::Cloudflare;

/// Which of the two stores: D1, or the native server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Worker,
    Native,
}

/// What may go wrong with a store at the moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Weather {
    /// Of a hundred times, how often.
    pub(super) percent: u32,
    /// What then.
    pub(super) faults: Vec<Fault>,
}

/// A store and what was seen of its events.
pub(super) struct Side {
    pub(super) database: Lent,
    pub(super) ledger: Ledger,
    pub(super) weather: Weather,
    /// A batch with this text in it is refused.
    pub(super) refused: Option<String>,
    pub(super) app: Arc<App>,
    /// Every build that there was.
    pub(super) builds: Vec<Arc<App>>,
}

/// How those who are called behave at the moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Callees {
    /// Of a hundred calls, how many go wrong.
    pub(super) percent: u32,
    /// How long they take, in milliseconds.
    pub(super) takes_ms: i64,
}

/// Everything.
pub(super) struct State {
    pub(super) scheduler: Scheduler,
    pub(super) sides: [Side; 2],
    pub(super) callees: Callees,
    pub(super) cloudflare: Cloudflare,
    pub(super) native: Native,
    /// Clocks of isolates differ, so that what follows from right clocks is not looked at.
    pub(super) skewed: bool,
    /// Nothing goes wrong any more, and nobody begins anything.
    pub(super) calm: bool,
}

impl State {
    pub(super) fn side(&mut self, place: Place) -> &mut Side {
        &mut self.sides[place as usize]
    }

    /// What goes wrong with the store this time.
    pub(super) fn fault(&mut self, place: Place, step: Step) -> Option<Fault> {
        let Self { scheduler, sides, .. } = self;
        let weather = &sides[place as usize].weather;
        if weather.faults.is_empty() || !scheduler.chance(weather.percent) {
            return None;
        }
        let fault = scheduler.pick(&weather.faults);
        scheduler.met(fault, step);
        Some(fault)
    }

    /// How long until the next tick of a side: a minute, or in the calm until something falls due.
    pub(super) fn next_tick_in_ms(&mut self, place: Place) -> i64 {
        if !self.calm {
            return 60_000;
        }
        let now_ms = self.scheduler.now_ms;
        let due_ms = self.side(place).next_due_ms().unwrap_or(now_ms + 3_600_000);
        (due_ms - now_ms).clamp(60_000, 3_600_000)
    }

    /// Nothing goes wrong from now on.
    pub(super) fn calm_down(&mut self) {
        self.calm = true;
        self.scheduler.deaths = 0;
        self.scheduler.lags = 0;
        self.callees = Callees::default();
        for side in &mut self.sides {
            side.weather = Weather::default();
            side.refused = None;
        }
        self.cloudflare.lose_acks(0);
    }
}

impl Side {
    pub(super) fn new(app: Arc<App>) -> Self {
        let builds = vec![app.clone()];
        let (database, ledger, weather) = (Lent::new(), Ledger::default(), Weather::default());
        Self { database, ledger, weather, refused: None, app, builds }
    }

    /// Another build takes over.
    pub(super) fn deploy(&mut self, app: App) {
        self.app = Arc::new(app);
        self.builds.push(self.app.clone());
    }

    /// When a delivery falls due or a parked message is to be read again.
    pub(super) fn next_due_ms(&self) -> Option<i64> {
        self.database.number(
            "SELECT min(at) FROM (SELECT min(due_at) AS at FROM jadpo_deliveries WHERE due_at < 9007199254740991 \
             UNION ALL SELECT min(retry_at) FROM jadpo_parked_messages WHERE retry_at IS NOT NULL)",
            &[],
        )
    }
}
