//! The one drain of a worker, and what starts it.
//!
//! # Ground rules
//!
//! One mutex holds all of the state. While it is held, no user code runs, and nothing is dropped or
//! cancelled that could own user code. Nor does anybody wait for a share of the timer thread: calls
//! do that before.
//!
//! At any time at most one drain is on its way or at work; the flag `draining` says so. A thread
//! that makes a job ready starts a drain if there is none. A drain takes the flag down in the same
//! critical section in which it sees that nothing is ready, so no job is left behind. Only the
//! drain runs jobs: that is why they never overlap.
//!
//! Three tasks come from the scheduler: a [`Drain`], on its way to the executor; a [`Fire`], when a
//! delayed job is due; and a [`JobLook`], when a periodic job may be due. The last two become the
//! drain if there is none.
//!
//! After a `stop` the holder of the list may keep the drain. Then none is on its way, and what was
//! ready for it waits apart: another job that the holder runs does not wait for that drain.
//!
//! A busy drain does not wait for timers: it takes due jobs by itself. But it takes no job that
//! `stop` has handed back (`Job::claim`): that is up to the holder of the list.

use std::panic::Location;
use std::time::Duration;

use super::context::Capture;
use super::job::{Body, Fate, Job, JobStage, Jobs, Work};
use crate::label::Label;
use crate::label::Labelled;
use crate::when_due::DueOn;
use lars_base::sync::{Arc, Mutex, MutexGuard, Parker};
use lars_scheduler::executor::TaskBody;
use lars_scheduler::extend::EndOfSeries;
use lars_scheduler::extend::RunOn;
use lars_scheduler::extend::Systems;
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{
    Cancellable, Handle, IntoPeriodic, Periodic, Refusal, Repeat, ScheduleError, Start, Task,
};

/// Where and how jobs run.
#[derive(Debug, Clone)]
pub(super) enum Mode {
    /// On an executor, until nothing is ready.
    Eager(RunOn),
    /// On an executor, one job at a time.
    Fair(RunOn),
    /// On the thread of the call that finds no drain at work.
    Trampoline,
}

pub(super) struct SharedWorker {
    pub(super) handle: Handle,
    /// The name of its timers, and where it was built.
    pub(super) label: Label,
    pub(super) mode: Mode,
    pub(super) hooks: Vec<Box<dyn Capture>>,
    pub(super) jobs: Mutex<Jobs>,
}

