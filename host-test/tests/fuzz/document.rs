//! Documents to be read: those of the corpus, and changes of them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bolero::{TypeGenerator, ValueGenerator, check, produce};

/// What is put in somewhere: what readers stumble over.
const PIECES: [&[u8]; 40] = [
    b"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"\"",
    b"'",
    b"\\",
    b":",
    b",",
    b"=",
    b"?",
    b"&",
    b"%00",
    b"%",
    b"/",
    b"//",
    b"#",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"9007199254740993",
    b"99999999999999999999",
    b"0.1",
    b"\"\\ud800\"",
    b"[[[[[[[[[[[[[[[[",
    b"[[queues]]",
    b"env(\"X\")",
    b"T??",
    b"-",
    b"\xf0\x9f\x91\xa9",
];

/// One change of a document.
#[derive(Debug, Clone, TypeGenerator)]
struct Edit {
    at: u16,
    cut: u8,
    piece: u8,
    /// From where in the document a part is copied, and how much; nothing where it is 0.
    copied: u16,
    copied_len: u8,
}

/// How a document is made: of which one of the corpus, and by which changes.
#[derive(Debug, Clone, TypeGenerator)]
struct Recipe {
    of: u8,
    edits: Vec<Edit>,
    /// Whether the document is only what is put in, without any of the corpus.
    from_nothing: bool,
}

/// What is read. A failure prints it.
#[derive(Clone)]
pub(crate) struct Document(Vec<u8>);

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the document, escaped:\n{}", self.0.escape_ascii())
    }
}

impl Recipe {
    fn make(&self, corpus: &[Vec<u8>]) -> Document {
        let base = corpus.get(usize::from(self.of) % corpus.len().max(1));
        let mut bytes = base.filter(|_| !self.from_nothing).cloned().unwrap_or_default();
        for edit in self.edits.iter().take(24) {
            let start = usize::from(edit.at) % (bytes.len() + 1);
            let end = (start + usize::from(edit.cut)).min(bytes.len());
            let from = usize::from(edit.copied) % (bytes.len() + 1);
            let copied = bytes[from..(from + usize::from(edit.copied_len)).min(bytes.len())].to_vec();
            let piece = PIECES[usize::from(edit.piece) % PIECES.len()];
            bytes.splice(start..end, piece.iter().copied().chain(copied));
        }
        Document(bytes)
    }
}

/// Runs a target on its corpus, and on changes of it for a bounded time.
pub(crate) fn fuzz(target: &str, holds: impl Fn(&[u8])) {
    fuzz_with(target, &[], holds);
}

/// The same with more documents than the corpus has: those that are new in each run.
pub(crate) fn fuzz_with(target: &str, more: &[String], holds: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    let mut corpus: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    for (path, document) in paths.iter().zip(&corpus) {
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| holds(document)));
        assert!(ran.is_ok(), "it fails on {}", path.display());
    }
    corpus.extend(more.iter().map(|text| text.clone().into_bytes()));
    let seconds = std::env::var("JADPO_FUZZ_SECONDS").map_or(1, |text| seconds(&text));
    let (holds, changes, known) = (std::panic::AssertUnwindSafe(holds), Arc::new(AtomicU64::new(0)), corpus.len());
    let counted = changes.clone();
    check!()
        .with_generator(produce::<Recipe>().map_gen(move |recipe: Recipe| recipe.make(&corpus)))
        .with_test_time(Duration::from_secs(seconds))
        .for_each(move |document: &Document| {
            let holds = &holds; // the whole of it, which is safe to unwind through
            counted.fetch_add(1, Ordering::Relaxed);
            holds(&document.0);
        });
    println!("{target}: {known} documents of the corpus and {} changes of them", changes.load(Ordering::Relaxed));
}

/// For how long a target is fuzzed, in seconds, as the environment says it.
fn seconds(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("JADPO_FUZZ_SECONDS is `{text}`: write a whole number of seconds"))
}

#[test]
fn how_long_it_takes_is_a_number_or_refused() {
    assert_eq!(seconds("600"), 600);
    for wrong in ["abc", "", "1.5", "-1"] {
        assert!(std::panic::catch_unwind(|| seconds(wrong)).is_err(), "{wrong}");
    }
}
