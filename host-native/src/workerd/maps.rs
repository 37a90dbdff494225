//! From a place in a bundle to the place in the sources that it was made of: what a person reads in a stack is their own
//! file and line.
//!
//! Of a source map only the places are needed, in one direction, and reading those is little more than a loop: the
//! libraries for it bring ten others along.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use super::project::Project;

/// What the entry of a bundle is called.
const ENTRY: &str = "index.js:";

/// The maps of the Workers that run, by their names. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Maps {
    all: Arc<Mutex<BTreeMap<String, Map>>>,
}

/// A map: its text until it is first needed.
#[derive(Debug)]
enum Map {
    Unread { text: Vec<u8>, of: PathBuf, folder: PathBuf },
    Read(Places),
}

/// Where each place of a script comes from.
#[derive(Debug, Default)]
struct Places {
    sources: Vec<String>,
    /// For each line, from which column on it comes from where.
    lines: Vec<Vec<Mapping>>,
}

#[derive(Debug, Clone, Copy)]
struct Mapping {
    column: i64,
    source: i64,
    line: i64,
    source_column: i64,
}

#[derive(Deserialize)]
struct Raw {
    sources: Vec<Option<String>>,
    mappings: String,
}

impl Maps {
    /// From now on those of these Workers.
    pub(super) fn set(&self, projects: &[Project]) {
        let map = |project: &Project| {
            let text = project.bundle.map.clone()?;
            let (of, folder) = (project.bundle.made_in.clone(), project.folder.clone());
            Some((project.worker.name.clone(), Map::Unread { text, of, folder }))
        };
        *self.lock() = projects.iter().filter_map(map).collect();
    }

    /// A Worker's text with the places in its bundle put as places in its sources.
    pub(super) fn mapped<'a>(&self, worker: &str, text: &'a str) -> Cow<'a, str> {
        if !text.contains(ENTRY) {
            return Cow::Borrowed(text);
        }
        let mut all = self.lock();
        let Some(map) = all.get_mut(worker) else { return Cow::Borrowed(text) };
        if let Map::Unread { text, of, folder } = map {
            *map = Map::Read(Places::read(text, of, folder).unwrap_or_default());
        }
        let Map::Read(places) = map else { return Cow::Borrowed(text) };
        Cow::Owned(places.put_into(text))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Map>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn read(text: &[u8], of: &Path, folder: &Path) -> Option<Self> {
        let raw: Raw = serde_json::from_slice(text).ok()?;
        let sources = raw.sources.iter().map(|source| source.as_deref().map(|source| shown(source, of, folder)));
        let sources = sources.map(Option::unwrap_or_default).collect();
        // Every number is how much more it is than the one of its kind before; only columns begin anew on each line.
        let (mut source, mut line, mut source_column) = (0, 0, 0);
        let lines = raw.mappings.split(';').map(|mappings| {
            let mut column = 0;
            let segments = mappings.split(',').filter_map(|segment| {
                let numbers = numbers(segment)?;
                column += numbers.first()?;
                let [_, a, b, c, ..] = *numbers.as_slice() else { return None };
                source += a;
                line += b;
                source_column += c;
                Some(Mapping { column, source, line, source_column })
            });
            segments.collect()
        });
        Some(Self { sources, lines: lines.collect() })
    }

    /// Both counted from 1, as in a stack.
    fn place(&self, line: usize, column: i64) -> Option<(&str, i64, i64)> {
        let mappings = self.lines.get(line.checked_sub(1)?)?;
        let after = mappings.partition_point(|mapping| mapping.column < column);
        let mapping = mappings.get(after.checked_sub(1)?)?;
        let source = self.sources.get(usize::try_from(mapping.source).ok()?)?;
        Some((source, mapping.line + 1, mapping.source_column + 1))
    }

    fn put_into(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(ENTRY) {
            out.push_str(before);
            let (line, after_line) = number(after);
            let (column, after_column) = after_line.strip_prefix(':').map(number).unwrap_or((None, after_line));
            let is_whole = before.chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '/');
            let place = line
                .zip(column)
                .filter(|_| is_whole)
                .and_then(|(line, column)| self.place(usize::try_from(line).ok()?, column));
            match place {
                Some((source, line, column)) => {
                    // Writing to a text does not fail.
                    let _ = write!(out, "{source}:{line}:{column}");
                    rest = after_column;
                }
                None => {
                    out.push_str(ENTRY);
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        out
    }
}

/// A number at the beginning, and what follows it.
fn number(text: &str) -> (Option<i64>, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (digits.parse().ok(), rest)
}

/// A source's path, from the folder of the Wrangler file if it is in it.
fn shown(source: &str, of: &Path, folder: &Path) -> String {
    let mut path = PathBuf::new();
    for part in of.join(source).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path.strip_prefix(folder).unwrap_or(&path).display().to_string()
}

/// The numbers of a segment, in base 64 with five bits of each digit, the lowest first; the lowest bit is the sign.
fn numbers(segment: &str) -> Option<Vec<i64>> {
    let mut numbers = Vec::new();
    let (mut value, mut shift) = (0_i64, 0);
    for byte in segment.bytes() {
        let digit = i64::from(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        });
        value |= (digit & 31).checked_shl(shift)?;
        if digit & 32 == 0 {
            numbers.push(if value & 1 == 1 { -(value >> 1) } else { value >> 1 });
            (value, shift) = (0, 0);
        } else {
            shift += 5;
            if shift > 55 {
                return None;
            }
        }
    }
    (!numbers.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_bundle_is_told_as_the_place_in_its_source() {
        // What esbuild says of `src/a.ts` in a bundle of three lines: `// src/a.ts`, `function boom() {`, `  throw 1`.
        let map = br#"{"sources": ["../app/src/a.ts"], "mappings": ";AACA,SAAS,OAAO;AACd,QAAM;"}"#;
        let places = Places::read(map, Path::new("/tmp"), Path::new("/app")).unwrap();
        let told = places.put_into("Error: x\n  at boom (index.js:3:3)\n  at my/index.js:3:3 and index.js:9:1");
        assert_eq!(told, "Error: x\n  at boom (src/a.ts:3:3)\n  at my/index.js:3:3 and index.js:9:1");
    }

    #[test]
    fn numbers_are_read_with_their_sign_and_more_than_one_digit() {
        assert_eq!(numbers("ACgBD"), Some(vec![0, 1, 16, -1]));
        assert_eq!(numbers("!"), None);
    }
}
