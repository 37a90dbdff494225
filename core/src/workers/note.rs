//! What is said about a Wrangler file.

use std::ops::Range;

/// Problems or warnings reported of one file. A person reads the first few, a broken file has thousands.
pub const NOTES_MAX: usize = 100;

/// Something that refuses a file, or that is worth knowing about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where it is, as a path of keys: `queues.consumers[0].max_batch_size`. Empty for the file as a whole.
    pub path: String,
    /// What is wrong, in one sentence that needs no path before it.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
    /// The bytes of the text that it is about, on character boundaries; where a value is missing, those of what should
    /// hold it.
    pub span: Option<Range<usize>>,
}

/// Collects what is found while a file is read.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) problems: Vec<Note>,
    pub(super) warnings: Vec<Note>,
    problems_more: usize,
}

impl Found {
    pub(super) fn problem(&mut self, note: Note) {
        if self.problems.len() < NOTES_MAX {
            self.problems.push(note);
        } else {
            self.problems_more += 1;
        }
    }

    /// Whether more is found than will be reported, so that costly help is no longer worth its time.
    pub(super) fn is_full(&self) -> bool {
        self.problems.len() >= NOTES_MAX || self.warnings.len() >= NOTES_MAX
    }

    pub(super) fn warning(&mut self, note: Note) {
        if self.warnings.len() < NOTES_MAX {
            self.warnings.push(note);
        }
    }

    /// The problems in the order of their place, and how many there are beside those.
    pub(super) fn into_problems(mut self) -> Vec<Note> {
        self.problems.sort_by_key(|note| note.span.as_ref().map_or(0, |span| span.start));
        if self.problems_more > 0 {
            let message = format!("there are {} more problems", self.problems_more);
            self.problems.push(Note { path: String::new(), message, help: None, span: None });
        }
        self.problems
    }
}
