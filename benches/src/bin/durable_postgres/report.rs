//! What was measured, in a file that several runs fill, and as tables.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::AnyError;

/// The results of all runs into one file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Rates, a second: ours and the bare loop's.
    pub(crate) rates: BTreeMap<String, (f64, f64)>,
    /// Lateness in microseconds, by percentile.
    pub(crate) late: BTreeMap<String, Late>,
    /// Single figures.
    pub(crate) figures: BTreeMap<String, f64>,
    /// Over time: seconds, and milliseconds of lateness: half of the runs, and 99 of 100.
    pub(crate) courses: BTreeMap<String, Vec<(f64, f64, f64)>>,
}

/// How late runs were.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Late {
    pub(crate) runs: usize,
    pub(crate) early: usize,
    /// The percentile, and microseconds.
    pub(crate) percentiles: Vec<(f64, i64)>,
}

pub(crate) const PERCENTILES: [f64; 7] = [0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];

impl Late {
    pub(crate) fn of(mut late: Vec<i64>) -> Self {
        late.sort_unstable();
        let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize];
        Self {
            runs: late.len(),
            early: late.iter().filter(|late| **late < 0).count(),
            percentiles: PERCENTILES.iter().map(|part| (*part, at(*part))).collect(),
        }
    }

    pub(crate) fn at(&self, wanted: f64) -> f64 {
        let found = self.percentiles.iter().find(|(part, _)| *part == wanted);
        found.map_or(f64::NAN, |(_, micros)| *micros as f64 / 1_000.0)
    }
}

impl Report {
    pub(crate) fn read(file: &Path) -> Result<Self, AnyError> {
        match std::fs::read(file) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(_) => Ok(Self::default()),
        }
    }

    pub(crate) fn write(&self, file: &Path) -> Result<(), AnyError> {
        Ok(std::fs::write(file, serde_json::to_string_pretty(self)?)?)
    }

    pub(crate) fn print(&self) {
        if !self.rates.is_empty() {
            println!("| a second | ours | bare loop | ratio |\n|---|---|---|---|");
        }
        for (what, (ours, bare)) in &self.rates {
            println!("| {what} | {ours:.0} | {bare:.0} | {:.2} |", ours / bare);
        }
        if !self.late.is_empty() {
            println!(
                "\n| lateness, ms | p50 | p99 | p99.9 | most | early |\n|---|---|---|---|---|---|"
            );
        }
        for (what, late) in &self.late {
            let [half, most, more, all] = [0.5, 0.99, 0.999, 1.0].map(|part| late.at(part));
            println!("| {what} | {half:.2} | {most:.2} | {more:.2} | {all:.2} | {} |", late.early);
        }
        if !self.figures.is_empty() {
            println!("\n| | |\n|---|---|");
        }
        for (what, figure) in &self.figures {
            println!("| {what} | {figure:.2} |");
        }
    }
}
