//! The state of one supervised task, and who moves it.
//!
//! # The phases
//!
//! | phase | what it waits for | leaves by |
//! |---|---|---|
//! | `Waiting(due)` | the time of the next run | a look at or after `due`: a run is handed over, or held back |
//! | `Running` | the end of the awaited run, or its deadline | the run's end; a look at or after the deadline |
//! | `Held` | a straggler's end, because as many runs as allowed have not ended | a look when one has |
//! | `Ended` | nothing | never |
//!
//! # Looks
//!
//! Time moves the state only in `look`, which does what is due *now* and says when it wants to look again; looking
//! once too often does no harm. Two kinds of timers look, both on the timer thread:
//!
//! - The series: one repeat, which has its place in the scheduler from the start to the end, so that the task
//!   cannot be lost to `max_pending`. It sleeps to the next due time or deadline.
//! - The nudge: a one-shot that looks earlier than the series will, because a run ended long before its deadline,
//!   a straggler ended, or a run was asked for. If the scheduler has no place for it, the series looks later.
//!
//! With a timeout that is not longer than the interval, as by default, the series is early enough for everything but
//! `run_now` and stragglers.
//!
//! # Ground rules
//!
//! All of the state is behind one mutex, which is held for some dozen instructions and never while foreign code runs:
//! executors, tasks, wakers, hooks and destructors are called after it was released.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use super::report::{Counts, Outcome, RunReport};
use super::run::{Job, Run};
use super::settings::{Settings, SettledHook};
use super::token::CancelToken;
use crate::cancel::Cancellable;
use crate::error::Refusal;
use crate::executor::{Executor, Runnable};
use crate::handle::Handle;
use crate::repeat::Repeat;
use crate::sync::{Arc, Mutex};
use crate::task::Task;

/// An instant, or `None` for one that no clock reaches.
type When = Option<Instant>;

fn reached(when: When, now: Instant) -> bool {
    when.is_some_and(|when| when <= now)
}

fn earlier(one: When, other: When) -> When {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, None) => one,
        (None, other) => other,
    }
}

pub(super) struct Supervisor {
    timers: Handle,
    pub(super) executor: Box<dyn Executor>,
    settings: Settings,
    start: Instant,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    interval: Duration,
    /// Dropped when the supervision ends; runs have clones.
    job: Option<Arc<dyn Job>>,
    /// Dropped when the supervision has ended and no run is awaited any more.
    hook: Option<SettledHook>,
    /// Present exactly in `Running`, and after the end until the run that was under way then has ended.
    awaited: Option<Awaited>,
    /// When the series looks next. In the past: it is about to.
    wake: When,
    nudge: Option<Nudge>,
    /// A run was asked for while one was awaited.
    again: bool,
    /// `run_now` has been used up to here, counted from the start. (The "theoretical arrival time" of the generic
    /// cell rate algorithm.)
    used_up: Duration,
    random: u64,
    running: usize,
    tally: Tally,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Waiting(When),
    Running,
    Held,
    Ended,
}

struct Awaited {
    number: u64,
    token: CancelToken,
    handed_over: Instant,
    deadline: When,
    begun: bool,
}

struct Nudge {
    at: Instant,
    timer: Cancellable,
}

#[derive(Default)]
struct Tally {
    runs: u64,
    successes: u64,
    timeouts: u64,
    rejections: u64,
    failures: u64,
    withdrawn: u64,
    late_ends: u64,
    held_back: u64,
}

/// How a run came to its end.
pub(super) enum Ending {
    /// It says so itself.
    Settled(Outcome),
    /// It was dropped, before it began or as a future.
    Dropped,
}

/// A run that was settled, and what is owed outside the lock.
struct Settled {
    token: CancelToken,
    report: RunReport,
    hook: Option<SettledHook>,
}

/// What a look found to be done.
enum Step {
    HandOver(Run, Arc<dyn Job>),
    GiveUp(Settled),
    Sleep(When),
    End,
}

/// Whose look it is.
#[derive(Clone, Copy, PartialEq)]
enum Looker {
    Series,
    Nudge,
}

