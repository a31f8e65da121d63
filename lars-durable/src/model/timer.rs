//! A timer on its way into the store, in it, and out of it.

use std::borrow::Cow;

use super::series::{Difference, Next, Series};
use super::{BucketNo, Fence, TimerId};
use crate::sync::Arc;
use crate::time::{Micros, Timestamp};

/// What a schedule call does when its key is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnConflict {
    /// The timer that exists stays as it is. A repeated call changes nothing.
    #[default]
    Keep,
    /// The new timer takes the place of the old one, which does not start any more. If it is
    /// running, its run is left to end, and its acknowledgement changes nothing.
    Replace,
    /// The timer that exists becomes the one that is asked for, and what is owed stays: what a
    /// program says of its jobs at each start.
    ///
    /// If both have the same rule and payload, nothing is changed, except that the cancel of a run
    /// that is under way is taken back. If not, it takes over the new ones, and with another rule
    /// it is due when the new one would be. But a run that is overdue, or is being retried, is not
    /// moved. The one after a run that is under way is planned by the new rule; or, if another node
    /// has that run, by the old rule, and only the next one by the new. A timer of another handler
    /// is replaced.
    ///
    /// Where a series ends is a part of its rule. If only that differs, the next run stays where it
    /// is, unless it is behind the new end: then the series is over.
    Update,
    /// The call is refused.
    Fail,
}

/// Why a run need not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// The timer was cancelled, removed or replaced while it ran. Nobody wants the run any more:
    /// tidy up and return [`Done`](crate::Outcome::Done). A run that fails is retried all the same,
    /// and then has this reason from its beginning.
    Cancelled,
    /// The node is closing, and waits for the run as long as its
    /// [limit](crate::Durable::close_within) says. A handler that would take longer returns
    /// [`Snooze`](crate::Outcome::Snooze) of zero: then the timer runs elsewhere, or when the node
    /// is back, at no attempt's cost.
    Closing,
    /// The lease of the node has ended without a renewal, or another node has the timer: it may be
    /// running there. If that is so, the end of this run changes nothing.
    LeaseLost,
}

/// A timer, by what its caller knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    Key(Arc<str>),
    Id(TimerId),
}

impl From<&str> for Which {
    fn from(key: &str) -> Self {
        Self::Key(key.into())
    }
}

/// When something is due: by the store's clock, or counted from it inside the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    After(Micros),
    /// The same for the next run of a series, which is over if that is behind its end.
    UpTo(Timestamp, Micros),
}

impl When {
    pub(crate) fn by(self, clock: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::After(span) | Self::UpTo(_, span) => clock + span,
        }
    }

    /// Whether that is behind the end, now that the store's clock shows this.
    fn is_over(self, clock: Timestamp) -> bool {
        matches!(self, Self::UpTo(until, _) if self.by(clock) > until)
    }
}

/// A timer as it is asked for.
#[derive(Debug, Clone)]
pub(crate) struct NewTimer {
    pub(crate) id: TimerId,
    pub(crate) bucket: BucketNo,
    pub(crate) when: When,
    /// How much later than planned it is due; for repeats that are spread.
    pub(crate) offset: Micros,
    /// Timers of one home share a bucket, whatever their keys. It is not stored.
    pub(crate) home: Option<Arc<str>>,
    pub(crate) key: Option<Arc<str>>,
    /// What it has in common with others.
    pub(crate) tag: Option<Arc<str>>,
    pub(crate) conflict: OnConflict,
    pub(crate) handler: Arc<str>,
    pub(crate) payload_version: u16,
    pub(crate) payload: Arc<str>,
    pub(crate) series: Option<Arc<str>>,
    /// How long the key is remembered after the last run.
    pub(crate) remember: Micros,
}

/// What a timer with the key of a new one has, if that is to update it.
#[derive(Debug)]
pub(crate) struct There<'a> {
    pub(crate) handler: &'a str,
    pub(crate) payload_version: u16,
    pub(crate) payload: &'a str,
    pub(crate) series: Option<&'a str>,
    pub(crate) tag: Option<&'a str>,
    pub(crate) remember: Micros,
    pub(crate) started: bool,
    pub(crate) cancelled: bool,
    pub(crate) attempt: u32,
    pub(crate) deadline: Timestamp,
}

