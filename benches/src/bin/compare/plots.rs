//! Plots, as SVG files that need no fonts to be made.

mod bars;
mod lines;
mod style;

use std::error::Error;
use std::fs;
use std::path::Path;

use self::bars::{Bar, Panel};
use self::lines::{Line, Lines};
use crate::figures::number;
use crate::record::{Case, Workload};
use crate::results::Results;
use crate::summary::{Row, rows};
use crate::workload::lateness::{PERCENTILES, percentile_name};

/// A plot that has been drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plot {
    /// Where it belongs on a page.
    pub(crate) workload: Workload,
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
}

const MICROSECONDS_LATE: &str = "µs late (early is drawn as 1)";

/// What there is to draw.
enum Drawing {
    Lines(Lines),
    Bars(Vec<Panel>),
}

/// Draws everything that there are results for.
pub(crate) fn draw(results: &Results, directory: &Path) -> Result<Vec<Plot>, Box<dyn Error>> {
    fs::create_dir_all(directory)
        .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    let plot = |workload, file, title| Plot { workload, file, title };
    let all = [
        (
            plot(Workload::W1, "w1-producers.svg", "Scheduling: cost by number of producers"),
            by_producers(results, Workload::W1, "ns"),
        ),
        (
            plot(Workload::W1, "w1-warm.svg", "Scheduling on memory that was used before"),
            by_producers(results, Workload::W1, "warm_ns"),
        ),
        (
            plot(Workload::W1, "memory.svg", "Memory of a timer"),
            bars(
                results,
                &[
                    (Workload::W1, "with_handle_bytes", "bytes of a pending timer and its handle"),
                    (Workload::W2, "left_bytes", "bytes that a cancelled timer leaves behind"),
                ],
            ),
        ),
        (
            plot(Workload::W2, "w2-producers.svg", "Schedule and cancel: cost by producers"),
            by_producers(results, Workload::W2, "ns"),
        ),
        (
            plot(Workload::W3, "w3-burst.svg", "A burst: how late the last timer is"),
            bars(results, &[(Workload::W3, "last_late_ms", "ms after the moment all are due")]),
        ),
        (plot(Workload::W4, "w4-lateness.svg", "A steady stream: lateness"), lateness(results)),
        (
            plot(Workload::W7, "w7-pending.svg", "Scheduling: cost by number of pending timers"),
            by_pending(results),
        ),
        (
            plot(Workload::W8, "w8-steps.svg", "The mix: cost of a step"),
            mix(results, "ns", "ns per step"),
        ),
        (
            plot(Workload::W8, "w8-lateness.svg", "The mix: lateness of 99 in 100"),
            mix(results, "p99_us", MICROSECONDS_LATE),
        ),
        (
            plot(Workload::W9, "w9-w12.svg", "Cancelled by another thread, and moved"),
            bars(
                results,
                &[
                    (Workload::W9, "ns", "ns to schedule a timer and have it cancelled"),
                    (Workload::W12, "ns", "ns to move a deadline"),
                ],
            ),
        ),
        (
            plot(Workload::W11, "w11-slow-task.svg", "A slow task beside a burst"),
            bars(
                results,
                &[(Workload::W11, "last_late_ms", "ms until the last of the others is done")],
            ),
        ),
        (plot(Workload::W13, "w13-load.svg", "Lateness of 99 in 100, by load"), by_load(results)),
        (
            plot(Workload::W14, "w14-threads.svg", "Timers of very many threads"),
            bars(
                results,
                &[
                    (Workload::W14, "ns", "ns per call"),
                    (Workload::W14, "p99_ms", "ms that 99 in 100 are late at most"),
                ],
            ),
        ),
        (
            plot(Workload::W17, "w17-threads.svg", "Futures: a timeout made, polled and dropped"),
            by_producers(results, Workload::W17, "ns"),
        ),
        (
            plot(Workload::A1, "actors.svg", "Actors: cost of a message"),
            bars(
                results,
                &[
                    (Workload::A1, "ns", "ping-pong: ns per round trip"),
                    (Workload::A2, "ns", "many to one: ns per message"),
                    (Workload::A3, "ns", "scheduled sends: ns per call that schedules one"),
                    (Workload::A4, "ns", "fan of actors: ns per message"),
                    (Workload::A6, "ns", "a million actors: ns per spawn"),
                ],
            ),
        ),
        (
            plot(Workload::A5, "a5-timers.svg", "Actors: a timer restarted with each message"),
            bars(results, &[(Workload::A5, "ns", "ns per message")]),
        ),
    ];
    let mut drawn = Vec::new();
    for (plot, drawing) in all {
        let path = directory.join(plot.file);
        match drawing {
            Some(Drawing::Lines(lines)) => lines::draw(&path, plot.title, &lines)?,
            Some(Drawing::Bars(panels)) => bars::draw(&path, plot.title, &panels)?,
            None => continue,
        }
        drawn.push(plot);
    }
    Ok(drawn)
}

