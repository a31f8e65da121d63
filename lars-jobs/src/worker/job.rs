//! The jobs of a worker, and the orders in which they stand.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use fastrand::Rng;

use super::context::Context;
use lars_base::rate::{Rate, nanos};
use lars_base::sync::{Arc, AtomicU8, Ordering, Unparker};
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::extend::Systems;
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Cancellable, Handle, Refusal, TaskIdentity};

/// How a job ended, for the holders of its `WorkerTask`.
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
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU8::new(Fate::Open as u8)))
    }

    /// Records how the job ended. Called once, by the thread that removed the job from its worker.
    pub(super) fn close(&self, fate: Fate) {
        // Release: a thread that sees that a job is over sees what it did.
        self.0.store(fate as u8, Ordering::Release);
    }

    pub(super) fn is(&self, fate: Fate) -> bool {
        // Acquire: see `close`.
        self.0.load(Ordering::Acquire) == fate as u8
    }
}

/// What a job does, and the context that it does it in.
pub(super) struct Work {
    pub(super) body: Body,
    pub(super) context: Context,
}

pub(super) enum Body {
    Once(Box<dyn FnOnce() + Send>),
    /// True if it is to run again.
    Periodic(Box<dyn FnMut() -> bool + Send>),
}

/// Where a series ends by itself, if it does, and how its runs are spread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    pub(super) times: Option<u64>,
    pub(super) until: Option<Instant>,
    pub(super) spread: Duration,
    pub(super) seed: Option<u64>,
}

impl Course {
    /// Whether there is a run, if the first is due then by its rule, and whether a run cannot be
    /// due after the one that follows it.
    ///
    /// # Errors
    ///
    /// The value that forbids it.
    pub(super) fn check(self, period: Duration, first: WhenDue) -> Result<(), Refusal> {
        if period < self.spread {
            return Err(Refusal::Period { given: period, min: self.spread });
        }
        match self {
            Self { times: Some(given @ 0), .. } => Err(Refusal::Times { given }),
            Self { until: Some(end), .. } if !first.has_come(end) => {
                Err(Refusal::EndsBefore { by: first.remaining(end) })
            }
            _ => Ok(()),
        }
    }
}

/// How a periodic job goes on.
#[derive(Debug)]
pub(super) struct Rule {
    rhythm: Rhythm,
    /// How many runs are left is counted down in it, with the one that is next.
    course: Course,
    random: Rng,
    /// By how much the run that is next is due later than its rhythm wants.
    added: Duration,
}

/// While a worker is a whole interval behind, a spread run may be due at any time. It is looked for
/// this often within its spread, but not more often than a tick usually is.
const LOOKS: u32 = 16;
const SHORTEST_LOOK: Duration = Duration::from_millis(1);

impl Rule {
    /// The rule of a series whose first run its rhythm wants at `first`, and when that is due.
    pub(super) fn begin(rhythm: Rhythm, course: Course, first: WhenDue) -> (Self, WhenDue) {
        let random = Rng::with_seed(course.seed.unwrap_or_else(|| fastrand::u64(..)));
        let mut rule = Self { rhythm, course, random, added: Duration::ZERO };
        let due = rule.spread(first);
        (rule, due)
    }

    /// When a run is due that its rhythm wants at `nominal`.
    fn spread(&mut self, nominal: WhenDue) -> WhenDue {
        let added = self.random.u64(0..=nanos(self.course.spread));
        self.added = Duration::from_nanos(added);
        match nominal {
            WhenDue::At(instant) => WhenDue::after(instant, self.added),
            WhenDue::Never => WhenDue::Never,
        }
    }

    /// When the next run is due, after one that ended `now`; `None` if that was the last.
    fn next(&mut self, now: Instant) -> Option<WhenDue> {
        if let Some(left) = &mut self.course.times {
            *left -= 1;
            if *left == 0 {
                return None;
            }
        }
        let nominal = self.rhythm.next(now, self.added);
        let goes_on = self.course.until.is_none_or(|end| nominal.has_come(end));
        goes_on.then(|| self.spread(nominal))
    }

    /// An instant before which the run after the next one is not due, or is hardly overdue.
    pub(super) fn look_again(&self, now: Instant) -> WhenDue {
        let next = self.rhythm.look_again(now);
        if self.course.spread.is_zero() || !self.rhythm.is_behind(now) {
            return next;
        }
        let soon = (self.course.spread / LOOKS).max(SHORTEST_LOOK);
        next.min(WhenDue::after(now, soon))
    }
}

/// When the next run of a periodic job is due, without its spread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rhythm {
    Delay(Duration),
    Rate {
        rate: Rate,
        /// When the current run was due by the rule.
        nominal: WhenDue,
    },
}

