//! The one drain of a worker, and what starts it.
//!
//! # Ground rules
//!
//! One mutex holds all of the state. No user code runs, and nothing that could own user code is dropped or cancelled,
//! while it is held.
//!
//! At any time at most one drain is on its way or at work; the flag `draining` says so. Whoever makes a job ready
//! starts one if there is none. A drain takes the flag down in the same critical section in which it sees that nothing is
//! ready, so no job is left behind. Only the drain runs jobs: that is why they never overlap.
//!
//! Three things come from the scheduler: a [`Drain`], which is on its way to the executor; a [`Fire`], when a delayed job is due; a
//! [`Look`], when a periodic job may be. The last two become the drain if there is none. Each owns something of the
//! worker, and gives it up when it is dropped unrun: then the scheduler has stopped, or an executor has lost it.

use std::time::{Duration, Instant};

use super::context::Capture;
use super::job::{Body, Due, Fate, Job, Place, State, Work};
use crate::body::TaskBody;
use crate::cancel::Cancellable;
use crate::error::{Refusal, ScheduleError};
use crate::executor::Executor;
use crate::handle::Handle;
use crate::repeat::{IntoPeriodic, Periodic, Repeat};
use crate::report::PanicIn;
use crate::sync::{Arc, Mutex, MutexGuard, Parker};
use crate::task::Task;

/// Where and how jobs run.
pub(super) enum Mode {
    /// On an executor, until nothing is ready.
    Eager(RunsOn),
    /// On an executor, one job at a time.
    Fair(RunsOn),
    /// On the thread of the call that finds nobody draining.
    Trampoline,
}

#[derive(Clone)]
pub(super) enum RunsOn {
    Default,
    Inline,
    Executor(Arc<dyn Executor>),
}

pub(super) struct Shared {
    pub(super) handle: Handle,
    pub(super) mode: Mode,
    pub(super) hooks: Vec<Box<dyn Capture>>,
    pub(super) state: Mutex<State>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn is_trampoline(&self) -> bool {
        matches!(self.mode, Mode::Trampoline)
    }

    fn task<B: TaskBody>(&self, body: B) -> Task<B> {
        let task = Task::new(body);
        match &self.mode {
            Mode::Eager(RunsOn::Default) | Mode::Fair(RunsOn::Default) => task,
            Mode::Eager(RunsOn::Executor(executor)) | Mode::Fair(RunsOn::Executor(executor)) => {
                task.executor(Arc::clone(executor))
            }
            // A trampoline's timers only wake its thread.
            Mode::Eager(RunsOn::Inline) | Mode::Fair(RunsOn::Inline) | Mode::Trampoline => {
                task.inline()
            }
        }
    }

    /// Sends a drain to the executor. An error is to be dropped without the lock.
    pub(super) fn submit(
        self: &Arc<Self>,
        state: &mut State,
    ) -> Result<(), ScheduleError<Task<Drain>>> {
        let drain = Drain { worker: Some(Arc::clone(self)) };
        state.drain = Some(self.handle.schedule_once(Duration::ZERO, self.task(drain))?);
        state.draining = true;
        Ok(())
    }

    /// The timer of a delayed job. An error is to be dropped without the lock.
    pub(super) fn fire_after(
        self: &Arc<Self>,
        delay: Duration,
        number: u64,
    ) -> Result<Cancellable, ScheduleError<Task<Fire>>> {
        let fire = Fire { worker: Some(Arc::clone(self)), number };
        self.handle.schedule_once(delay, self.task(fire))
    }

    /// The timer of a periodic job. An error is to be dropped without the lock.
    pub(super) fn look_after(
        self: &Arc<Self>,
        initial: Duration,
        number: u64,
    ) -> Result<Cancellable, ScheduleError<impl IntoPeriodic<Repeat> + use<>>> {
        let look = Look { worker: Arc::clone(self), number };
        let series = Periodic::new(move || look.look());
        let series = match &self.mode {
            Mode::Eager(RunsOn::Default) | Mode::Fair(RunsOn::Default) => series,
            Mode::Eager(RunsOn::Executor(executor)) | Mode::Fair(RunsOn::Executor(executor)) => {
                series.executor(Arc::clone(executor))
            }
            Mode::Eager(RunsOn::Inline) | Mode::Fair(RunsOn::Inline) | Mode::Trampoline => {
                series.inline()
            }
        };
        self.handle.schedule_repeating(initial, series)
    }

    /// Runs what is ready. The caller has put the flag up, or was given it.
    pub(super) fn drain(self: &Arc<Self>) {
        let mut parker: Option<Parker> = None;
        loop {
            let mut state = self.lock();
            state.sleeper = None;
            let now = self.handle.now();
            state.collect_due(now);
            let Some(number) = state.first_ready() else {
                if self.is_trampoline() && state.is_waiting() && !self.handle.is_timer_thread() {
                    let parker = parker.get_or_insert_with(Parker::new);
                    state.sleeper = Some(parker.unparker().clone());
                    drop(state);
                    parker.park();
                    continue;
                }
                state.draining = false;
                return;
            };
            self.run(state, number);
            if matches!(self.mode, Mode::Fair(_)) {
                let mut state = self.lock();
                if state.first_ready().is_some() {
                    let sent = self.submit(&mut state);
                    drop(state);
                    match sent {
                        Ok(()) => return,
                        // What was accepted is run: here, if it cannot be elsewhere.
                        Err(refused) => refused.into_task().into_body().disarm(),
                    }
                }
            }
        }
    }

