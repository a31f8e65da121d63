//! Single timers: those that wait or run, and those that were given up.

use std::time::SystemTime;

use crate::engine;
use crate::model::{Act, Cursor, End, Listed, Select, Series, States, words};
use crate::store::{Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

/// A timer that waits or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerInfo {
    /// Its identity.
    pub id: u64,
    /// Its key.
    pub key: Option<String>,
    /// Its [tag](crate::schedule::Schedule::tag).
    pub tag: Option<String>,
    /// The name of its handler.
    pub handler: String,
    /// The version of its payload.
    pub payload_version: u16,
    /// Its payload, as JSON.
    pub payload: String,
    /// When it may run; `None` for never.
    pub deadline: Option<SystemTime>,
    /// How many attempts there have been.
    pub attempt: u32,
    /// Whether a run is recorded as started.
    pub running: bool,
    /// It was cancelled while it ran, of which its run [hears](crate::Fired::is_cancelled).
    pub cancelled: bool,
    /// By which rule it repeats, in words such as `every 60s, missed: Burst`; `None`
    /// if it runs once. For people: the words may change.
    pub rule: Option<String>,
    /// How many runs of the series are over.
    pub runs: u64,
    /// [How many runs](crate::schedule::Schedule::times) the series has in all.
    pub times: Option<u64>,
    /// [For when](crate::schedule::Schedule::until) the last run of the series may be planned.
    pub until: Option<SystemTime>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
}

/// A timer that was given up, and is kept for people; or one run of a series that goes on. Such a
/// run is a timer of its own, which does not repeat. It shows the key of its series, and runs
/// without a key if it is [retried](crate::Timers::retry_parked).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parked {
    /// The timer as it was.
    pub timer: TimerInfo,
    /// Why it was parked.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
    /// How many processes died while it ran.
    pub deaths: u32,
}

/// A run that was given up: from [`Builder::on_parked`](crate::Builder::on_parked).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedRun {
    /// The timer's identity.
    pub id: u64,
    /// Its key.
    pub key: Option<String>,
    /// The name of its handler.
    pub handler: String,
    /// What the run was known by outside: see [`Fired`](crate::Fired::idempotency_key).
    pub idempotency_key: String,
    /// The number of its last attempt.
    pub attempt: u32,
    /// Why it was parked.
    pub reason: String,
    /// It is one of a series, which goes on.
    pub series_goes_on: bool,
}

impl ParkedRun {
    pub(in crate::api) fn of(parked: &engine::Parked) -> Self {
        let engine::Parked { row, reason, goes_on } = parked;
        Self {
            id: row.id.unsigned_abs(),
            key: row.key.clone(),
            handler: row.handler.to_string(),
            idempotency_key: row.idempotency_key(),
            attempt: row.attempt,
            reason: reason.clone(),
            series_goes_on: *goes_on,
        }
    }
}

impl TimerInfo {
    /// The one that was asked for, if it is there.
    pub(in crate::api) fn of_written(written: Written) -> Option<Self> {
        match written {
            Written::Listed(timers) => timers.into_iter().next().map(Self::of),
            _ => None,
        }
    }

    pub(in crate::api) fn of(listed: Listed) -> Self {
        let series = listed.series.as_deref().and_then(Series::parse);
        let End { until, times } = series.map(|series| series.end()).unwrap_or_default();
        Self {
            id: listed.id.unsigned_abs(),
            key: listed.key,
            tag: listed.tag,
            cancelled: listed.cancelled,
            handler: listed.handler,
            payload_version: listed.payload_version,
            payload: listed.payload,
            deadline: listed.deadline.to_system(),
            attempt: listed.attempt,
            running: listed.running,
            rule: listed.series.as_deref().map(words),
            runs: listed.run.unsigned_abs(),
            times,
            until: until.and_then(|until| Timestamp(until).to_system()),
            last_error: listed.last_error,
        }
    }
}

impl Parked {
    /// What asks for the one with this identity, or for the next one that there is.
    pub(in crate::api) fn get(id: u64) -> Write {
        let before = i64::try_from(id).unwrap_or(i64::MAX).saturating_sub(1);
        let after = Some(Cursor::Parked(before));
        let select = Select { after, ..Select::of(States::PARKED, 1, 1) };
        Write::Select { select: Arc::new(select), act: Act::List }
    }

    /// The answer to that, if it has this identity.
    pub(in crate::api) fn of_written(written: Written, id: u64) -> Option<Self> {
        let Written::Selected(selected) = written else { return None };
        let found = selected.listed.into_iter().find_map(Self::of);
        found.filter(|parked| parked.timer.id == id)
    }

    pub(in crate::api) fn of(mut listed: Listed) -> Option<Self> {
        let (reason, since) = listed.parked.take()?;
        let deaths = listed.deaths;
        let since = since.to_system().unwrap_or(SystemTime::UNIX_EPOCH);
        Some(Self { timer: TimerInfo::of(listed), reason, since, deaths })
    }
}
