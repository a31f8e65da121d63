//! The one chain of a repeated timer, and who may arm it.
//!
//! # Ground rules
//!
//! One mutex holds all of the state. No user code runs, and nothing that could own user code is dropped or cancelled,
//! while it is held: what becomes superfluous is carried out of the critical section first.
//!
//! The scheduler's side is an *alarm*: a series whose runs only look at the state. A look triggers if it is the look of the
//! current alarm (each has a number) and the time has come. So whoever takes the alarm out of the state, or puts another
//! one in, has stopped the old chain, even if its look is under way: it cannot tell itself apart from a stale one.
//!
//! While a trigger runs (`run` is set) nobody else arms. Calls only change what the state says, and the end of the run
//! acts on what it says then. That is why there cannot be two chains.
//!
//! A series keeps its place within `max_pending` from run to run, so a chain that goes on is never refused.

use std::mem;
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::{RepeatedTimer, StopWaitError};
use crate::cancel::Cancellable;
use crate::clock::real_now;
use crate::error::{Refusal, ScheduleError};
use crate::executor::Executor;
use crate::handle::Handle;
use crate::repeat::{IntoPeriodic, Periodic, Repeat};
use crate::report::PanicIn;
use crate::sync::{Mutex, MutexGuard, Parker, Unparker};

/// The shortest period. Zero would trigger without end.
const MIN_PERIOD: Duration = Duration::from_nanos(1);

type Trigger = Box<dyn FnMut(&RepeatedTimer) + Send>;
pub(super) type Adjust = Arc<dyn Fn(Duration) -> Duration + Send + Sync>;
pub(super) type Hook = Box<dyn FnOnce() + Send>;

pub(super) fn check_period(given: Duration) -> Result<(), Refusal> {
    if given < MIN_PERIOD { Err(Refusal::Period { given, min: MIN_PERIOD }) } else { Ok(()) }
}

/// Where the trigger runs.
pub(super) enum RunsOn {
    Default,
    Inline,
    Executor(Arc<dyn Executor>),
}

/// What a timer is made of.
pub(super) struct Parts {
    pub(super) period: Duration,
    pub(super) trigger: Trigger,
    pub(super) adjust: Option<Adjust>,
    pub(super) on_destroy: Option<Hook>,
}

/// What a call wants of the next trigger.
#[derive(Clone, Copy)]
pub(super) enum How {
    Start,
    Restart,
    Reset(Option<Duration>),
}

pub(super) struct Shared {
    handle: Handle,
    runs_on: RunsOn,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) period: Duration,
    pub(super) started: bool,
    pub(super) destroyed: bool,
    /// The trigger that is running.
    pub(super) run: Option<Run>,
    alarm: Option<Alarm>,
    /// When the next trigger is due; `None` is never. Says something while there is an alarm.
    due: Option<Instant>,
    /// `None` while the trigger runs, and when the timer is destroyed.
    trigger: Option<Trigger>,
    adjust: Option<Adjust>,
    on_destroy: Option<Hook>,
    /// How many alarms and how many runs there have been.
    alarms: u64,
    runs: u64,
    /// Who waits for the end of the run.
    waiting: Vec<Unparker>,
}

/// The series that looks when the trigger is due.
struct Alarm {
    number: u64,
    series: Cancellable,
    /// When it looks next, at the latest by when the trigger is due; `None` is never.
    looks: Option<Instant>,
}

#[derive(Clone, Copy)]
pub(super) struct Run {
    number: u64,
    thread: ThreadId,
    /// Whether the alarm's own series runs it, and arms the next one by its answer.
    by_alarm: bool,
}

