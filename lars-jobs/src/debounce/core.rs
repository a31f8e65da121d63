//! What a debounce and a throttle have in common: one value that waits, its timer, one action.
//!
//! # Ground rules
//!
//! One mutex holds all of the state. While it is held no user code runs, and no value is dropped:
//! what is superseded is carried out of the critical section first. Nor does anybody wait for a
//! share of the timer thread meanwhile: a call does that before.
//!
//! Each value that waits has a timer of its own from the call that brought it, so nothing that was
//! accepted depends on a timer that may be refused later. A newer value takes the place of the old
//! one, and its timer. The timer's task has a number. If that is not the number of what waits, the
//! task is stale and does nothing.
//!
//! Only the party that has taken the action out of the state runs it. Executors may run the task
//! of a newer value first: the older value is superseded then.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::label::Labelled;
use crate::when_due::{DueOn, reset_due};
use lars_base::sync::Mutex;
use lars_base::when_due::WhenDue;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::extend::RunOn;
use lars_scheduler::extend::Systems;
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Cancellable, Handle, Refusal, ScheduleError, Task, TaskIdentity};

/// When a window ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Debounce { wait: Duration, max_wait: Option<Duration> },
    Throttle { interval: Duration },
}

/// How a value runs.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) leading: bool,
    pub(super) trailing: bool,
    pub(super) run_on: RunOn,
    pub(super) name: Option<&'static str>,
    pub(super) run_on_close: bool,
}

type Action<T> = Box<dyn FnMut(T) + Send>;

pub(super) struct Shared<T> {
    handle: Handle,
    rule: Rule,
    options: Options,
    /// Whose the action is.
    whose: TaskIdentity,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// `None` while it runs.
    action: Option<Action<T>>,
    /// The newest value that came due while the action ran.
    overdue: Option<T>,
    /// How many calls there have been.
    calls: u64,
    /// The newest of those whose value came due.
    newest: u64,
    waiting: Option<Waiting<T>>,
    /// How many timers there have been for values that wait.
    timers: u64,
    /// Calls before this are not at a leading edge.
    window_end: WhenDue,
    /// Calls from this on are, even if the calls did not pause.
    lead_again: WhenDue,
    /// `stop` has handed back the waiting value.
    handed_back: bool,
}

/// The value that waits for the trailing edge.
struct Waiting<T> {
    value: T,
    /// The number of its call.
    call: u64,
    /// The number of its timer.
    number: u64,
    due: WhenDue,
    /// It is not put off beyond this.
    latest: WhenDue,
    timer: Cancellable,
}

