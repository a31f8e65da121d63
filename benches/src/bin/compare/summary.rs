//! Repetitions become one figure, and peers an order.

use std::collections::BTreeMap;
use std::fmt;

use crate::figures::{Better, columns, number};
use crate::record::{Case, Record, Workload};
use crate::results::Results;
use crate::workload::load_curve::TOLERANCE;

/// Median, least and most of the repetitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let (&min, &max) = (values.first()?, values.last()?);
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }
}

impl fmt::Display for Spread {
    /// The median; and the least and the most, if they are not the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&number(self.median))?;
        if self.min < self.max {
            write!(f, " ({}–{})", number(self.min), number(self.max))?;
        }
        Ok(())
    }
}

/// One peer in one case.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) peer: String,
    pub(crate) figures: BTreeMap<String, Spread>,
    /// Whether it fired anything before its time, in any repetition.
    pub(crate) early: bool,
    pub(crate) problems: Vec<String>,
}

impl Row {
    /// The peer's name, with what one has to know before one looks at its figures.
    pub(crate) fn label(&self) -> String {
        label(&self.peer, self.early)
    }
}

fn label(peer: &str, early: bool) -> String {
    if early { format!("{peer} (early)") } else { peer.to_owned() }
}

/// All peers of one case, the best first. Those that fire early come after all that do not, and
/// those that failed come last.
pub(crate) fn rows(results: &Results, case: &Case) -> Vec<Row> {
    let mut by_peer: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in results.records.iter().filter(|record| record.case == *case) {
        by_peer.entry(&record.peer).or_default().push(record);
    }
    let mut rows: Vec<_> = by_peer.into_iter().map(|(peer, records)| row(peer, &records)).collect();
    let main = columns(case.workload)[0];
    rows.sort_by(|one, other| {
        let key = |row: &Row| {
            let value = row.figures.get(main.key)?.median;
            Some(if main.better == Better::Less { value } else { -value })
        };
        match (key(one), key(other)) {
            (Some(mine), Some(others)) => one.early.cmp(&other.early).then(mine.total_cmp(&others)),
            (one, other) => one.is_none().cmp(&other.is_none()),
        }
    });
    rows
}

fn row(peer: &str, records: &[&Record]) -> Row {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut problems = Vec::new();
    for record in records {
        if record.outcome.problems.is_empty() {
            for (key, value) in &record.outcome.figures {
                values.entry(key.clone()).or_default().push(*value);
            }
        } else {
            for problem in &record.outcome.problems {
                problems.push(format!("repetition {}: {problem}", record.repetition + 1));
            }
        }
    }
    let figures: BTreeMap<_, _> =
        values.into_iter().filter_map(|(key, values)| Some((key, Spread::of(values)?))).collect();
    let early = figures.get("early").is_some_and(|early| early.max > 0.0);
    Row { peer: peer.to_owned(), figures, early, problems }
}

/// At which loads of W13 each peer was measured, in timers a second, and whether it carried them:
/// 99 of 100 timers were late by no more than is tolerated, and the producers were on time. And
/// whether it fires early.
pub(crate) fn loads(results: &Results) -> BTreeMap<String, (bool, Vec<(f64, bool)>)> {
    let mut by_peer: BTreeMap<String, (bool, Vec<_>)> = BTreeMap::new();
    for case in results.cases_of(Workload::W13) {
        for row in rows(results, &case) {
            let figure = |key: &str| row.figures.get(key).map(|spread| spread.median);
            let carried = match figure("p99_us") {
                Some(late) => {
                    late <= TOLERANCE.as_secs_f64() * 1e6
                        && figure("on_time").is_some_and(|on_time| on_time >= 1.0)
                }
                // What does not fire has no lateness, and no capacity.
                None if row.problems.is_empty() => continue,
                None => false,
            };
            let (early, loads) = by_peer.entry(row.peer).or_default();
            *early |= row.early;
            loads.push((case.rate(), carried));
        }
    }
    by_peer
}

