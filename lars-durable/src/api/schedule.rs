//! A timer to be made, with the options of its kind, and what the calls about timers answer.
//!
//! [`Timers`] has a call for each kind: [`Once`], [`Repeated`] after each run, at a fixed [`Rate`],
//! and by a [`Cron`] expression. Each returns a [`Schedule`], to be given options and submitted.

#[cfg(feature = "postgres")]
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use lars_jobs::wall_clock::MissedRuns;
use lars_scheduler::MissedTickBehavior;

#[cfg(feature = "actors")]
use super::address::letter;
pub use super::answers::{Accepted, Cancel, Placement};
use super::payload::Payload;
use super::timers::Timers;
pub use super::which::Which;
use super::which::{check_key, check_tag};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::error::TransactionError;
use crate::error::{Error, Refused};
use crate::model::{self, End, MissedTick, NewTimer, Next, OnConflict, When, cron_series};
use crate::runtime::Submitted;
#[cfg(feature = "postgres")]
use crate::store::{SUBMISSION, submission};
use crate::store::{Write, Written};
use crate::sync::Arc;
use crate::time::{Micros, Timestamp, micros};

/// The longest payload: 64 KiB of JSON.
const MAX_PAYLOAD: usize = 65_536;

/// The most timers of one batch.
const MAX_BATCH: usize = 65_536;

/// The most bytes of payloads, keys and tags in a batch: one transaction, for which all other calls
/// wait.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// A timer that runs once.
#[derive(Debug, Clone, Copy)]
pub struct Once(());

/// A timer that runs again after each run.
#[derive(Debug, Clone, Copy)]
pub struct Repeated(());

/// A timer that runs at a fixed rate.
#[derive(Debug, Clone, Copy)]
pub struct Rate(());

/// A timer that runs by a cron expression.
#[derive(Debug, Clone, Copy)]
pub struct Cron(());

/// What repeats, and can have an end: [`Repeated`], [`Rate`] and [`Cron`].
pub trait Series: sealed::Sealed {}

impl Series for Repeated {}
impl Series for Rate {}
impl Series for Cron {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Repeated {}
    impl Sealed for super::Rate {}
    impl Sealed for super::Cron {}
}

/// A timer to be scheduled: nothing happens until [`submit`](Self::submit), or until a batch takes
/// it.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::schedule::Placement;
/// use lars_durable::{Durable, OnConflict, Payload};
/// use std::time::Duration;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct PaymentDue { order: u64 }
/// impl Payload for PaymentDue { const NAME: &'static str = "payment-due"; }
///
/// let durable = Durable::in_memory().start()?;
/// let timers = durable.timers();
/// let day = Duration::from_secs(86_400);
/// let due = || timers.schedule_once(day, PaymentDue { order: 17 }).key("payment/17");
/// let first = due().submit().wait()?;
/// let second = due().submit().wait()?; // the key is taken: the first one stays
/// assert_eq!((second.id, second.placement), (first.id, Placement::Kept));
/// let third = due().on_conflict(OnConflict::Replace).submit().wait()?;
/// assert_eq!(third.placement, Placement::Replaced);
/// # Ok(()) }
/// ```
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
    tag: Option<Arc<str>>,
    conflict: OnConflict,
    remember: Micros,
    #[cfg(feature = "actors")]
    home: Option<(Arc<str>, Arc<str>)>,
    handler: &'static str,
    version: u16,
    payload: String,
    rule: Rule,
    end: End,
}

#[derive(Debug, Clone)]
enum Rule {
    Once,
    Series(model::Series),
    Cron { expression: String, zone: String, missed: MissedRuns, spread: Duration },
}

