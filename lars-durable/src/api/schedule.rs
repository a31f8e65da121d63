//! A timer to be scheduled, with its options.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use lars_scheduler::MissedTickBehavior;
use lars_scheduler::wall_clock::MissedRuns;

use super::payload::Payload;
use super::timers::{Accepted, Timers};
use crate::error::{Error, Refused};
use crate::model::{MissedTick, NewTimer, Next, OnConflict, Series, When, cron_series};
use crate::runtime::Submitted;
use crate::sync::Arc;
use crate::time::{Timestamp, micros};

/// The longest payload: 64 KiB of JSON.
const MAX_PAYLOAD: usize = 65_536;

/// The longest key.
pub(super) const MAX_KEY: usize = 512;

/// A timer that runs once.
#[derive(Debug, Clone, Copy)]
pub struct Once(());

/// A timer that runs again after each run.
#[derive(Debug, Clone, Copy)]
pub struct Repeated(());

/// A timer that runs at a fixed rate.
#[derive(Debug, Clone, Copy)]
pub struct Rate(());

/// A timer that runs by a calendar.
#[derive(Debug, Clone, Copy)]
pub struct Cron(());

/// A timer to be scheduled: nothing happens until [`submit`](Self::submit), or until a batch takes
/// it.
#[must_use = "nothing is scheduled before it is submitted"]
pub struct Schedule<K> {
    timers: Timers,
    timer: Result<Draft, Refused>,
    kind: PhantomData<fn() -> K>,
}

/// What has been said of the timer so far.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    when: When,
    key: Option<Arc<str>>,
    conflict: OnConflict,
    remember: i64,
    handler: &'static str,
    version: u16,
    payload: String,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    Once,
    Series(Series),
    Cron { expression: String, zone: String, missed: MissedRuns, spread: Duration },
}

impl<K> Schedule<K> {
    fn new<P: Payload>(timers: Timers, when: When, rule: Rule, payload: &P) -> Self {
        let timer = json(payload).map(|payload| Draft {
            when,
            key: None,
            conflict: OnConflict::default(),
            remember: 0,
            handler: P::NAME,
            version: P::VERSION,
            payload,
            rule,
        });
        Self { timers, timer, kind: PhantomData }
    }

    fn set(mut self, set: impl FnOnce(&mut Draft)) -> Self {
        if let Ok(draft) = &mut self.timer {
            set(draft);
        }
        self
    }

    /// The timer's name in its group, by which it can be cancelled and moved: up to 512 bytes of
    /// UTF-8 without NUL.
    ///
    /// While the timer exists, no other has this key: [`on_conflict`](Self::on_conflict) says what
    /// happens to a second one. So a call with a key can be repeated if it is not known whether it
    /// took effect.
    pub fn key(self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.set(|draft| draft.key = Some(key.into()))
    }

    /// What to do if another timer has the key: [`OnConflict::Keep`] unless it is set.
    pub fn on_conflict(self, conflict: OnConflict) -> Self {
        self.set(|draft| draft.conflict = conflict)
    }

    /// Keeps the key taken for this long after the run. Without it, a call that is repeated after
    /// the timer has run schedules it again.
    pub fn remember(self, after: Duration) -> Self {
        self.set(|draft| draft.remember = micros(after))
    }

    /// Schedules it. `Ok` means that it is committed and flushed: it will run, or be cancelled, or
    /// be parked.
    ///
    /// A delay counts from the transaction that stores the timer.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with the value and the limit that it breaks; [`Error::Unavailable`] if
    /// the store could not be used; [`Error::OutcomeUnknown`] if it did not say whether it
    /// committed.
    pub fn submit(self) -> Submitted<Accepted> {
        let timers = self.timers.clone();
        match self.into_new() {
            Ok(timer) => timers.schedule(timer),
            Err(refused) => Submitted::ready(Err(Error::Refused(refused))),
        }
    }

