//! Repeats: the rule, its text in the store, and when the next run is due.

use std::time::Duration;

use lars_scheduler::MissedTickBehavior;
use lars_scheduler::wall_clock::{Calendar, CronSchedule, MissedRuns};
use serde::{Deserialize, Serialize};

use super::{When, stable_hash};
use crate::time::{Timestamp, micros};

/// The rule of a repeat. Stored as JSON, so its names must not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum Series {
    /// Microseconds from the end of a run to the next.
    FixedDelay { delay: i64 },
    /// Microseconds from one planned run to the next.
    FixedRate { every: i64, missed: MissedTick },
    /// A cron expression in a zone; `spread` in microseconds.
    Cron { expression: String, zone: String, missed: MissedRun, spread: i64 },
}

/// [`MissedTickBehavior`], by the names in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissedTick {
    Burst,
    Skip,
    Delay,
}

impl From<MissedTickBehavior> for MissedTick {
    fn from(missed: MissedTickBehavior) -> Self {
        match missed {
            MissedTickBehavior::Burst => Self::Burst,
            MissedTickBehavior::Skip => Self::Skip,
            MissedTickBehavior::Delay => Self::Delay,
        }
    }
}

/// [`MissedRuns`], by the names in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissedRun {
    Once,
    Burst,
    /// The grace in microseconds.
    Skip(i64),
}

impl From<MissedRuns> for MissedRun {
    fn from(missed: MissedRuns) -> Self {
        match missed {
            MissedRuns::Once => Self::Once,
            MissedRuns::Burst => Self::Burst,
            MissedRuns::Skip(grace) => Self::Skip(micros(grace)),
        }
    }
}

/// When a series goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Planned for `when`, and due `offset` microseconds later.
    Run { when: When, offset: i64 },
    /// Never: no date matches any more, or the rule cannot be read.
    Over,
}

impl Series {
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a rule has no map and no foreign type, so it is JSON")
    }

    /// `None` if a newer release wrote something that this one does not know.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The run after the one planned for `planned`, which ends at `now`.
    pub(crate) fn next(&self, planned: Timestamp, now: Timestamp, key: Option<&str>) -> Next {
        let at = |when| Next::Run { when, offset: 0 };
        match self {
            Self::FixedDelay { delay } => at(When::After(*delay)),
            Self::FixedRate { every, missed } => at(When::At(match missed {
                MissedTick::Burst => planned.plus(*every),
                MissedTick::Skip => next_multiple(planned, *every, now),
                MissedTick::Delay if planned.plus(*every) <= now => now.plus(*every),
                MissedTick::Delay => planned.plus(*every),
            })),
            Self::Cron { expression, zone, missed, spread } => {
                let offset = spread_of(*spread, key);
                let passed = now.plus(-offset);
                let after = match missed {
                    MissedRun::Once => planned.max(passed),
                    MissedRun::Burst => planned,
                    MissedRun::Skip(grace) => planned.max(passed.plus(-*grace - 1)),
                };
                match occurrence_after(expression, zone, after) {
                    Some(next) => Next::Run { when: When::At(next), offset },
                    None => Next::Over,
                }
            }
        }
    }

    /// Whether a run planned for `planned` is to be left out at `now`, because it is later than its
    /// grace.
    pub(crate) fn leaves_out(&self, planned: Timestamp, now: Timestamp, key: Option<&str>) -> bool {
        match self {
            Self::Cron { missed: MissedRun::Skip(grace), spread, .. } => {
                now > planned.plus(spread_of(*spread, key)).plus(*grace)
            }
            _ => false,
        }
    }
}

/// The first `planned + n * every`, with `n` at least 1, that is later than `now`.
fn next_multiple(planned: Timestamp, every: i64, now: Timestamp) -> Timestamp {
    let missed = (now.0.saturating_sub(planned.0)).max(0) / every;
    planned.plus(every.saturating_mul(missed.saturating_add(1)))
}

/// Always later, never earlier, and the same for each run of a key.
fn spread_of(spread: i64, key: Option<&str>) -> i64 {
    match (u64::try_from(spread), key) {
        (Ok(spread @ 1..), Some(key)) => {
            i64::try_from(stable_hash(key) % spread).expect("less than an i64")
        }
        _ => 0,
    }
}

fn occurrence_after(expression: &str, zone: &str, after: Timestamp) -> Option<Timestamp> {
    let cron = CronSchedule::parse(expression, zone).ok()?;
    let next = cron.next_after(after.to_system()?)?;
    let next = Timestamp::from_system(next);
    (next > after).then_some(next)
}

/// The rule of `schedule_by_cron`, checked.
pub(crate) fn cron(
    expression: &str,
    zone: &str,
    missed: MissedRuns,
    spread: Duration,
) -> Result<Series, lars_scheduler::wall_clock::CronError> {
    CronSchedule::parse(expression, zone)?;
    Ok(Series::Cron {
        expression: expression.into(),
        zone: zone.into(),
        missed: missed.into(),
        spread: micros(spread),
    })
}
