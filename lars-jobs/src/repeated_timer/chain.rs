//! The one chain of a repeated timer, and what may arm it.
//!
//! # Ground rules
//!
//! One mutex holds all of the state. While it is held, no user code runs, and nothing is dropped or
//! cancelled that could own user code: such things are carried out of the critical section first.
//! Nor does anybody wait for a share of the timer thread: calls that arm do that before.
//!
//! The scheduler's side is an *alarm*: a series whose runs, the *looks*, check the state. A look
//! triggers if its alarm is the current one (each has a number) and the time has come. So a call
//! that takes the alarm out of the state, or puts another one in, has stopped the old chain, even
//! if one of its looks is in flight: that look is stale.
//!
//! While a trigger runs (`run` is set), no call arms. Calls only change the state, and the end of
//! the run acts on it. That is why there cannot be two chains.
//!
//! A series keeps its place within `max_pending` from run to run, so a chain that goes on is never
//! refused.

use std::mem;
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::{RepeatedTimer, StopWaitError};
use crate::label::Label;
use crate::label::Labelled;
use crate::when_due::DueOn;
use lars_base::sync::real_now;
use lars_base::sync::{Mutex, MutexGuard, Unparker};
use lars_base::time::Instant;
use lars_base::waiting::{park_until, with_parker};
use lars_base::when_due::WhenDue;
use lars_scheduler::extend::EndOfSeries;
use lars_scheduler::extend::RunOn;
use lars_scheduler::extend::Systems;
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{
    Cancellable, Handle, IntoPeriodic, Periodic, Refusal, Repeat, ScheduleError, TaskIdentity,
};

type Trigger = Box<dyn FnMut(&RepeatedTimer) + Send>;
pub(super) type Adjust = Arc<dyn Fn(Duration) -> Duration + Send + Sync>;
pub(super) type DestroyHook = Box<dyn FnOnce() + Send>;

/// What a timer is made of.
pub(super) struct DeviceParts {
    pub(super) period: Duration,
    pub(super) trigger: Trigger,
    pub(super) adjust: Option<Adjust>,
    pub(super) on_destroy: Option<DestroyHook>,
}

/// How a call changes the next trigger.
#[derive(Clone, Copy)]
pub(super) enum How {
    Start,
    Restart,
    Reset(Option<Duration>),
}

pub(super) struct SharedTimer {
    handle: Handle,
    run_on: RunOn,
    /// The name of its alarms, and where it was built.
    label: Label,
    /// Whose the trigger and the hooks are.
    whose: TaskIdentity,
    device: Mutex<Device>,
}

pub(super) struct Device {
    pub(super) period: Duration,
    pub(super) started: bool,
    pub(super) destroyed: bool,
    /// The trigger that is running.
    pub(super) run: Option<TriggerRun>,
    alarm: Option<Alarm>,
    /// When the next trigger is due, if there is an alarm.
    due: WhenDue,
    /// `None` while the trigger runs, and when the timer is destroyed.
    trigger: Option<Trigger>,
    adjust: Option<Adjust>,
    on_destroy: Option<DestroyHook>,
    /// How many alarms and how many runs there have been.
    alarms: u64,
    runs: u64,
    /// The threads that wait for the end of the run.
    waiting: Vec<Unparker>,
}

/// The series that looks when the trigger is due.
struct Alarm {
    number: u64,
    series: Cancellable,
    /// When it looks next: no later than the trigger is due.
    looks: WhenDue,
}

#[derive(Clone, Copy)]
pub(super) struct TriggerRun {
    number: u64,
    thread: ThreadId,
    /// Whether the alarm's own series runs it, and arms the next one by its answer.
    by_alarm: bool,
}

