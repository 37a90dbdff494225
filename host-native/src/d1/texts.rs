//! Functions of SQLite's over texts, anew: its own compare every place of one text with the whole of another, which for
//! texts of 1 MB is an operation of a minute to hours that nothing can interrupt. These give the same results, byte for
//! byte, and take as long as the texts are, or look at the clock. What one of them is to do:
//! <https://sqlite.org/lang_corefunc.html>.
//!
//! What remains of the kind is `json_patch()`, minutes for two objects of 2 MB. Its request is answered in time, and the
//! database is busy until the call ends.

use std::borrow::Cow;
use std::collections::BTreeSet;

use jadpo_core::d1::limits::VALUE_BYTES_MAX;
use memchr::memmem::Finder;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Error, Result, ToSql, ffi};

use super::clock::Clock;

/// Characters compared between two looks at the clock: about a millisecond.
const COMPARED_BETWEEN_LOOKS: usize = 1 << 20;

/// Puts them in the place of SQLite's.
pub(super) fn add(connection: &Connection, clock: &Clock) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("instr", 2, flags, |context| instr(context.get_raw(0), context.get_raw(1)))?;
    connection.create_scalar_function("replace", 3, flags, |context| replace(context))?;
    connection.create_scalar_function("unhex", 2, flags, |context| unhex(context))?;
    for (name, ends) in [("ltrim", (true, false)), ("rtrim", (false, true)), ("trim", (true, true))] {
        let clock = clock.clone();
        connection.create_scalar_function(name, 2, flags, move |context| trim(context, ends, &clock))?;
    }
    Ok(())
}

