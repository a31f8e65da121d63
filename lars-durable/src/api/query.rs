//! Many timers at once: found, counted, listed, cancelled, moved, retried, discarded.
//!
//! A [`Query`] says which. Each call is one step: it looks at a bounded number of timers in one
//! short transaction, and returns where the next one begins. So a call never holds up others for
//! long, however many timers there are; it can be stopped at any time, and goes on where it was.
//!
//! # Examples
//!
//! What failed because a service was away runs again, and what nobody needs any more is cancelled:
//!
//! ```
//! use lars_durable::query::{Query, State};
//! use lars_durable::{Error, Timers};
//!
//! fn clean_up(timers: &Timers) -> Result<(), Error> {
//!     let mut query = Query::new().handler("invoice").failed_with("connection refused");
//!     loop {
//!         let step = timers.retry_all(&query).wait()?;
//!         println!("{} of {} run again", step.changed, step.looked_at);
//!         match step.next {
//!             Some(place) => query = query.after(place),
//!             None => break,
//!         }
//!     }
//!     let mut query = Query::new().key_prefix("order/17/").states([State::Waiting]);
//!     while let Some(place) = timers.cancel_all(&query).wait()?.next {
//!         query = query.after(place);
//!     }
//!     Ok(())
//! }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # clean_up(&lars_durable::Durable::in_memory().start()?.timers())?;
//! # Ok(()) }
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use super::inspection::{Parked, TimerInfo};
use super::timers::Timers;
use super::which::{check_key, check_tag, check_text};
use crate::error::Refused;
use crate::model::{Act, Cursor, Listed, Select, States, When};
use crate::runtime::Submitted;
use crate::store::{Selected, Write, Written};
use crate::sync::Arc;
use crate::time::Timestamp;

/// The most that a step finds.
const MAX_LIMIT: usize = 1_000;

/// The most that a step looks at.
const MAX_SCAN: usize = 5_000;

/// How many characters an error shows of a text that is no place.
const SHOWN_OF_PLACE: usize = 100;

/// Which timers: unless something else is said, all of the group.
///
/// A timer has to meet all conditions. What is made, moved or started while the steps go on may be
/// found or not. With a prefix and no tag, timers come in the order of their keys; otherwise in the
/// order in which they are due (on PostgreSQL, without a tag, bucket by bucket). Parked ones come
/// after all others.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it asks nothing by itself"]
pub struct Query {
    handler: Option<Arc<str>>,
    prefix: Option<Arc<str>>,
    tag: Option<Arc<str>>,
    states: States,
    due_from: Option<SystemTime>,
    due_before: Option<SystemTime>,
    failed_with: Option<Arc<str>>,
    after: Option<Place>,
    limit: usize,
}

/// In which state a timer is. One that waits may be in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// It has not started, and its time has not come.
    Waiting,
    /// It has not started, and its time has come.
    Due,
    /// It is recorded as started.
    Running,
    /// It has not started, and was tried before.
    Retrying,
    /// It has not started, and its handler is [paused](crate::Timers::pause).
    Paused,
    /// It was given up.
    Parked,
}

/// Where the steps of a query go on: for [`Query::after`] of the same conditions.
///
/// Its text can be kept, and carried in the address of a web page: it has letters, digits, `.` and
/// `-` only, 1,028 bytes at most, and is read by `parse`. With a prefix it holds a key, as
/// hexadecimal digits.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::query::{Place, Query};
///
/// let link = "parked.17"; // what `to_string` of a step's `next` returned
/// let place: Place = link.parse()?;
/// assert_eq!(place.to_string(), link);
/// let query = Query::new().after(place);
/// assert!("17".parse::<Place>().is_err());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(Cursor);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Place {
    type Err = Refused;

    /// # Errors
    ///
    /// [`Refused::QueryPlace`] if it is not the text of a place.
    fn from_str(text: &str) -> Result<Self, Refused> {
        let cursor = text.parse().ok().filter(|cursor| match cursor {
            Cursor::Key(key) => check_key(key).is_ok(),
            Cursor::Due { .. } | Cursor::Parked(_) => true,
        });
        let given = || text.chars().take(SHOWN_OF_PLACE).collect();
        cursor.map(Self).ok_or_else(|| Refused::QueryPlace { given: given() })
    }
}