impl<K> Schedule<K> {
    fn new<P: Payload>(timers: Timers, when: When, rule: Rule, payload: &P) -> Self {
        let timer = json(payload).map(|payload| Draft {
            when,
            key: None,
            tag: None,
            conflict: match rule {
                Rule::Once => OnConflict::Keep,
                Rule::Series(_) | Rule::Cron { .. } => OnConflict::Update,
            },
            remember: Micros::ZERO,
            #[cfg(feature = "actors")]
            home: None,
            handler: P::NAME,
            version: P::VERSION,
            payload,
            rule,
            end: End::default(),
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

    /// What the timer has in common with others, such as the customer whom it is for: a
    /// [query](crate::query::Query::tag) finds it by that. Up to 128 bytes of UTF-8 without NUL. A
    /// timer has one tag, or none. What there is to find by its beginning belongs into the key.
    pub fn tag(self, tag: impl Into<String>) -> Self {
        let tag = tag.into();
        self.set(|draft| draft.tag = Some(tag.into()))
    }

    /// What to do if another timer has the key. Unless it is set, [`OnConflict::Keep`] for a timer
    /// that runs once, and [`OnConflict::Update`] for one that repeats: so a program declares its
    /// jobs at each start, and a rule that has changed since is taken over.
    pub fn on_conflict(self, conflict: OnConflict) -> Self {
        self.set(|draft| draft.conflict = conflict)
    }

    /// Keeps the key taken for this long after the run. Without it, a call that is repeated after
    /// the timer has run schedules it again.
    pub fn remember(self, after: Duration) -> Self {
        self.set(|draft| draft.remember = after.into())
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

    /// Schedules it in the user's own transaction in the file of the node: once that commits, the
    /// timer is one like any other, and the node finds it within a tenth of a second. If it is
    /// rolled back, there never was a timer.
    ///
    /// A delay counts from this call. The commit survives a power cut if the connection has
    /// `PRAGMA synchronous = FULL`, which it has unless something else was set. Begin the
    /// transaction with `TransactionBehavior::Immediate`: one that reads first may find at its
    /// first write that somebody else has written since, and then only a new one can succeed.
    ///
    /// [`OnConflict::Update`] of a rule that has changed makes a new timer in place of the old one.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; roll the transaction back.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_durable::{Durable, Payload};
    /// use rusqlite::{Connection, TransactionBehavior};
    /// use std::time::Duration;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct PaymentDue { order: i64 }
    /// impl Payload for PaymentDue { const NAME: &'static str = "payment-due"; }
    ///
    /// # let directory = std::env::temp_dir().join(format!("lars-in-file-{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory)?;
    /// # let path = directory.join("shop.db");
    /// let durable = Durable::sqlite(&path).start()?;
    /// let timers = durable.timers();
    /// let mut connection = Connection::open(&path)?;
    /// connection.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")?;
    ///
    /// let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    /// transaction.execute("INSERT INTO orders DEFAULT VALUES", [])?;
    /// let order = transaction.last_insert_rowid();
    /// let day = Duration::from_secs(86_400);
    /// timers.schedule_once(day, PaymentDue { order }).submit_in_file(&transaction)?;
    /// transaction.commit()?; // both, or neither
    /// # drop(connection);
    /// # durable.close()?;
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn submit_in_file(
        self,
        transaction: &rusqlite::Transaction<'_>,
    ) -> Result<Accepted, TransactionError<rusqlite::Error>> {
        let timers = self.timers.clone();
        let timer = self.into_new().map_err(TransactionError::Refused)?;
        let placed = timers.file()?.schedule(transaction, timer, timers.now())?;
        Ok(Accepted::of(&placed))
    }

    /// Where it ends, if it repeats.
    #[cfg(feature = "actors")]
    pub(super) fn ending(self, end: End) -> Self {
        self.set(|draft| draft.end = end)
    }

    /// A message for the actor with this address and name.
    #[cfg(feature = "actors")]
    pub(super) fn for_actor(self, address: &Arc<str>, name: &Arc<str>) -> Self {
        self.set(|draft| draft.home = Some((Arc::clone(address), Arc::clone(name))))
    }

    /// Is refused when it is submitted.
    #[cfg(feature = "actors")]
    pub(super) fn refused(self, refused: Refused) -> Self {
        Self { timer: self.timer.and(Err(refused)), ..self }
    }

    /// Checks everything.
    pub(super) fn into_new(self) -> Result<NewTimer, Refused> {
        let draft = self.timer?;
        if let Some(key) = &draft.key {
            check_key(key)?;
        } else if draft.remember > Micros::ZERO {
            return Err(Refused::RememberWithoutKey);
        }
        if draft.end.times == Some(0) {
            return Err(Refused::TimesZero);
        }
        draft.tag.as_deref().map_or(Ok(()), check_tag)?;
        let key = draft.key.as_deref();
        let (when, offset, series) = match draft.rule {
            Rule::Once => (draft.when, Micros::ZERO, None),
            Rule::Series(series) => {
                if matches!(series, model::Series::FixedDelay { delay: 0 })
                    || matches!(series, model::Series::FixedRate { every: 0, .. })
                {
                    return Err(Refused::PeriodZero);
                }
                (draft.when, Micros::ZERO, Some(series.with_end(draft.end)))
            }
            Rule::Cron { expression, zone, missed, spread } => {
                let series = cron_series(&expression, &zone, missed, spread)?.with_end(draft.end);
                // By the store's clock, as this node knows it.
                let now = self.timers.now();
                let (when, offset) = match series.next(now, now, key) {
                    Next::Run { when, offset } => (when, offset),
                    Next::Over | Next::NoDate => (When::At(Timestamp::NEVER), Micros::ZERO),
                };
                (when, offset, Some(series))
            }
        };
        #[cfg(not(feature = "actors"))]
        let (home, payload) = (None, draft.payload);
        #[cfg(feature = "actors")]
        let (home, payload) = match draft.home {
            Some((address, name)) => (Some(address), letter(&name, draft.payload)?),
            None => (None, draft.payload),
        };
        Ok(NewTimer {
            home,
            id: 0,
            bucket: 0,
            when,
            offset,
            key: draft.key,
            tag: draft.tag,
            conflict: draft.conflict,
            handler: draft.handler.into(),
            payload_version: draft.version,
            payload: payload.into(),
            series: series.map(|series| series.to_text().into()),
            remember: draft.remember,
        })
    }
}

impl Schedule<Once> {
    pub(super) fn once<P: Payload>(timers: Timers, when: When, payload: &P) -> Self {
        Self::new(timers, when, Rule::Once, payload)
    }

    /// The statement that schedules it in the user's own transaction in PostgreSQL, with any
    /// driver, and the statement's parameter. Once the transaction commits, the timer is one like
    /// any other. If it is rolled back, there never was a timer.
    ///
    /// The parameter `$1` is a `text[]`. The statement returns one row with one column, a `bigint`:
    /// the identity of the timer that has the key now, or `NULL` if the key is only remembered. A
    /// delay counts from the statement; one of more than a hundred thousand years is as long as
    /// that.
    ///
    /// The statement calls `lars.schedule`, as any program may by hand. (A series is declared when
    /// the program starts, by [`submit`](Self::submit).)
    ///
    /// # Errors
    ///
    /// [`TransactionError::Refused`], as by [`submit`](Self::submit), and with
    /// [`NotInSql`](Refused::NotInSql) for [`OnConflict::Update`] and for what is sent to an actor;
    /// [`TransactionError::OtherStore`] if the timers of the node are not in PostgreSQL. That the
    /// key is taken, with [`OnConflict::Fail`], the database says: a `unique_violation`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lars_durable::{Payload, Timers};
    /// use std::time::Duration;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct PaymentDue { order: i64 }
    /// impl Payload for PaymentDue { const NAME: &'static str = "payment-due"; }
    ///
    /// async fn place(
    ///     timers: &Timers,
    ///     client: &mut tokio_postgres::Client,
    /// ) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = client.transaction().await?;
    ///     let insert = "INSERT INTO orders DEFAULT VALUES RETURNING id";
    ///     let order: i64 = transaction.query_one(insert, &[]).await?.get(0);
    ///     let due = timers.schedule_once(Duration::from_secs(86_400), PaymentDue { order });
    ///     let (statement, timer) = due.key(format!("payment/{order}")).submission()?;
    ///     transaction.query_one(statement, &[&timer]).await?;
    ///     transaction.commit().await?; // both, or neither
    ///     Ok(())
    /// }
    /// ```
    #[cfg(feature = "postgres")]
    pub fn submission(
        self,
    ) -> Result<(&'static str, Vec<Option<String>>), TransactionError<Infallible>> {
        let timers = self.timers.clone();
        let group = timers.group().ok_or(TransactionError::OtherStore)?;
        let timer = self.into_new().map_err(TransactionError::Refused)?;
        let described = submission(group, &timer).map_err(TransactionError::Refused)?;
        Ok((SUBMISSION, described))
    }
}

impl Schedule<Repeated> {
    pub(super) fn fixed_delay<P: Payload>(
        timers: Timers,
        first: Duration,
        delay: Duration,
        payload: &P,
    ) -> Self {
        let rule = Rule::Series(model::Series::FixedDelay { delay: micros(delay) });
        Self::new(timers, When::After(first.into()), rule, payload)
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
        let rule = Rule::Series(model::Series::FixedRate { every: micros(every), missed });
        Self::new(timers, When::After(first.into()), rule, payload)
    }

    /// What happens to runs whose time has passed, because the process was down or a run took too
    /// long: [`Burst`](MissedTickBehavior::Burst) unless it is set. It is computed from the planned
    /// times of the runs.
    pub fn missed_ticks(self, missed: MissedTickBehavior) -> Self {
        self.set(|draft| {
            if let Rule::Series(model::Series::FixedRate { missed: stored, .. }) = &mut draft.rule {
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
        Self::new(timers, When::After(Micros::ZERO), rule, payload)
    }

    /// What happens to occurrences that have passed: [`Once`](MissedRuns::Once) unless it is set.
    pub fn missed_runs(self, runs: MissedRuns) -> Self {
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

impl<K: Series> Schedule<K> {
    /// Ends the series after this many runs, at least 1. A run counts once, however often it is
    /// tried, and also if it is parked. What is left out or passed over by the rule for missed runs
    /// does not count.
    ///
    /// Runs are counted from when the timer was made, or took the place of another. If
    /// [`OnConflict::Update`] changes the number, those that are over count; if there are as many
    /// already, the run that waits is the last.
    ///
    /// A series that has ended is gone, and its key is free: a program that declares it at its next
    /// start makes a new one, unless the key is [remembered](Self::remember).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_durable::{Durable, Payload};
    /// use std::time::Duration;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Dunning { order: u64 }
    /// impl Payload for Dunning { const NAME: &'static str = "dunning"; }
    ///
    /// let durable = Durable::in_memory().start()?;
    /// let timers = durable.timers();
    /// let week = Duration::from_secs(7 * 86_400);
    /// let letters = timers.schedule_with_fixed_delay(week, week, Dunning { order: 17 });
    /// letters.times(3).key("dunning/17").submit().wait()?;
    /// let waits = timers.get("dunning/17").wait()?.unwrap();
    /// assert_eq!((waits.runs, waits.times), (0, Some(3)));
    /// # Ok(()) }
    /// ```
    pub fn times(self, runs: u64) -> Self {
        self.set(|draft| draft.end.times = Some(runs))
    }

    /// Ends the series before the first run that its rule plans for later than `end`, by the
    /// store's clock. A run that is planned by then comes late if it has to: because it is retried,
    /// [spread](Schedule::spread), or was missed.
    ///
    /// If the first run would be later already, no timer is made. That is no error, so that a
    /// program can go on to declare its series at each start: the answer is
    /// [`Placement::Kept`] with the identity 0. With [`OnConflict::Update`] or
    /// [`OnConflict::Replace`] it ends the series that has the key, but for what is owed to an
    /// update: a run that is overdue, being retried or under way.
    ///
    /// A run that [`Timers::reset`], or a retry after it was parked, moves behind the end still
    /// happens. It is the last one.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_durable::schedule::Placement;
    /// use lars_durable::{Durable, Payload};
    /// use std::time::{Duration, SystemTime};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct SaleTick;
    /// impl Payload for SaleTick { const NAME: &'static str = "sale-tick"; }
    ///
    /// let durable = Durable::in_memory().start()?;
    /// let timers = durable.timers();
    /// let declare = |end| {
    ///     let ticks = timers.schedule_by_cron("0 * * * *", "Europe/Berlin", SaleTick);
    ///     ticks.until(end).key("sale").submit().wait()
    /// };
    /// let end = SystemTime::UNIX_EPOCH + Duration::from_secs(4_102_444_800); // in 2100
    /// assert_eq!(declare(end)?.placement, Placement::New);
    /// assert_eq!(timers.get("sale").wait()?.unwrap().until, Some(end));
    /// let over = SystemTime::now();
    /// assert_eq!(declare(over)?.placement, Placement::Replaced); // the sale is called off
    /// assert_eq!(declare(over)?.placement, Placement::Kept);
    /// assert!(timers.get("sale").wait()?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn until(self, end: SystemTime) -> Self {
        let until = Timestamp::from_system(end).0;
        self.set(|draft| draft.end.until = Some(until))
    }
}

impl Timers {
    /// Runs once, `delay` from now. A delay beyond the clock's range, up to [`Duration::MAX`], is
    /// kept and is never due.
    pub fn schedule_once<P: Payload>(&self, delay: Duration, payload: P) -> Schedule<Once> {
        Schedule::once(self.clone(), When::After(delay.into()), &payload)
    }

    /// Runs once, at `time` by the store's clock. A time that has passed is now.
    pub fn schedule_at<P: Payload>(&self, time: SystemTime, payload: P) -> Schedule<Once> {
        Schedule::once(self.clone(), at(time), &payload)
    }

    /// Runs after `first`, and then again and again, `delay` after the end of each run was
    /// recorded.
    pub fn schedule_with_fixed_delay<P: Payload>(
        &self,
        first: Duration,
        delay: Duration,
        payload: P,
    ) -> Schedule<Repeated> {
        Schedule::fixed_delay(self.clone(), first, delay, &payload)
    }

    /// Runs after `first`, and then every `every`: the nth run is planned for `first + n * every`,
    /// without drift.
    pub fn schedule_at_fixed_rate<P: Payload>(
        &self,
        first: Duration,
        every: Duration,
        payload: P,
    ) -> Schedule<Rate> {
        Schedule::fixed_rate(self.clone(), first, every, &payload)
    }

    /// Runs at each occurrence of a cron expression in a time zone; for both see
    /// [`CronSchedule`](lars_jobs::wall_clock::CronSchedule).
    pub fn schedule_by_cron<P: Payload>(
        &self,
        expression: &str,
        zone: &str,
        payload: P,
    ) -> Schedule<Cron> {
        Schedule::cron(self.clone(), expression, zone, &payload)
    }

    /// Schedules all of them in one transaction, or none. The answers are in the order of the
    /// timers.
    ///
    /// # Errors
    ///
    /// As for [`Schedule::submit`]; if one timer is refused, all are. At most 65,536 timers, with
    /// 16 MiB of payloads, keys and tags in all.
    pub fn schedule_batch<K>(
        &self,
        timers: impl IntoIterator<Item = Schedule<K>>,
    ) -> Submitted<Vec<Accepted>> {
        let timers: Result<Vec<NewTimer>, Refused> =
            timers.into_iter().map(Schedule::into_new).collect();
        match timers {
            Ok(timers) if timers.len() > MAX_BATCH => {
                let (given, max) = (timers.len(), MAX_BATCH);
                Submitted::ready(Err(Refused::BatchSize { given, max }.into()))
            }
            Ok(timers) => match timers.iter().map(NewTimer::bytes).sum() {
                given if given > MAX_BATCH_BYTES => {
                    let max = MAX_BATCH_BYTES;
                    Submitted::ready(Err(Refused::BatchBytes { given, max }.into()))
                }
                _ => self.write(Write::Schedule(Arc::new(timers)), |written| match written {
                    Written::Scheduled(placed) => placed.iter().map(Accepted::of).collect(),
                    _ => Vec::new(),
                }),
            },
            Err(refused) => Submitted::ready(Err(refused.into())),
        }
    }

    pub(super) fn schedule(&self, timer: NewTimer) -> Submitted<Accepted> {
        self.write(Write::Schedule(Arc::new(vec![timer])), |written| match written {
            Written::Scheduled(placed) => Accepted::of(&placed[0]),
            other => unreachable!("the answer to one timer is one place, not {other:?}"),
        })
    }
}

/// When something is due that was asked for at a time of day.
fn at(time: SystemTime) -> When {
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

impl<K> fmt::Debug for Schedule<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let draft = self.timer.as_ref().ok();
        f.debug_struct("Schedule")
            .field("handler", &draft.map(|draft| draft.handler))
            .field("key", &draft.and_then(|draft| draft.key.as_deref()))
            .finish_non_exhaustive()
    }
}