/// What an update changes.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    /// What it carries, and its rule.
    Content,
    /// That, and when it is due.
    ContentAndTime,
    /// It is another timer.
    All,
}

impl NewTimer {
    /// How many its payload, its key and its tag have.
    pub(crate) fn bytes(&self) -> usize {
        let of = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        self.payload.len() + of(&self.key) + of(&self.tag)
    }

    /// See [`OnConflict::Update`].
    pub(crate) fn change(&self, there: &There<'_>, now: Timestamp) -> Change {
        let difference = Difference::of(there.series, self.series.as_deref());
        let same_content = there.payload_version == self.payload_version
            && there.payload == &*self.payload
            && there.tag == self.tag.as_deref()
            && there.remember == self.remember
            // That it was cancelled while it ran is taken back.
            && !there.cancelled;
        let owed = there.started || there.attempt > 0 || there.deadline <= now;
        if there.handler != &*self.handler {
            return Change::All;
        }
        match difference {
            Difference::None if same_content => Change::Nothing,
            Difference::None => Change::Content,
            _ if owed => Change::Content,
            Difference::End if !self.ends_before(there.deadline) => Change::Content,
            // Nothing takes its place.
            _ if self.is_over(now) => Change::All,
            Difference::End | Difference::Rule => Change::ContentAndTime,
        }
    }

    /// Whether it is a series that ends before its first run: no timer is made of it.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.ends_before(self.when.by(now))
    }

    fn ends_before(&self, planned: Timestamp) -> bool {
        let series = self.series.as_deref().and_then(Series::parse);
        series.is_some_and(|series| series.ends_before(planned))
    }
}

/// How many characters of a payload say whose it is: more than an address has, each as the longest
/// escape.
pub(crate) const LETTER: u16 = 2_048;

/// A timer that a node keeps in memory until it is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) id: TimerId,
    pub(crate) bucket: BucketNo,
    pub(crate) due: Timestamp,
    pub(crate) planned: Timestamp,
    pub(crate) handler: Arc<str>,
    /// The token of its run, if it is started.
    pub(crate) fence: Option<Fence>,
    /// How often the process died during its run, before this one.
    pub(crate) deaths: u32,
    /// It was cancelled while it ran.
    pub(crate) cancelled: bool,
    /// How its payload begins, if that was asked for: [`LETTER`] characters at most.
    pub(crate) letter: Option<String>,
}

/// A timer as it is started: everything that a run needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: TimerId,
    pub(crate) handler: Arc<str>,
    pub(crate) payload_version: u16,
    pub(crate) payload: String,
    pub(crate) key: Option<String>,
    /// Before this it may not run.
    pub(crate) deadline: Timestamp,
    /// What it was meant for: stays while it is tried again, and is what a repeat counts from.
    pub(crate) planned: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) deaths: u32,
    /// The rule of a repeat, as it is stored: perhaps by a newer release.
    pub(crate) series: Option<String>,
    /// The random identity of the store.
    pub(crate) store: u128,
    /// The timer, or the series that this run was parked from.
    pub(crate) origin: TimerId,
    /// How many runs of the series are over: stays while a run is tried again, or moved.
    pub(crate) run: i64,
    /// Since when nobody can run it who has tried.
    pub(crate) unknown_since: Option<Timestamp>,
    /// It was cancelled during an earlier attempt.
    pub(crate) cancelled: bool,
}

impl Row {
    /// The same for each attempt of a run, and of no other run, in no other store.
    pub(crate) fn idempotency_key(&self) -> String {
        format!("{:032x}-{}-{}", self.store, self.origin, self.run)
    }

    /// What becomes of the timer when this run is over: the next run of a series is computed from
    /// what this one was planned for. (`clock` may be an estimate, and earlier than the deadline.)
    pub(crate) fn after_success(&self, clock: Timestamp) -> Then {
        match self.next(clock, self.run + 1) {
            Next::Run { when, offset } => Then::Next { when, offset },
            Next::Over | Next::NoDate => Then::Done,
        }
    }