/// What a step has done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// How many timers were looked at: at most 5,000. (By key on PostgreSQL, those of other groups
    /// of the database count too.)
    pub looked_at: usize,
    /// How many of them met all conditions.
    pub matched: usize,
    /// How many were changed: they will not run, or run at another time.
    pub changed: usize,
    /// Of [`cancel_all`](crate::Timers::cancel_all): how many had started. As with
    /// [`Cancel::Running`](crate::schedule::Cancel::Running), that run goes on, and is the last of
    /// its series.
    pub running: usize,
    /// How many were passed over: another transaction holds them, or another timer has the key of
    /// a parked one. If others hold dozens of keys, some free ones are among them. A new query from
    /// the beginning finds them again.
    pub passed_over: usize,
    /// Where the next step begins; `None` if there is nothing left to look at.
    pub next: Option<Place>,
}

/// A page of timers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// Those that were found. A page may be short, or empty, without being the last.
    pub timers: Vec<Found>,
    /// How many timers were looked at: at most 5,000.
    pub looked_at: usize,
    /// Where the next page begins; `None` if this was the last.
    pub next: Option<Place>,
}

/// A timer that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It waits, or runs.
    Timer(TimerInfo),
    /// It was given up.
    Parked(Parked),
}

impl Found {
    /// The timer, as it is or was.
    pub fn timer(&self) -> &TimerInfo {
        match self {
            Self::Timer(timer) => timer,
            Self::Parked(parked) => &parked.timer,
        }
    }

    fn of(listed: Listed) -> Self {
        if listed.parked.is_none() {
            return Self::Timer(TimerInfo::of(listed));
        }
        Self::Parked(Parked::of(listed).expect("it says why it was parked"))
    }
}

impl State {
    fn bit(self) -> States {
        match self {
            Self::Waiting => States::WAITING,
            Self::Due => States::DUE,
            Self::Running => States::RUNNING,
            Self::Retrying => States::RETRYING,
            Self::Paused => States::PAUSED,
            Self::Parked => States::PARKED,
        }
    }
}

impl Default for Query {
    fn default() -> Self {
        Self::new()
    }
}

impl Query {
    /// All timers of the group; at most 100 in a step.
    pub fn new() -> Self {
        Self {
            handler: None,
            prefix: None,
            tag: None,
            states: States::ALL,
            due_from: None,
            due_before: None,
            failed_with: None,
            after: None,
            limit: 100,
        }
    }

    /// Those of the handler with this name.
    pub fn handler(mut self, name: &str) -> Self {
        self.handler = Some(name.into());
        self
    }

    /// Those that have a key which begins with this. They are found by it, so that the others cost
    /// nothing.
    pub fn key_prefix(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Those with this [tag](crate::schedule::Schedule::tag). Those that wait or run are found by
    /// it, so that the others cost nothing.
    pub fn tag(mut self, tag: &str) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Those that are in one of these states.
    pub fn states(mut self, states: impl IntoIterator<Item = State>) -> Self {
        self.states = states.into_iter().fold(States::default(), |all, it| all.with(it.bit()));
        self
    }

    /// Those that may run at this time or later. (Of a parked one, when it might have.)
    pub fn due_from(mut self, time: SystemTime) -> Self {
        self.due_from = Some(time);
        self
    }

    /// Those that may run before this time. What is due later is not looked at, unless it was moved
    /// there.
    pub fn due_before(mut self, time: SystemTime) -> Self {
        self.due_before = Some(time);
        self
    }

    /// Those whose last failure, or the reason for which they were parked, contains this text.
    pub fn failed_with(mut self, text: &str) -> Self {
        self.failed_with = Some(text.into());
        self
    }

    /// Those behind a place that a step of this query has returned.
    pub fn after(mut self, place: Place) -> Self {
        self.after = Some(place);
        self
    }

    /// How many timers a step finds at most: from 1 to 1,000.
    pub fn limit(mut self, timers: usize) -> Self {
        self.limit = timers;
        self
    }

    /// What the store is asked for by `call`, which is for timers in these states.
    pub(super) fn checked(&self, call: &'static str, fits: States) -> Result<Arc<Select>, Refused> {
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            return Err(Refused::QueryLimit { given: self.limit, max: MAX_LIMIT });
        }
        let states = self.states.and(fits);
        if states.is_empty() {
            return Err(Refused::QueryStates { call, needed: names(fits) });
        }
        if let Some(prefix) = &self.prefix {
            check_text(prefix)?;
        }
        self.tag.as_deref().map_or(Ok(()), check_tag)?;
        let from = self.due_from.map_or(Timestamp::MIN, Timestamp::from_system);
        let before = self.due_before.map_or(Timestamp::NEVER, Timestamp::from_system);
        if let (Some(from), Some(before)) = (self.due_from, self.due_before)
            && from >= before
        {
            return Err(Refused::QueryTimes { from, before });
        }
        Ok(Arc::new(Select {
            handler: self.handler.clone(),
            prefix: self.prefix.clone(),
            tag: self.tag.clone(),
            due: (from, before),
            failed_with: self.failed_with.clone(),
            after: self.after.clone().map(|place| place.0),
            ..Select::of(states, self.limit, MAX_SCAN)
        }))
    }
}

