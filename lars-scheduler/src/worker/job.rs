//! The jobs of a worker, and the two orders in which they stand.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::context::Context;
use crate::cancel::Cancellable;
use crate::handle::Handle;
use crate::repeat::MissedTickBehavior;
use crate::report::PanicIn;
use crate::sync::{Arc, AtomicU8, Ordering, Unparker};

/// When a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    At(Instant),
    /// Beyond what an `Instant` can express.
    Never,
}

impl Due {
    pub(super) fn after(now: Instant, delay: Duration) -> Self {
        now.checked_add(delay).map_or(Self::Never, Self::At)
    }

    pub(super) fn has_come(self, now: Instant) -> bool {
        self <= Self::At(now)
    }
}

/// What has become of a job, for those who hold its `WorkerTask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fate {
    /// It waits, or it is running.
    Open,
    Cancelled,
    /// It has run, or its series has ended by itself, or it was dropped with its scheduler.
    Over,
}

#[derive(Debug)]
pub(super) struct Ticket(AtomicU8);

impl Ticket {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU8::new(Fate::Open as u8)))
    }

    /// Who has removed the job from its worker, which is one thread, says how it ended.
    pub(super) fn close(&self, fate: Fate) {
        // Release: who sees that a job is over sees what it did.
        self.0.store(fate as u8, Ordering::Release);
    }

    pub(super) fn is(&self, fate: Fate) -> bool {
        // Acquire: see `close`.
        self.0.load(Ordering::Acquire) == fate as u8
    }
}

pub(super) type Once = Box<dyn FnOnce() + Send>;
/// Says whether it wants to run again.
pub(super) type Again = Box<dyn FnMut() -> bool + Send>;

/// What a job does, and the context that it does it in.
pub(super) struct Work {
    pub(super) body: Body,
    pub(super) context: Context,
}

pub(super) enum Body {
    Once(Once),
    Periodic(Again),
}

/// When the next run of a periodic job is due.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Delay(Duration),
    Rate {
        interval: Duration,
        missed: MissedTickBehavior,
        /// When the current run was due by the rule.
        nominal: Due,
    },
}

impl Rule {
    /// When the next run is due, after one that ended `now`.
    pub(super) fn next(&mut self, now: Instant) -> Due {
        match self {
            Self::Delay(delay) => Due::after(now, *delay),
            Self::Rate { interval, missed, nominal } => {
                let Due::At(last) = *nominal else {
                    return Due::Never;
                };
                *nominal = match (Due::after(last, *interval), missed) {
                    (due, MissedTickBehavior::Burst) => due,
                    (due, _) if due >= Due::At(now) => due,
                    (_, MissedTickBehavior::Skip) => multiple(last, *interval, now),
                    (_, MissedTickBehavior::Delay) => Due::At(now),
                };
                *nominal
            }
        }
    }

    /// An instant by which the run after one that is still to come is not due yet.
    pub(super) fn look_again(&self, now: Instant) -> Due {
        match *self {
            Self::Delay(delay) => Due::after(now, delay),
            Self::Rate { interval, nominal: Due::At(last), .. } => {
                multiple(last, interval, now + Duration::from_nanos(1))
            }
            Self::Rate { nominal: Due::Never, .. } => Due::Never,
        }
    }
}

/// The first multiple of `interval` after `start` that is not before `now`.
fn multiple(start: Instant, interval: Duration, now: Instant) -> Due {
    let missed = (now - start).as_nanos().div_ceil(interval.as_nanos());
    let nanos = missed.saturating_mul(interval.as_nanos());
    Due::after(start, u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Waiting,
    Ready,
    Running,
}

pub(super) struct Job {
    /// `None` while it runs.
    pub(super) work: Option<Work>,
    pub(super) due: Due,
    pub(super) place: Place,
    /// What moves it from waiting to ready.
    pub(super) timer: Option<Cancellable>,
    /// For a periodic job.
    pub(super) rule: Option<Rule>,
    pub(super) ticket: Arc<Ticket>,
}

impl Job {
    /// Drops a job that was removed from its worker; the lock must not be held.
    pub(super) fn discard(self, handle: &Handle) {
        if let Some(timer) = &self.timer {
            timer.cancel();
        }
        handle.contain(PanicIn::Cleanup, || drop(self));
    }
}

/// What the mutex of a worker holds.
#[derive(Default)]
pub(super) struct State {
    pub(super) disposed: bool,
    /// A drain is at work or on its way: it will look at what is ready before it says that it is not.
    pub(super) draining: bool,
    /// The drain that is on its way.
    pub(super) drain: Option<Cancellable>,
    /// The thread of a trampoline that waits for the next job to be due.
    pub(super) sleeper: Option<Unparker>,
    pub(super) jobs: HashMap<u64, Job>,
    ready: BTreeSet<(Due, u64)>,
    waiting: BTreeSet<(Due, u64)>,
    last: u64,
}

impl State {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Puts a new job where it belongs.
    pub(super) fn insert(&mut self, number: u64, job: Job) {
        let (due, place) = (job.due, job.place);
        self.jobs.insert(number, job);
        self.stand(number, due, place);
        self.wake();
    }

    fn stand(&mut self, number: u64, due: Due, place: Place) {
        match place {
            Place::Waiting => self.waiting.insert((due, number)),
            Place::Ready => self.ready.insert((due, number)),
            Place::Running => true,
        };
    }

    pub(super) fn move_to(&mut self, number: u64, due: Due, place: Place) {
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        let from = (job.due, job.place);
        (job.due, job.place) = (due, place);
        self.leave(number, from);
        self.stand(number, due, place);
        self.wake();
    }

    fn leave(&mut self, number: u64, (due, place): (Due, Place)) {
        match place {
            Place::Waiting => self.waiting.remove(&(due, number)),
            Place::Ready => self.ready.remove(&(due, number)),
            Place::Running => true,
        };
    }

    pub(super) fn remove(&mut self, number: u64, fate: Fate) -> Option<Job> {
        let job = self.jobs.remove(&number)?;
        self.leave(number, (job.due, job.place));
        job.ticket.close(fate);
        self.wake();
        Some(job)
    }

    /// Removes all of them.
    pub(super) fn clear(&mut self, fate: Fate) -> HashMap<u64, Job> {
        self.ready = BTreeSet::new();
        self.waiting = BTreeSet::new();
        let jobs = std::mem::take(&mut self.jobs);
        jobs.values().for_each(|job| job.ticket.close(fate));
        self.wake();
        jobs
    }

    /// Makes ready what is due, in the order of (due, call).
    pub(super) fn collect_due(&mut self, now: Instant) {
        while let Some(&(due, number)) = self.waiting.first()
            && due.has_come(now)
        {
            self.move_to(number, due, Place::Ready);
        }
    }

    pub(super) fn first_ready(&self) -> Option<u64> {
        self.ready.first().map(|&(_, number)| number)
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Something has changed for a trampoline that sleeps.
    fn wake(&self) {
        if let Some(sleeper) = &self.sleeper {
            sleeper.unpark();
        }
    }
}
