//! Numbers, times and names as people read them.
//!
//! # Examples
//!
//! ```
//! use lars_top::text::{bytes, clean, grouped, short, time};
//!
//! assert_eq!((grouped(1_234_567), short(12_345.0)), ("1,234,567".into(), "12.3k".into()));
//! assert_eq!((time(1_500_000), bytes(1_536)), ("1.50 ms".into(), "1.50 KiB".into()));
//! assert_eq!(clean("a\nb"), "a\u{fffd}b");
//! ```

use std::iter;

use unicode_width::UnicodeWidthChar;

/// A number with commas.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// Three digits and a unit, or less.
pub fn short(number: f64) -> String {
    scaled(number, 1000.0, &["", "k", "M", "G", "T"])
}

/// Bytes, with a binary unit.
pub fn bytes(number: u64) -> String {
    scaled(number as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

/// A time in nanoseconds, in its largest fitting unit, to three digits.
pub fn time(nanos: u64) -> String {
    const MINUTE: u64 = 60_000_000_000;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match nanos {
        0..MINUTE => scaled(nanos as f64, 1000.0, &[" ns", " µs", " ms", " s"]),
        MINUTE..HOUR => format!("{} min {:02} s", nanos / MINUTE, nanos % MINUTE / 1_000_000_000),
        HOUR..DAY => format!("{} h {:02} min", nanos / HOUR, nanos % HOUR / MINUTE),
        _ if nanos < 100 * DAY => format!("{} d {:02} h", nanos / DAY, nanos % DAY / HOUR),
        _ if nanos < 730 * DAY => format!("{} d", nanos / DAY),
        _ => format!("{} years", nanos / (365 * DAY)),
    }
}

/// A span of nanoseconds: in whole seconds, from one second on.
pub fn span(nanos: u64) -> String {
    match nanos.saturating_add(500_000_000) / 1_000_000_000 {
        0 => time(nanos),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds => time(seconds * 1_000_000_000),
    }
}

/// How many nanoseconds ago something was. Below a second it changes with each frame, and says
/// nothing.
pub fn ago(nanos: u64) -> String {
    if nanos < 1_000_000_000 { "now".to_owned() } else { format!("{} ago", span(nanos)) }
}

fn scaled(mut number: f64, base: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // What would be rounded to four digits has the next unit.
    while number >= base - 0.5 && unit + 1 < units.len() {
        number /= base;
        unit += 1;
    }
    let digits = match number {
        _ if unit == 0 => 0,
        _ if number < 9.995 => 2,
        _ if number < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$}{}", units[unit])
}

/// A text from elsewhere. Names come from the watched program, which may have them from its users.
/// What would move the cursor, break the line or turn the direction of the text is shown as a
/// replacement.
pub fn clean(text: &str) -> String {
    text.chars().map(|it| if is_harmless(it) { it } else { '�' }).collect()
}

/// The end of a text that takes more than `width` columns, which tells more than its beginning;
/// [`clean`].
pub(crate) fn tail(text: &str, width: usize) -> String {
    let shown: Vec<char> = clean(text).chars().collect();
    match cut(shown.iter().rev(), width) {
        None => shown.into_iter().collect(),
        Some(rest) => iter::once(&'…').chain(&shown[shown.len() - rest..]).collect(),
    }
}

/// The beginning of such a text, if it is a sentence.
pub(crate) fn head(text: &str, width: usize) -> String {
    let shown: Vec<char> = clean(text).chars().collect();
    match cut(shown.iter(), width) {
        None => shown.into_iter().collect(),
        Some(rest) => shown[..rest].iter().chain(iter::once(&'…')).collect(),
    }
}

/// How many characters there is room for beside a mark that some are missing; `None` if none is.
fn cut<'a>(characters: impl Iterator<Item = &'a char> + Clone, width: usize) -> Option<usize> {
    let columns = |it: &char| it.width().unwrap_or(0);
    if characters.clone().map(columns).sum::<usize>() <= width {
        return None;
    }
    let mut room = width.saturating_sub(1);
    let fits = characters.take_while(|it| {
        let rest = room.checked_sub(columns(it));
        room = rest.unwrap_or(0);
        rest.is_some()
    });
    Some(fits.count())
}

/// No control character, no end of a line, and none of Unicode's marks that change the direction
/// of what follows.
fn is_harmless(character: char) -> bool {
    let turns = matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns && !matches!(character, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_have_three_digits_and_their_unit() {
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".to_owned(), "1,234,567".to_owned()));
        let short = [0.0, 7.4, 999.4, 999.6, 12_345.0, 1e6, 2.5e13].map(short);
        assert_eq!(short, ["0", "7", "999", "1.00k", "12.3k", "1.00M", "25.0T"]);
        let minute = 60_000_000_000;
        let times = [0, 999, 1_500, 59_990_000_000, 61 * 1_000_000_000, 90 * minute, 1440 * minute];
        let texts = ["0 ns", "999 ns", "1.50 µs", "60.0 s", "1 min 01 s", "1 h 30 min", "1 d 00 h"];
        assert_eq!(times.map(time), texts);
        assert_eq!(time(u64::MAX), "584 years");
        let spans = [500_000, 1_499_000_000, 9_530_000_000, 95_400_000_000].map(span);
        assert_eq!(spans, ["500 µs", "1 s", "10 s", "1 min 35 s"]);
        assert_eq!([71_000, 13_200_000_000].map(ago), ["now", "13 s ago"]);
        assert_eq!((span(u64::MAX), ago(u64::MAX)), ("584 years".into(), "584 years ago".into()));
        assert_eq!(
            (bytes(0), bytes(1023), bytes(1536)),
            ("0 B".into(), "1023 B".into(), "1.50 KiB".into())
        );
    }

    #[test]
    fn a_name_is_cut_at_its_beginning_by_columns() {
        let cut = |text, width| tail(text, width);
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "…cd".to_owned()));
        // Each of these takes two columns, and the accent none.
        assert_eq!(
            (cut("時間切れ", 8), cut("時間切れ", 7)),
            ("時間切れ".to_owned(), "…間切れ".to_owned())
        );
        assert_eq!(cut("時間切れ", 6), "…切れ");
        assert_eq!(cut("cafe\u{301}", 4), "cafe\u{301}");
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".to_owned(), "…".to_owned()));
    }

    #[test]
    fn a_sentence_is_cut_at_its_end_by_columns() {
        let cut = [("abc", 3), ("abcd", 3), ("時間切れ", 6), ("a\x1b", 2), ("abc", 0)];
        assert_eq!(cut.map(|(text, width)| head(text, width)), ["abc", "ab…", "時間…", "a�", "…"]);
    }

    #[test]
    fn a_name_neither_moves_the_cursor_nor_turns_the_text() {
        assert_eq!(tail("a\x1b[2Jb\nc", 20), "a�[2Jb�c");
        assert_eq!(tail("user\u{202e}txt.exe", 20), "user�txt.exe");
        assert_eq!(tail("one\u{2028}two", 20), "one�two");
    }
}
