//! From tokens to entries. What cannot be read is said and left out, and reading goes on with the next entry.

use std::collections::BTreeMap;

use super::code::Code;
use super::groups::{self, End};
use super::lex::{self, Bracket, Kind, Token};
use super::literal;
use super::problem::{Findings, Span, closest, quote};
use super::syntax::{Block, Entry, Value, What};

/// How deep blocks, lists and calls nest. Far more than an app needs, far less than a stack holds.
pub(super) const DEPTH_MAX: u32 = 64;

const QUEUES: &str =
    "a queue is a connection: `connections: { jobs: { driver: Driver.local_queue, queue: \"jobs\" } }`";
const SCHEDULES: &str =
    "a schedule belongs to its function: `functions: { sweep: { exec: [\"./sweep.sh\"], schedule: \"0 * * * *\" } }`";

/// Names at the top that are not there, and where what they stand for is written.
const ELSEWHERE: [(&str, &str); 4] =
    [("queues", QUEUES), ("queue", QUEUES), ("schedules", SCHEDULES), ("schedule", SCHEDULES)];

/// Parses a whole file. An entry at the top whose key is not in `known` is skipped with a note, whatever it holds.
pub(super) fn file(source: &str, known: &[&str], findings: &mut Findings) -> Block {
    let tokens = lex::tokens(source);
    let ends = groups::ends(&tokens);
    let limit = tokens.len().saturating_sub(1);
    let mut parser = Parser { source, tokens, ends, at: 0, limit, depth: 0, known, findings };
    parser.entries(true)
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    ends: Vec<Option<End>>,
    /// The next token.
    at: usize,
    /// The end of the group being read: nothing from here on belongs to it.
    limit: usize,
    depth: u32,
    known: &'a [&'a str],
    findings: &'a mut Findings,
}

impl<'a> Parser<'a> {
    fn entries(&mut self, top: bool) -> Block {
        let mut block = Block::default();
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        while self.kind() != Kind::End {
            if top && self.skip_unknown() {
                continue;
            }
            let Some(entry) = self.entry() else {
                block.damaged = true;
                self.recover();
                continue;
            };
            block.damaged |= !self.separator();
            if let Some(first) = seen.get(&entry.key) {
                self.findings
                    .problem(Code::SyntaxKeyTwice, entry.key_span, format!("{} is written twice", quote(&entry.key)))
                    .help("remove one of them, or give one another name")
                    .related(*first, "the first is here");
            } else {
                seen.insert(entry.key.clone(), entry.key_span);
                block.entries.push(entry);
            }
        }
        block
    }

    fn entry(&mut self) -> Option<Entry> {
        let (key, key_span) = self.key()?;
        if self.kind() == Kind::Colon {
            self.at += 1;
        } else if self.kind() == Kind::Open(Bracket::Brace) && !self.token().on_new_line {
            self.expected_colon(key_span, &key);
        } else if self.text() == "=" {
            self.expected_colon(self.token().span, &key);
            self.at += 1;
        } else {
            self.expected_colon(key_span, &key);
            return None;
        }
        let value = self.value(&key, key_span);
        Some(Entry { key, key_span, value })
    }

    fn expected_colon(&mut self, span: Span, key: &str) {
        self.findings
            .problem(Code::SyntaxUnexpected, span, format!("there is no `:` between {} and its value", quote(key)))
            .help(format!("write `{}: …`", key.chars().take(64).collect::<String>()));
    }

    /// A key: a name, or a text where the name of a field is no name here.
    fn key(&mut self) -> Option<(String, Span)> {
        let token = self.token();
        match self.kind() {
            Kind::Word => {
                self.at += 1;
                let word = self.slice(token.span);
                self.check_name(word, token.span);
                Some((word.to_owned(), token.span))
            }
            Kind::Text => {
                self.at += 1;
                Some((literal::text(self.source, token.span, self.findings)?, token.span))
            }
            _ => {
                self.unexpected("an entry starts with its name, as in `key: value`");
                None
            }
        }
    }

    fn check_name(&mut self, word: &str, span: Span) {
        if literal::is_name(word) {
            return;
        }
        let fixed: String = word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(64).collect();
        let fixed = fixed.trim_start_matches('_').to_owned();
        self.findings.problem(Code::SyntaxNameInvalid, span, format!("{} is not a name", quote(word))).help(
            if literal::is_name(&fixed) && fixed != word && word.is_ascii() {
                format!("names have letters, digits and underscores, and start with a letter; write `{fixed}`")
            } else {
                "names have at most 64 letters, digits and underscores, and start with a letter".to_owned()
            },
        );
    }