impl Rhythm {
    /// When the next run is due, after one that ended `now`, and was due later than it wanted by
    /// what was `added`.
    fn next(&mut self, now: Instant, added: Duration) -> WhenDue {
        match self {
            Self::Delay(delay) => WhenDue::after(now, *delay),
            Self::Rate { rate, nominal } => {
                // What is spread is not late.
                let next = |elapsed: u64| rate.next(elapsed.saturating_sub(nanos(added)));
                *nominal = nominal.count_on(now, next);
                *nominal
            }
        }
    }

    /// See [`Rule::look_again`].
    fn look_again(&self, now: Instant) -> WhenDue {
        match *self {
            Self::Delay(delay) => WhenDue::after(now, delay),
            Self::Rate { rate, nominal } => {
                nominal.count_on(now, |elapsed| rate.multiple_beyond(elapsed))
            }
        }
    }

    /// Whether the next run is due by the rule before the one at hand has ended.
    fn is_behind(&self, now: Instant) -> bool {
        match *self {
            Self::Delay(_) => false,
            Self::Rate { rate, nominal } => nominal.count_on(now, |_| rate.next(0)).has_come(now),
        }
    }
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobStage {
    /// For the time when it is due.
    Waiting,
    /// For the drain.
    Ready,
    Running,
    /// The scheduler has stopped, and whether the job runs is up to the holder of its timer: that
    /// was handed back by `stop`, or is about to be, or is on its way through an executor.
    LeftToTimer,
    /// The drain that was on its way was handed back by `stop`, and the job with it.
    LeftToDrain,
}

pub(super) struct Job {
    /// `None` while it runs.
    pub(super) work: Option<Work>,
    pub(super) due: WhenDue,
    pub(super) stage: JobStage,
    /// What moves it from waiting to ready. `None` for a job without one, and when the timer is
    /// over.
    pub(super) timer: Option<Cancellable>,
    /// For a periodic job. Boxed, because most jobs are not.
    pub(super) rule: Option<Box<Rule>>,
    pub(super) ticket: Arc<Ticket>,
    whose: TaskIdentity,
}

impl Job {
    pub(super) fn new(
        work: Work,
        due: WhenDue,
        timer: Option<Cancellable>,
        rule: Option<Box<Rule>>,
    ) -> Self {
        let stage = if timer.is_some() { JobStage::Waiting } else { JobStage::Ready };
        let whose = work.context.whose;
        Self { work: Some(work), due, stage, timer, rule, ticket: Ticket::new(), whose }
    }

    /// Drops a job that was removed from its worker; the lock must not be held.
    pub(super) fn discard(self, handle: &Handle) {
        if let Some(timer) = &self.timer {
            timer.cancel();
        }
        handle.contain(self.whose, PanicIn::Cleanup, || drop(self));
    }

    /// Takes the right to run a waiting job that is due, although its timer has not come by.
    ///
    /// A one-shot whose timer could be cancelled is ours alone. If it could not be cancelled it has
    /// fired, unless the scheduler has stopped: then `stop` may have handed it back. (In this
    /// order: a scheduler that had not stopped after the attempt has handed nothing back before
    /// it.) A repeat keeps its timer, and is taken out of the drain's hands again if that is handed
    /// back later.
    fn claim(&mut self, handle: &Handle) -> bool {
        let cancelled = self.rule.is_none() && self.timer.take_if(|timer| timer.cancel()).is_some();
        cancelled || !handle.is_stopped()
    }
}

/// What the mutex of a worker holds.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) disposed: bool,
    /// A drain is at work or on its way: it looks at what is ready before it takes this flag down.
    pub(super) draining: bool,
    /// The drain that is on its way.
    pub(super) drain: Option<Cancellable>,
    /// What was ready for a drain that was handed back.
    left: Option<BTreeSet<(WhenDue, u64)>>,
    /// The thread of a trampoline that waits for the next job to be due.
    pub(super) sleeper: Option<Unparker>,
    pub(super) all: HashMap<u64, Job>,
    ready: BTreeSet<(WhenDue, u64)>,
    waiting: BTreeSet<(WhenDue, u64)>,
    last: u64,
}

impl Jobs {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Puts a new job where it belongs.
    pub(super) fn insert(&mut self, number: u64, job: Job) {
        self.enter(number, job.due, job.stage);
        self.all.insert(number, job);
    }

    /// The set in which the jobs of a stage stand.
    fn set_of(&mut self, stage: JobStage) -> Option<&mut BTreeSet<(WhenDue, u64)>> {
        match stage {
            JobStage::Waiting => Some(&mut self.waiting),
            JobStage::Ready => Some(&mut self.ready),
            JobStage::Running | JobStage::LeftToTimer | JobStage::LeftToDrain => None,
        }
    }