/// The highest load of W13 that each peer carried, the highest first. Those that fire early come
/// last, as in the tables.
pub(crate) fn capacities(results: &Results) -> Vec<(String, Option<f64>)> {
    let highest = |loads: Vec<(f64, bool)>| {
        loads.into_iter().filter(|load| load.1).map(|load| load.0).reduce(f64::max)
    };
    let mut all: Vec<_> = loads(results)
        .into_iter()
        .map(|(peer, (early, loads))| (peer, early, highest(loads)))
        .collect();
    all.sort_by(|(_, early, one), (_, other_early, other)| {
        early.cmp(other_early).then(other.partial_cmp(one).unwrap_or(std::cmp::Ordering::Equal))
    });
    all.into_iter().map(|(peer, early, capacity)| (label(&peer, early), capacity)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Outcome;

    const CASE: Case = Case { workload: Workload::W4, producers: 1, n: 100, millis: 1 };

    fn record(peer: &str, figures: &[(&str, f64)], problems: &[&str]) -> Record {
        let figures = figures.iter().map(|&(key, value)| (key.to_owned(), value)).collect();
        let problems = problems.iter().map(|&problem| problem.to_owned()).collect();
        let outcome = Outcome { figures, problems };
        Record { peer: peer.to_owned(), case: CASE, tick_us: None, repetition: 0, outcome }
    }

    fn order(records: Vec<Record>) -> Vec<String> {
        let machine = Machine::look();
        let results = Results { machine, scale: 1.0, records };
        rows(&results, &CASE).iter().map(Row::label).collect()
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0]).expect("there are values");
        assert_eq!((spread.median, spread.min, spread.max), (2.5, 1.0, 4.0));
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]).expect("there are values").median, 2.0);
        assert!(Spread::of(Vec::new()).is_none());
    }

    #[test]
    fn a_peer_that_fires_early_stands_below_a_late_one_and_one_that_failed_below_both() {
        let order = order(vec![
            record("failed", &[("p50_us", 1.0)], &["99 fired of 100"]),
            record("early", &[("p50_us", -500.0), ("early", 3.0)], &[]),
            record("late", &[("p50_us", 900.0), ("early", 0.0)], &[]),
            record("prompt", &[("p50_us", 50.0), ("early", 0.0)], &[]),
        ]);
        assert_eq!(order, ["prompt", "late", "early (early)", "failed"]);
    }

    #[test]
    fn capacity_is_the_highest_load_with_timers_and_producers_on_time() {
        let load = |peer: &str, n, p99_us, on_time| {
            let mut record = record(peer, &[("p99_us", p99_us), ("on_time", on_time)], &[]);
            record.case = Case { workload: Workload::W13, producers: 2, n, millis: 1_000 };
            record
        };
        let records = vec![
            load("better", 1_000, 900.0, 1.0),
            load("better", 2_000, 4_900.0, 1.0),
            load("better", 4_000, 1_000.0, 0.0), // the producers were late
            load("worse", 1_000, 5_000.0, 1.0),
            load("worse", 2_000, 5_001.0, 1.0), // the timers were late
            load("none", 1_000, 9_000.0, 0.0),
        ];
        let results = Results { machine: Machine::look(), scale: 1.0, records };
        let capacities = capacities(&results);
        let told: Vec<_> = capacities.iter().map(|(peer, load)| (peer.as_str(), *load)).collect();
        assert_eq!(told, [("better", Some(2_000.0)), ("worse", Some(1_000.0)), ("none", None)]);
    }

    #[test]
    fn a_repetition_that_failed_a_check_gives_no_figures() {
        let good = record("peer", &[("p50_us", 7.0)], &[]);
        let bad = record("peer", &[("p50_us", 1.0)], &["wrong"]);
        let row = row("peer", &[&good, &bad]);
        assert_eq!(row.figures["p50_us"].max, 7.0);
        assert_eq!(row.figures["p50_us"].min, 7.0);
        assert_eq!(row.problems, ["repetition 1: wrong"]);
    }
}
