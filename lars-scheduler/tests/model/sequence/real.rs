//! Does what a sequence says, and keeps a log.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lars_scheduler::{
    Cancellable, CloseReport, LightArrayRevolverScheduler, Metrics, PendingTask, Periodic, Refusal,
    ScheduleError, StopFuture, Task, VirtualTime,
};

use super::ops::{Action, Op, Rule, Settings};

/// An entry of the log. Timers are numbered in the order of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A task has begun.
    Ran(usize),
    /// Its captures were dropped.
    Dropped(usize),
    /// Its hook was called.
    Hook(usize),
    /// A call has returned.
    Said(Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Scheduled,
    Stopped,
    Full,
    ZeroPeriod,
    /// The timer was never accepted, so there is nothing to cancel or move.
    NoTimer,
    Cancel {
        done: bool,
        is_pending: bool,
        is_cancelled: bool,
    },
    Reset(bool),
}

/// What an operation from outside returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Nothing,
    Fired(usize),
    Moved(Option<Duration>),
    /// How many ran, and whether nothing is pending.
    Idle(usize, bool),
}

pub(crate) struct World {
    time: VirtualTime,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Vec<Event>,
    /// `None` if it was refused, or is being scheduled.
    timers: Vec<Option<Arc<Cancellable>>>,
    stops: Vec<StopFuture>,
}

/// What each task owns.
struct Probe {
    world: Arc<World>,
    id: usize,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.world.log(Event::Dropped(self.id));
    }
}

impl Probe {
    fn run(&self, script: &[Action]) {
        self.world.log(Event::Ran(self.id));
        self.world.perform_all(script);
    }
}

