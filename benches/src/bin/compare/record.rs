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
    /// A ring of outstanding request timeouts.
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
    /// What a server does with timers: most are cancelled, some moved, some fire.
    W8,
    /// Scheduled by one thread and cancelled by another.
    W9,
    /// A task that takes long, due with many others.
    W11,
    /// Deadlines are moved.
    W12,
    /// W8 at a given rate, from low to high.
    W13,
    /// Timers of very many threads.
    W14,
    /// Futures: made, moved, polled.
    W17,
    /// Two actors, one message.
    A1,
    /// Many producers, one actor.
    A2,
    /// Messages sent later.
    A3,
    /// One producer, many actors.
    A4,
    /// A timer is restarted with each message.
    A5,
    /// Very many actors.
    A6,
}

impl Workload {
    pub(crate) const TIMERS: [Self; 14] = {
        use Workload::*;
        [W1, W2, W2b, W3, W4, W5, W6, W7, W8, W9, W11, W12, W13, W14]
    };
    /// Whether the workload needs a duration: with a duration of zero, timers would have no delay.
    pub(crate) fn lasts(self) -> bool {
        use Workload::*;
        matches!(self, W3 | W4 | W5 | W6 | W8 | W11 | W13 | A3 | A5)
    }
    /// Those without repeats.
    #[cfg(feature = "peers")]
    pub(crate) const ONE_SHOTS: [Self; 13] = {
        use Workload::*;
        [W1, W2, W2b, W3, W4, W5, W7, W8, W9, W11, W12, W13, W14]
    };
    /// Those in which every timer is held until it is cancelled or all is over: for peers that
    /// cannot let a timer fire that nobody holds, and do not tell when it has.
    #[cfg(feature = "peers")]
    pub(crate) const HELD_ONE_SHOTS: [Self; 10] = {
        use Workload::*;
        [W1, W2, W2b, W3, W4, W5, W7, W9, W11, W12]
    };
    pub(crate) const FUTURES: [Self; 1] = [Self::W17];
    pub(crate) const ACTORS: [Self; 6] = {
        use Workload::*;
        [A1, A2, A3, A4, A5, A6]
    };
    /// Those without timers of an actor's own.
    #[cfg(feature = "peers")]
    pub(crate) const ACTORS_WITHOUT_TIMERS: [Self; 5] = {
        use Workload::*;
        [A1, A2, A3, A4, A6]
    };

    pub(crate) fn is_actors(self) -> bool {
        Self::ACTORS.contains(&self)
    }
}

impl Case {
    /// How long it lasts, or rests.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.millis)
    }

    /// Operations in a second. For W13.
    pub(crate) fn rate(&self) -> f64 {
        self.n as f64 / self.duration().as_secs_f64()
    }

    /// For how many timers there has to be memory at one time.
    pub(crate) fn timers_at_once(&self) -> u64 {
        match self.workload {
            // A tenth fires, most of them before the end; but there are peers with which a part of
            // all waits in a queue.
            Workload::W8 | Workload::W13 => self.n / 10,
            // An actor takes more than a timer does.
            Workload::A6 => self.n * 4,
            _ => self.n,
        }
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
    /// How long the workload lasts, where it is a matter of time; in W8 the mean delay, in A5 the
    /// timer's; where memory is looked at: how long it rests before that.
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
