//! Repeats: the rule, its text in the store, and when the next run is due.

use std::time::Duration;

use lars_base::rate::Rate;
use lars_jobs::wall_clock::{Calendar, CronSchedule, MissedRuns};
use lars_scheduler::MissedTickBehavior;
use serde::{Deserialize, Serialize};

use super::{When, stable_hash};
use crate::time::{Micros, Timestamp, micros};

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

impl From<MissedTick> for MissedTickBehavior {
    fn from(missed: MissedTick) -> Self {
        match missed {
            MissedTick::Burst => Self::Burst,
            MissedTick::Skip => Self::Skip,
            MissedTick::Delay => Self::Delay,
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
    /// Planned for `when`, and due `offset` later.
    Run { when: When, offset: Micros },
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
        let at = |when| Next::Run { when, offset: Micros::ZERO };
        match self {
            Self::FixedDelay { delay } => at(When::After(Micros(*delay))),
            Self::FixedRate { every, missed } => {
                let elapsed = u64::try_from(now.0.saturating_sub(planned.0)).unwrap_or(0);
                let next = Rate::of(every.unsigned_abs(), (*missed).into()).next(elapsed);
                at(When::At(planned + Micros(i64::try_from(next).unwrap_or(i64::MAX))))
            }
            Self::Cron { expression, zone, missed, spread } => {
                let offset = spread_of(*spread, key);
                let passed = now - offset;
                let after = match missed {
                    MissedRun::Once => planned.max(passed),
                    MissedRun::Burst => planned,
                    MissedRun::Skip(grace) => planned.max(passed - Micros(*grace) - Micros(1)),
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
                now > planned + spread_of(*spread, key) + Micros(*grace)
            }
            _ => false,
        }
    }
}

/// Whether two rules, as they are stored, say the same.
pub(super) fn is_same_rule(one: Option<&str>, other: Option<&str>) -> bool {
    let parse = |text: Option<&str>| text.and_then(Series::parse);
    one == other || parse(one).is_some_and(|rule| parse(other) == Some(rule))
}

/// A rule as it is stored, in words for people.
pub(crate) fn words(text: &str) -> String {
    let span = |micros: i64| Micros(micros).to_duration();
    match Series::parse(text) {
        Some(Series::FixedDelay { delay }) => format!("{:?} after each run", span(delay)),
        Some(Series::FixedRate { every, missed }) => {
            format!("every {:?}, missed: {missed:?}", span(every))
        }
        Some(Series::Cron { expression, zone, missed, spread }) => {
            let spread = match spread {
                0 => String::new(),
                spread => format!(", spread over {:?}", span(spread)),
            };
            let missed = match missed {
                MissedRun::Skip(grace) => format!("Skip({:?})", span(grace)),
                other => format!("{other:?}"),
            };
            format!("{expression} {zone}, missed: {missed}{spread}")
        }
        // A newer release wrote it.
        None => text.to_owned(),
    }
}

/// Always later, never earlier, and the same for each run of a key.
fn spread_of(spread: i64, key: Option<&str>) -> Micros {
    match (u64::try_from(spread), key) {
        (Ok(spread @ 1..), Some(key)) => {
            Micros(i64::try_from(stable_hash(key) % spread).expect("less than an i64"))
        }
        _ => Micros::ZERO,
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
) -> Result<Series, lars_jobs::wall_clock::CronError> {
    CronSchedule::parse(expression, zone)?;
    Ok(Series::Cron {
        expression: expression.into(),
        zone: zone.into(),
        missed: missed.into(),
        spread: micros(spread),
    })
}