impl Shared {
    pub(super) fn new(handle: Handle, runs_on: RunsOn, parts: Parts) -> Arc<Self> {
        let state = State {
            period: parts.period,
            started: false,
            destroyed: false,
            run: None,
            alarm: None,
            due: None,
            trigger: Some(parts.trigger),
            adjust: parts.adjust,
            on_destroy: parts.on_destroy,
            alarms: 0,
            runs: 0,
            waiting: Vec::new(),
        };
        Arc::new(Self { handle, runs_on, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let state = self.lock();
        if state.alarm.is_some() && state.run.is_none() { state.due } else { None }
    }

    /// `start`, `restart` and `reset`.
    pub(super) fn arm(self: &Arc<Self>, how: How) -> Result<(), Refusal> {
        // The period that a time-out was made of, and that time-out.
        let mut made: Option<(Duration, Duration)> = None;
        loop {
            let mut state = self.lock();
            if state.destroyed {
                return Err(Refusal::Destroyed);
            }
            let period = match how {
                How::Reset(Some(period)) => period,
                _ => state.period,
            };
            let (starts, arms) = match how {
                How::Start => (true, !state.started),
                How::Restart => (true, true),
                How::Reset(_) => (false, state.started),
            };
            if !arms || state.run.is_some() {
                state.period = period;
                state.started |= starts;
                return Ok(());
            }
            let Some((_, timeout)) = made.filter(|&(of, _)| of == period) else {
                let adjust = state.adjust.clone();
                drop(state);
                made = Some((period, self.adjusted(adjust, period)));
                continue;
            };
            let armed = self.set_alarm(&mut state, timeout);
            if armed.is_ok() {
                state.period = period;
                state.started = true;
            }
            drop(state);
            return match armed {
                Ok(old) => {
                    retire(old);
                    Ok(())
                }
                Err(error) => Err(error.refusal().clone()),
            };
        }
    }

    /// The time-out for a period; user code, so the lock must not be held.
    fn adjusted(&self, adjust: Option<Adjust>, period: Duration) -> Duration {
        let mut timeout = period;
        if let Some(adjust) = adjust {
            self.handle.contain(PanicIn::Task, || timeout = adjust(period));
            self.handle.contain(PanicIn::Cleanup, || drop(adjust));
        }
        timeout
    }

    /// Makes the next trigger due after `timeout`. Returns an alarm that is to be retired without the lock; an error, too,
    /// is to be dropped without it.
    fn set_alarm(
        self: &Arc<Self>,
        state: &mut State,
        timeout: Duration,
    ) -> Result<Option<Alarm>, ScheduleError<impl IntoPeriodic<Repeat> + use<>>> {
        let due = self.handle.now().checked_add(timeout);
        if state.alarm.as_ref().is_some_and(|alarm| comes_by(alarm.looks, due)) {
            state.due = due;
            return Ok(None);
        }
        state.alarms += 1;
        let number = state.alarms;
        let look = Look { timer: Arc::downgrade(self), number };
        let series = Periodic::new(move || look.look());
        let series = match &self.runs_on {
            RunsOn::Default => series,
            RunsOn::Inline => series.inline(),
            RunsOn::Executor(executor) => series.executor(Arc::clone(executor)),
        };
        let series = self.handle.schedule_repeating(timeout, series)?;
        state.due = due;
        // The scheduler has read the clock again.
        let looks = self.handle.now().checked_add(timeout);
        Ok(state.alarm.replace(Alarm { number, series, looks }))
    }

    /// Whether the timer was started, and the trigger that is running.
    pub(super) fn stop(&self) -> (bool, Option<Run>) {
        let mut state = self.lock();
        let was_started = mem::replace(&mut state.started, false);
        let (alarm, run) = (state.take_alarm(), state.run);
        drop(state);
        retire(alarm);
        (was_started, run)
    }

    pub(super) fn stop_and_wait(&self, limit: Duration) -> Result<(), StopWaitError> {
        let deadline = real_now().checked_add(limit);
        let (_, Some(run)) = self.stop() else {
            return Ok(());
        };
        if run.thread == thread::current().id() {
            return Err(StopWaitError::InTrigger);
        }
        let parker = Parker::new();
        loop {
            let mut state = self.lock();
            // A later run is somebody else's start, and none of this call's business.
            if state.run.is_none_or(|now| now.number != run.number) {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| real_now() >= deadline) {
                return Err(StopWaitError::Timeout { limit });
            }
            state.waiting.push(parker.unparker().clone());
            drop(state);
            match deadline {
                None => parker.park(),
                Some(deadline) => parker.park_deadline(deadline),
            }
        }
    }

    pub(super) fn run_once_now(self: &Arc<Self>, timer: &RepeatedTimer) -> Result<bool, Refusal> {
        let mut state = self.lock();
        if state.destroyed {
            return Err(Refusal::Destroyed);
        }
        if !state.started || state.run.is_some() {
            return Ok(false);
        }
        // The alarm stays, and with it the place within `max_pending`.
        let trigger = state.begin_run(false);
        drop(state);
        self.run(trigger, timer, None).map(|_| true)
    }

    pub(super) fn destroy(&self) -> bool {
        let mut state = self.lock();
        if mem::replace(&mut state.destroyed, true) {
            return false;
        }
        state.started = false;
        let alarm = state.take_alarm();
        let trigger = state.trigger.take();
        let running = state.run.is_some();
        drop(state);
        retire(alarm);
        if !running {
            self.bury(trigger);
        }
        true
    }

    /// The last of a timer that was destroyed, once.
    fn bury(&self, trigger: Option<Trigger>) {
        let (adjust, hook) = {
            let mut state = self.lock();
            (state.adjust.take(), state.on_destroy.take())
        };
        self.handle.contain(PanicIn::Cleanup, || drop(trigger));
        self.handle.contain(PanicIn::Cleanup, || drop(adjust));
        if let Some(hook) = hook {
            self.handle.contain(PanicIn::Cleanup, hook);
        }
    }

    /// Runs the trigger, and then what the calls during the run have left to do. `alarm` is the number of the alarm whose
    /// series runs it, if it is one; its answer arms the next trigger.
    fn run(
        self: &Arc<Self>,
        mut trigger: Trigger,
        timer: &RepeatedTimer,
        alarm: Option<u64>,
    ) -> Result<Repeat, Refusal> {
        self.handle.contain(PanicIn::Task, || trigger(timer));
        let mut made: Option<(Duration, Duration)> = None;
        let (state, answer, old, error) = loop {
            let mut state = self.lock();
            if state.destroyed {
                drop(state);
                // Still within the run, for those who wait for its end.
                self.bury(Some(trigger));
                let mut state = self.lock();
                let old = state.alarm.take();
                break (state, Repeat::Stop, old, None);
            }
            if !state.started {
                state.trigger = Some(trigger);
                let old = state.alarm.take();
                break (state, Repeat::Stop, old, None);
            }
            let period = state.period;
            let Some((_, timeout)) = made.filter(|&(of, _)| of == period) else {
                let adjust = state.adjust.clone();
                drop(state);
                made = Some((period, self.adjusted(adjust, period)));
                continue;
            };
            state.trigger = Some(trigger);
            if let Some(own) = state.alarm.as_mut().filter(|own| Some(own.number) == alarm) {
                let own_due = self.handle.now().checked_add(timeout);
                own.looks = own_due;
                state.due = own_due;
                break (state, repeat_at(own_due), None, None);
            }
            match self.set_alarm(&mut state, timeout) {
                Ok(old) => break (state, Repeat::Stop, old, None),
                Err(error) => {
                    if let (Some(alarm), Refusal::Full { .. }) = (&state.alarm, error.refusal()) {
                        // It comes too late, and is better than none.
                        state.due = alarm.looks;
                        break (state, Repeat::Stop, None, Some(error));
                    }
                    state.started = false;
                    let old = state.alarm.take();
                    break (state, Repeat::Stop, old, Some(error));
                }
            }
        };
        self.end_run(state);
        retire(old);
        match error {
            None => Ok(answer),
            Some(error) => Err(error.refusal().clone()),
        }
    }

    fn end_run(&self, mut state: MutexGuard<'_, State>) {
        state.run = None;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(Unparker::unpark);
    }
}

/// The last clone is gone: nobody could stop the timer any more.
impl Drop for Shared {
    fn drop(&mut self) {
        self.destroy();
    }
}

impl State {
    /// Takes the alarm out, unless it is the one that runs the trigger: that one ends by itself, or, should the timer be
    /// started again before the end of the run, goes on.
    fn take_alarm(&mut self) -> Option<Alarm> {
        if self.run.is_some_and(|run| run.by_alarm) { None } else { self.alarm.take() }
    }

    fn begin_run(&mut self, by_alarm: bool) -> Trigger {
        self.runs += 1;
        self.run = Some(Run { number: self.runs, thread: thread::current().id(), by_alarm });
        self.trigger.take().expect("a timer that is started and does not run has its trigger")
    }
}

/// What an alarm's series runs. It keeps no timer alive.
struct Look {
    timer: Weak<Shared>,
    number: u64,
}

impl Look {
    fn look(&self) -> Repeat {
        let Some(shared) = self.timer.upgrade() else {
            return Repeat::Stop;
        };
        let mut state = shared.lock();
        let (due, period, runs) = (state.due, state.period, state.run.is_some());
        let Some(alarm) = state.alarm.as_mut().filter(|alarm| alarm.number == self.number) else {
            return Repeat::Stop;
        };
        if due.is_none_or(|due| shared.handle.now() < due) {
            // The trigger was pushed back.
            alarm.looks = due;
            return repeat_at(due);
        }
        if runs {
            // `run_once_now`, which came first. The alarm stays, and with it the place within `max_pending`: the end of
            // the run says when the next trigger is due, a period from now at the earliest, unless that is changed.
            alarm.looks = shared.handle.now().checked_add(period);
            return repeat_at(alarm.looks);
        }
        let trigger = state.begin_run(true);
        drop(state);
        let timer = RepeatedTimer { shared };
        // Refused is the same as stopped: the end of the run has seen to it.
        timer.shared.run(trigger, &timer, Some(self.number)).unwrap_or(Repeat::Stop)
    }
}

/// The series has ended. Where nobody on our side has ended it, the scheduler was stopped, or an executor has lost the look:
/// the timer is stopped, and can be seen to be.
impl Drop for Look {
    fn drop(&mut self) {
        let Some(shared) = self.timer.upgrade() else {
            return;
        };
        let mut state = shared.lock();
        let own = state.alarm.take_if(|alarm| alarm.number == self.number);
        if own.is_some() && state.run.is_none() {
            state.started = false;
        }
        drop(state);
        drop(own);
    }
}

/// Ends an alarm that was taken out of the state; the lock must not be held.
fn retire(alarm: Option<Alarm>) {
    if let Some(alarm) = alarm {
        alarm.series.cancel();
    }
}

fn repeat_at(due: Option<Instant>) -> Repeat {
    due.map_or(Repeat::After(Duration::MAX), Repeat::At)
}

/// Whether an alarm that looks at `looks` is in time for what is due at `due`. `None` is never.
fn comes_by(looks: Option<Instant>, due: Option<Instant>) -> bool {
    match (looks, due) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(looks), Some(due)) => looks <= due,
    }
}
