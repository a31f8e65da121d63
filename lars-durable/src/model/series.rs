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
    /// Another one, up to an end. A kind of its own, so that a release which knows no ends does not
    /// run such a series without its end.
    Ending { end: End, of: Box<Series> },
}

/// Where a series ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct End {
    /// In microseconds since 1970: no run is planned for later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<i64>,
    /// How many runs there are, counted since the timer was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<u64>,
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
            // The least that lars-jobs knows.
            MissedRuns::Skip(grace) => Self::Skip(micros(grace.max(Duration::from_secs(1)))),
        }
    }
}

/// When a series goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Planned for `when`, and due `offset` later.
    Run { when: When, offset: Micros },
    /// Never: the series has come to its end.
    Over,
    /// Never: no date is left that cron expressions know.
    NoDate,
}

impl Series {
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a rule has no map and no foreign type, so it is JSON")
    }

    /// `None` if a newer release wrote something that this one does not know.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The same series with this end, if it is one.
    pub(crate) fn with_end(self, end: End) -> Self {
        if end == End::default() { self } else { Self::Ending { end, of: Box::new(self) } }
    }

    /// Where it ends by itself.
    pub(crate) fn end(&self) -> End {
        match self {
            Self::Ending { end, .. } => *end,
            Self::FixedDelay { .. } | Self::FixedRate { .. } | Self::Cron { .. } => End::default(),
        }
    }

    /// The same series without an end.
    fn endless(&self) -> &Self {
        match self {
            Self::Ending { of, .. } => of,
            Self::FixedDelay { .. } | Self::FixedRate { .. } | Self::Cron { .. } => self,
        }
    }

    /// Whether a run is left when so many are over.
    pub(crate) fn has_run_after(&self, runs: i64) -> bool {
        let runs = u64::try_from(runs).unwrap_or(0);
        self.end().times.is_none_or(|times| runs < times)
    }

    /// Whether its rule plans no run for `planned`, because that is behind its end.
    pub(super) fn ends_before(&self, planned: Timestamp) -> bool {
        self.end().until.is_some_and(|until| planned.0 > until)
    }

    /// The run after the one planned for `planned`, which ends at `now`, if it is not the last of
    /// those that are counted. (Of a fixed delay, `now` decides whether that is behind the end; if
    /// it is not, the store does when it plans that run, which may be later.)
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
                    None => Next::NoDate,
                }
            }
            Self::Ending { of, .. } => match of.next(planned, now, key) {
                Next::Run { when, .. } if self.ends_before(when.by(now)) => Next::Over,
                Next::Run { when: When::After(span), offset } => {
                    let until = self.end().until.map(Timestamp);
                    let when = until.map_or(When::After(span), |until| When::UpTo(until, span));
                    Next::Run { when, offset }
                }
                next => next,
            },
        }
    }

    /// Says what is wrong with a cron expression or its zone that this node does not know: another
    /// one, with other data of zones, may.
    pub(crate) fn unknown_rule(&self) -> Option<String> {
        let Self::Cron { expression, zone, .. } = self.endless() else { return None };
        CronSchedule::parse(expression, zone).err().map(|error| error.to_string())
    }

    /// Whether a run planned for `planned`, and put off until `since`, is to be left out at `now`,
    /// because it is later than its grace.
    pub(crate) fn leaves_out(
        &self,
        (planned, since): (Timestamp, Timestamp),
        now: Timestamp,
        key: Option<&str>,
    ) -> bool {
        match self.endless() {
            Self::Cron { missed: MissedRun::Skip(grace), spread, .. } => {
                now > since.max(planned + spread_of(*spread, key)) + Micros(*grace)
            }
            _ => false,
        }
    }
}

/// How two rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    None,
    /// Only in where they end.
    End,
    Rule,
}

impl Difference {
    /// Of two rules as they are stored.
    pub(super) fn of(one: Option<&str>, other: Option<&str>) -> Self {
        let parse = |text: Option<&str>| text.and_then(Series::parse);
        match (parse(one), parse(other)) {
            _ if one == other => Self::None,
            (Some(one), Some(other)) if one == other => Self::None,
            (Some(one), Some(other)) if one.endless() == other.endless() => Self::End,
            _ => Self::Rule,
        }
    }
}

/// A rule as it is stored, in words for people.
pub(crate) fn words(text: &str) -> String {
    // If it cannot be read, a newer release wrote it.
    Series::parse(text).map_or_else(|| text.to_owned(), |series| series.words())
}

impl Series {
    fn words(&self) -> String {
        let span = |micros: &i64| Micros(*micros).to_duration();
        match self {
            Self::FixedDelay { delay } => format!("{:?} after each run", span(delay)),
            Self::FixedRate { every, missed } => {
                format!("every {:?}, missed: {missed:?}", span(every))
            }
            Self::Cron { expression, zone, missed, spread } => {
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
            // Its end has fields of its own.
            Self::Ending { of, .. } => of.words(),
        }
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