impl World {
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        let builder = LightArrayRevolverScheduler::builder()
            .tick_duration(Duration::from_nanos(settings.tick))
            .ticks_per_wheel(settings.wheel);
        let builder = match settings.max_pending {
            Some(limit) => builder.max_pending(limit),
            None => builder,
        };
        let time = builder.build_virtual().expect("the settings are in range");
        time.advance(Duration::from_nanos(settings.begin));
        Arc::new(Self { time, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this")
    }

    fn log(&self, event: Event) {
        self.state().log.push(event);
    }

    pub(crate) fn take_log(&self) -> Vec<Event> {
        std::mem::take(&mut self.state().log)
    }

    pub(crate) fn elapsed_and_pending(&self) -> (Duration, u64) {
        (self.time.elapsed(), self.time.pending())
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.time.metrics()
    }

    pub(crate) fn carry_out(self: &Arc<Self>, op: &Op) -> Outcome {
        match op {
            Op::Do(Action::Panic) => Outcome::Nothing,
            Op::Do(action) => {
                self.perform(action);
                Outcome::Nothing
            }
            Op::Advance(duration) => Outcome::Fired(self.time.advance(*duration)),
            Op::AdvanceToNext => Outcome::Moved(self.time.advance_to_next()),
            Op::RunUntilIdle(limit) => match self.time.run_until_idle(*limit) {
                Ok(ran) => Outcome::Idle(ran, true),
                Err(error) => Outcome::Idle(error.ran, false),
            },
        }
    }

    /// Ends the scheduler, if it has not ended. A `close` deals with the pending tasks by itself.
    pub(crate) fn end(&self, close: bool) -> Option<CloseReport> {
        if close {
            return Some(self.time.close().expect("it is not called by a task"));
        }
        let stop = self.time.stop();
        self.state().stops.push(stop);
        None
    }

    /// What each stop since the last call has handed back.
    pub(crate) fn handed_back(&self) -> Vec<Vec<PendingTask>> {
        let stops = std::mem::take(&mut self.state().stops);
        let patience = Duration::from_secs(30);
        stops
            .into_iter()
            .map(|stop| stop.wait_timeout(patience).expect("time does not move any more"))
            .collect()
    }

    fn perform_all(self: &Arc<Self>, script: &[Action]) {
        script.iter().for_each(|action| self.perform(action));
    }

    fn perform(self: &Arc<Self>, action: &Action) {
        match action {
            Action::Once { delay, at, script, hook } => {
                let (probe, id) = (self.probe(), self.state().timers.len() - 1);
                let (script, deadline) = (script.clone(), self.instant(*delay).filter(|_| *at));
                if let Some(hook) = hook.clone() {
                    let world = Arc::clone(self);
                    let task = Task::new(move || probe.run(&script)).on_cancel(move || {
                        world.log(Event::Hook(id));
                        world.perform_all(&hook);
                    });
                    self.scheduled(
                        id,
                        match deadline {
                            Some(deadline) => self.time.schedule_at(deadline, task),
                            None => self.time.schedule_once(*delay, task),
                        },
                    );
                } else if script.is_empty() {
                    // Captures that fit into the entry.
                    let task = move || probe.run(&[]);
                    self.scheduled(
                        id,
                        match deadline {
                            Some(deadline) => self.time.schedule_at(deadline, task),
                            None => self.time.schedule_once(*delay, task),
                        },
                    );
                } else {
                    let task = move || probe.run(&script);
                    self.scheduled(
                        id,
                        match deadline {
                            Some(deadline) => self.time.schedule_at(deadline, task),
                            None => self.time.schedule_once(*delay, task),
                        },
                    );
                }
            }
            Action::Past { ago, script } => {
                let (probe, id) = (self.probe(), self.state().timers.len() - 1);
                let script = script.clone();
                let now = self.time.now();
                let deadline = now.checked_sub(*ago).unwrap_or(now);
                let task = move || probe.run(&script);
                self.scheduled(id, self.time.schedule_at(deadline, task));
            }
            Action::Batch(tasks) => {
                let first = self.state().timers.len();
                let batch = tasks.iter().map(|(delay, script)| {
                    let (probe, script) = (self.probe(), script.clone());
                    (*delay, move || probe.run(&script))
                });
                match self.time.schedule_batch(batch) {
                    Ok(timers) => {
                        let mut state = self.state();
                        for (slot, timer) in state.timers[first..].iter_mut().zip(timers) {
                            *slot = Some(Arc::new(timer));
                        }
                        state.log.push(Event::Said(Answer::Scheduled));
                    }
                    Err(error) => self.refused(error),
                }
            }
            Action::Repeat { rule, initial, period, runs, script } => {
                let (probe, id) = (self.probe(), self.state().timers.len() - 1);
                let (script, runs, mut ran) = (script.clone(), *runs, 0);
                let run = move || {
                    ran += 1;
                    probe.run(&script);
                    if ran == runs { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                match rule {
                    Rule::Delay => {
                        let result = self.time.schedule_with_fixed_delay(*initial, *period, run);
                        self.scheduled(id, result);
                    }
                    Rule::Rate(missed) => {
                        let run = Periodic::new(run).missed_ticks(*missed);
                        let result = self.time.schedule_at_fixed_rate(*initial, *period, run);
                        self.scheduled(id, result);
                    }
                }
            }
            Action::Cancel(nth) => self.with_nth(*nth, |timer| {
                let done = timer.cancel();
                let (is_pending, is_cancelled) = (timer.is_pending(), timer.is_cancelled());
                Answer::Cancel { done, is_pending, is_cancelled }
            }),
            Action::Reset { nth, delay, at } => {
                let deadline = self.instant(*delay).filter(|_| *at);
                self.with_nth(*nth, |timer| match deadline {
                    Some(deadline) => Answer::Reset(timer.reset_at(deadline)),
                    None => Answer::Reset(timer.reset(*delay)),
                });
            }
            // Without the process's panic hook, which prints.
            Action::Panic => resume_unwind(Box::new("a task of the sequence")),
            Action::Stop => {
                let stop = self.time.stop();
                self.state().stops.push(stop);
            }
        }
    }

    /// The instant so far ahead, if the platform can express it.
    fn instant(&self, delay: Duration) -> Option<std::time::Instant> {
        self.time.now().checked_add(delay)
    }

    /// For the next timer.
    fn probe(self: &Arc<Self>) -> Probe {
        let mut state = self.state();
        state.timers.push(None);
        Probe { world: Arc::clone(self), id: state.timers.len() - 1 }
    }

    fn scheduled<T>(&self, id: usize, result: Result<Cancellable, ScheduleError<T>>) {
        match result {
            Ok(timer) => {
                let mut state = self.state();
                state.timers[id] = Some(Arc::new(timer));
                state.log.push(Event::Said(Answer::Scheduled));
            }
            Err(error) => self.refused(error),
        }
    }

    fn refused<T>(&self, error: ScheduleError<T>) {
        let (refusal, task) = error.into_parts();
        drop(task);
        self.log(Event::Said(match refusal {
            Refusal::Stopped => Answer::Stopped,
            Refusal::Full { .. } => Answer::Full,
            _ => Answer::ZeroPeriod,
        }));
    }

    fn with_nth(&self, nth: usize, f: impl FnOnce(&Cancellable) -> Answer) {
        let state = self.state();
        if state.timers.is_empty() {
            return;
        }
        // Not under the lock: what is called may run hooks and destructors.
        let timer = state.timers[nth % state.timers.len()].clone();
        drop(state);
        let answer = timer.map_or(Answer::NoTimer, |timer| f(&timer));
        self.log(Event::Said(answer));
    }
}
