//! Where each bracket's group ends, found before anything is parsed.
//!
//! A file whose brackets match is taken at its word. In any other, indentation tells which bracket is the one
//! that was forgotten, so that one missing `}` is one problem and the blocks after it are still read.

use super::lex::{Bracket, Kind, Token};

/// Where a group ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// The index of its closing bracket, or of the first token that is no longer in it.
    pub(super) at: usize,
    /// Whether the token at `at` is its closing bracket.
    pub(super) closed: bool,
}

/// The end of each group, by the index of its opening bracket. Other indices hold nothing.
pub(super) fn ends(tokens: &[Token]) -> Vec<Option<End>> {
    let taken_at_its_word = Matcher::run(tokens, false);
    if taken_at_its_word.balanced { taken_at_its_word.ends } else { Matcher::run(tokens, true).ends }
}

struct Matcher {
    ends: Vec<Option<End>>,
    open: Vec<Opened>,
    balanced: bool,
}

struct Opened {
    at: usize,
    bracket: Bracket,
    indent: u32,
}

/// How far up the open brackets are searched for one that a closing bracket fits.
const SEARCHED_MAX: usize = 80;

impl Matcher {
    fn run(tokens: &[Token], by_indent: bool) -> Matcher {
        let mut matcher = Matcher { ends: vec![None; tokens.len()], open: Vec::new(), balanced: true };
        for (at, token) in tokens.iter().enumerate() {
            match token.kind {
                Kind::Open(bracket) => matcher.open.push(Opened { at, bracket, indent: token.indent }),
                Kind::Close(bracket) => matcher.close(at, bracket, token, by_indent),
                Kind::Word if by_indent && token.on_new_line && is_key(tokens, at) => {
                    while matcher.open.last().is_some_and(|open| open.indent >= token.indent) {
                        matcher.pop(at, false);
                    }
                }
                _ => {}
            }
        }
        while !matcher.open.is_empty() {
            matcher.pop(tokens.len().saturating_sub(1), false);
        }
        matcher
    }

    fn close(&mut self, at: usize, bracket: Bracket, token: &Token, by_indent: bool) {
        let mut near = self.open.iter().rev().take(SEARCHED_MAX);
        let position = if by_indent && token.on_new_line {
            let same_indent = near.position(|open| open.bracket == bracket && open.indent == token.indent);
            let innermost = self.open.last().filter(|open| open.bracket == bracket && open.indent > token.indent);
            same_indent.or(innermost.map(|_| 0))
        } else {
            near.position(|open| open.bracket == bracket)
        };
        let Some(position) = position else {
            self.balanced = false; // it closes nothing
            return;
        };
        for _ in 0..position {
            self.pop(at, false);
        }
        self.pop(at, true);
    }

    fn pop(&mut self, at: usize, closed: bool) {
        self.balanced &= closed;
        if let Some(open) = self.open.pop()
            && let Some(end) = self.ends.get_mut(open.at)
        {
            *end = Some(End { at, closed });
        }
    }
}

fn is_key(tokens: &[Token], at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|next| next.kind == Kind::Colon)
}