impl SharedTimer {
    pub(super) fn new(
        handle: Handle,
        (run_on, label, kind): (RunOn, Label, &'static str),
        parts: DeviceParts,
    ) -> Arc<Self> {
        let device = Device {
            period: parts.period,
            started: false,
            destroyed: false,
            run: None,
            alarm: None,
            due: WhenDue::Never,
            trigger: Some(parts.trigger),
            adjust: parts.adjust,
            on_destroy: parts.on_destroy,
            alarms: 0,
            runs: 0,
            waiting: Vec::new(),
        };
        let whose = label.identity(kind);
        Arc::new(Self { handle, run_on, label, whose, device: Mutex::new(device) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Device> {
        self.device.lock()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let state = self.lock();
        let is_armed = state.alarm.is_some() && state.run.is_none() && !self.handle.is_stopped();
        if is_armed { state.due.instant() } else { None }
    }

    pub(super) fn is_started(&self) -> bool {
        self.lock().started && !self.handle.is_stopped()
    }

    /// `start`, `restart` and `reset`.
    pub(super) fn arm(self: &Arc<Self>, how: How) -> Result<(), Refusal> {
        self.handle.wait_for_share();
        // A period, and the timeout that was computed from it.
        let mut made: Option<(Duration, Duration)> = None;
        loop {
            let mut state = self.lock();
            if state.destroyed {
                return Err(Refusal::Destroyed);
            }
            if self.handle.is_stopped() {
                return Err(Refusal::Stopped);
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
            retire(armed.map_err(ScheduleError::into_refusal)?);
            return Ok(());
        }
    }

    /// The timeout for a period. It is user code, so the lock must not be held.
    fn adjusted(&self, adjust: Option<Adjust>, period: Duration) -> Duration {
        let mut timeout = period;
        if let Some(adjust) = adjust {
            self.handle.contain(self.whose, PanicIn::Task, || timeout = adjust(period));
            self.handle.contain(self.whose, PanicIn::Cleanup, || drop(adjust));
        }
        timeout
    }

    /// Makes the next trigger due after `timeout`. Returns an alarm to retire without the lock; an
    /// error, too, must be dropped without it.
    fn set_alarm(
        self: &Arc<Self>,
        state: &mut Device,
        timeout: Duration,
    ) -> Result<Option<Alarm>, ScheduleError<impl IntoPeriodic<Repeat> + use<>>> {
        let due = self.handle.due_after(timeout);
        if state.alarm.as_ref().is_some_and(|alarm| alarm.looks <= due) {
            state.due = due;
            return Ok(None);
        }
        state.alarms += 1;
        let number = state.alarms;
        let look = AlarmLook { timer: Arc::downgrade(self), number };
        let at_stop = Arc::downgrade(self);
        let handed_back = move || {
            if let Some(shared) = at_stop.upgrade() {
                shared.alarm_is_over(number);
            }
        };
        let series = Periodic::new(move || look.look())
            .run_on(self.run_on.clone())
            .labelled(self.label)
            .on_end(|| (), handed_back, || ());
        let _waits_later = self.handle.wait_later();
        let series = self.handle.schedule_repeating(timeout, series)?;
        state.due = due;
        // The scheduler has read the clock again.
        let looks = self.handle.due_after(timeout);
        Ok(state.alarm.replace(Alarm { number, series, looks }))
    }

    /// The series of an alarm has ended. If the timer did not end it, the scheduler was stopped, or
    /// an executor has lost a look: then the timer is stopped. (While the trigger runs, the end of
    /// the run takes care of that.)
    fn alarm_is_over(&self, number: u64) {
        let mut state = self.lock();
        let own = state.alarm.take_if(|alarm| alarm.number == number);
        if own.is_some() && state.run.is_none() {
            state.started = false;
        }
        drop(state);
        drop(own);
    }

    /// Whether the timer was started, and the trigger that is running.
    pub(super) fn stop(&self) -> (bool, Option<TriggerRun>) {
        let mut state = self.lock();
        let was_started = mem::replace(&mut state.started, false);
        let (alarm, run) = (state.take_alarm(), state.run);
        drop(state);
        retire(alarm);
        (was_started, run)
    }

    pub(super) fn stop_within(&self, limit: Duration) -> Result<(), StopWaitError> {
        let deadline = real_now().checked_add(limit);
        let (_, Some(run)) = self.stop() else {
            return Ok(());
        };
        if run.thread == thread::current().id() {
            return Err(StopWaitError::InTrigger);
        }
        with_parker(|parker| {
            loop {
                let mut state = self.lock();
                // A later run belongs to a later start, and does not concern this call.
                if state.run.is_none_or(|now| now.number != run.number) {
                    return Ok(());
                }
                if deadline.is_some_and(|deadline| real_now() >= deadline) {
                    return Err(StopWaitError::Timeout { limit });
                }
                state.waiting.push(parker.unparker().clone());
                drop(state);
                park_until(parker, deadline);
            }
        })
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
        self.handle.contain(self.whose, PanicIn::Cleanup, || drop(trigger));
        self.handle.contain(self.whose, PanicIn::Cleanup, || drop(adjust));
        if let Some(hook) = hook {
            self.handle.contain(self.whose, PanicIn::Cleanup, hook);
        }
    }

    /// Runs the trigger, and then acts on the calls that came during the run. If the series of an
    /// alarm runs it, `alarm` is that alarm's number, and the answer arms the next trigger.
    fn run(
        self: &Arc<Self>,
        mut trigger: Trigger,
        timer: &RepeatedTimer,
        alarm: Option<u64>,
    ) -> Result<Repeat, Refusal> {
        self.handle.contain(self.whose, PanicIn::Task, || trigger(timer));
        let mut made: Option<(Duration, Duration)> = None;
        let (state, answer, old, error) = loop {
            let mut state = self.lock();
            if state.destroyed {
                drop(state);
                // Still within the run, for the threads that wait for its end.
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
                let due = self.handle.due_after(timeout);
                own.looks = due;
                state.due = due;
                break (state, due.into(), None, None);
            }
            match self.set_alarm(&mut state, timeout) {
                Ok(old) => break (state, Repeat::Stop, old, None),
                Err(error) => {
                    if let Some(alarm) = &state.alarm
                        && *error.refusal() != Refusal::Stopped
                    {
                        // A late trigger is better than none.
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
        error.map_or(Ok(answer), |error| Err(error.into_refusal()))
    }

    fn end_run(&self, mut state: MutexGuard<'_, Device>) {
        state.run = None;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(Unparker::unpark);
    }
}

/// The last clone is gone: nothing could stop the timer any more.
impl Drop for SharedTimer {
    fn drop(&mut self) {
        self.destroy();
    }
}

impl Device {
    /// Takes the alarm out, unless it is running the trigger: then it ends by itself, or goes on if
    /// the timer is started again before the end of the run.
    fn take_alarm(&mut self) -> Option<Alarm> {
        if self.run.is_some_and(|run| run.by_alarm) { None } else { self.alarm.take() }
    }

    fn begin_run(&mut self, by_alarm: bool) -> Trigger {
        self.runs += 1;
        self.run = Some(TriggerRun { number: self.runs, thread: thread::current().id(), by_alarm });
        self.trigger.take().expect("a timer that is started and does not run has its trigger")
    }
}

/// What an alarm's series runs. It keeps no timer alive.
struct AlarmLook {
    timer: Weak<SharedTimer>,
    number: u64,
}

impl AlarmLook {
    fn look(&self) -> Repeat {
        let Some(shared) = self.timer.upgrade() else {
            return Repeat::Stop;
        };
        let mut state = shared.lock();
        let (due, period, runs) = (state.due, state.period, state.run.is_some());
        let Some(alarm) = state.alarm.as_mut().filter(|alarm| alarm.number == self.number) else {
            return Repeat::Stop;
        };
        if !due.has_come(shared.handle.now()) {
            // The trigger was pushed back.
            alarm.looks = due;
            return due.into();
        }
        if runs {
            // `run_once_now` came first. The alarm stays, and with it the place within
            // `max_pending`. The end of the run says when the next trigger is due: a period from
            // now at the earliest, unless that is changed.
            alarm.looks = shared.handle.due_after(period);
            return alarm.looks.into();
        }
        let trigger = state.begin_run(true);
        drop(state);
        let timer = RepeatedTimer { shared };
        // A refusal means that the timer is stopped: the end of the run has done that.
        timer.shared.run(trigger, &timer, Some(self.number)).unwrap_or(Repeat::Stop)
    }
}

impl Drop for AlarmLook {
    fn drop(&mut self) {
        if let Some(shared) = self.timer.upgrade() {
            shared.alarm_is_over(self.number);
        }
    }
}

/// Ends an alarm that was taken out of the state; the lock must not be held.
fn retire(alarm: Option<Alarm>) {
    if let Some(alarm) = alarm {
        alarm.series.cancel();
    }
}