impl Supervisor {
    pub(super) fn new(
        timers: &Handle,
        executor: Box<dyn Executor>,
        mut settings: Settings,
        job: Arc<dyn Job>,
    ) -> Arc<Self> {
        let start = timers.now();
        let first = start.checked_add(settings.initial_delay);
        let state = State {
            phase: Phase::Waiting(first),
            interval: settings.interval,
            job: Some(job),
            hook: settings.on_settled.take(),
            awaited: None,
            wake: first,
            nudge: None,
            again: false,
            used_up: Duration::ZERO,
            random: settings.seed(),
            running: 0,
            tally: Tally::default(),
        };
        Arc::new(Self {
            timers: timers.clone(),
            executor,
            settings,
            start,
            state: Mutex::new(state),
        })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// One turn of the series.
    pub(super) fn turn(self: &Arc<Self>) -> Repeat {
        match self.act(Looker::Series) {
            Step::Sleep(Some(wake)) => Repeat::At(wake),
            Step::Sleep(None) => Repeat::After(Duration::MAX),
            _ => Repeat::Stop,
        }
    }

    /// Does what is due; returns when there is nothing more to do now.
    fn act(self: &Arc<Self>, looker: Looker) -> Step {
        loop {
            match self.look(looker) {
                Step::HandOver(run, job) => self.hand_over(run, job),
                Step::GiveUp(run) => {
                    run.token.cancel(|payload| self.raise(payload));
                    self.tell(run);
                }
                Step::End => {
                    self.end();
                    return Step::End;
                }
                sleep => return sleep,
            }
        }
    }

    fn look(self: &Arc<Self>, looker: Looker) -> Step {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let now = self.timers.now();
        if self.timers.is_stopped() {
            return Step::End;
        }
        let wake = match state.phase {
            Phase::Ended => return Step::End,
            Phase::Running => {
                let deadline = state.awaited.as_ref().and_then(|awaited| awaited.deadline);
                if reached(deadline, now) {
                    return self
                        .settle(state, Outcome::Timeout, now)
                        .map_or(Step::End, Step::GiveUp);
                }
                // Should there be no place for a nudge when the run ends, this bounds how late the next one is.
                earlier(deadline, now.checked_add(self.settings.max_interval))
            }
            Phase::Waiting(due) if !reached(due, now) => due,
            Phase::Waiting(_) | Phase::Held => {
                if state.running < self.settings.max_concurrent {
                    return self.next_run(state, now);
                }
                if !matches!(state.phase, Phase::Held) {
                    state.phase = Phase::Held;
                    state.tally.held_back += 1;
                }
                // As above, for the nudge of the straggler's end.
                now.checked_add(state.interval)
            }
        };
        match looker {
            Looker::Series => state.wake = wake,
            Looker::Nudge => {
                // Refused: the series is late, and bounded.
                let _ = self.wake_by(state, wake);
            }
        }
        Step::Sleep(wake)
    }

    fn next_run(self: &Arc<Self>, state: &mut State, now: Instant) -> Step {
        let Some(job) = state.job.clone() else {
            return Step::End;
        };
        state.tally.runs += 1;
        let number = state.tally.runs;
        let token = CancelToken::new();
        state.phase = Phase::Running;
        state.awaited = Some(Awaited {
            number,
            token: token.clone(),
            handed_over: now,
            deadline: now.checked_add(self.settings.timeout),
            begun: false,
        });
        Step::HandOver(Run::new(Arc::clone(self), number, token), job)
    }

    fn hand_over(&self, run: Run, job: Arc<dyn Job>) {
        let runnable = Runnable::new(move || job.execute(run));
        // A run that is dropped, by us or in the unwinding of its executor, settles itself as rejected.
        self.contain(|| {
            if let Err(rejected) = self.executor.execute(runnable) {
                let reason = rejected.reason();
                tracing::warn!(target: "lars_scheduler", reason, "an executor rejected a supervised run");
                drop(rejected);
            }
        });
    }

    /// A run wants to begin: may it? Not when it was given up while it waited in its executor.
    pub(super) fn begin(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Ended) {
            return false;
        }
        match &mut state.awaited {
            Some(awaited) if awaited.number == number => awaited.begun = true,
            _ => return false,
        }
        state.running += 1;
        true
    }

