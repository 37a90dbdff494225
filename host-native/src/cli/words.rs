//! Figures, times and other people's text, as a terminal shows them.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

use crate::log::{rfc3339, steers};

/// A table with these columns.
pub(crate) fn table<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}

/// Puts the figures of these columns under each other.
pub(crate) fn figures(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Keeps these columns from being broken: ids and times are to be read, and copied, whole.
pub(crate) fn unbroken(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
}

/// Text that somebody sent, with what could steer a terminal made visible.
pub(crate) fn plain(text: &str) -> String {
    text.chars().flat_map(|c| if steers(c) { c.escape_unicode().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// The beginning of a text.
pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    let mut short: String = text.chars().take(chars_max).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The beginning of a text that somebody sent, with what could steer a terminal made visible: for a place in a table.
pub(crate) fn brief(text: &str, chars_max: usize) -> String {
    // What is made visible is longer, so it is cut after that; of a long text only a part is looked at.
    let beginning: String = text.chars().take(chars_max + 1).collect();
    shortened(&plain(&beginning), chars_max)
}

/// A span of time in its largest unit.
pub(crate) fn span(span_ms: i64) -> String {
    let seconds = span_ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long ago a time was. One that is to come was written down by a clock that was ahead.
pub(crate) fn ago(at_ms: i64, now_ms: i64) -> String {
    // Clocks of one machine may be apart by a little.
    if at_ms > now_ms + 1_000 {
        format!("{} ahead of now", span(at_ms - now_ms))
    } else {
        format!("{} ago", span(now_ms - at_ms))
    }
}

/// A time both ways: when it was, and how long ago that is or in how long it will be.
pub(crate) fn when(at_ms: i64, now_ms: i64) -> String {
    let at = rfc3339(at_ms / 1000 * 1000);
    if at_ms > now_ms {
        format!("{at} (in {})", span(at_ms - now_ms))
    } else {
        format!("{at} ({} ago)", span(now_ms - at_ms))
    }
}

/// Bytes in their largest unit. One kB is 1,000 bytes, as in Cloudflare's limits.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    for (size, unit) in UNITS {
        if bytes >= size {
            return format!("{}.{} {unit}", bytes / size, bytes % size * 10 / size);
        }
    }
    format!("{bytes} B")
}

/// A number with its thousands apart.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut apart = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

/// So many of a thing, whose plural ends in `s`.
pub(crate) fn count(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", number(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_made_visible() {
        assert_eq!(plain("a\u{1b}[31mred\u{202e}\u{200f}\u{9b}"), "a\\u{1b}[31mred\\u{202e}\\u{200f}\\u{9b}");
        assert_eq!(plain("Größe 5 ✓"), "Größe 5 ✓");
        assert_eq!(brief("\u{1}\u{2}\u{3}", 8), "\\u{1}\\u{…");
        assert_eq!([brief("abc", 3), brief("abcd", 3)], ["abc", "abc…"]);
    }

    #[test]
    fn spans_are_told_in_their_largest_unit() {
        let told: Vec<String> = [-5, 59_999, 60_000, 7_200_000, 172_800_000].map(span).into();
        assert_eq!(told, ["0 s", "59 s", "1 min", "2 h", "2 d"]);
        assert_eq!(when(60_000, 0), "1970-01-01T00:01:00Z (in 1 min)");
        assert_eq!([ago(1_000, 61_000), ago(1_500, 1_000)], ["1 min ago", "0 s ago"]);
        assert_eq!(ago(7_261_000, 1_000), "2 h ahead of now");
        assert_eq!(when(999, 3_000), "1970-01-01T00:00:00Z (2 s ago)");
    }

    #[test]
    fn figures_have_units_and_thousands() {
        assert_eq!(
            [0, 999, 1_000, 128_000, 2_560_000_000].map(bytes),
            ["0 B", "999 B", "1.0 kB", "128.0 kB", "2.5 GB"]
        );
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 1_000].map(|some| count(some, "message")), ["0 messages", "1 message", "1,000 messages"]);
    }
}
