//! Who moves the state of a supervised task: looks, at the right time, and the ends of runs.
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
use std::panic::resume_unwind;
use std::time::{Duration, Instant};

use super::report::{Counts, Outcome, RunReport};
use super::run::{Ending, Job, Owner, Run};
use super::settings::{GivenUp, Settings};
use super::state::{Nudge, Phase, Settled, State, When, earlier, reached};
use crate::error::Refusal;
use crate::executor::{Executor, Runnable};
use crate::handle::Handle;
use crate::repeat::Repeat;
use crate::report::PanicIn;
use crate::sync::{Arc, Mutex};
use crate::task::Task;

pub(super) struct Supervisor {
    timers: Handle,
    executor: Box<dyn Executor>,
    settings: Settings,
    start: Instant,
    state: Mutex<State>,
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
        let hook = settings.on_settled.take();
        let state = State::new(&settings, first, job, hook);
        Arc::new(Self {
            timers: timers.clone(),
            executor,
            settings,
            start,
            state: Mutex::new(state),
        })
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
                    return state
                        .settle(&self.settings, Outcome::Timeout, now)
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
        let (number, token) = state.await_run(now, now.checked_add(self.settings.timeout));
        let owner: Arc<dyn Owner> = Arc::<Self>::clone(self);
        Step::HandOver(Run::new(owner, number, token), job)
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
        let since_start = now.saturating_duration_since(self.start);
        let used_up = state
            .charge(&self.settings, since_start)
            .map_err(|retry_in| RunNowError::TooOften { retry_in })?;
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
        let counts = self.state.lock().counts();
        // Stopped, and not told of it yet: the next run will not be.
        let next_run = counts.next_run.filter(|_| !self.timers.is_stopped());
        Counts { next_run, ..counts }
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

    fn contain(&self, code: impl FnOnce()) {
        (self as &dyn Owner).contain(code);
    }
}

impl Owner for Supervisor {
    fn begin(&self, number: u64) -> bool {
        self.state.lock().begin(number)
    }

    fn ended(self: Arc<Self>, number: u64, begun: bool, ending: Ending) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let now = self.timers.now();
        state.running -= usize::from(begun);
        let mut unused = None;
        let settled = if state.is_awaited(number) {
            match ending {
                Ending::Settled(outcome) => state.settle(&self.settings, outcome, now),
                Ending::Dropped if matches!(state.phase, Phase::Ended) => {
                    state.tally.withdrawn += 1;
                    state.awaited = None;
                    unused = state.hook.take();
                    None
                }
                Ending::Dropped => state.settle(&self.settings, Outcome::Rejected, now),
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

    fn executor(&self) -> &dyn Executor {
        &*self.executor
    }

    fn given_up(&self) -> GivenUp {
        self.settings.given_up
    }

    fn raise(&self, payload: Box<dyn Any + Send>) {
        self.timers.contain(PanicIn::Task, || resume_unwind(payload));
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
