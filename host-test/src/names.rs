//! Header names that live as long as the test: calls of functions have whatever headers their message came with.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A name in lowercase, kept once however often it is asked for.
pub(crate) fn lowercase(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let name = name.to_ascii_lowercase();
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    names.insert(name);
    name
}