/// A result. A text need not be UTF-8: it is made of what was given.
enum Made {
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl ToSql for Made {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Where the second is in the first, counted from 1, in characters, or in bytes if both are blobs; 0 if it is not.
fn instr(within: ValueRef<'_>, what: ValueRef<'_>) -> Result<Option<i64>> {
    let bytes_alone = matches!((within, what), (ValueRef::Blob(_), ValueRef::Blob(_)));
    let (Some(within), Some(what)) = (text(within)?, text(what)?) else { return Ok(None) };
    let place = match what.first() {
        None => Some(0),
        // Places inside a character are not looked at, but for the first.
        Some(&first) if !bytes_alone && is_inside(first) => within.starts_with(&what).then_some(0),
        Some(_) => Finder::new(&*what).find(&within),
    };
    let Some(place) = place else { return Ok(Some(0)) };
    let passed = within.get(1..=place).unwrap_or_default();
    let count = if bytes_alone { place } else { passed.iter().filter(|&&byte| !is_inside(byte)).count() };
    Ok(i64::try_from(count + 1).ok())
}

/// The first, with the third wherever it has the second.
fn replace(context: &Context<'_>) -> Result<Option<Made>> {
    let (Some(within), Some(what)) = (text(context.get_raw(0))?, text(context.get_raw(1))?) else { return Ok(None) };
    // A pattern is nothing, too, if it begins with a NUL.
    if what.first().is_none_or(|&first| first == 0) {
        return Ok(Some(Made::Text(within.into_owned())));
    }
    let Some(with) = text(context.get_raw(2))? else { return Ok(None) };
    let mut made = Vec::with_capacity(within.len());
    let mut done = 0;
    for place in Finder::new(&*what).find_iter(&within) {
        made.extend_from_slice(within.get(done..place).unwrap_or_default());
        made.extend_from_slice(&with);
        done = place + what.len();
        if made.len() > VALUE_BYTES_MAX {
            return Err(failure(ffi::SQLITE_TOOBIG));
        }
    }
    made.extend_from_slice(within.get(done..).unwrap_or_default());
    Ok(Some(Made::Text(made)))
}

/// The first without those characters of the second that are at its ends.
fn trim(context: &Context<'_>, (left, right): (bool, bool), clock: &Clock) -> Result<Option<Made>> {
    let (Some(within), Some(set)) = (text(context.get_raw(0))?, text(context.get_raw(1))?) else { return Ok(None) };
    let set: Vec<&[u8]> = characters(until_nul(&set)).collect();
    let mut rest: &[u8] = &within;
    let mut compared = 0;
    let mut look = || {
        compared += set.len();
        if compared < COMPARED_BETWEEN_LOOKS {
            return Ok(());
        }
        compared = 0;
        if clock.is_over() { Err(failure(ffi::SQLITE_INTERRUPT)) } else { Ok(()) }
    };
    // What is no UTF-8 can begin or end in several of them, and then the first counts.
    while left && !rest.is_empty() {
        look()?;
        let Some(shorter) = set.iter().find_map(|character| rest.strip_prefix(*character)) else { break };
        rest = shorter;
    }
    while right && !rest.is_empty() {
        look()?;
        let Some(shorter) = set.iter().find_map(|character| rest.strip_suffix(*character)) else { break };
        rest = shorter;
    }
    Ok(Some(Made::Text(rest.to_vec())))
}

/// The bytes of which the first has the digits, between which there may be characters of the second.
fn unhex(context: &Context<'_>) -> Result<Option<Made>> {
    let (Some(digits), Some(passed)) = (text(context.get_raw(0))?, text(context.get_raw(1))?) else { return Ok(None) };
    let passed: BTreeSet<u32> = characters(&passed).map(number).collect();
    let mut made = Vec::with_capacity(digits.len() / 2);
    let mut rest = until_nul(&digits);
    while let Some((&first, after)) = rest.split_first() {
        if let Some(high) = digit(first) {
            let Some((low, after)) = after.split_first().and_then(|(&second, after)| Some((digit(second)?, after)))
            else {
                return Ok(None);
            };
            made.push((high << 4) | low);
            rest = after;
        } else {
            let Some(character) = characters(rest).next().filter(|one| passed.contains(&number(one))) else {
                return Ok(None);
            };
            rest = rest.get(character.len()..).unwrap_or_default();
        }
    }
    Ok(Some(Made::Blob(made)))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Whether a byte goes on with a character.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The characters of a text, as SQLite parts them: what is no UTF-8, too, is parted somehow.
fn characters(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&first, after) = bytes.split_first()?;
        let more = if first >= 0xc0 { after.iter().take_while(|&&byte| is_inside(byte)).count() } else { 0 };
        let (character, rest) = bytes.split_at_checked(1 + more)?;
        bytes = rest;
        Some(character)
    })
}

/// The number of a character, as SQLite reads it.
fn number(character: &[u8]) -> u32 {
    const NONE: u32 = 0xfffd;
    let Some((&first, after)) = character.split_first() else { return NONE };
    let start = match first {
        ..0xc0 => return first.into(),
        0xc0..0xe0 => first & 0x1f,
        0xe0..0xf0 => first & 0x0f,
        0xf0..0xf8 => first & 0x07,
        0xf8..0xfc => first & 0x03,
        0xfc..0xfe => first & 0x01,
        0xfe.. => 0,
    };
    let number = after.iter().fold(u32::from(start), |number, &byte| (number << 6) + u32::from(byte & 0x3f));
    if number < 0x80 || number & 0xffff_f800 == 0xd800 { NONE } else { number }
}

