//! What was measured, in a file that several runs fill, and as tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::AnyError;

/// The results of all runs into one file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Rates: ours and the bare loop's.
    pub rates: BTreeMap<String, Rate>,
    /// Rates of other crates, a second: of what, and whose.
    #[serde(default)]
    pub peers: BTreeMap<String, BTreeMap<String, f64>>,
    /// Lateness in microseconds, by percentile.
    pub late: BTreeMap<String, Late>,
    /// Single figures.
    pub figures: BTreeMap<String, f64>,
    /// Over time: seconds, and milliseconds of lateness: half of the runs, and 99 of 100.
    pub courses: BTreeMap<String, Vec<(f64, f64, f64)>>,
}

/// How many a second, in the median of all rounds.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub struct Rate {
    /// Ours.
    pub ours: f64,
    /// Those of the bare loop.
    pub bare: f64,
    /// The median of each round's ratio: what the disk does meanwhile counts for both.
    pub ratio: f64,
}

impl Rate {
    /// What each round has measured of ours and of the bare loop.
    pub fn of(rounds: &[(f64, f64)]) -> Self {
        let of = |part: fn(&(f64, f64)) -> f64| median(rounds.iter().map(part).collect());
        Self { ours: of(|(ours, _)| *ours), bare: of(|(_, bare)| *bare), ratio: of(|(a, b)| a / b) }
    }
}

/// Of several, the middle one; of an even number, the upper of the two.
pub(super) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How late runs were.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Late {
    /// How many there were.
    pub runs: usize,
    /// How many began before they were due.
    pub early: usize,
    /// How many did not come while somebody waited for them.
    #[serde(default)]
    pub missing: usize,
    /// The percentile, and microseconds.
    pub percentiles: Vec<(f64, i64)>,
}

const PERCENTILES: [f64; 7] = [0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];

impl Late {
    /// Of runs that were so late, in microseconds.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn of(mut late: Vec<i64>) -> Self {
        late.sort_unstable();
        let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize];
        Self {
            runs: late.len(),
            early: late.iter().filter(|late| **late < 0).count(),
            missing: 0,
            percentiles: PERCENTILES.iter().map(|part| (*part, at(*part))).collect(),
        }
    }

    /// Milliseconds, at one of the percentiles; `NaN` at any other part.
    pub fn at(&self, wanted: f64) -> f64 {
        let found = self.percentiles.iter().find(|(part, _)| *part == wanted);
        found.map_or(f64::NAN, |(_, micros)| *micros as f64 / 1_000.0)
    }
}

impl Report {
    /// What is in the file, if it exists.
    pub fn read(file: &Path) -> Result<Self, AnyError> {
        match std::fs::read(file) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(_) => Ok(Self::default()),
        }
    }

    pub(super) fn write(&self, file: &Path) -> Result<(), AnyError> {
        Ok(std::fs::write(file, serde_json::to_string_pretty(self)?)?)
    }

    /// Prints the tables.
    pub fn print(&self) {
        if !self.rates.is_empty() {
            println!("| a second | ours | bare loop | ratio |\n|---|---|---|---|");
        }
        for (what, Rate { ours, bare, ratio }) in &self.rates {
            println!("| {what} | {ours:.0} | {bare:.0} | {ratio:.2} |");
        }
        let names: BTreeSet<&String> = self.peers.values().flat_map(|peers| peers.keys()).collect();
        if !names.is_empty() {
            let heads: String = names.iter().map(|name| format!(" {name} |")).collect();
            println!("\n| a second, and how many times as many ours | ours |{heads}");
            println!("|---|---|{}", "---|".repeat(names.len()));
        }
        for (what, peers) in &self.peers {
            let Rate { ours, .. } = self.rates.get(what).copied().unwrap_or_default();
            let cells: String = names
                .iter()
                .map(|name| match peers.get(*name) {
                    Some(rate) => format!(" {rate:.0} ({:.1} ×) |", ours / rate),
                    None => " |".to_owned(),
                })
                .collect();
            println!("| {what} | {ours:.0} |{cells}");
        }
        if !self.late.is_empty() {
            println!(
                "\n| lateness, ms | p50 | p99 | p99.9 | most | early | not run |\n\
                 |---|---|---|---|---|---|---|"
            );
        }
        for (what, late) in &self.late {
            let [half, most, more, all] = [0.5, 0.99, 0.999, 1.0].map(|part| late.at(part));
            let Late { early, missing, .. } = late;
            println!(
                "| {what} | {half:.2} | {most:.2} | {more:.2} | {all:.2} | {early} | {missing} |"
            );
        }
        if !self.figures.is_empty() {
            println!("\n| | |\n|---|---|");
        }
        for (what, figure) in &self.figures {
            println!("| {what} | {figure:.2} |");
        }
    }
}