    /// A run has come to its end, whether it is awaited or not.
    pub(super) fn ended(self: &Arc<Self>, number: u64, begun: bool, ending: Ending) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let now = self.timers.now();
        state.running -= usize::from(begun);
        let mut unused = None;
        let settled = if state.awaited.as_ref().is_some_and(|awaited| awaited.number == number) {
            match ending {
                Ending::Settled(outcome) => self.settle(state, outcome, now),
                Ending::Dropped if matches!(state.phase, Phase::Ended) => {
                    state.tally.withdrawn += 1;
                    state.awaited = None;
                    unused = state.hook.take();
                    None
                }
                Ending::Dropped => self.settle(state, Outcome::Rejected, now),
            }
        } else {
            state.tally.late_ends += u64::from(begun);
            None
        };
        let wake = match state.phase {
            Phase::Waiting(due) => due,
            Phase::Held => Some(now),
            Phase::Running | Phase::Ended => None,
        };
        // Refused: the series is late, and bounded.
        let _ = self.wake_by(state, wake);
        drop(guard);
        self.contain(|| drop(unused));
        if let Some(run) = settled {
            self.tell(run);
        }
    }

    /// Counts the awaited run, and plans the next one.
    fn settle(&self, state: &mut State, outcome: Outcome, now: Instant) -> Option<Settled> {
        let run = state.awaited.take()?;
        let tally = &mut state.tally;
        match outcome {
            Outcome::Success => {
                tally.successes += 1;
                state.interval = self.settings.interval;
            }
            Outcome::Timeout => {
                tally.timeouts += 1;
                let doubled = state.interval.saturating_mul(2);
                state.interval = doubled.min(self.settings.max_interval);
            }
            Outcome::Rejected => tally.rejections += 1,
            Outcome::Failure(_) | Outcome::Panic(_) => tally.failures += 1,
        }
        let (next_in, hook) = if matches!(state.phase, Phase::Ended) {
            (None, state.hook.take())
        } else {
            let delay = if state.again { Duration::ZERO } else { self.delay(state) };
            state.again = false;
            state.phase = Phase::Waiting(now.checked_add(delay));
            (Some(delay), state.hook.clone())
        };
        let took = now.saturating_duration_since(run.handed_over);
        let report = RunReport { number: run.number, outcome, took, next_in };
        Some(Settled { token: run.token, report, hook })
    }

    /// The interval, less some jitter.
    fn delay(&self, state: &mut State) -> Duration {
        if self.settings.jitter == 0.0 {
            return state.interval;
        }
        let fraction = self.settings.jitter * random_fraction(&mut state.random);
        let delay = state.interval.as_secs_f64() * (1.0 - fraction);
        // Rounding must not push it over the bound.
        Duration::try_from_secs_f64(delay).map_or(state.interval, |delay| delay.min(state.interval))
    }

    /// Sees to it that somebody looks at `when`, or before.
    fn wake_by(self: &Arc<Self>, state: &mut State, when: When) -> Result<(), Refusal> {
        let Some(at) = when else { return Ok(()) };
        if reached(state.wake, at) {
            return Ok(());
        }
        if let Some(nudge) = &mut state.nudge {
            if nudge.at <= at && nudge.timer.is_pending() {
                // It looks after this, because it needs the lock for that.
                return Ok(());
            }
            if nudge.timer.reset_at(at) {
                nudge.at = at;
                return Ok(());
            }
        }
        let supervisor = Arc::downgrade(self);
        let look = move || {
            if let Some(supervisor) = supervisor.upgrade() {
                supervisor.act(Looker::Nudge);
            }
        };
        match self.timers.schedule_at(at, Task::new(look).inline()) {
            Ok(timer) => {
                state.nudge = Some(Nudge { at, timer });
                Ok(())
            }
            Err(error) => Err(error.refusal().clone()),
        }
    }

    /// Brings the next run forward to now.
    pub(super) fn run_now(self: &Arc<Self>) -> Result<(), super::RunNowError> {
        use super::RunNowError;
        if self.timers.is_stopped() {
            return Err(RunNowError::Ended);
        }
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let now = self.timers.now();
        if matches!(state.phase, Phase::Ended) {
            return Err(RunNowError::Ended);
        }
        let used_up = self.charge(state, now)?;
        match state.phase {
            Phase::Running => state.again = true,
            Phase::Waiting(due) if !reached(due, now) => {
                self.wake_by(state, Some(now)).map_err(|refusal| match refusal {
                    Refusal::Stopped => RunNowError::Ended,
                    other => RunNowError::Refused(other),
                })?;
                state.phase = Phase::Waiting(Some(now));
            }
            // It is due anyway.
            Phase::Waiting(_) | Phase::Held | Phase::Ended => {}
        }
        state.used_up = used_up;
        Ok(())
    }

    /// What `used_up` will be if a call at `now` is accepted.
    fn charge(&self, state: &State, now: Instant) -> Result<Duration, super::RunNowError> {
        let Some(limit) = self.settings.on_demand else {
            return Ok(state.used_up);
        };
        let now = now.saturating_duration_since(self.start);
        let ahead = state.used_up.saturating_sub(now);
        if ahead > limit.tolerance {
            return Err(super::RunNowError::TooOften { retry_in: ahead - limit.tolerance });
        }
        Ok(state.used_up.max(now).saturating_add(limit.spacing))
    }

    /// Ends the supervision; says whether this call did. A run under way is asked to end.
    pub(super) fn end(&self) -> bool {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if matches!(state.phase, Phase::Ended) {
            return false;
        }
        state.phase = Phase::Ended;
        let job = state.job.take();
        let nudge = state.nudge.take();
        let token = state.awaited.as_ref().map(|awaited| awaited.token.clone());
        if state.awaited.as_ref().is_some_and(|awaited| !awaited.begun) {
            // It waits in its executor, and will not begin.
            state.awaited = None;
            state.tally.withdrawn += 1;
        }
        let hook = if state.awaited.is_none() { state.hook.take() } else { None };
        drop(guard);
        if let Some(token) = token {
            token.cancel(|payload| self.raise(payload));
        }
        if let Some(nudge) = nudge {
            nudge.timer.cancel();
        }
        self.contain(|| drop(job));
        self.contain(|| drop(hook));
        true
    }

    pub(super) fn is_ended(&self) -> bool {
        self.timers.is_stopped() || matches!(self.state.lock().phase, Phase::Ended)
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.state.lock();
        let tally = &state.tally;
        let awaited = state.awaited.as_ref().is_some_and(|awaited| awaited.begun);
        Counts {
            runs: tally.runs,
            successes: tally.successes,
            timeouts: tally.timeouts,
            rejections: tally.rejections,
            failures: tally.failures,
            withdrawn: tally.withdrawn,
            late_ends: tally.late_ends,
            held_back: tally.held_back,
            running: state.running,
            stragglers: state.running - usize::from(awaited),
            interval: state.interval,
            next_run: match state.phase {
                Phase::Waiting(due) if !self.timers.is_stopped() => due,
                _ => None,
            },
        }
    }

    /// Tells the log and the hook of a run that was settled.
    fn tell(&self, run: Settled) {
        let Settled { report, hook, .. } = run;
        self.contain(|| {
            let RunReport { number, outcome, .. } = &report;
            match outcome {
                Outcome::Success => {
                    tracing::trace!(target: "lars_scheduler", number, "a supervised run succeeded");
                }
                _ => {
                    tracing::warn!(target: "lars_scheduler", number, ?outcome, "a supervised run went wrong");
                }
            }
        });
        if let Some(hook) = hook {
            self.contain(move || hook(&report));
        }
    }

    /// Runs foreign code; a panic in it goes where the scheduler's panics go.
    pub(super) fn contain(&self, code: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
            self.raise(payload);
        }
    }

    /// Reports a panic: it is raised again in a task of the scheduler, which contains it, counts it and calls the
    /// scheduler's hook. If the scheduler takes no more tasks, the log has it.
    pub(super) fn raise(&self, payload: Box<dyn Any + Send>) {
        let again = Task::new(move || resume_unwind(payload)).inline();
        if let Err(error) = self.timers.schedule_once(Duration::ZERO, again) {
            Runnable::new(error.into_task().into_body()).run();
        }
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// A number from 0 to below 1, of a splitmix64 sequence.
fn random_fraction(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    // 53 bits: as many as fit.
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}
