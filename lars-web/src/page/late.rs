//! Why tasks or durable runs began late, or messages of timers were received late, and because of
//! whom.

use lars_top::snapshot::{Late, LateRow};
use lars_top::text::{grouped, time};
use lars_top::trend::Trend;
use maud::{Markup, html};

use crate::html::{cell, name, table};

/// What the tables are about.
pub(crate) struct Words {
    caption: &'static str,
    nothing: &'static str,
    counted: &'static str,
}

pub(crate) const TASKS: Words =
    Words { caption: "Began late", nothing: "No task began", counted: "Tasks" };
pub(crate) const MESSAGES: Words = Words {
    caption: "Received late",
    nothing: "No message of a timer was received",
    counted: "Messages",
};
pub(crate) const RUNS: Words =
    Words { caption: "Began late on this node", nothing: "No run began", counted: "Runs" };

/// What was late [lately](Trend::recent), and since the start.
pub(crate) fn tables(all: &Late, recent: Option<Late>, trend: &Trend, words: &Words) -> Markup {
    let at_most = format!(", the latest by {}", time(all.longest));
    let (lately, always) = (trend.recent(), "since the start");
    let others = format!("{} others", grouped(all.more_rows));
    html! {
        @if let Some(recent) = recent.filter(|_| all.count > 0) {
            (of_one_time(&format!("{}, {lately}", words.caption), &recent, "", "others", words))
        }
        (of_one_time(&format!("{}, {always}", words.caption), all, &at_most, &others, words))
    }
}

/// What was late in one time, and `others` for what has no row.
fn of_one_time(caption: &str, late: &Late, and: &str, others: &str, words: &Words) -> Markup {
    let share = |of: u64| format!("{:.1} %", 100.0 * late.share(of));
    let culprit = |of: &LateRow| {
        html! {
            @if !of.culprit.is_empty() { (name(&of.culprit)) }
            @if !of.place.is_empty() { " " code { (name(&of.place)) } }
        }
    };
    let row = |of: &LateRow| {
        html! {
            tr {
                th scope="row" { (name(&of.cause)) }
                (cell("Culprit", culprit(of)))
                (cell("Share", share(of.time)))
                (cell("Time", time(of.time)))
                (cell(words.counted, grouped(of.count)))
            }
        }
    };
    let mut rows: Vec<_> = late.rows.iter().map(row).collect();
    if late.more_rows > 0 && late.count > 0 {
        rows.push(html! {
            tr {
                th scope="row" { (others) }
                (cell("Culprit", ""))
                (cell("Share", share(late.rest())))
                (cell("Time", time(late.rest())))
                (cell(words.counted, ""))
            }
        });
    }
    let (count, bound, total) = (grouped(late.count), time(late.bound), time(late.total));
    let nothing = format!("{} more than {bound} late.", words.nothing);
    let titles = ["Cause", "Culprit", "Share", "Time", words.counted];
    html! {
        (table(caption, &titles, &rows, &nothing))
        @if !rows.is_empty() {
            p.faint { (count) " by more than " (bound) ", " (total) " in all" (and) }
        }
    }
}