impl SharedWorker {
    pub(super) fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock()
    }

    pub(super) fn is_trampoline(&self) -> bool {
        matches!(self.mode, Mode::Trampoline)
    }

    fn run_on(&self) -> RunOn {
        match &self.mode {
            Mode::Eager(run_on) | Mode::Fair(run_on) => run_on.clone(),
            // A trampoline's timers only wake its thread.
            Mode::Trampoline => RunOn::Inline,
        }
    }

    fn schedule<B: TaskBody>(
        &self,
        delay: Duration,
        body: B,
        label: Label,
    ) -> Result<Cancellable, Refusal> {
        let task = Task::new(body).run_on(self.run_on()).labelled(label);
        let _waits_later = self.handle.wait_later();
        // It runs the jobs of others, each of which has its own span.
        self.handle
            .outside_spans(|| self.handle.schedule_once(delay, task))
            .map_err(|refused| refused.refusal().clone())
    }

    /// Sends a drain to the executor.
    pub(super) fn submit(self: &Arc<Self>, jobs: &mut Jobs) -> Result<(), Refusal> {
        jobs.drain = Some(self.schedule(Duration::ZERO, Drain(Arc::clone(self)), self.label)?);
        jobs.draining = true;
        Ok(())
    }

    /// The label of the timer of a job that is scheduled by this call.
    #[track_caller]
    pub(super) fn label_here(&self) -> Label {
        Label::at(Location::caller()).named(self.label.name)
    }

    /// The timer of a delayed job.
    pub(super) fn fire_after(
        self: &Arc<Self>,
        delay: Duration,
        number: u64,
        label: Label,
    ) -> Result<Cancellable, Refusal> {
        self.schedule(delay, Fire { worker: Arc::clone(self), number }, label)
    }

    /// The timer of a periodic job. An error is to be dropped without the lock.
    pub(super) fn look_after(
        self: &Arc<Self>,
        initial: Start,
        number: u64,
        label: Label,
    ) -> Result<Cancellable, ScheduleError<impl IntoPeriodic<Repeat> + use<>>> {
        let look = JobLook { worker: Arc::clone(self), number };
        let worker = Arc::clone(self);
        let handed_back = move || worker.lock().leave_to_timer(number);
        let series = Periodic::new(move || look.look())
            .run_on(self.run_on())
            .labelled(label)
            .on_end(|| (), handed_back, || ());
        let _waits_later = self.handle.wait_later();
        self.handle.outside_spans(|| self.handle.schedule_repeating(initial, series))
    }

    /// Runs what is ready. The caller has put the flag up, or was given it.
    pub(super) fn drain(self: &Arc<Self>) {
        let mut parker: Option<Parker> = None;
        loop {
            let mut jobs = self.lock();
            jobs.sleeper = None;
            jobs.collect_due(&self.handle);
            let Some(number) = jobs.first_ready() else {
                if self.is_trampoline() && jobs.is_waiting() && !self.handle.is_timer_thread() {
                    let parker = parker.get_or_insert_with(Parker::new);
                    jobs.sleeper = Some(parker.unparker().clone());
                    drop(jobs);
                    parker.park();
                    continue;
                }
                jobs.draining = false;
                return;
            };
            self.run(jobs, number);
            if matches!(self.mode, Mode::Fair(_)) {
                self.handle.wait_for_share();
                let mut jobs = self.lock();
                // An accepted task must run: here, if it cannot run elsewhere.
                if jobs.first_ready().is_some() && self.submit(&mut jobs).is_ok() {
                    return;
                }
            }
        }
    }

    /// Runs one job that is ready.
    fn run(&self, mut jobs: MutexGuard<'_, Jobs>, number: u64) {
        let Some(job) = jobs.all.get_mut(&number) else { return };
        let (due, Some(Work { body, context })) = (job.due, job.work.take()) else { return };
        let whose = context.whose;
        match body {
            Body::Once(run) => {
                // From here on it cannot be cancelled; it is over when it has run.
                let ticket = Arc::clone(&job.ticket);
                let job = jobs.remove(number, Fate::Open);
                drop(jobs);
                drop(job);
                context.run(&self.handle, run);
                self.handle.contain(whose, PanicIn::Cleanup, || drop(context));
                ticket.close(Fate::Over);
            }
            Body::Periodic(mut run) => {
                jobs.move_to(number, due, JobStage::Running);
                drop(jobs);
                let mut again = false;
                context.run(&self.handle, || again = run());
                let mut work = Some(Work { body: Body::Periodic(run), context });
                let ended = self.lock().put_back(number, &mut work, again, &self.handle);
                if let Some(job) = ended {
                    job.discard(&self.handle);
                }
                self.handle.contain(whose, PanicIn::Cleanup, || drop(work));
            }
        }
    }

    /// The timer of a job has come by. Makes the job ready if `is_due` says so; true if the caller
    /// is to drain.
    fn ready(&self, number: u64, is_due: impl FnOnce(&Job) -> bool) -> bool {
        let mut jobs = self.lock();
        jobs.collect_due(&self.handle);
        if let Some(job) = jobs.all.get(&number)
            && !matches!(job.stage, JobStage::Ready | JobStage::Running)
            && is_due(job)
        {
            // A job that runs before its time comes after those whose time has come.
            let due = job.due.min(self.handle.due_after(Duration::ZERO));
            jobs.move_to(number, due, JobStage::Ready);
        }
        if jobs.draining || jobs.first_ready().is_none() {
            return false;
        }
        jobs.draining = true;
        true
    }

    /// The timer of a job is over, and the job with it.
    fn lose(&self, number: u64) {
        let lost = self.lock().lose(number);
        if let Some(job) = lost {
            job.discard(&self.handle);
        }
    }

    /// A drain has come to run; true if it is to drain. One that was handed back has lost the flag,
    /// and takes up what was left to it.
    fn arrive(&self) -> bool {
        let mut jobs = self.lock();
        let Some(left) = jobs.take_left() else { return true };
        for number in left {
            jobs.make_ready(number);
        }
        !std::mem::replace(&mut jobs.draining, true)
    }

    /// A drain was dropped unrun.
    fn drain_lost(self: &Arc<Self>) {
        let mut jobs = self.lock();
        if let Some(left) = jobs.take_left() {
            let lost: Vec<_> =
                left.into_iter().filter_map(|number| jobs.remove(number, Fate::Over)).collect();
            drop(jobs);
            for job in lost {
                job.discard(&self.handle);
            }
            return;
        }
        drop(jobs);
        // If the scheduler has stopped, its tasks are dropped, and what is ready here with them.
        // Otherwise an executor has lost a task, which was this worker's first, and the others need
        // a new drain.
        let mut stopped = self.handle.is_stopped();
        loop {
            let mut jobs = self.lock();
            let lost = jobs.first_ready().and_then(|number| jobs.remove(number, Fate::Over));
            jobs.draining = jobs.first_ready().is_some();
            let goes_on = jobs.draining;
            let sent = if goes_on && !stopped { self.submit(&mut jobs) } else { Ok(()) };
            drop(jobs);
            if let Some(job) = lost {
                job.discard(&self.handle);
            }
            if let Err(refusal) = sent {
                stopped = refusal == Refusal::Stopped;
                if !stopped {
                    // There is no place for a timer, and waiting for one could take forever. (Do
                    // not run the others here: any thread may have dropped the task.)
                    self.handle.hand_over_to_pool(Drain(Arc::clone(self)));
                }
            }
            if !goes_on || !stopped {
                return;
            }
        }
    }
}