    /// Checks everything.
    pub(super) fn into_new(self) -> Result<NewTimer, Refused> {
        let draft = self.timer?;
        if let Some(key) = &draft.key {
            check_key(key)?;
        } else if draft.remember > 0 {
            return Err(Refused::RememberWithoutKey);
        }
        let key = draft.key.as_deref();
        let (when, offset, series) = match draft.rule {
            Rule::Once => (draft.when, 0, None),
            Rule::Series(series) => {
                if matches!(series, Series::FixedDelay { delay: 0 })
                    || matches!(series, Series::FixedRate { every: 0, .. })
                {
                    return Err(Refused::PeriodZero);
                }
                (draft.when, 0, Some(series))
            }
            Rule::Cron { expression, zone, missed, spread } => {
                let series = cron_series(&expression, &zone, missed, spread)?;
                // By this machine's clock; from then on the store's decides.
                let now = self.timers.now();
                let (when, offset) = match series.next(now, now, key) {
                    Next::Run { when, offset } => (when, offset),
                    Next::Over => (When::At(Timestamp::NEVER), 0),
                };
                (when, offset, Some(series))
            }
        };
        Ok(NewTimer {
            id: 0,
            bucket: 0,
            when,
            offset,
            key: draft.key,
            conflict: draft.conflict,
            handler: draft.handler.into(),
            payload_version: draft.version,
            payload: draft.payload.into(),
            series: series.map(|series| series.to_text().into()),
            remember: draft.remember,
        })
    }
}

impl Schedule<Once> {
    pub(super) fn once<P: Payload>(timers: Timers, when: When, payload: &P) -> Self {
        Self::new(timers, when, Rule::Once, payload)
    }
}

impl Schedule<Repeated> {
    pub(super) fn fixed_delay<P: Payload>(
        timers: Timers,
        first: Duration,
        delay: Duration,
        payload: &P,
    ) -> Self {
        let rule = Rule::Series(Series::FixedDelay { delay: micros(delay) });
        Self::new(timers, When::After(micros(first)), rule, payload)
    }
}

impl Schedule<Rate> {
    pub(super) fn fixed_rate<P: Payload>(
        timers: Timers,
        first: Duration,
        every: Duration,
        payload: &P,
    ) -> Self {
        let missed = MissedTick::from(MissedTickBehavior::default());
        let rule = Rule::Series(Series::FixedRate { every: micros(every), missed });
        Self::new(timers, When::After(micros(first)), rule, payload)
    }

    /// What happens to runs whose time has passed, because the process was down or a run took too
    /// long: [`Burst`](MissedTickBehavior::Burst) unless it is set. It is computed from the planned
    /// times of the runs.
    pub fn missed(self, missed: MissedTickBehavior) -> Self {
        self.set(|draft| {
            if let Rule::Series(Series::FixedRate { missed: stored, .. }) = &mut draft.rule {
                *stored = missed.into();
            }
        })
    }
}

impl Schedule<Cron> {
    pub(super) fn cron<P: Payload>(
        timers: Timers,
        expression: &str,
        zone: &str,
        payload: &P,
    ) -> Self {
        let rule = Rule::Cron {
            expression: expression.into(),
            zone: zone.into(),
            missed: MissedRuns::default(),
            spread: Duration::ZERO,
        };
        Self::new(timers, When::After(0), rule, payload)
    }

    /// What happens to occurrences that have passed: [`Once`](MissedRuns::Once) unless it is set.
    pub fn missed(self, runs: MissedRuns) -> Self {
        self.set(|draft| {
            if let Rule::Cron { missed, .. } = &mut draft.rule {
                *missed = runs;
            }
        })
    }

    /// Spreads the timers of one occurrence over this time, by a hash of their keys: always later,
    /// never earlier, and the same for each run of a key. It prevents a thundering herd at the full
    /// hour.
    pub fn spread(self, over: Duration) -> Self {
        self.set(|draft| {
            if let Rule::Cron { spread, .. } = &mut draft.rule {
                *spread = over;
            }
        })
    }
}

/// When something is due that was asked for at a time of day.
pub(super) fn at(time: SystemTime) -> When {
    When::At(Timestamp::from_system(time))
}

fn json(payload: &impl Payload) -> Result<String, Refused> {
    let json = serde_json::to_string(payload)
        .map_err(|error| Refused::Payload { reason: error.to_string() })?;
    match json.len() {
        given if given > MAX_PAYLOAD => Err(Refused::PayloadSize { given, max: MAX_PAYLOAD }),
        _ => Ok(json),
    }
}

pub(super) fn check_key(key: &str) -> Result<(), Refused> {
    if key.is_empty() {
        Err(Refused::KeyEmpty)
    } else if key.len() > MAX_KEY {
        Err(Refused::KeySize { given: key.len(), max: MAX_KEY })
    } else if let Some(position) = key.find('\0') {
        Err(Refused::KeyNul { position })
    } else {
        Ok(())
    }
}

impl<K> fmt::Debug for Schedule<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let draft = self.timer.as_ref().ok();
        f.debug_struct("Schedule")
            .field("handler", &draft.map(|draft| draft.handler))
            .field("key", &draft.and_then(|draft| draft.key.as_deref()))
            .finish_non_exhaustive()
    }
}
