//! What is said about an app file: problems, which refuse it, and notes, which do not.

use super::code::Code;

/// Problems reported of one file; the rest is only counted. A person reads the first few, a broken file has thousands.
pub const PROBLEMS_MAX: usize = 100;

/// Problems kept until the file is read whole, so that the first by position are the ones reported.
const COLLECTED_MAX: usize = 1_000;

/// A part of the source, in bytes: `start` is in, `end` is not. Always on character boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    pub(super) const fn new(start: usize, end: usize) -> Self {
        Span { start, end }
    }

    pub(super) fn to(self, other: Span) -> Span {
        Span::new(self.start, other.end.max(self.start))
    }
}

/// Something that refuses the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind of problem it is.
    pub code: Code,
    /// Where it is.
    pub span: Span,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
    /// Another place that has to do with it, and what it is.
    pub related: Option<(Span, String)>,
}

/// Something worth knowing that refuses nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What kind of note it is.
    pub code: Code,
    /// Where it is.
    pub span: Span,
    /// What there is to know, in one sentence.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

/// Collects what is found while a file is read.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<Problem>,
    problems_more: usize,
    notes: Vec<Note>,
}

impl Findings {
    /// Adds a problem and lets the caller add help and another place to it.
    pub(super) fn problem(&mut self, code: Code, span: Span, message: impl Into<String>) -> Said<'_> {
        if self.problems.len() >= COLLECTED_MAX {
            self.problems_more += 1;
            return Said(None);
        }
        self.problems.push(Problem { code, span, message: message.into(), help: None, related: None });
        Said(self.problems.last_mut())
    }

    pub(super) fn note(&mut self, code: Code, span: Span, message: impl Into<String>, help: Option<String>) {
        if self.notes.len() < PROBLEMS_MAX {
            self.notes.push(Note { code, span, message: message.into(), help });
        }
    }

    /// Whether more is found than will be reported, so that costly help is no longer worth its time.
    pub(super) fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    pub(super) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Problems in the order of their place, how many more there are than reported, and the notes.
    pub(super) fn finish(mut self) -> (Vec<Problem>, usize, Vec<Note>) {
        self.problems.sort_by_key(|problem| problem.span);
        self.notes.sort_by_key(|note| note.span);
        let over = self.problems.len().saturating_sub(PROBLEMS_MAX);
        self.problems.truncate(PROBLEMS_MAX);
        (self.problems, self.problems_more + over, self.notes)
    }
}

/// A problem that was just added, or nothing when there were too many.
pub(super) struct Said<'a>(Option<&'a mut Problem>);

impl Said<'_> {
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        if let Some(problem) = &mut self.0 {
            problem.help = Some(help.into());
        }
        self
    }

    pub(super) fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        if let Some(problem) = &mut self.0 {
            problem.related = Some((span, label.into()));
        }
        self
    }
}

/// Where the lines of a source start, to turn bytes into lines and columns.
pub struct Lines<'a> {
    source: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Reads the source once.
    pub fn new(source: &'a str) -> Self {
        let starts = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { source, starts }
    }

    /// The line and the column of a byte, both from 1; columns count characters.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        let column = self.source.get(start..at).map_or(0, |text| text.chars().count());
        (line, column + 1)
    }
}

/// A word of the source as it appears in a message: in backticks, long ones cut, controls shown as escapes.
pub(crate) fn quote(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(shown_char).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

fn shown_char(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}

/// The candidate most like `word`, when one is close enough to be what was meant.
#[must_use]
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const CANDIDATES_MAX: usize = 1_000; // keeps a file of thousands of wrong names quick
    const WORD_LEN_MAX: usize = 64;
    if word.len() > WORD_LEN_MAX {
        return None;
    }
    let lower = word.to_lowercase();
    let nearest = candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len() <= WORD_LEN_MAX)
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance);
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    nearest.filter(|(distance, _)| *distance <= allowed).map(|(_, candidate)| candidate)
}
