//! What changes the state of a supervised task: looks at the right time, and the ends of runs.
//!
//! # Looks
//!
//! Time moves the state only in `look`, which does what is due *now* and returns when to look
//! again. An extra look does no harm. Two kinds of timers look, both on the timer thread:
//!
//! - The series: one repeat, which keeps its place in the scheduler from start to end, so that
//!   `max_pending` cannot end the task. It sleeps until the next due time or deadline.
//! - The nudge: a one-shot that looks earlier than the series will, because a run ended long before
//!   its deadline, a straggler ended, or a run was asked for. If the scheduler has no place for the
//!   nudge, the series looks later.
//!
//! If the timeout is at most the interval, as by default, the series is early enough for everything
//! but `run_now` and stragglers.
//!
//! # Ground rules
//!
//! One mutex holds all of the state, for a few dozen instructions at a time and never while foreign
//! code runs: executors, tasks, wakers, hooks and destructors are called after it is released.

use std::any::Any;
use std::panic::resume_unwind;

use super::report::{Counts, Outcome, RunReport};
use super::run::{Ending, Owner, Run, Runner};
use super::settings::{GivenUp, Settings};
use super::state::{Nudge, Phase, Remains, Settled, State};
use crate::label::Label;
use crate::label::Labelled;
use crate::when_due::{DueOn, reset_due};
use lars_base::debug_fields;
use lars_base::panics::quietly;
use lars_base::sync::{Arc, Mutex};
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::executor::Runnable;
use lars_scheduler::extend::Systems;
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Cancellable, Executor, Handle, Refusal, Repeat, Task, TaskIdentity};

pub(super) struct Supervisor {
    timers: Handle,
    executor: Box<dyn Executor>,
    settings: Settings,
    /// The name of its timers, and where it was started.
    label: Label,
    /// Whose the runs and the hook are.
    whose: TaskIdentity,
    start: Instant,
    state: Mutex<State>,
}

/// What a look found to do.
enum Step {
    HandOver(Run, Arc<dyn Runner>),
    GiveUp(Settled),
    Sleep(WhenDue),
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
        (label, kind): (Label, &'static str),
        runner: Arc<dyn Runner>,
    ) -> Arc<Self> {
        let start = timers.now();
        let first = WhenDue::after(start, settings.initial_delay);
        let hook = settings.on_settled.take();
        let state = State::new(&settings, first, runner, hook);
        Arc::new(Self {
            timers: timers.clone(),
            executor,
            settings,
            label,
            whose: label.identity(kind),
            start,
            state: Mutex::new(state),
        })
    }

    /// One turn of the series.
    pub(super) fn turn(self: &Arc<Self>) -> Repeat {
        match self.act(Looker::Series) {
            Step::Sleep(wake) => wake.into(),
            _ => Repeat::Stop,
        }
    }

    /// Does all that is due now.
    fn act(self: &Arc<Self>, looker: Looker) -> Step {
        loop {
            match self.look(looker) {
                Step::HandOver(run, runner) => self.hand_over(run, runner),
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
                let awaited = state.awaited.as_ref();
                let deadline = awaited.map_or(WhenDue::Never, |awaited| awaited.deadline);
                if deadline.has_come(now) {
                    return state
                        .settle(&self.settings, Outcome::Timeout, now)
                        .map_or(Step::End, Step::GiveUp);
                }
                // If there is no place for a nudge when the run ends, this bounds how late the next
                // run is.
                deadline.min(WhenDue::after(now, self.settings.max_interval))
            }
            Phase::Waiting(due) if !due.has_come(now) => due,
            // Whoever tells wakes the next run. If there is no place for a nudge then, this bounds
            // how late that run is.
            Phase::Waiting(_) | Phase::Held if state.untold => WhenDue::after(now, state.interval),
            Phase::Waiting(_) | Phase::Held => {
                if state.running < self.settings.max_concurrent {
                    return self.next_run(state, now);
                }
                if !matches!(state.phase, Phase::Held) {
                    state.phase = Phase::Held;
                    state.tally.held_back += 1;
                }
                // If there is no place for a nudge when the straggler ends, this bounds how late
                // the next run is.
                WhenDue::after(now, state.interval)
            }
        };
        match looker {
            Looker::Series => state.wake = wake,
            Looker::Nudge => {
                // If it is refused, the series looks later, within its bound.
                let _ = self.wake_by(state, wake);
            }
        }
        Step::Sleep(wake)
    }

    fn next_run(self: &Arc<Self>, state: &mut State, now: Instant) -> Step {
        let Some(runner) = state.runner.clone() else {
            return Step::End;
        };
        let (number, token) = state.await_run(now, WhenDue::after(now, self.settings.timeout));
        let owner: Arc<dyn Owner> = Arc::<Self>::clone(self);
        Step::HandOver(Run::new(owner, number, token), runner)
    }

    fn hand_over(&self, run: Run, runner: Arc<dyn Runner>) {
        // A run that is dropped, here or while its executor unwinds, settles itself as rejected.
        (self as &dyn Owner).execute(Runnable::new(move || runner.execute(run)), "run");
    }

