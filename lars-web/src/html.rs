//! Parts of pages: numbers, times, names, charts, tables.
//!
//! All text goes through maud, which escapes it. What comes from the watched program or from a
//! store is [`clean`]ed too: it neither breaks a line nor turns the direction of what follows.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use lars_durable::inspection::Count;
use lars_top::text::{clean, grouped, time};
use maud::{Markup, html};

/// A name from elsewhere.
pub(crate) fn name(text: &str) -> String {
    clean(text)
}

/// A text of several lines from elsewhere.
pub(crate) fn lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

pub(crate) fn count(count: Count) -> String {
    format!("{}{}", if count.at_least { "≥ " } else { "" }, grouped(count.value))
}

pub(crate) fn span(duration: Duration) -> String {
    time(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A time beside another one, which is in the tooltip.
pub(crate) fn moment(at: SystemTime, now: SystemTime) -> Markup {
    let relative = match at.duration_since(now) {
        Ok(left) => format!("in {}", span(left)),
        Err(passed) => format!("{} ago", span(passed.duration())),
    };
    html! { time datetime=(stamp(at)) title=(stamp(at)) { (relative) } }
}

/// A time, in UTC, to the millisecond.
pub(crate) fn stamp(at: SystemTime) -> String {
    let whole = Timestamp::try_from(at).ok();
    let shown = whole.map(|at| format!("{at:.3}"));
    shown.unwrap_or_else(|| "beyond the year 9999".to_owned())
}

/// A number with its name.
pub(crate) fn tile(label: &str, value: &str, class: &str) -> Markup {
    html! { div.tile.(class) { b { (value) } span { (label) } } }
}

/// A line of a chart, whose class has its colour.
pub(crate) struct Line<'a> {
    pub(crate) label: &'a str,
    pub(crate) class: &'a str,
    /// How many seconds ago, and how much; the oldest first.
    pub(crate) points: Vec<(f64, f64)>,
}

/// How far back charts go, in seconds.
pub(crate) const BACK: f64 = 600.0;

/// Lines over the last ten minutes. `shown` says what a value is for people.
pub(crate) fn chart(title: &str, lines: &[Line<'_>], shown: impl Fn(f64) -> String) -> Markup {
    let values = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let most = values.fold(0.0, f64::max);
    let last = |line: &Line<'_>| line.points.last().map_or("–".to_owned(), |it| shown(it.1));
    let said: Vec<_> = lines.iter().map(|it| format!("{} {}", it.label, last(it))).collect();
    let about = format!("{title}, now {}; at most {} in 10 minutes", said.join(", "), shown(most));
    html! {
        figure.chart {
            figcaption {
                b { (title) }
                @for line in lines { " " span.(line.class) { (line.label) " " (last(line)) } }
                span.faint { " at most " (shown(most)) }
            }
            svg viewBox="0 0 600 100" preserveAspectRatio="none" role="img" aria-label=(about) {
                @for line in lines { polyline.(line.class) points=(points(line, most)); }
            }
            p.faint { span { "10 min ago" } span { "now" } }
        }
    }
}

fn points(line: &Line<'_>, most: f64) -> String {
    let place = |(ago, value): &(f64, f64)| {
        let x = 600.0 * (1.0 - ago.min(BACK) / BACK);
        let y = if most > 0.0 { 98.0 - 96.0 * value / most } else { 98.0 };
        format!("{x:.1},{y:.1}")
    };
    line.points.iter().map(place).collect::<Vec<_>>().join(" ")
}

/// A cell of a table, which shows its title where there is no room for columns.
pub(crate) fn cell(title: &str, content: impl maud::Render) -> Markup {
    html! { td data-title=(title) { (content) } }
}

/// A table with these titles; on narrow screens each row is a card.
pub(crate) fn table(caption: &str, titles: &[&str], rows: &[Markup], none: &str) -> Markup {
    html! {
        section {
            h2 { (caption) }
            @if rows.is_empty() {
                p.faint { (none) }
            } @else {
                table.cards {
                    thead { tr { @for title in titles { th scope="col" { (title) } } } }
                    tbody { @for row in rows { (row) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_ends_now_and_its_highest_point_is_at_the_top() {
        let points = vec![(700.0, 1.0), (300.0, 4.0), (0.0, 2.0)];
        let lines = [Line { label: "p99", class: "b", points }];
        let drawn = chart("Late", &lines, |it| format!("{it} s")).into_string();
        assert!(drawn.contains("points=\"0.0,74.0 300.0,2.0 600.0,50.0\""), "{drawn}");
        assert!(drawn.contains("now p99 2 s; at most 4 s"), "{drawn}");
        let none = chart("Late", &[], |it| format!("{it} s")).into_string();
        assert!(none.contains("at most 0 s"), "{none}");
    }

    #[test]
    fn times_are_shown_beside_now_and_in_utc() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let shown = |at, now| moment(at, now).into_string();
        assert!(shown(at(100), at(40)).contains(">in 1 min 00 s<"));
        assert!(shown(at(40), at(45)).contains(">5.00 s ago<"));
        assert_eq!(stamp(at(86_400)), "1970-01-02T00:00:00.000Z");
        assert_eq!(
            stamp(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 60)),
            "beyond the year 9999"
        );
    }

    #[test]
    fn a_text_of_several_lines_keeps_them_and_nothing_that_turns_it() {
        assert_eq!(lines("a\r\nb\u{202e}c"), "a\nb\u{fffd}c");
    }
}