    /// Runs one job that is ready.
    fn run(&self, mut state: MutexGuard<'_, State>, number: u64) {
        let Some(job) = state.jobs.get_mut(&number) else {
            return;
        };
        let (due, Some(Work { body, context })) = (job.due, job.work.take()) else {
            return;
        };
        match body {
            Body::Once(run) => {
                // From here on it cannot be cancelled; it is over when it has run.
                let ticket = Arc::clone(&job.ticket);
                let mut job = state.remove(number, Fate::Open);
                drop(state);
                // Its timer may be still to come, if the drain saw first that it is due.
                if let Some(timer) = job.as_mut().and_then(|job| job.timer.take()) {
                    timer.cancel();
                }
                context.run(&self.handle, run);
                self.handle.contain(PanicIn::Cleanup, || drop(context));
                ticket.close(Fate::Over);
            }
            Body::Periodic(mut run) => {
                state.move_to(number, due, Place::Running);
                drop(state);
                let mut again = false;
                context.run(&self.handle, || again = run());
                self.after_run(number, Work { body: Body::Periodic(run), context }, again);
            }
        }
    }

    /// A run of a periodic job has ended: puts it back, unless that was its last.
    fn after_run(&self, number: u64, work: Work, again: bool) {
        let mut state = self.lock();
        let now = self.handle.now();
        let mut superfluous = Some(work);
        let mut ended = None;
        if let Some(job) = state.jobs.get_mut(&number) {
            match &mut job.rule {
                Some(rule) if again => {
                    let due = rule.next(now);
                    job.work = superfluous.take();
                    let place = if due.has_come(now) { Place::Ready } else { Place::Waiting };
                    state.move_to(number, due, place);
                }
                _ => ended = state.remove(number, Fate::Over),
            }
        }
        drop(state);
        if let Some(job) = ended {
            job.discard(&self.handle);
        }
        self.handle.contain(PanicIn::Cleanup, || drop(superfluous));
    }

    /// A timer has found its job due: makes it ready, and says whether the caller is to drain.
    fn ready(&self, number: u64, is_due: impl FnOnce(&Job, Instant) -> bool) -> bool {
        let mut state = self.lock();
        let now = self.handle.now();
        state.collect_due(now);
        if let Some(job) = state.jobs.get(&number)
            && job.place == Place::Waiting
            && is_due(job, now)
        {
            state.move_to(number, Due::At(now), Place::Ready);
        }
        if state.draining || state.first_ready().is_none() {
            return false;
        }
        state.draining = true;
        true
    }

    /// What was to run a job is gone, and the job with it.
    fn lose(&self, number: u64) {
        let lost = self.lock().remove(number, Fate::Over);
        if let Some(job) = lost {
            job.discard(&self.handle);
        }
    }

    /// A drain was dropped unrun.
    fn drain_lost(self: &Arc<Self>) {
        // The scheduler has stopped: its tasks are dropped, and what is ready here with them. Otherwise an executor has
        // lost a task, which was this worker's first, and the others need a new drain.
        let mut stopped = self.handle.is_stopped();
        loop {
            let mut state = self.lock();
            let lost = state.first_ready().and_then(|number| state.remove(number, Fate::Over));
            state.draining = state.first_ready().is_some();
            let goes_on = state.draining;
            let sent = if goes_on && !stopped { self.submit(&mut state) } else { Ok(()) };
            drop(state);
            if let Some(job) = lost {
                job.discard(&self.handle);
            }
            if let Err(refused) = sent {
                stopped = *refused.refusal() == Refusal::Stopped;
                let drain = refused.into_task().into_body();
                if stopped {
                    drain.disarm();
                } else {
                    // There is no place for a timer, and not to wait for one either: nobody might come by. (It may
                    // be anybody's thread on which the task was dropped, so it is not done here.)
                    self.handle.run_on_pool(drain);
                }
            }
            if !goes_on || !stopped {
                return;
            }
        }
    }
}

/// A drain on its way.
pub(super) struct Drain {
    /// `None` once it was used.
    worker: Option<Arc<Shared>>,
}

impl Drain {
    /// It was refused, and is nobody's loss.
    pub(super) fn disarm(mut self) {
        self.worker = None;
    }
}

impl TaskBody for Drain {
    fn run(mut self) {
        if let Some(worker) = self.worker.take() {
            worker.drain();
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.drain_lost();
        }
    }
}

/// The timer of a delayed job.
pub(super) struct Fire {
    /// `None` once it was used.
    worker: Option<Arc<Shared>>,
    number: u64,
}

impl Fire {
    /// It was refused, and is nobody's loss.
    pub(super) fn disarm(mut self) {
        self.worker = None;
    }
}

impl TaskBody for Fire {
    fn run(mut self) {
        if let Some(worker) = self.worker.take() {
            // It is due because its timer says so: so does `close`, before the time.
            if worker.ready(self.number, |_, _| true) {
                worker.drain();
            }
        }
    }
}

impl Drop for Fire {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.lose(self.number);
        }
    }
}

/// What the series of a periodic job runs.
struct Look {
    worker: Arc<Shared>,
    number: u64,
}

impl Look {
    fn look(&self) -> Repeat {
        if self.worker.ready(self.number, |job, now| job.due.has_come(now)) {
            self.worker.drain();
        }
        let state = self.worker.lock();
        let Some(job) = state.jobs.get(&self.number) else {
            return Repeat::Stop;
        };
        let next = match (&job.rule, job.place) {
            (_, Place::Waiting) => job.due,
            // It will run, by another drain. When the run after that one is due will be known at its end, and
            // is not before this:
            (Some(rule), _) => rule.look_again(self.worker.handle.now()),
            (None, _) => return Repeat::Stop,
        };
        match next {
            Due::At(next) => Repeat::At(next),
            Due::Never => Repeat::After(Duration::MAX),
        }
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.worker.lose(self.number);
    }
}
