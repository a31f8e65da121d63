//! What the actors of a system share: their threads, timers and dead letters, and the tree of the
//! living.

use std::panic::Location;
use std::time::Duration;

use lars_base::panics::quietly;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::{Cancellable, Handle, PendingTask, Refusal, Task};

use crate::base::lineage::Lineage;
use crate::base::panics::guard;
use crate::base::stop_reason::{StopReason, Terminated};
use crate::cell::dead_letters::DeadLetters;
use crate::cell::incidents::Incidents;
use crate::cell::metrics::SystemMetrics;
use crate::cell::questions::Questions;
use crate::cell::rules::Rules;
use crate::cell::signal::Resident;
use crate::cell::tree::Tree;
use crate::dispatcher::Dispatcher;
use crate::dispatcher::marks::{Inside, Mapping};
use crate::dispatcher::watch::{Note, Reports};
use crate::sync::plain::{AtomicBool, AtomicU64};
use crate::sync::{Arc, Mutex, Ordering};

/// Where a call is in the source.
pub(crate) type Place = &'static Location<'static>;

pub(crate) struct Registry {
    pub(crate) tree: Tree,
    pub(crate) timers: Handle,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) rules: Rules,
    pub(crate) dead_letters: Arc<DeadLetters>,
    pub(crate) incidents: Incidents,
    pub(crate) restarts: AtomicU64,
    /// How many anonymous actors there have been.
    pub(crate) anonymous: AtomicU64,
    /// The open questions, if the scheduler is somebody else's.
    pub(crate) questions: Option<Questions>,
    /// The system is being closed, or has been.
    closing: AtomicBool,
    /// Timers that actors have started since the scheduler of a closing system stopped.
    late_timers: AtomicU64,
    /// What the scheduler handed back when the system was closed, and will not run: timeouts of
    /// questions, timers. `None` when nothing is kept any more.
    unsent: Mutex<Option<Vec<PendingTask>>>,
}

impl Registry {
    /// `timers` are those of the system's own scheduler, or `foreign`.
    pub(crate) fn new(
        name: String,
        (timers, foreign): (Handle, bool),
        dispatcher: Dispatcher,
        rules: Rules,
        incidents: Incidents,
    ) -> Self {
        Self {
            tree: Tree::new(name),
            timers,
            dispatcher,
            rules,
            dead_letters: Arc::new(DeadLetters::new()),
            incidents,
            restarts: AtomicU64::new(0),
            anonymous: AtomicU64::new(0),
            questions: foreign.then(Questions::new),
            closing: AtomicBool::new(false),
            late_timers: AtomicU64::new(0),
            unsent: Mutex::new(Some(Vec::new())),
        }
    }

    /// What distinguishes this system from others.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether something of the system may wait for the calling thread: this thread runs an actor,
    /// is one of the system's own, or makes a message that an actor waits for.
    pub(crate) fn is_inside(&self) -> bool {
        Inside::system(self.key())
            || self.dispatcher.is_current()
            || self.is_timer_thread()
            || self.rules.on_thread_start.lock().is_running()
            || Mapping::is_running()
    }

    /// Whether the calling thread fires the system's timers, now.
    pub(crate) fn is_timer_thread(&self) -> bool {
        self.timers.is_timer_thread()
    }

    /// Runs `task` on the timer thread, after `delay`, for a call at this place.
    pub(crate) fn arm(
        &self,
        delay: Duration,
        task: Task<impl TaskBody>,
        place: Place,
    ) -> Result<Cancellable, Refusal> {
        let armed = self.timers.schedule_once(delay, task.inline().placed_at(place));
        armed.map_err(|error| error.refusal().clone())
    }

