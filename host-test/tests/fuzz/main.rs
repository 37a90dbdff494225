//! Fuzzing: whatever is read, nothing panics, hangs or takes what is wrong for right.
//!
//! Each target has right inputs and former crashes in `corpus/TARGET/`. Every file is run as it is; then bolero makes
//! changes of them, for a bounded time (`JADPO_FUZZ_SECONDS`, 1 for each target if not said). What fails is shrunk and
//! printed: mend it, and put the document into the corpus.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod document;
mod files;
mod ids;
mod requests;
mod values;
