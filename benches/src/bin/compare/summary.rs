//! Repetitions become one figure, and peers an order.

use std::collections::BTreeMap;
use std::fmt;

use crate::figures::{Better, columns, number};
use crate::record::{Case, Record};
use crate::results::Results;

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
        if self.early { format!("{} (early)", self.peer) } else { self.peer.clone() }
    }
}

/// All peers of one case, the best first. Those that fire early come after all that do not, and those that
/// failed come last.
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
