//! What killed processes said, and what must be true after it.

use std::collections::{BTreeMap, BTreeSet};

/// A queue, and a message's number.
type Place = (String, u64);

#[derive(Default)]
pub(crate) struct Said {
    /// Sends that were answered.
    sent: BTreeSet<Place>,
    /// Acks that were begun, and those that were answered.
    acking: BTreeSet<Place>,
    acked: BTreeSet<Place>,
    attempts: BTreeMap<Place, u32>,
    /// The last number before a purge that was begun, or answered.
    purging: u64,
    purged: u64,
    /// Letters that died and that were put back, as far as it was said.
    died: usize,
    moved: u64,
    released: usize,
    /// All that was said of each message, for whoever has to find out how it was lost.
    history: BTreeMap<Place, String>,
    /// What was there at the end.
    drained: BTreeMap<Place, usize>,
    pub(crate) last_occurrence: Option<i64>,
}

/// A message of `poison` may be among its dead letters as well, but not in both.
fn place(queue: &str, number: u64) -> Place {
    (queue.trim_end_matches("-dead").to_owned(), number)
}

impl Said {
    pub(crate) fn line(&mut self, line: &str) {
        assert!(!line.starts_with("panicked"), "a process that was to be killed {line}");
        let words: Vec<&str> = line.split(' ').collect();
        let [what, queue, body, ..] = words[..] else { return };
        if what == "died" {
            self.died += 1;
            return;
        }
        let Ok(number) = body.parse() else { return };
        let place = place(queue, number);
        let history = self.history.entry(place.clone()).or_default();
        history.push_str(words.get(3).map_or_else(|| format!("{what} "), |more| format!("{what} {more} ")).as_str());
        match what {
            "sent" => drop(self.sent.insert(place)),
            "acking" => drop(self.acking.insert(place)),
            "acked" => drop(self.acked.insert(place)),
            "moved" => self.moved += number,
            "purging" => self.purging = self.purging.max(number),
            "purged" => self.purged = self.purged.max(number),
            "releasing" => {
                // It may not be done any more; if it is, the next attempt has the same number.
                *self.attempts.get_mut(&place).unwrap() -= 1;
                self.released += 1;
            }
            "taken" => self.taken(place, words[3].parse().unwrap()),
            _ => {}
        }
    }

    fn taken(&mut self, place: Place, attempt: u32) {
        let history = self.history.get(&place).cloned().unwrap_or_default();
        assert!(!self.acked.contains(&place), "{place:?} came again after its ack was answered: {history}");
        assert!(place.0 != "purged" || place.1 > self.purged, "{place:?} came again after a purge was answered");
        if place.0 == "poison" {
            return; // Each time that it is put back, its attempts begin anew.
        }
        let before = self.attempts.insert(place.clone(), attempt).unwrap_or(0);
        assert!(attempt > before, "{place:?}: attempt {attempt} after attempt {before}: {history}");
    }

    /// It was there at the end.
    pub(crate) fn drained(&mut self, queue: &str, body: &str) {
        *self.drained.entry(place(queue, body.parse().unwrap_or_default())).or_default() += 1;
    }

    /// Or it would not have tested what it says.
    pub(crate) fn check_that_enough_was_done(&self, kills: usize) {
        let of = |places: &BTreeSet<Place>, queue: &str| places.iter().filter(|(name, _)| name == queue).count();
        let count = |queue| of(&self.sent, queue);
        let counts = ["jobs", "poison", "purged", "hooks", "ticks"].map(count);
        let said = format!(
            "sent {counts:?}, acked {}, died {}, moved {}, released {}",
            of(&self.acked, "jobs"),
            self.died,
            self.moved,
            self.released
        );
        println!("{kills} kills: {said}");
        assert!(counts.iter().all(|count| *count > kills), "{said}");
        assert!(of(&self.acked, "jobs") > kills && of(&self.acked, "poison") > kills / 4, "{said}");
        assert!(
            self.died > kills && self.moved > kills as u64 && self.released > kills / 4 && self.purged > 0,
            "{said}"
        );
    }

    pub(crate) fn check_that_nothing_is_lost(&self) {
        let gone = |place: &&Place| place.0 != "purged" || place.1 > self.purging;
        let lost: Vec<_> = self.sent.iter().filter(gone).filter(|place| !self.acking.contains(*place)).collect();
        let lost: Vec<_> = lost.iter().map(|place| (place, &self.history[*place])).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        let twice: Vec<_> = self.drained.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "there twice: {twice:?}");
        let ticks = self.drained.keys().filter(|(queue, number)| queue == "ticks" && *number > 0).count();
        assert_eq!(Some(ticks as i64), self.last_occurrence, "each occurrence is there once, answered or not");
    }
}
