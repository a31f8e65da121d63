//! What is measured, and what came of it: the line that a measuring process prints.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The workloads. `docs/benchmarks.md` says what each of them does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[value(rename_all = "UPPER")]
pub(crate) enum Workload {
    /// Schedule timers that do not fire.
    W1,
    /// Schedule one and cancel it at once.
    W2,
    /// A ring of outstanding request time-outs.
    #[value(name = "W2b")]
    W2b,
    /// All due at one moment.
    W3,
    /// A steady stream: lateness.
    W4,
    /// Pending, and nothing to do.
    W5,
    /// Periodic timers.
    W6,
    /// W1 with one producer, from small to large.
    W7,
    /// Two actors, one message.
    A1,
    /// Many producers, one actor.
    A2,
    /// Messages sent later.
    A3,
    /// One producer, many actors.
    A4,
}

impl Workload {
    pub(crate) const TIMERS: [Self; 8] =
        [Self::W1, Self::W2, Self::W2b, Self::W3, Self::W4, Self::W5, Self::W6, Self::W7];
    /// Those without repeats.
    #[cfg(feature = "peers")]
    pub(crate) const ONE_SHOTS: [Self; 7] =
        [Self::W1, Self::W2, Self::W2b, Self::W3, Self::W4, Self::W5, Self::W7];
    pub(crate) const ACTORS: [Self; 4] = [Self::A1, Self::A2, Self::A3, Self::A4];

    pub(crate) fn is_actors(self) -> bool {
        Self::ACTORS.contains(&self)
    }
}

impl Case {
    /// How long it lasts, or rests.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One workload with its sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    /// Threads that schedule or send.
    pub(crate) producers: u64,
    /// Operations in all.
    pub(crate) n: u64,
    /// How long the workload lasts, where it is a matter of time; where memory is looked at: how long it rests
    /// before that.
    pub(crate) millis: u64,
}

/// What was measured, by name; the names are those of `report::columns`.
pub(crate) type Figures = BTreeMap<String, f64>;

/// What one process measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) figures: Figures,
    /// Checks that failed. The figures are worth nothing then.
    pub(crate) problems: Vec<String>,
}

impl Outcome {
    pub(crate) fn set(&mut self, name: &str, value: f64) {
        self.figures.insert(name.to_owned(), value);
    }

    /// Writes a problem down unless `holds`.
    pub(crate) fn check(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(problem());
        }
    }
}

/// One measurement, as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) peer: String,
    #[serde(flatten)]
    pub(crate) case: Case,
    /// The peer's tick in microseconds, if it has one.
    pub(crate) tick_us: Option<u64>,
    pub(crate) repetition: u32,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}