    /// Like [`arm`](Self::arm), for a timer that an actor starts. Once the scheduler has stopped
    /// because the system is being closed, the timer only counts as started and ended: an actor
    /// that receives what is left need not know of the close. There is nothing to cancel then.
    pub(crate) fn arm_own(
        &self,
        delay: Duration,
        task: Task<impl TaskBody>,
        place: Place,
    ) -> Result<Option<Cancellable>, Refusal> {
        match self.arm(delay, task, place) {
            // Acquire: it was set before the scheduler stopped.
            Err(Refusal::Stopped) if self.closing.load(Ordering::Acquire) => {
                // Relaxed: a statistic.
                self.late_timers.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            armed => armed.map(Some),
        }
    }

    /// Like [`arm`](Self::arm), for an actor that relies on it and has no caller to return an error
    /// to. A refusal is logged, unless the system is being closed.
    pub(crate) fn arm_for(
        &self,
        actor: &Lineage,
        delay: Duration,
        task: Task<impl TaskBody>,
        place: Place,
    ) -> Option<Cancellable> {
        self.arm(delay, task, place).map_err(|refusal| report_refused(actor, &refusal)).ok()
    }

    /// An actor has stopped, and leaves the tree. The last one ends a system that is being closed.
    pub(crate) fn leave(&self, actor: &dyn Resident, reason: StopReason) {
        if let Some(hook) = &self.rules.on_stop {
            let path = actor.lineage().to_path();
            hook(Terminated { id: actor.id(), path, reason });
        }
        let left = self.tree.leave(actor);
        if left.ends {
            self.end();
        }
        if left.over {
            self.release();
        }
    }

    /// The owner has gone. When the last actor has gone as well, the system is over.
    pub(crate) fn disown(&self) {
        if self.tree.disown() {
            self.release();
        }
    }

    /// Drops the hooks. They may refer to actors, and actors to the system, which would then keep
    /// itself alive.
    fn release(&self) {
        self.dead_letters.release();
        self.incidents.release();
        let on_start = std::mem::take(&mut *self.rules.on_thread_start.lock());
        guard("the destructor of the hook on the start of a thread", || drop(on_start));
    }

    /// Closing begins. What the scheduler refuses from now on is no error of an actor's.
    pub(crate) fn begin_close(&self) {
        // Release: see `arm_own`.
        self.closing.store(true, Ordering::Release);
        self.tree.begin_close();
    }

    /// How many timers actors have started since the scheduler of a closing system stopped.
    pub(crate) fn late_timers(&self) -> usize {
        // Relaxed: a statistic.
        self.late_timers.load(Ordering::Relaxed) as usize
    }

    /// Accepts no more actors, and asks those without a parent to stop, in the order in which they
    /// were spawned.
    pub(crate) fn close(&self) {
        for actor in self.tree.close() {
            actor.stop_for(StopReason::SystemClosed);
        }
        if self.tree.alive() == 0 {
            self.end();
        }
    }

    /// No actor is alive, and none will be: ends open questions and the threads.
    fn end(&self) {
        self.drop_unsent();
        self.dispatcher.end();
    }

    /// Keeps what is not to be sent until the last actor has stopped: answers may come until then.
    pub(crate) fn keep_unsent(&self, tasks: Vec<PendingTask>) {
        if let Some(unsent) = &mut *self.unsent.lock() {
            unsent.extend(tasks);
        }
    }

    /// Ends open questions, and what else was kept.
    pub(crate) fn drop_unsent(&self) {
        // It wakes askers, and drops closures.
        drop(self.take_unsent());
        self.close_questions();
    }

    /// What was kept. Nothing more is kept from now on.
    pub(crate) fn take_unsent(&self) -> Vec<PendingTask> {
        self.unsent.lock().take().unwrap_or_default()
    }

    /// Ends the open questions on a scheduler that is somebody else's.
    pub(crate) fn close_questions(&self) {
        if let Some(questions) = &self.questions {
            questions.close();
        }
    }

    /// In virtual time: the seed of an actor's random numbers, different for each path and always
    /// the same.
    pub(crate) fn seed(&self, actor: &Lineage) -> Option<u64> {
        self.dispatcher.as_manual()?;
        // FNV-1a, which is the same everywhere.
        let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Some(actor.to_path().bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    pub(crate) fn metrics(&self) -> SystemMetrics {
        let counts = self.tree.counts();
        SystemMetrics {
            alive: counts.alive,
            stopped: counts.stopped,
            processed: counts.pinned_received + self.dispatcher.received(),
            panicked: self.incidents.panics(),
            // Relaxed: a statistic.
            restarts: self.restarts.load(Ordering::Relaxed),
            dead_letters: self.dead_letters.count(),
            slow_receives: self.incidents.slow_receives(),
        }
    }
}

impl Reports for Registry {
    fn slow(&self, took: Duration, turns: &[Note], last: Option<&Lineage>) {
        self.incidents.slow(took, turns, last, |wanted| self.tree.paths_of(wanted));
    }
}

#[cold]
fn report_refused(actor: &Lineage, refusal: &Refusal) {
    if *refusal != Refusal::Stopped {
        quietly(|| {
            tracing::error!(
                target: "mini_actor", actor = &*actor.to_path(), %refusal,
                "a timer has ended"
            );
        });
    }
}
