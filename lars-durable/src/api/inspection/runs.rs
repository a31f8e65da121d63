//! Runs that are over, and are remembered.

use std::time::{Duration, SystemTime};

use crate::model::{Ran, RunOutcome, RunPlace, RunsSelect};
use crate::store::{Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

/// The longest page.
const MAX_PAGE: usize = 1_000;

/// How many runs are searched for a page.
const MAX_SCAN: usize = 1_000;

/// A run that is over: see [`Builder::history`](crate::Builder::history).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunInfo {
    /// The identity of the timer.
    pub timer: u64,
    /// Its key.
    pub key: Option<String>,
    /// The name of its handler.
    pub handler: String,
    /// The [name](crate::Builder::name) of the node that ran it.
    pub node: String,
    /// The [fence](crate::Fired::fence) of the run.
    pub fence: u64,
    /// How many runs of the series were over before.
    pub run: u64,
    /// Which attempt of that run it was, from 1 on.
    pub attempt: u32,
    /// What the run was planned for.
    pub planned: SystemTime,
    /// When it began, by the store's clock, as the node knew it.
    pub began: SystemTime,
    /// How long it took, from when it was to begin until its node knew that it had ended: with the
    /// wait for a thread.
    pub took: Duration,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Why it failed.
    pub error: Option<String>,
}

/// Which runs to show. By default the last 100, of all timers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it asks nothing by itself"]
pub struct RunsQuery {
    timer: Option<i64>,
    handler: Option<Arc<str>>,
    before: Option<RunPlace>,
    limit: usize,
}

/// A page of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunsPage {
    /// The last one first.
    pub runs: Vec<RunInfo>,
    /// What asks for the next page; `None` if this was the last. At most 1,000 runs are searched
    /// for a page. So a page of one handler may be short, or empty, without being the last.
    pub next: Option<RunsQuery>,
}

impl Default for RunsQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl RunsQuery {
    /// The last 100, of all timers.
    pub fn new() -> Self {
        Self { timer: None, handler: None, before: None, limit: 100 }
    }

    /// Those of the timer with this identity only, whether it is still there or not.
    pub fn timer(mut self, id: u64) -> Self {
        self.timer = Some(i64::try_from(id).unwrap_or(0));
        self
    }

    /// Those of this handler only.
    pub fn handler(mut self, name: &str) -> Self {
        self.handler = Some(name.into());
        self
    }

    /// How many runs a page has at most: from 1 to 1,000. Other values count as the nearest of
    /// these.
    pub fn limit(mut self, runs: usize) -> Self {
        self.limit = runs.clamp(1, MAX_PAGE);
        self
    }

    /// What the store is asked for.
    pub(in crate::api) fn to_write(&self) -> Write {
        let Self { timer, handler, before, limit } = self.clone();
        Write::Runs {
            select: Arc::new(RunsSelect { timer, handler, before, limit, scan: MAX_SCAN }),
        }
    }
}

impl RunsPage {
    pub(in crate::api) fn of(query: RunsQuery, written: Written) -> Self {
        let (runs, next) = match written {
            Written::Runs(runs, next) => (runs, next),
            _ => (Vec::new(), None),
        };
        let next = next.map(|place| RunsQuery { before: Some(place), ..query });
        Self { runs: runs.into_iter().map(RunInfo::of).collect(), next }
    }
}

impl RunInfo {
    fn of(ran: Ran) -> Self {
        let system = |at: Timestamp| at.to_system().unwrap_or(SystemTime::UNIX_EPOCH);
        Self {
            timer: ran.timer.unsigned_abs(),
            key: ran.key,
            handler: ran.handler.to_string(),
            node: ran.node.to_string(),
            fence: ran.fence.0.unsigned_abs(),
            run: ran.run.unsigned_abs(),
            attempt: ran.attempt,
            planned: system(ran.planned),
            began: system(ran.began),
            took: (ran.ended - ran.began).to_duration(),
            outcome: ran.outcome,
            error: ran.error,
        }
    }
}