/// The names of states, for people.
fn names(states: States) -> String {
    let all = [
        (States::WAITING, "Waiting"),
        (States::DUE, "Due"),
        (States::RUNNING, "Running"),
        (States::RETRYING, "Retrying"),
        (States::PAUSED, "Paused"),
        (States::PARKED, "Parked"),
    ];
    let names = all.into_iter().filter(|(state, _)| !states.and(*state).is_empty());
    names.map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

impl Step {
    pub(super) fn of(written: Written) -> Self {
        let Written::Selected(selected) = written else { unreachable!("a step answers a step") };
        let mut step = Self {
            looked_at: selected.looked_at,
            matched: selected.matched,
            changed: 0,
            running: 0,
            passed_over: 0,
            next: selected.next.map(Place),
        };
        for written in selected.each {
            match written {
                Written::Prevented { .. }
                | Written::Reset { .. }
                | Written::Placed(_)
                | Written::Applied => step.changed += 1,
                Written::Running { .. } => step.running += 1,
                Written::Held | Written::KeyTaken(_) => step.passed_over += 1,
                // It has gone meanwhile.
                _ => {}
            }
        }
        step
    }
}

impl Listing {
    pub(super) fn of(written: Written) -> Self {
        let Written::Selected(Selected { looked_at, listed, next, .. }) = written else {
            unreachable!("a step answers a step")
        };
        let timers = listed.into_iter().map(Found::of).collect();
        Self { timers, looked_at, next: next.map(Place) }
    }
}

/// Many timers at once: see [`query`](crate::query).
///
/// Each call answers [`Refused::QueryLimit`], [`Refused::QueryStates`], [`Refused::QueryTimes`],
/// [`Refused::KeySize`], [`Refused::KeyNul`] or [`Refused::Tag`] if the query asks for what cannot
/// be.
impl Timers {
    /// Counts timers, a step.
    pub fn count(&self, query: &Query) -> Submitted<Step> {
        self.step(query, "count", States::ALL, Act::Count)
    }

    /// Shows timers, a page.
    pub fn list(&self, query: &Query) -> Submitted<Listing> {
        let select = match query.checked("list", States::ALL) {
            Ok(select) => select,
            Err(refused) => return Submitted::ready(Err(refused.into())),
        };
        self.write(Write::Select { select, act: Act::List }, Listing::of)
    }

    /// [Cancels](Self::cancel) timers, a step. It leaves parked ones alone: those are
    /// [discarded](Self::discard_all).
    pub fn cancel_all(&self, query: &Query) -> Submitted<Step> {
        self.step(query, "cancel_all", States::ALL.without(States::PARKED), Act::Cancel)
    }

    /// [Moves](Self::reset) timers that have not started to `delay` from now, a step.
    pub fn reset_all(&self, query: &Query, delay: Duration) -> Submitted<Step> {
        let fits = States::ALL.without(States::PARKED.with(States::RUNNING));
        self.step(query, "reset_all", fits, Act::Reset(When::After(delay.into())))
    }

    /// Lets parked timers [run again](Self::retry_parked), now, a step.
    pub fn retry_all(&self, query: &Query) -> Submitted<Step> {
        self.step(query, "retry_all", States::PARKED, Act::Retry)
    }

    /// [Deletes](Self::discard_parked) parked timers, a step.
    pub fn discard_all(&self, query: &Query) -> Submitted<Step> {
        self.step(query, "discard_all", States::PARKED, Act::Discard)
    }

    fn step(&self, query: &Query, call: &'static str, fits: States, act: Act) -> Submitted<Step> {
        match query.checked(call, fits) {
            Ok(select) => self.write(Write::Select { select, act }, Step::of),
            Err(refused) => Submitted::ready(Err(refused.into())),
        }
    }
}