/// A value as a text.
fn text(value: ValueRef<'_>) -> Result<Option<Cow<'_, [u8]>>> {
    Ok(match value {
        ValueRef::Null => None,
        ValueRef::Integer(whole) => Some(whole.to_string().into_bytes().into()),
        ValueRef::Real(real) => Some(written(real)?.into_bytes().into()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.into()),
    })
}

/// A number in SQLite's own writing. To ask for it, there is a connection to nothing in each thread.
fn written(real: f64) -> Result<String> {
    thread_local! {
        static SQLITE: Result<Connection> = Connection::open_in_memory();
    }
    SQLITE.with(|sqlite| match sqlite {
        Ok(sqlite) => sqlite.prepare_cached("SELECT CAST(?1 AS TEXT)")?.query_one([real], |row| row.get(0)),
        Err(_) => Err(failure(ffi::SQLITE_NOMEM)),
    })
}

fn failure(code: std::ffi::c_int) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), None)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusqlite::types::Value;

    use super::*;

    const FUNCTIONS: [&str; 6] =
        ["instr(?1, ?2)", "replace(?1, ?2, ?3)", "trim(?1, ?2)", "ltrim(?1, ?2)", "rtrim(?1, ?2)", "unhex(?1, ?2)"];

    fn value(random: &mut fastrand::Rng) -> Value {
        const PIECES: [&[u8]; 16] = [
            b"a",
            b"b",
            b"ab",
            b"1",
            b"F",
            b" ",
            "é".as_bytes(),
            "ß".as_bytes(),
            "€".as_bytes(),
            "🦀".as_bytes(),
            b"\0",
            b"\x80",
            b"\xc3",
            b"\xe2\x82",
            b"\xff",
            b"\xf0\x9f\xa6\x80\x80",
        ];
        let well = random.bool();
        let kinds = if well { 10 } else { PIECES.len() };
        let bytes: Vec<u8> =
            (0..random.usize(0..8)).flat_map(|_| PIECES[random.usize(0..kinds)].iter().copied()).collect();
        match random.u8(0..12) {
            0 => Value::Null,
            1 => Value::Integer(random.i64(-120..120)),
            2 => Value::Real([0.1, 1.0, 1e300, -0.0, 1.0 / 3.0, f64::INFINITY, 12.5][random.usize(0..7)]),
            3..6 => Value::Blob(bytes),
            _ => String::from_utf8(bytes).map_or_else(|error| Value::Blob(error.into_bytes()), Value::Text),
        }
    }

    #[test]
    fn whatever_they_are_given_they_give_what_sqlites_own_give() {
        let theirs = Connection::open_in_memory().expect("a database");
        let ours = Connection::open_in_memory().expect("a database");
        add(&ours, &Clock::new(Duration::from_secs(30))).expect("they are added");
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let given = [value(&mut random), value(&mut random), value(&mut random)];
            for function in FUNCTIONS {
                // The types as well, and bytes that are no UTF-8.
                let sql = format!("SELECT typeof({function}), CAST({function} AS BLOB), ?3 FROM (SELECT ?1, ?2)");
                let ask = |of: &Connection| {
                    let mut asked = of.prepare_cached(&sql).expect("it is SQL");
                    asked.query_one(given.clone(), |row| Ok((row.get::<_, Value>(0)?, row.get::<_, Value>(1)?)))
                };
                assert_eq!(ask(&ours), ask(&theirs), "{function} of {given:?}, seed {seed}");
            }
        }
    }

    #[test]
    fn long_texts_take_them_no_longer_than_they_are_or_than_there_is_time() {
        let connection = Connection::open_in_memory().expect("a database");
        connection.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH, 2_000_000).expect("a limit");
        let clock = Clock::new(Duration::from_millis(100));
        add(&connection, &clock).expect("they are added");
        let (long, nearly) = ("a".repeat(1_900_000), format!("{}b", "a".repeat(950_000)));
        let began = std::time::Instant::now();
        for function in ["instr(?1, ?2)", "length(replace(?1, ?2, 'x'))"] {
            connection.query_one(&format!("SELECT {function}"), [&long, &nearly], |_| Ok(())).expect("it ends");
        }
        let big =
            connection.query_one("SELECT replace(?1, 'a', 'aa')", [&long], |_| Ok(())).expect_err("it is too big");
        assert!(big.to_string().contains("too big"), "{big}");
        clock.set();
        let set = format!("{}a", "b".repeat(1_000_000));
        let ended = connection.query_one("SELECT trim(?1, ?2)", [&long, &set], |_| Ok(())).expect_err("it takes hours");
        assert_eq!(ended.sqlite_error_code(), Some(rusqlite::ErrorCode::OperationInterrupted));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
