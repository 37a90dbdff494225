//! The app file cut into tokens. Nothing is refused here: what is wrong with a token is said when it is read, so
//! that a block which jadpo skips may hold anything.

use super::problem::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name: letters, digits, `_` and `-`, not starting with a digit.
    Word,
    /// A text in double quotes, both quotes included.
    Text,
    /// A text whose closing quote is not on its line.
    TextUnclosed,
    /// A digit or `-` and a digit, and all letters, digits, `_` and `.` that follow.
    Number,
    Open(Bracket),
    Close(Bracket),
    Colon,
    Comma,
    Dot,
    Question,
    /// Anything else.
    Other,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bracket {
    Brace,
    Square,
    Round,
}

impl Bracket {
    pub(super) const fn open(self) -> char {
        match self {
            Bracket::Brace => '{',
            Bracket::Square => '[',
            Bracket::Round => '(',
        }
    }

    pub(super) const fn close(self) -> char {
        match self {
            Bracket::Brace => '}',
            Bracket::Square => ']',
            Bracket::Round => ')',
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Span,
    /// Whether a line ended between the token before and this one.
    pub(super) on_new_line: bool,
    /// How many bytes of its line come before the line's first token: how far the line is indented.
    pub(super) indent: u32,
}

/// Cuts the source. The last token is always [`Kind::End`].
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { source, at: 0, on_new_line: true, line_start: 0, indent: None, tokens: Vec::new() };
    if source.starts_with('\u{feff}') {
        lexer.at = '\u{feff}'.len_utf8();
        lexer.line_start = lexer.at;
    }
    while lexer.token() {}
    lexer.tokens
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    on_new_line: bool,
    line_start: usize,
    indent: Option<u32>,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    /// Cuts one token; false after the last.
    fn token(&mut self) -> bool {
        self.blank();
        let start = self.at;
        let kind = self.kind();
        let indent = *self.indent.get_or_insert_with(|| u32::try_from(start - self.line_start).unwrap_or(u32::MAX));
        self.tokens.push(Token { kind, span: Span::new(start, self.at), on_new_line: self.on_new_line, indent });
        self.on_new_line = false;
        kind != Kind::End
    }

    fn rest(&self) -> &str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    /// Skips blanks, line ends and comments.
    fn blank(&mut self) {
        loop {
            self.skip_while(|c| c != '\n' && c.is_whitespace());
            if self.rest().starts_with('\n') {
                self.at += 1;
                self.on_new_line = true;
                self.line_start = self.at;
                self.indent = None;
            } else if self.rest().starts_with("//") {
                self.skip_while(|c| c != '\n');
            } else {
                return;
            }
        }
    }

    fn kind(&mut self) -> Kind {
        let mut chars = self.rest().chars();
        let Some(first) = chars.next() else { return Kind::End };
        let second = chars.next();
        match first {
            '"' => return self.text(),
            '\'' => return self.until_quote(first.len_utf8(), '\''),
            '“' | '„' => return self.until_quote(first.len_utf8(), '”'),
            '#' => {
                self.skip_while(|c| c != '\n');
                return Kind::Other;
            }
            '/' if second == Some('*') => return self.block_comment(),
            '-' if second.is_some_and(|c| c.is_ascii_digit()) => {
                self.at += 1;
                self.skip_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
                return Kind::Number;
            }
            c if c.is_ascii_digit() => {
                self.skip_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
                return Kind::Number;
            }
            c if c.is_alphabetic() || c == '_' => {
                self.skip_while(|c| c.is_alphanumeric() || c == '_' || c == '-');
                return Kind::Word;
            }
            _ => self.at += first.len_utf8(),
        }
        match first {
            '{' => Kind::Open(Bracket::Brace),
            '[' => Kind::Open(Bracket::Square),
            '(' => Kind::Open(Bracket::Round),
            '}' => Kind::Close(Bracket::Brace),
            ']' => Kind::Close(Bracket::Square),
            ')' => Kind::Close(Bracket::Round),
            ':' => Kind::Colon,
            ',' => Kind::Comma,
            '.' => Kind::Dot,
            '?' => Kind::Question,
            _ => Kind::Other,
        }
    }

    fn text(&mut self) -> Kind {
        let mut escaped = false;
        let mut chars = self.rest().char_indices().skip(1);
        let end = chars.find(|(_, c)| {
            let ends = *c == '\n' || (!escaped && *c == '"');
            escaped = !escaped && *c == '\\';
            ends
        });
        match end {
            Some((at, '"')) => {
                self.at += at + 1;
                Kind::Text
            }
            end => {
                self.at += end.map_or(self.rest().len(), |(at, _)| at);
                Kind::TextUnclosed
            }
        }
    }

    /// A text in quotes of another kind, as one token, so that it is refused once and not word by word.
    fn until_quote(&mut self, open_len: usize, close: char) -> Kind {
        self.at += open_len;
        let rest = self.rest();
        let end = rest.find([close, '\n']).unwrap_or(rest.len());
        let is_closed = rest.get(end..).is_some_and(|rest| rest.starts_with(close));
        self.at += end + if is_closed { close.len_utf8() } else { 0 };
        Kind::Other
    }

    fn block_comment(&mut self) -> Kind {
        self.at += self.rest().find("*/").map_or(self.rest().len(), |at| at + 2);
        Kind::Other
    }
}