    /// The value of `key`. One that is not there is said once and read as broken.
    fn value(&mut self, key: &str, key_span: Span) -> Value {
        let token = self.token();
        let is_key = self.kind_after() == Kind::Colon || self.text_after() == "=";
        let starts_next_entry = self.kind() == Kind::Word && token.on_new_line && is_key;
        if starts_next_entry || matches!(self.kind(), Kind::End | Kind::Comma | Kind::Close(_)) {
            self.findings
                .problem(Code::SyntaxValueMissing, key_span, format!("{} has no value", quote(key)))
                .help(format!("write a value after `{}:`", key.chars().take(64).collect::<String>()));
            return Value { what: What::Broken, span: key_span };
        }
        self.any_value()
    }

    fn any_value(&mut self) -> Value {
        let token = self.token();
        let what = match self.kind() {
            Kind::Word => self.name_or_call(),
            Kind::Text => {
                self.at += 1;
                literal::text(self.source, token.span, self.findings).map_or(What::Broken, What::Text)
            }
            Kind::Number => {
                self.at += 1;
                literal::number(self.slice(token.span), token.span, self.findings)
            }
            Kind::Open(Bracket::Brace) => self.group(|parser| What::Block(parser.entries(false))),
            Kind::Open(Bracket::Square) => self.group(|parser| What::List(parser.items())),
            _ => {
                self.unexpected(
                    "a value is a text, a number, a duration, true or false, a name, a call, a list or a block",
                );
                self.skip_rest();
                What::Broken
            }
        };
        let mut value = Value { what, span: self.since(token.span) };
        let mut is_optional = false;
        while self.kind() == Kind::Question && !self.token().on_new_line {
            let span = self.token().span;
            self.at += 1;
            if is_optional {
                self.findings.problem(Code::SyntaxUnexpected, span, "one `?` is enough").help("remove this `?`");
            } else {
                is_optional = true;
                let span = self.since(token.span);
                value = Value { what: What::Optional(Box::new(value)), span };
            }
        }
        value
    }

    fn name_or_call(&mut self) -> What {
        let mut parts = vec![self.slice(self.token().span).to_owned()];
        self.at += 1;
        while self.kind() == Kind::Dot && !self.token().on_new_line {
            let dot = self.token().span;
            self.at += 1;
            if self.kind() != Kind::Word || self.token().on_new_line {
                self.findings
                    .problem(Code::SyntaxUnexpected, dot, "the name ends with a dot")
                    .help("a name goes on after its dot, as in `Driver.local_queue`");
                return What::Broken;
            }
            parts.push(self.slice(self.token().span).to_owned());
            self.at += 1;
        }
        if self.kind() == Kind::Open(Bracket::Round) && !self.token().on_new_line {
            return self.group(|parser| What::Call(parts, parser.items()));
        }
        match parts.as_slice() {
            [word] if word == "true" || word == "false" => What::Bool(word == "true"),
            _ => What::Name(parts),
        }
    }

    /// The items of a list or a call.
    fn items(&mut self) -> Vec<Value> {
        let mut items = Vec::new();
        while self.kind() != Kind::End {
            items.push(self.any_value());
            self.separator();
        }
        items
    }

    /// Reads what is between the bracket at hand and its end, and never past it.
    fn group(&mut self, read: impl FnOnce(&mut Self) -> What) -> What {
        let open = self.token();
        let end = self.end_of(self.at);
        if !end.closed {
            self.unclosed(open, end);
        }
        let outer_limit = std::mem::replace(&mut self.limit, end.at);
        self.depth += 1;
        let what = if self.depth > DEPTH_MAX {
            self.findings
                .problem(Code::SyntaxTooDeep, open.span, format!("this is nested more than {DEPTH_MAX} deep"))
                .help("write it with fewer levels");
            What::Broken
        } else {
            self.at += 1;
            read(self)
        };
        self.depth -= 1;
        self.limit = outer_limit;
        self.at = end.at + usize::from(end.closed);
        what
    }

    fn unclosed(&mut self, open: Token, end: End) {
        let Kind::Open(bracket) = open.kind else { return };
        let said = self.findings.problem(
            Code::SyntaxUnclosed,
            open.span,
            format!("this `{}` is never closed", bracket.open()),
        );
        let close = bracket.close();
        match self.tokens.get(end.at) {
            Some(token) if token.kind != Kind::End => {
                said.help(format!("write `{close}` where it ends")).related(token.span, "it seems to end before this");
            }
            _ => {
                said.help(format!("write `{close}` where it ends; the file ends before that"));
            }
        }
    }

    /// What must stand between two entries or items: a comma, a new line, or the end. False when it is not there.
    fn separator(&mut self) -> bool {
        match self.kind() {
            Kind::Comma => {
                self.at += 1;
                true
            }
            Kind::End => true,
            Kind::Close(_) => {
                self.unexpected("");
                self.at += 1;
                false
            }
            _ if self.token().on_new_line => true,
            _ => {
                self.unexpected("entries are parted by a comma or a new line");
                if !(matches!(self.kind(), Kind::Word | Kind::Text) && self.kind_after() == Kind::Colon) {
                    self.recover();
                }
                false
            }
        }
    }

