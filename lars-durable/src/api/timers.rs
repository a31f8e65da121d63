//! The calls about timers that exist, and what they return.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::engine::Answer;
use crate::error::{Error, Refused};
use crate::model::{Listed, When};
use crate::runtime::{Shared, Submitted, promise};
use crate::store::{How, Placed, Write, Written};
use crate::sync::Arc;
use crate::time::{Timestamp, micros};

/// The longest key.
const MAX_KEY: usize = 512;

/// The longest page of parked timers, and how many are searched for it.
const MAX_PAGE: usize = 1_000;
const MAX_SCAN: usize = 10_000;

/// Schedules, cancels, moves and shows timers of one group. Cheap to clone, `Send` and `Sync`.
///
/// Every call returns at once, with a [`Submitted`]. Calls of one thread take effect in their
/// order.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::{Cancel, Durable, Payload};
/// use std::time::Duration;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct PaymentDue { order: u64 }
/// impl Payload for PaymentDue { const NAME: &'static str = "payment-due"; }
///
/// let durable = Durable::in_memory().start()?; // without handlers: it runs no timers
/// let timers = durable.timers();
/// let day = Duration::from_secs(86_400);
/// timers.schedule_once(day, PaymentDue { order: 17 }).key("payment/17").submit().wait()?;
/// assert!(timers.reset("payment/17", 2 * day).wait()?); // one more day to pay
/// assert_eq!(timers.cancel("payment/17").wait()?, Cancel::Prevented); // paid
/// assert_eq!(timers.cancel("payment/17").wait()?, Cancel::NotFound);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Timers {
    shared: Arc<Shared>,
}

/// A timer that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// The identity of the timer that has the key now: that of the existing one, if it was kept.
    /// Zero if the key is only remembered, after its timer has run.
    pub id: u64,
    /// What the call did.
    pub placement: Placement,
}

/// What a schedule call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// It created a timer.
    New,
    /// Another timer has the key, or its key is remembered; nothing was changed.
    Kept,
    /// It created a timer that replaces another.
    Replaced,
}

/// What a cancel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cancel {
    /// No run of it will start.
    Prevented,
    /// It was too late: a run is recorded as started. If the timer repeats, that is its last run.
    /// If the run fails, it is retried, unless the timer is cancelled again.
    Running,
    /// No timer has this key: it has run, was cancelled, or never existed.
    NotFound,
}

/// A timer that waits or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerInfo {
    /// Its identity.
    pub id: u64,
    /// Its key.
    pub key: Option<String>,
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
    /// Whether it repeats.
    pub repeats: bool,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
}

/// A timer that was given up, and is kept for people.
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

/// Which parked timers to show. By default the first 100, of all handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it asks nothing by itself"]
pub struct ParkedQuery {
    after: u64,
    handler: Option<Arc<str>>,
    limit: usize,
}

/// A page of parked timers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedPage {
    /// In the order of their identities.
    pub timers: Vec<Parked>,
    /// Where the next page begins, for [`ParkedQuery::after`]; `None` if this was the last. At most
    /// 10,000 timers are searched for a page. So a page of one handler may be short, or empty,
    /// without being the last.
    pub next: Option<u64>,
}

impl Default for ParkedQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl ParkedQuery {
    /// The first 100, of all handlers.
    pub fn new() -> Self {
        Self { after: 0, handler: None, limit: 100 }
    }

    /// Those of this handler only.
    pub fn handler(mut self, name: &str) -> Self {
        self.handler = Some(name.into());
        self
    }

    /// Those after this identity, or after a page: [`ParkedPage::next`].
    pub fn after(mut self, place: u64) -> Self {
        self.after = place;
        self
    }

    /// How many timers a page has at most: from 1 to 1,000. Other values count as the nearest of
    /// these.
    pub fn limit(mut self, timers: usize) -> Self {
        self.limit = timers.clamp(1, MAX_PAGE);
        self
    }
}