    /// Makes sure that the series or the nudge looks at `due`, or before.
    fn wake_by(self: &Arc<Self>, state: &mut State, due: WhenDue) -> Result<(), Refusal> {
        if state.wake <= due {
            return Ok(());
        }
        // The caller has the lock, which the timer thread may want.
        let _waits_later = self.timers.wait_later();
        if let Some(nudge) = &mut state.nudge {
            if nudge.at <= due && nudge.timer.is_pending() {
                // Its look comes after this, because it needs the lock.
                return Ok(());
            }
            if reset_due(&nudge.timer, due) {
                nudge.at = due;
                return Ok(());
            }
        }
        let supervisor = Arc::downgrade(self);
        let look = move || {
            if let Some(supervisor) = supervisor.upgrade() {
                supervisor.act(Looker::Nudge);
            }
        };
        match self.timers.schedule_due(due, Task::new(look).inline().labelled(self.label)) {
            Ok(timer) => {
                state.nudge = Some(Nudge { at: due, timer });
                Ok(())
            }
            Err(error) => Err(error.into_refusal()),
        }
    }

    /// Brings the next run forward to now.
    pub(super) fn run_now(self: &Arc<Self>) -> Result<(), super::RunNowError> {
        use super::RunNowError;
        if self.timers.is_stopped() {
            return Err(RunNowError::Ended);
        }
        // (The ends of runs wait for nothing.)
        self.timers.wait_for_share();
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
            Phase::Waiting(due) if !due.has_come(now) => {
                self.wake_by(state, WhenDue::At(now)).map_err(|refusal| match refusal {
                    Refusal::Stopped => RunNowError::Ended,
                    other => RunNowError::Refused(other),
                })?;
                state.phase = Phase::Waiting(WhenDue::At(now));
            }
            // It is due anyway.
            Phase::Waiting(_) | Phase::Held | Phase::Ended => {}
        }
        state.used_up = used_up;
        Ok(())
    }

    /// Ends the supervision. True if this call did. A run in flight is asked to end.
    pub(super) fn end(&self) -> bool {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(remains) = state.end() else { return false };
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
        self.drop_remains(remains);
        self.contain(|| drop(hook));
        true
    }

    /// Cancels the nudge, and drops the rest.
    fn drop_remains(&self, remains: Remains) {
        if let Some(nudge) = remains.nudge {
            nudge.timer.cancel();
        }
        self.contain(|| drop(remains.runner));
    }

    /// The series of this task, which a run may end from now on.
    pub(super) fn keep_series(&self, series: &Arc<Cancellable>) {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Ended) {
            drop(state);
            series.cancel();
        } else {
            state.series = Some(Arc::clone(series));
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.timers.is_stopped() || matches!(self.state.lock().phase, Phase::Ended)
    }

    pub(super) fn counts(&self) -> Counts {
        let counts = self.state.lock().counts();
        // The scheduler may have stopped a moment ago: then there is no next run.
        let next_run = counts.next_run.filter(|_| !self.timers.is_stopped());
        Counts { next_run, ..counts }
    }

    /// Reports a settled run to the log and the hook. Then the next one may begin.
    fn tell(self: &Arc<Self>, run: Settled) {
        let Settled { report, hook, .. } = run;
        let task = self.whose;
        quietly(|| {
            let RunReport { number, outcome, .. } = &report;
            match outcome {
                Outcome::Success => {
                    let message = "a supervised run succeeded";
                    tracing::trace!(target: "lars_scheduler", %task, number, "{message}");
                }
                _ => {
                    tracing::warn!(
                        target: "lars_scheduler",
                        %task,
                        number,
                        ?outcome,
                        "a supervised run did not succeed"
                    );
                }
            }
        });
        if let Some(hook) = hook {
            self.contain(move || (hook.0)(&report));
        }
        let mut state = self.state.lock();
        state.untold = false;
        let wake = state.wake(self.timers.now());
        // If it is refused, the series looks later, within its bound.
        let _ = self.wake_by(&mut state, wake);
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
        let (mut unused, mut remains) = (None, None);
        let settled = if state.is_awaited(number) {
            match ending {
                Ending::Settled(outcome) => state.settle(&self.settings, outcome, now),
                Ending::Last => {
                    remains = state.end();
                    state.settle(&self.settings, Outcome::Success, now)
                }
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
        let wake = state.wake(now);
        // If it is refused, the series looks later, within its bound.
        let _ = self.wake_by(state, wake);
        drop(guard);
        if let Some(mut remains) = remains {
            if let Some(series) = remains.series.take() {
                series.cancel();
            }
            self.drop_remains(remains);
        }
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

    fn whose(&self) -> TaskIdentity {
        self.whose
    }

    fn raise(&self, payload: Box<dyn Any + Send>) {
        self.timers.contain(self.whose, PanicIn::Task, || resume_unwind(payload));
    }
}

debug_fields!(|it: Supervisor| counts: it.counts());