    /// Goes on to where the next entry may start: after a comma, or on a new line.
    fn recover(&mut self) {
        let mut first = true;
        while self.kind() != Kind::End {
            if self.kind() == Kind::Comma {
                self.at += 1;
                return;
            }
            if self.token().on_new_line && !first {
                return;
            }
            self.skip_token_or_group();
            first = false;
        }
    }

    /// Skips what follows on the line up to a comma: the rest of a value that could not be read.
    fn skip_rest(&mut self) {
        self.skip_token_or_group();
        while !matches!(self.kind(), Kind::End | Kind::Comma) && !self.token().on_new_line {
            self.skip_token_or_group();
        }
    }

    fn skip_token_or_group(&mut self) {
        self.at = match self.kind() {
            Kind::Open(_) => {
                let end = self.end_of(self.at);
                if !end.closed {
                    self.unclosed(self.token(), end); // else blocks that follow could vanish without a word
                }
                (end.at + usize::from(end.closed)).max(self.at + 1)
            }
            _ => self.at + 1,
        };
    }

    /// Skips an entry at the top whose key jadpo does not know: another part's block, in that part's own syntax. One
    /// that can only be meant for jadpo is a problem, or what it declares would be missing without a word.
    fn skip_unknown(&mut self) -> bool {
        let token = self.token();
        let word = self.slice(token.span);
        let has_body = matches!(self.kind_after(), Kind::Colon | Kind::Word | Kind::Text | Kind::Other | Kind::Open(_))
            && self.tokens.get(self.at + 1).is_some_and(|next| !next.on_new_line);
        if self.kind() != Kind::Word || self.known.contains(&word) || !has_body {
            return false;
        }
        if let Some((_, place)) = ELSEWHERE.iter().find(|(name, _)| *name == word) {
            let message = format!("{} is not a block of its own", quote(word));
            self.findings.problem(Code::AppKeyInvalid, token.span, message).help(*place);
        } else {
            let meant = closest(word, self.known.iter().copied());
            self.findings.note(
                Code::NoteBlockSkipped,
                token.span,
                format!("{} is not a block that jadpo reads, so it is skipped", quote(word)),
                meant.map(|meant| format!("did you mean `{meant}`?")),
            );
        }
        self.at += 1;
        if self.kind() == Kind::Colon {
            self.at += 1;
        }
        self.recover();
        true
    }

    fn unexpected(&mut self, help: &str) {
        let token = self.token();
        let span = token.span;
        let word = self.slice(span);
        match self.kind() {
            Kind::Close(_) => {
                let message = format!("this {} closes nothing", quote(word));
                self.findings.problem(Code::SyntaxUnclosed, span, message).help("remove it, or open it before");
            }
            Kind::TextUnclosed => {
                self.findings
                    .problem(Code::SyntaxTextInvalid, span, "this text has no closing quote on its line")
                    .help("close it with `\"`; a line break inside a text is written `\\n`");
            }
            Kind::End => {
                let at = self.tokens.get(self.limit).map_or(span, |token| token.span);
                self.findings.problem(Code::SyntaxUnexpected, at, "something is missing here").help(help);
            }
            _ => {
                let help = match word.chars().next() {
                    Some('\'') => "texts stand in double quotes: \"…\"",
                    Some('#' | '/') => "comments start with //",
                    Some('“' | '”' | '„') => "texts stand in straight double quotes: \"…\"",
                    Some(';') => "entries are parted by a comma or a new line",
                    _ => help,
                };
                let message = format!("{} cannot stand here", quote(word));
                self.findings.problem(Code::SyntaxUnexpected, span, message).help(help);
            }
        }
    }

    fn token(&self) -> Token {
        let end = Span::new(self.source.len(), self.source.len());
        let last = Token { kind: Kind::End, span: end, on_new_line: true, indent: 0 };
        self.tokens.get(self.at).copied().unwrap_or(last)
    }

    /// The kind of the next token; the end of the group being read is its end.
    fn kind(&self) -> Kind {
        if self.at >= self.limit { Kind::End } else { self.token().kind }
    }

    fn kind_after(&self) -> Kind {
        let next = self.at + 1;
        if next >= self.limit { Kind::End } else { self.tokens.get(next).map_or(Kind::End, |token| token.kind) }
    }

    fn text(&self) -> &'a str {
        self.slice(self.token().span)
    }

    fn text_after(&self) -> &'a str {
        self.tokens.get(self.at + 1).map_or("", |token| self.slice(token.span))
    }

    fn slice(&self, span: Span) -> &'a str {
        self.source.get(span.start..span.end).unwrap_or_default()
    }

    /// From `start` to the end of the last token that was read.
    fn since(&self, start: Span) -> Span {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or(start, |token| start.to(token.span))
    }

    fn end_of(&self, at: usize) -> End {
        let end = self.ends.get(at).copied().flatten();
        // A group never ends past the one around it.
        end.filter(|end| end.at <= self.limit).unwrap_or(End { at: self.limit, closed: false })
    }
}