impl Timers {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.shared.gate.store_now()
    }

    /// Prevents the run of the timer with this key, if it has not started. Starts are recorded 5 ms
    /// before the deadline, so from then on it is too late to cancel.
    pub fn cancel(&self, key: &str) -> Submitted<Cancel> {
        self.by_key(
            key,
            |key| Write::Cancel { key },
            |written| match written {
                Written::Prevented { .. } => Cancel::Prevented,
                Written::Running => Cancel::Running,
                _ => Cancel::NotFound,
            },
        )
    }

    /// Moves the deadline of the timer with this key to `delay` from now; of a repeat, that of its
    /// next run. `false` if it has started, or if there is no such timer.
    ///
    /// Pushing a deadline out costs a write of one column, and wakes nobody.
    pub fn reset(&self, key: &str, delay: Duration) -> Submitted<bool> {
        let when = When::After(micros(delay));
        self.by_key(
            key,
            |key| Write::Reset { key, when },
            |written| matches!(written, Written::Reset { .. }),
        )
    }

    /// The timer with this key.
    pub fn get(&self, key: &str) -> Submitted<Option<TimerInfo>> {
        self.by_key(
            key,
            |key| Write::Get { key },
            |written| match written {
                Written::Listed(timers) => timers.into_iter().next().map(TimerInfo::of),
                _ => None,
            },
        )
    }

    /// Starts no more timers of this handler, in the whole group, until it is resumed, even after a
    /// restart. Running ones go on. Other nodes follow within a third of the lease.
    pub fn pause(&self, handler: &str) -> Submitted<()> {
        self.set_paused(handler, true)
    }

    /// Starts timers of this handler again; those that became due meanwhile start at once, in
    /// order.
    pub fn resume(&self, handler: &str) -> Submitted<()> {
        self.set_paused(handler, false)
    }

    fn set_paused(&self, handler: &str, paused: bool) -> Submitted<()> {
        self.write(Write::Pause { handler: handler.into(), paused }, |_| ())
    }

    /// A page of the parked timers, in the order of their identities.
    ///
    /// # Examples
    ///
    /// All of a handler run again, once the reason is gone:
    ///
    /// ```
    /// use lars_durable::{Error, ParkedQuery, Timers};
    ///
    /// fn retry_all(timers: &Timers, handler: &str) -> Result<u64, Error> {
    ///     let (mut query, mut retried) = (ParkedQuery::new().handler(handler), 0);
    ///     loop {
    ///         let page = timers.parked(query.clone()).wait()?;
    ///         for parked in &page.timers {
    ///             retried += u64::from(timers.retry_parked(parked.timer.id).wait()?);
    ///         }
    ///         match page.next {
    ///             Some(next) => query = query.after(next),
    ///             None => return Ok(retried),
    ///         }
    ///     }
    /// }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let durable = lars_durable::Durable::in_memory().start()?;
    /// # assert_eq!(retry_all(&durable.timers(), "invoice")?, 0);
    /// # Ok(()) }
    /// ```
    pub fn parked(&self, query: ParkedQuery) -> Submitted<ParkedPage> {
        let ParkedQuery { after, handler, limit } = query;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let write = Write::Parked { after, handler, limit, scan: MAX_SCAN };
        self.write(write, |written| match written {
            Written::Page(timers, next) => ParkedPage {
                timers: timers.into_iter().filter_map(Parked::of).collect(),
                next: next.map(i64::unsigned_abs),
            },
            _ => ParkedPage { timers: Vec::new(), next: None },
        })
    }

    /// Lets a parked timer run again, now, with a full set of attempts. `false` if it is not
    /// parked.
    ///
    /// # Errors
    ///
    /// [`Refused::KeyTaken`] if another timer has its key by now.
    pub fn retry_parked(&self, id: u64) -> Submitted<bool> {
        let id = i64::try_from(id).unwrap_or(0);
        self.write(Write::RetryParked { id }, |written| matches!(written, Written::Placed(_)))
    }

    /// Deletes a parked timer. `false` if it is not parked.
    pub fn discard_parked(&self, id: u64) -> Submitted<bool> {
        let id = i64::try_from(id).unwrap_or(0);
        self.write(Write::DiscardParked { id }, |written| written == Written::Applied)
    }

    fn by_key<T: Send + 'static>(
        &self,
        key: &str,
        write: impl FnOnce(Arc<str>) -> Write,
        read: impl FnOnce(Answer) -> T + Send + 'static,
    ) -> Submitted<T> {
        match check_key(key) {
            Ok(()) => self.write(write(key.into()), read),
            Err(refused) => Submitted::ready(Err(refused.into())),
        }
    }

    pub(super) fn write<T: Send + 'static>(
        &self,
        write: Write,
        read: impl FnOnce(Answer) -> T + Send + 'static,
    ) -> Submitted<T> {
        let (promise, submitted) = promise();
        self.shared.call(write, move |answer: Result<Answer, Error>| {
            promise.fill(answer.map(read));
        });
        submitted
    }
}

impl Accepted {
    pub(super) fn of(placed: &Placed) -> Self {
        let placement = match placed.how {
            How::New => Placement::New,
            How::Kept => Placement::Kept,
            How::Replaced { .. } => Placement::Replaced,
        };
        Self { id: placed.id.unsigned_abs(), placement }
    }
}

impl TimerInfo {
    fn of(listed: Listed) -> Self {
        Self {
            id: listed.id.unsigned_abs(),
            key: listed.key,
            handler: listed.handler,
            payload_version: listed.payload_version,
            payload: listed.payload,
            deadline: listed.deadline.to_system(),
            attempt: listed.attempt,
            running: listed.running,
            repeats: listed.repeats,
            last_error: listed.last_error,
        }
    }
}

impl Parked {
    fn of(mut listed: Listed) -> Option<Self> {
        let (reason, since) = listed.parked.take()?;
        let deaths = listed.deaths;
        let since = since.to_system().unwrap_or(SystemTime::UNIX_EPOCH);
        Some(Self { timer: TimerInfo::of(listed), reason, since, deaths })
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

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}
