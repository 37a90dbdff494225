//! Where one statement of a text ends and the next begins. This goes by tokens, as `SQLite`'s own `sqlite3_complete`
//! does, so a semicolon in a text, a comment or a trigger's body ends nothing.

use std::iter::FusedIterator;

/// A statement of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// From the end of the one before, with the semicolon that ends it if one does.
    pub sql: &'a str,
    /// There is nothing in it but space, comments and a semicolon.
    pub blank: bool,
    /// The line of the text on which its first token stands, from 1.
    pub line: usize,
}

/// The statements of a text, in order. Space after the last is left out.
pub fn pieces(sql: &str) -> impl FusedIterator<Item = Piece<'_>> {
    let (mut rest, mut line) = (sql, 1);
    std::iter::from_fn(move || {
        if rest.trim_start_matches(is_space).is_empty() {
            return None;
        }
        let end = end_of_first(rest);
        let (piece, after) = rest.split_at(end.bytes);
        let first_line = line + newlines(piece.get(..end.first_token.unwrap_or(0)).unwrap_or_default());
        line += newlines(piece);
        rest = after;
        Some(Piece { sql: piece, blank: end.first_token.is_none(), line: first_line })
    })
    .fuse()
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

struct End {
    /// How long the first statement is.
    bytes: usize,
    /// Where its first token stands, if it has one.
    first_token: Option<usize>,
}

/// How far a statement has been read, as far as that matters for where it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Nothing yet, or EXPLAIN.
    Start,
    /// CREATE, or CREATE TEMP.
    Create,
    /// Any other statement: a semicolon ends it.
    Plain,
    /// In a trigger, whose statements have semicolons of their own.
    Trigger,
    /// After a semicolon in a trigger.
    TriggerSemicolon,
    /// After END after a semicolon in a trigger: now a semicolon ends it.
    TriggerEnd,
}

fn end_of_first(sql: &str) -> End {
    let mut at = 0;
    let mut first_token = None;
    let mut read = Read::Start;
    while let Some(token) = token(sql, at) {
        match token.kind {
            Kind::Space => {}
            Kind::Semicolon if matches!(read, Read::Trigger | Read::TriggerSemicolon) => read = Read::TriggerSemicolon,
            Kind::Semicolon => return End { bytes: token.end, first_token },
            Kind::Word | Kind::Other => {
                first_token.get_or_insert(at);
                let word = if token.kind == Kind::Word { sql.get(at..token.end).unwrap_or_default() } else { "" };
                read = after(read, word);
            }
        }
        at = token.end;
    }
    End { bytes: sql.len(), first_token }
}

/// What a word, or another token (an empty one), makes of it.
fn after(read: Read, word: &str) -> Read {
    let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
    match read {
        Read::Start if is("explain") => Read::Start,
        // EXPLAIN QUERY PLAN.
        Read::Start if is("query") || is("plan") => Read::Start,
        Read::Start if is("create") => Read::Create,
        Read::Create if is("temp") || is("temporary") => Read::Create,
        Read::Create if is("trigger") => Read::Trigger,
        Read::Start | Read::Create | Read::Plain => Read::Plain,
        Read::TriggerSemicolon if is("end") => Read::TriggerEnd,
        Read::Trigger | Read::TriggerSemicolon | Read::TriggerEnd => Read::Trigger,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Space, or a comment.
    Space,
    Semicolon,
    Word,
    Other,
}

struct Token {
    kind: Kind,
    end: usize,
}

/// The token that begins there, if the text goes on.
fn token(sql: &str, at: usize) -> Option<Token> {
    let rest = sql.get(at..)?;
    let mut characters = rest.chars();
    let first = characters.next()?;
    let up_to = |found: Option<usize>, more: usize| found.map_or(sql.len(), |bytes| at + bytes + more);
    let (kind, end) = match (first, characters.next()) {
        (';', _) => (Kind::Semicolon, at + 1),
        ('-', Some('-')) => (Kind::Space, up_to(rest.find('\n'), 1)),
        ('/', Some('*')) => (Kind::Space, up_to(rest.get(2..).and_then(|body| body.find("*/")), 4)),
        ('\'' | '"' | '`', _) => (Kind::Other, up_to(rest.get(1..).and_then(|body| body.find(first)), 2)),
        ('[', _) => (Kind::Other, up_to(rest.find(']'), 1)),
        (space, _) if is_space(space) => (Kind::Space, up_to(rest.find(|c| !is_space(c)), 0)),
        (letter, _) if is_word(letter) => (Kind::Word, up_to(rest.find(|c| !is_word(c)), 0)),
        (other, _) => (Kind::Other, at + other.len_utf8()),
    };
    Some(Token { kind, end })
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$') || !character.is_ascii()
}