    /// The same if this run is left out: it does not count as one.
    pub(crate) fn after_left_out(&self, clock: Timestamp) -> Then {
        match self.next(clock, self.run) {
            Next::Run { when, offset } => Then::LeftOut { when, offset },
            Next::Over | Next::NoDate => Then::Done,
        }
    }

    /// Whether the series ends with this run only because no date is left.
    pub(crate) fn has_no_date(&self, clock: Timestamp) -> bool {
        self.next(clock, self.run + 1) == Next::NoDate
    }

    /// The run after this one, if so many are over then.
    fn next(&self, clock: Timestamp, runs: i64) -> Next {
        let series = self.series.as_deref().and_then(Series::parse);
        match series.filter(|series| series.has_run_after(runs)) {
            Some(series) => {
                series.next(self.planned, clock.max(self.deadline), self.key.as_deref())
            }
            None => Next::Over,
        }
    }
}

/// A start that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) id: TimerId,
    pub(crate) bucket: BucketNo,
    pub(crate) fence: Fence,
}

/// The end of a run. It holds only if the row still has the fence of that run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) id: TimerId,
    pub(crate) fence: Fence,
    pub(crate) then: Then,
}

/// What becomes of a timer after a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is over.
    Done,
    /// The next run of a series; over, if the series was cancelled meanwhile.
    Next { when: When, offset: Micros },
    /// The same, if this run was left out.
    LeftOut { when: When, offset: Micros },
    /// The same run once more, after this long.
    Retry { after: Micros, error: String },
    /// Once more, as if it had not been started. If it `ran`, that has not killed its process.
    GiveBack { after: Micros, ran: bool },
    /// Not run, because this node cannot run it: the same.
    PutOff { after: Micros },
    /// Given up, and kept for people.
    Park { reason: String },
    /// This run of a series is given up and kept, as a timer of its own; the series goes on with
    /// its next run. If it was cancelled meanwhile, like [`Park`](Self::Park).
    ParkRun { reason: String, when: When, offset: Micros },
}

impl Then {
    /// What it comes to in a transaction in which the store's clock shows this: a run may be
    /// recorded long after it has ended, and only then is it known when the next one is due.
    pub(crate) fn by(&self, clock: Timestamp) -> Cow<'_, Self> {
        match self {
            Self::Next { when, .. } | Self::LeftOut { when, .. } if when.is_over(clock) => {
                Cow::Owned(Self::Done)
            }
            Self::ParkRun { reason, when, .. } if when.is_over(clock) => {
                Cow::Owned(Self::Park { reason: reason.clone() })
            }
            _ => Cow::Borrowed(self),
        }
    }
}

/// What a finish did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finished {
    Gone,
    Parked,
    /// It is due again.
    Again {
        due: Timestamp,
    },
    /// The run was not the current one any more: nothing was changed.
    Stale,
    /// Somebody holds the row: nothing was changed, and it is to be asked for again.
    Held,
}

/// What is kept of what is parked, or of runs that are over; both limits may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kept {
    /// At most so many: the last ones.
    pub(crate) most: Option<usize>,
    /// Not those from longer ago than this.
    pub(crate) age: Option<Micros>,
}

/// A timer that is shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: TimerId,
    pub(crate) key: Option<String>,
    pub(crate) tag: Option<String>,
    /// It was cancelled while it ran.
    pub(crate) cancelled: bool,
    pub(crate) handler: String,
    pub(crate) payload_version: u16,
    pub(crate) payload: String,
    pub(crate) deadline: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) deaths: u32,
    pub(crate) running: bool,
    /// The rule of a repeat, as it is stored.
    pub(crate) series: Option<String>,
    /// How many runs of a series are over.
    pub(crate) run: i64,
    pub(crate) last_error: Option<String>,
    /// Of a parked one: why, and since when.
    pub(crate) parked: Option<(String, Timestamp)>,
}
