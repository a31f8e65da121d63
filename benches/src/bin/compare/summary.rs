//! Repetitions become one figure, and peers an order.

use std::collections::BTreeMap;

use crate::figures::{Better, columns};
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

/// One peer in one case.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) peer: String,
    pub(crate) figures: BTreeMap<String, Spread>,
    pub(crate) problems: Vec<String>,
}

/// All peers of one case, the best first and those that failed last.
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
            (Some(one), Some(other)) => one.total_cmp(&other),
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
    let figures =
        values.into_iter().filter_map(|(key, values)| Some((key, Spread::of(values)?))).collect();
    Row { peer: peer.to_owned(), figures, problems }
}
