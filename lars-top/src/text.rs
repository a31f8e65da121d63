//! Numbers and times as people read them.

/// With commas.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// Three digits and a unit, or less.
pub(crate) fn short(number: f64) -> String {
    scaled(number, 1000.0, &["", "k", "M", "G", "T"])
}

/// Bytes, with a binary unit.
pub(crate) fn bytes(number: u64) -> String {
    scaled(number as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

/// A time in its largest fitting unit, to three digits.
pub(crate) fn time(nanos: u64) -> String {
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

/// The end of a text that is too long, which tells more than its beginning.
pub(crate) fn tail(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let rest = text.chars().skip(count + 1 - width.max(1));
    std::iter::once('…').chain(rest).collect()
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
        assert_eq!(
            (bytes(0), bytes(1023), bytes(1536)),
            ("0 B".into(), "1023 B".into(), "1.50 KiB".into())
        );
        assert_eq!((tail("abc", 3), tail("abcd", 3)), ("abc".to_owned(), "…cd".to_owned()));
    }
}
