//! Texts, numbers, durations and names as they are written.

use super::code::Code;
use super::problem::{Findings, Span, quote};
use super::syntax::What;

const NAME_LEN_MAX: usize = 64;

/// Whether a word may name something: ASCII letters, digits and `_`, starting with a letter, at most 64.
pub(super) fn is_name(word: &str) -> bool {
    word.len() <= NAME_LEN_MAX
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What a text in quotes says. Every wrong escape in it is said.
pub(super) fn text(source: &str, span: Span, findings: &mut Findings) -> Option<String> {
    let start = span.start + 1;
    let inner = source.get(start..span.end.saturating_sub(1)).unwrap_or_default();
    let mut text = String::with_capacity(inner.len());
    let mut is_right = true;
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        let rest = chars.as_str();
        let (escape_len, escaped) = escape(rest);
        match escaped {
            Some(escaped) => text.push(escaped),
            None => {
                is_right = false;
                let wrong = Span::new(start + at, start + at + 1 + escape_len);
                let written = source.get(wrong.start..wrong.end).unwrap_or_default();
                findings
                    .problem(Code::SyntaxTextInvalid, wrong, format!("{} is not an escape", quote(written)))
                    .help("the escapes are \\\" \\\\ \\n \\r \\t and \\u{HEX}; a backslash itself is \\\\");
            }
        }
        for _ in rest.get(..escape_len).unwrap_or_default().chars() {
            chars.next();
        }
    }
    is_right.then_some(text)
}

/// What stands after a backslash: how many bytes of it belong to the escape, and the character that it is.
fn escape(rest: &str) -> (usize, Option<char>) {
    const HEX_LEN_MAX: usize = 6;
    let first = rest.chars().next();
    let escaped = match first {
        Some('"') => Some('"'),
        Some('\\') => Some('\\'),
        Some('n') => Some('\n'),
        Some('r') => Some('\r'),
        Some('t') => Some('\t'),
        Some('u') => {
            let hex = rest.strip_prefix("u{").and_then(|rest| rest.split_once('}')).map(|(hex, _)| hex);
            let hex = hex.filter(|hex| (1..=HEX_LEN_MAX).contains(&hex.len()));
            let hex = hex.filter(|hex| hex.chars().all(|c| c.is_ascii_hexdigit()));
            let escaped = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
            return (hex.map_or(1, |hex| hex.len() + "u{}".len()), escaped);
        }
        _ => None,
    };
    (first.map_or(0, char::len_utf8), escaped)
}

/// A whole number or a duration.
pub(super) fn number(word: &str, span: Span, findings: &mut Findings) -> What {
    let digits_end = word.find(|c: char| !(c.is_ascii_digit() || c == '_' || c == '-')).unwrap_or(word.len());
    let (digits, unit) = word.split_at_checked(digits_end).unwrap_or((word, ""));
    let value = digits.replace('_', "").parse::<i64>().ok();
    let unit_ms = match unit {
        "" => None,
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => {
            let help = if unit.starts_with('.') {
                "numbers are whole; write a smaller unit, like 1500ms for 1.5s"
            } else {
                "a duration is a whole number and one unit: 250ms, 10s, 5m, 2h or 1d"
            };
            findings
                .problem(Code::SyntaxNumberInvalid, span, format!("{} is not a number here", quote(word)))
                .help(help);
            return What::Broken;
        }
    };
    let what = match (value, unit_ms) {
        (Some(value), None) => Some(What::Int(value)),
        (Some(value), Some(unit_ms)) => {
            u64::try_from(value).ok().and_then(|value| value.checked_mul(unit_ms)).map(What::Duration)
        }
        (None, _) => None,
    };
    what.unwrap_or_else(|| {
        findings
            .problem(Code::SyntaxNumberInvalid, span, format!("{} is out of range", quote(word)))
            .help("numbers are whole numbers of 64 bits, and durations are not negative");
        What::Broken
    })
}