impl<T: Send + 'static> Shared<T> {
    pub(super) fn new(
        handle: Handle,
        (rule, options, whose): (Rule, Options, TaskIdentity),
        action: Action<T>,
    ) -> Arc<Self> {
        let state = State {
            action: Some(action),
            overdue: None,
            calls: 0,
            newest: 0,
            waiting: None,
            timers: 0,
            window_end: WhenDue::At(handle.now()),
            lead_again: WhenDue::Never,
            handed_back: false,
        };
        Arc::new(Self { handle, rule, options, whose, state: Mutex::new(state) })
    }

    #[track_caller]
    pub(super) fn call(self: &Arc<Self>, value: T) -> Result<(), ScheduleError<T>> {
        self.handle.wait_for_share();
        let waits_later = self.handle.wait_later();
        let mut state = self.state.lock();
        let now = self.handle.now();
        if state.handed_back {
            return Err(ScheduleError::new(Refusal::Stopped, value));
        }
        state.calls += 1;
        let leads = state.window_end.has_come(now) || state.lead_again.has_come(now);
        let superseded = if state.waiting.is_some() {
            Some(self.supersede(&mut state, value, now)?)
        } else if self.options.leading && leads {
            self.lead(&mut state, value, now)?;
            None
        } else if self.options.trailing {
            self.wait(&mut state, value, now)?;
            None
        } else {
            Some(value)
        };
        if let Rule::Debounce { wait, .. } = self.rule {
            state.window_end = WhenDue::after(now, wait);
        }
        drop(state);
        drop(waits_later);
        drop(superseded);
        Ok(())
    }

    /// Replaces the waiting value with a newer one, and returns the old one.
    #[track_caller]
    fn supersede(
        self: &Arc<Self>,
        state: &mut State<T>,
        value: T,
        now: lars_base::time::Instant,
    ) -> Result<T, ScheduleError<T>> {
        let State { waiting: Some(waiting), timers, calls, .. } = state else { return Ok(value) };
        if let Rule::Debounce { wait, .. } = self.rule {
            let due = WhenDue::after(now, wait).min(waiting.latest);
            // A task that has been fired is early for this value, unless its time has come: then
            // that task runs it. (Otherwise calls that come faster than tasks get to a thread would
            // make one after the other stale.)
            if due != waiting.due && !reset_due(&waiting.timer, due) && !due.has_come(now) {
                // From here on it is stale.
                match self.arm(*timers + 1, due) {
                    Ok(timer) => {
                        *timers += 1;
                        (waiting.number, waiting.timer) = (*timers, timer);
                    }
                    Err(refusal) => return Err(ScheduleError::new(refusal, value)),
                }
            }
            waiting.due = due;
        }
        waiting.call = *calls;
        Ok(mem::replace(&mut waiting.value, value))
    }

    /// Runs a value at the leading edge.
    #[track_caller]
    fn lead(
        self: &Arc<Self>,
        state: &mut State<T>,
        value: T,
        now: lars_base::time::Instant,
    ) -> Result<(), ScheduleError<T>> {
        let task = self.task(Lead { shared: Arc::clone(self), value, call: state.calls });
        self.handle
            .schedule_once(Duration::ZERO, task)
            .map_err(|refused| refused.map(|task| task.into_body().value))?;
        match self.rule {
            // With a trailing edge it is that which comes after `max_wait`.
            Rule::Debounce { max_wait: Some(max), .. } if !self.options.trailing => {
                state.lead_again = WhenDue::after(now, max);
            }
            Rule::Debounce { .. } => {}
            Rule::Throttle { interval } => state.window_end = WhenDue::after(now, interval),
        }
        Ok(())
    }

    /// Lets a value wait for the trailing edge.
    #[track_caller]
    fn wait(
        self: &Arc<Self>,
        state: &mut State<T>,
        value: T,
        now: lars_base::time::Instant,
    ) -> Result<(), ScheduleError<T>> {
        let (due, latest) = match self.rule {
            Rule::Debounce { wait, max_wait } => {
                let latest = max_wait.map_or(WhenDue::Never, |max| WhenDue::after(now, max));
                (WhenDue::after(now, wait).min(latest), latest)
            }
            Rule::Throttle { interval } => {
                if state.window_end.has_come(now) {
                    state.window_end = WhenDue::after(now, interval);
                }
                (state.window_end, state.window_end)
            }
        };
        match self.arm(state.timers + 1, due) {
            Ok(timer) => {
                state.timers += 1;
                let (call, number) = (state.calls, state.timers);
                state.waiting = Some(Waiting { value, call, number, due, latest, timer });
                Ok(())
            }
            Err(refusal) => Err(ScheduleError::new(refusal, value)),
        }
    }

    #[track_caller]
    fn arm(self: &Arc<Self>, number: u64, due: WhenDue) -> Result<Cancellable, Refusal> {
        let task = self.task(Trail { shared: Arc::clone(self), number });
        self.handle.schedule_due(due, task).map_err(ScheduleError::into_refusal)
    }

    fn task<B: TaskBody>(&self, body: B) -> Task<B> {
        let options = &self.options;
        let task = Task::new(body).run_on(options.run_on.clone()).labelled(options.name);
        if options.run_on_close { task.run_on_close() } else { task }
    }

    pub(super) fn flush(&self) -> Result<bool, Refusal> {
        self.handle.wait_for_share();
        let _waits_later = self.handle.wait_later();
        let mut state = self.state.lock();
        if state.handed_back {
            return Err(Refusal::Stopped);
        }
        let now = WhenDue::At(self.handle.now());
        let Some(waiting) = &mut state.waiting else { return Ok(false) };
        // (If its task has been fired, it runs soon.)
        reset_due(&waiting.timer, now);
        (waiting.due, waiting.latest) = (now, now);
        Ok(true)
    }

    pub(super) fn cancel(&self) -> Option<T> {
        let waiting = self.state.lock().waiting.take()?;
        // (A task that was fired is stale now.)
        waiting.timer.cancel();
        Some(waiting.value)
    }

    pub(super) fn is_pending(&self) -> bool {
        self.state.lock().waiting.is_some()
    }

    /// Takes what waits, if it has this number, to run it.
    fn take_due(&self, number: u64) -> Option<Waiting<T>> {
        let mut state = self.state.lock();
        let taken = state.take(number)?;
        if let Rule::Throttle { interval } = self.rule {
            // Before anybody else sees that nothing waits: or a call would lead at once.
            state.window_end = WhenDue::after(self.handle.now(), interval);
        }
        Some(taken)
    }

    /// Runs the action with the value of a call that is due, now or after the run that is under
    /// way.
    fn run(&self, call: u64, value: T) {
        let mut state = self.state.lock();
        if call < state.newest {
            drop(state);
            drop(value);
            return;
        }
        state.newest = call;
        let Some(mut action) = state.action.take() else {
            let superseded = state.overdue.replace(value);
            drop(state);
            drop(superseded);
            return;
        };
        let mut next = Some(value);
        while let Some(value) = next.take() {
            drop(state);
            self.handle.contain(self.whose, PanicIn::Task, || action(value));
            state = self.state.lock();
            next = state.overdue.take();
        }
        state.action = Some(action);
    }
}

impl<T> State<T> {
    /// Takes what waits, if it has this number.
    fn take(&mut self, number: u64) -> Option<Waiting<T>> {
        self.waiting.take_if(|waiting| waiting.number == number)
    }
}

impl<T> Shared<T> {
    pub(super) fn rule(&self) -> Rule {
        self.rule
    }
}

/// The task of a leading edge, which has its value with it.
struct Lead<T> {
    shared: Arc<Shared<T>>,
    value: T,
    call: u64,
}

impl<T: Send + 'static> TaskBody for Lead<T> {
    fn run(self) {
        self.shared.run(self.call, self.value);
    }
}

/// The task of a trailing edge.
struct Trail<T> {
    shared: Arc<Shared<T>>,
    number: u64,
}

impl<T: Send + 'static> TaskBody for Trail<T> {
    fn run(self) {
        if let Some(taken) = self.shared.take_due(self.number) {
            self.shared.run(taken.call, taken.value);
        }
    }

    fn lost(self) {
        let lost = self.shared.state.lock().take(self.number);
        drop(lost);
    }

    fn handed_back(&self) {
        let mut state = self.shared.state.lock();
        if state.waiting.as_ref().is_some_and(|waiting| waiting.number == self.number) {
            state.handed_back = true;
        }
    }
}