/// One line for each peer: a figure of each case, at the place that `x` says, which also says what
/// the axis shows there.
fn across(
    results: &Results,
    cases: &[Case],
    key: &str,
    (x_title, y_title): (&'static str, &'static str),
    x: impl Fn(&Case) -> (f64, String),
) -> Option<Drawing> {
    let mut lines: Vec<Line> = Vec::new();
    for case in cases {
        for row in rows(results, case) {
            let Some(figure) = row.figures.get(key) else { continue };
            let point = (x(case).0, figure.median);
            match lines.iter_mut().find(|line| line.name == row.peer) {
                Some(line) => line.points.push(point),
                None => {
                    lines.push(Line { label: row.label(), name: row.peer, points: vec![point] });
                }
            }
        }
    }
    drawing(Lines { x_title, y_title, x_marks: cases.iter().map(x).collect(), lines })
}

/// The number of timers or steps, on a logarithmic axis.
fn by_number(case: &Case) -> (f64, String) {
    ((case.n as f64).log10(), number(case.n as f64))
}

fn by_producers(results: &Results, workload: Workload, key: &str) -> Option<Drawing> {
    let x = |case: &Case| ((case.producers as f64).log2(), case.producers.to_string());
    across(results, &results.cases_of(workload), key, ("threads", "ns per operation"), x)
}

fn by_pending(results: &Results) -> Option<Drawing> {
    let mut cases = results.cases_of(Workload::W7);
    // W1 with one producer is one of the sizes.
    cases.extend(results.cases_of(Workload::W1).into_iter().filter(|case| case.producers == 1));
    cases.sort_by_key(|case| case.n);
    cases.dedup_by_key(|case| case.n);
    across(results, &cases, "ns", ("pending timers", "ns per operation"), by_number)
}

/// W8 by the number of its steps, with the fewest producers.
fn mix(results: &Results, key: &str, y_title: &'static str) -> Option<Drawing> {
    let mut cases = results.cases_of(Workload::W8);
    let fewest = cases.iter().map(|case| case.producers).min()?;
    cases.retain(|case| case.producers == fewest);
    across(results, &cases, key, ("steps", y_title), by_number)
}

fn by_load(results: &Results) -> Option<Drawing> {
    let x = |case: &Case| (case.rate().log2(), number(case.rate()));
    let mut cases = results.compared();
    cases.retain(|case| case.workload == Workload::W13);
    across(results, &cases, "p99_us", ("timers a second", MICROSECONDS_LATE), x)
}

/// Percentiles by the number of their nines, as latencies are mostly drawn.
fn lateness(results: &Results) -> Option<Drawing> {
    let nines = |percentile: f64| -(1.0 - percentile / 100.0).log10();
    let [case] = results.cases_of(Workload::W4)[..] else { return None };
    let curve = |row: &Row| -> Vec<(f64, f64)> {
        PERCENTILES
            .iter()
            // The maximum has infinitely many nines.
            .filter(|&&percentile| percentile < 100.0)
            .filter_map(|&percentile| {
                let figure = row.figures.get(&percentile_name(percentile))?;
                Some((nines(percentile), figure.median))
            })
            .collect()
    };
    let lines = rows(results, &case)
        .into_iter()
        .map(|row| Line { points: curve(&row), label: row.label(), name: row.peer })
        .filter(|line| !line.points.is_empty())
        .collect();
    let x_marks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99]
        .map(|mark| (nines(mark), format!("{mark} %")))
        .to_vec();
    drawing(Lines { x_title: "of all timers", y_title: MICROSECONDS_LATE, x_marks, lines })
}

/// Lines need two marks to go from and to.
fn drawing(lines: Lines) -> Option<Drawing> {
    (lines.x_marks.len() > 1 && !lines.lines.is_empty()).then_some(Drawing::Lines(lines))
}

fn panel(results: &Results, case: &Case, key: &str, title: String) -> Option<Panel> {
    let mut bars: Vec<_> = rows(results, case)
        .into_iter()
        .filter_map(|row| {
            let spread = *row.figures.get(key)?;
            Some((row.early, Bar { label: row.label(), name: row.peer, spread }))
        })
        .collect();
    bars.sort_by(|(early, one), (other_early, other)| {
        early.cmp(other_early).then(one.spread.median.total_cmp(&other.spread.median))
    });
    let bars: Vec<_> = bars.into_iter().map(|(_, bar)| bar).collect();
    (!bars.is_empty()).then_some(Panel { title, bars })
}

/// A panel for each figure there is, of the first case of its workload.
fn bars(results: &Results, figures: &[(Workload, &str, &str)]) -> Option<Drawing> {
    let panels: Vec<_> = figures
        .iter()
        .filter_map(|&(workload, key, title)| {
            let case = *results.cases_of(workload).first()?;
            panel(results, &case, key, title.to_owned())
        })
        .collect();
    (!panels.is_empty()).then_some(Drawing::Bars(panels))
}
