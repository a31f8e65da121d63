//! What became of runs, for people.

use super::{Fence, TimerId};
use crate::sync::Arc;
use crate::time::Timestamp;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunOutcome {
    /// Well.
    Done,
    /// It failed, and the timer is tried again.
    Retried,
    /// It was given up.
    Parked,
    /// Its handler has [put it off](crate::Outcome::Snooze).
    PutOff,
    /// It failed, and its handler runs [at most once](crate::Handler::at_most_once).
    Lost,
}

// (For the stores that write words.)
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "behind a door that this build has not")
)]
impl RunOutcome {
    pub(crate) const ALL: [Self; 5] =
        [Self::Done, Self::Retried, Self::Parked, Self::PutOff, Self::Lost];

    /// As it is stored.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retried => "retried",
            Self::Parked => "parked",
            Self::PutOff => "put off",
            Self::Lost => "lost",
        }
    }

    pub(crate) fn of_word(word: &str) -> Self {
        let found = Self::ALL.into_iter().find(|outcome| outcome.word() == word);
        found.unwrap_or(Self::Done)
    }
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) timer: TimerId,
    pub(crate) fence: Fence,
    pub(crate) key: Option<String>,
    pub(crate) handler: Arc<str>,
    /// The name of the node that ran it.
    pub(crate) node: Arc<str>,
    /// How many runs of its series were over before.
    pub(crate) run: i64,
    pub(crate) attempt: u32,
    pub(crate) planned: Timestamp,
    pub(crate) began: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) outcome: RunOutcome,
    pub(crate) error: Option<String>,
}

/// Where a run is among all: they are shown from the last one on.
pub(crate) type RunPlace = (Timestamp, TimerId, Fence);

/// Which runs are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunsSelect {
    /// Of this timer, by its fences; else of all, by the time of their ends.
    pub(crate) timer: Option<TimerId>,
    pub(crate) handler: Option<Arc<str>>,
    /// From the one before this place on.
    pub(crate) before: Option<RunPlace>,
    pub(crate) limit: usize,
    /// How many rows are looked at, at most.
    pub(crate) scan: usize,
}

impl Ran {
    pub(crate) fn place(&self) -> RunPlace {
        (self.ended, self.timer, self.fence)
    }
}

impl RunsSelect {
    /// Behind all, or where the walk goes on.
    pub(crate) fn before(&self) -> RunPlace {
        self.before.unwrap_or((Timestamp::NEVER, TimerId::MAX, Fence(i64::MAX)))
    }

    /// How many rows are read: one more than are looked at, which says that there is one.
    pub(crate) fn most(&self) -> usize {
        let looked_at = if self.handler.is_some() { self.scan } else { self.limit.min(self.scan) };
        looked_at.saturating_add(1)
    }

    /// What is shown of these, which were read, and where the walk goes on, if it does.
    pub(crate) fn page(&self, rows: impl IntoIterator<Item = Ran>) -> (Vec<Ran>, Option<RunPlace>) {
        let mut rows = rows.into_iter();
        let (mut page, mut last) = (Vec::new(), None);
        for ran in rows.by_ref().take(self.scan) {
            last = Some(ran.place());
            if self.handler.as_ref().is_none_or(|handler| *handler == ran.handler) {
                page.push(ran);
            }
            if page.len() >= self.limit {
                break;
            }
        }
        (page, last.filter(|_| rows.next().is_some()))
    }
}

/// What is deleted when it is old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Old {
    /// Parked timers.
    Parked,
    /// The history of runs.
    Runs,
}