/// A drain on its way.
struct Drain(Arc<SharedWorker>);

impl TaskBody for Drain {
    fn run(self) {
        if self.0.arrive() {
            self.0.drain();
        }
    }

    fn handed_back(&self) {
        self.0.lock().leave_to_drain();
    }

    fn lost(self) {
        self.0.drain_lost();
    }
}

/// The timer of a delayed job.
struct Fire {
    worker: Arc<SharedWorker>,
    number: u64,
}

impl TaskBody for Fire {
    fn run(self) {
        // It is due because its timer says so; `close`, and the holder of a list from `stop`, run
        // it earlier.
        if self.worker.ready(self.number, |_| true) {
            self.worker.drain();
        }
    }

    fn handed_back(&self) {
        self.worker.lock().leave_to_timer(self.number);
    }

    fn lost(self) {
        self.worker.lose(self.number);
    }
}

/// What the series of a periodic job runs. The series is over when this is dropped.
struct JobLook {
    worker: Arc<SharedWorker>,
    number: u64,
}

impl JobLook {
    fn look(&self) -> Repeat {
        let handle = &self.worker.handle;
        // One that was handed back runs when the holder of the list says so, as other repeats do.
        let is_due =
            |job: &Job| job.stage == JobStage::LeftToTimer || job.due.has_come(handle.now());
        if self.worker.ready(self.number, is_due) {
            self.worker.drain();
        }
        let jobs = self.worker.lock();
        let Some(job) = jobs.all.get(&self.number) else { return Repeat::Stop };
        match (&job.rule, job.stage) {
            (_, JobStage::Waiting) => job.due.into(),
            // Another drain will run it. The end of that run decides when the next one is due; it
            // is not before this:
            (Some(rule), _) => rule.look_again(handle.now()).into(),
            (None, _) => Repeat::Stop,
        }
    }
}

impl Drop for JobLook {
    fn drop(&mut self) {
        self.worker.lose(self.number);
    }
}
