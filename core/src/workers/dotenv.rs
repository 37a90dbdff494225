//! `.dev.vars` and `.env`: values by name, one a line, as the dotenv packages read them.

use std::collections::BTreeMap;

use super::note::Note;
use super::quote;

/// Most bytes of such a file.
const FILE_LEN_MAX: usize = 1024 * 1024;
const FORM: &str = "write `NAME=value`, `NAME=\"value with\\nlines\"` or `# a remark`";

/// Reads the text. A name has letters, digits, `_`, `.` and `-`; what is written last of a name counts. A value in
/// double quotes may go over lines and has `\n`, `\r`; in single quotes and backticks it is as it stands; without
/// quotes it ends before ` #` or the line's end.
///
/// # Errors
/// The first line that is none of these.
pub fn dot_vars(text: &str) -> Result<BTreeMap<String, String>, Note> {
    if text.len() > FILE_LEN_MAX {
        return Err(wrong(format!("the file has more than {FILE_LEN_MAX} bytes"), "keep data elsewhere", 0..0));
    }
    let mut values = BTreeMap::new();
    let mut at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let line = rest.split(['\n', '\r']).next().unwrap_or_default();
        let said = line.trim();
        if said.is_empty() || said.starts_with('#') {
            at += line.len() + 1;
            continue;
        }
        let (name, value_at) = name(line).ok_or_else(|| {
            let shown = line.split('=').next().unwrap_or_default().trim();
            wrong(format!("{} is no variable", quote(shown)), FORM, at..at + line.len())
        })?;
        let from = at + value_at;
        let (value, len) = value(text.get(from..).unwrap_or_default())
            .ok_or_else(|| wrong(format!("the quotes of `{name}` do not end"), FORM, at..at + line.len()))?;
        values.insert(name.to_owned(), value);
        at = from + len;
    }
    Ok(values)
}

fn wrong(message: String, help: &str, span: std::ops::Range<usize>) -> Note {
    Note { path: String::new(), message, help: Some(help.to_owned()), span: Some(span) }
}

/// The name that a line gives a value to, and where that begins.
fn name(line: &str) -> Option<(&str, usize)> {
    let colon = line.find(": ").unwrap_or(line.len());
    let sign = line.find('=').filter(|at| *at < colon).or_else(|| (colon < line.len()).then_some(colon))?;
    let before = line.get(..sign)?;
    let name = before.trim();
    let name = name.strip_prefix("export").filter(|rest| rest.starts_with(char::is_whitespace)).unwrap_or(name).trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    is_name.then_some((name, before.len() + 1))
}

/// The value at the start of a text, and how many bytes of it were read, its line's rest too.
fn value(text: &str) -> Option<(String, usize)> {
    let line_len = text.find(['\n', '\r']).unwrap_or(text.len());
    let space = text.len() - text.trim_start_matches([' ', '\t']).len();
    let from = text.get(space..).unwrap_or_default();
    let quote = from.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
    if let Some(quote) = quote {
        let inner = from.get(1..).unwrap_or_default();
        if let Some(end) = end_of(inner, quote) {
            let value = inner.get(..end).unwrap_or_default();
            let value = if quote == '"' { value.replace("\\n", "\n").replace("\\r", "\r") } else { value.to_owned() };
            let after = space + 1 + end + 1;
            let rest = text.get(after..).unwrap_or_default();
            let rest_len = rest.find(['\n', '\r']).unwrap_or(rest.len());
            return Some((value, after + rest_len));
        }
        if quote == '"' || quote == '`' {
            return None;
        }
    }
    let line = text.get(..line_len).unwrap_or_default();
    let value = line.split('#').next().unwrap_or_default();
    Some((value.trim().to_owned(), line_len))
}

/// Where the quotes end that began before this text. One after a backslash does not end them.
fn end_of(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !is_escaped {
            return Some(at);
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    None
}