    fn enter(&mut self, number: u64, due: WhenDue, stage: JobStage) {
        if let Some(set) = self.set_of(stage) {
            set.insert((due, number));
        }
        self.wake();
    }

    fn leave(&mut self, number: u64, due: WhenDue, stage: JobStage) {
        if let Some(set) = self.set_of(stage) {
            set.remove(&(due, number));
        }
    }

    pub(super) fn move_to(&mut self, number: u64, due: WhenDue, stage: JobStage) {
        let Some(job) = self.all.get_mut(&number) else { return };
        let from = (job.due, job.stage);
        (job.due, job.stage) = (due, stage);
        self.leave(number, from.0, from.1);
        self.enter(number, due, stage);
    }

    pub(super) fn remove(&mut self, number: u64, fate: Fate) -> Option<Job> {
        let job = self.all.remove(&number)?;
        self.leave(number, job.due, job.stage);
        job.ticket.close(fate);
        self.wake();
        Some(job)
    }

    /// Removes all of them.
    pub(super) fn clear(&mut self, fate: Fate) -> HashMap<u64, Job> {
        self.ready.clear();
        self.waiting.clear();
        let jobs = std::mem::take(&mut self.all);
        jobs.values().for_each(|job| job.ticket.close(fate));
        self.wake();
        jobs
    }

    /// Makes ready what is due, in the order of (due, call).
    pub(super) fn collect_due(&mut self, handle: &Handle) {
        let now = handle.now();
        while let Some(&(due, number)) = self.waiting.first()
            && due.has_come(now)
        {
            let ours = self.all.get_mut(&number).is_some_and(|job| job.claim(handle));
            let stage = if ours { JobStage::Ready } else { JobStage::LeftToTimer };
            self.move_to(number, due, stage);
        }
    }

    /// The timer of a job has been handed back: the job is no longer ours, unless it is running.
    pub(super) fn leave_to_timer(&mut self, number: u64) {
        if let Some(job) = self.all.get(&number)
            && job.stage != JobStage::Running
        {
            self.move_to(number, job.due, JobStage::LeftToTimer);
        }
    }

    /// The drain has been handed back: what is ready for it is no longer ours, and the worker is
    /// idle. (So a delayed job that was handed back as well does not wait for that drain.)
    pub(super) fn leave_to_drain(&mut self) {
        let left = std::mem::take(&mut self.ready);
        for (_, number) in &left {
            if let Some(job) = self.all.get_mut(number) {
                job.stage = JobStage::LeftToDrain;
            }
        }
        self.left = Some(left);
        self.draining = false;
    }

    /// The numbers of the jobs that are still left to the drain that was handed back, in their
    /// order; `None` if none was.
    pub(super) fn take_left(&mut self) -> Option<Vec<u64>> {
        let left = self.left.take()?;
        let is_left = |number: &u64| {
            self.all.get(number).is_some_and(|job| job.stage == JobStage::LeftToDrain)
        };
        Some(left.into_iter().map(|(_, number)| number).filter(is_left).collect())
    }

    /// The timer of a job is over. Removes the job, unless the drain has it by now.
    pub(super) fn lose(&mut self, number: u64) -> Option<Job> {
        let job = self.all.get_mut(&number)?;
        match job.stage {
            JobStage::Waiting | JobStage::LeftToTimer => self.remove(number, Fate::Over),
            JobStage::Ready | JobStage::Running | JobStage::LeftToDrain => {
                job.timer = None;
                None
            }
        }
    }

    /// A run of a periodic job has ended: puts its work back, or returns the job if that was its
    /// last run.
    pub(super) fn put_back(
        &mut self,
        number: u64,
        work: &mut Option<Work>,
        again: bool,
        handle: &Handle,
    ) -> Option<Job> {
        let job = self.all.get_mut(&number)?;
        let goes_on = again && job.timer.is_some() && !handle.is_stopped();
        let now = handle.now();
        match job.rule.as_mut().filter(|_| goes_on).and_then(|rule| rule.next(now)) {
            Some(due) => {
                job.work = work.take();
                let stage = if due.has_come(now) { JobStage::Ready } else { JobStage::Waiting };
                self.move_to(number, due, stage);
                None
            }
            None => self.remove(number, Fate::Over),
        }
    }

    pub(super) fn make_ready(&mut self, number: u64) {
        if let Some(due) = self.all.get(&number).map(|job| job.due) {
            self.move_to(number, due, JobStage::Ready);
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
