//! The close as a state machine: who lets the actors work off what they have, stops the scheduler,
//! and sees to what that hands back.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lars_base::time::Instant;
use lars_scheduler::{PendingTask, StopFuture};

use crate::base::panics::guard;
use crate::cell::metrics::SystemMetrics;
use crate::cell::registry::Registry;
use crate::dispatcher::marks::Mapping;
use crate::dispatcher::task::{Activate, Task};
use crate::dispatcher::worker::NoTurn;
use crate::refs::ask::is_question;
use crate::sync::{Arc, Condvar, Mutex, real_now, thread};
use crate::system::close::{ClosePolicy, CloseReport};
use crate::system::draining::drain;

/// Stops the system's own scheduler, which it owns.
pub(super) type StopScheduler = dyn Fn() -> StopFuture + Send + Sync;

/// Where the timers are that the scheduler hands back when it stops.
enum Handover {
    /// With the scheduler, which has not been stopped.
    Due,
    /// With this thread: it lets the actors work off what they have, stops the scheduler, waits for
    /// the timers, or sees to them.
    With(thread::ThreadId),
    /// With the scheduler, which has promised them. Whoever takes the promise polls it, or leaves
    /// it to [`Closing::look`].
    Promised(StopFuture),
    /// They have been seen to. This is the end.
    Done,
}

/// How far a close has come. Several threads may close a system at the same time, and foreign code
/// that they call may do so once more. For that:
///
/// - The thread of [`Handover::With`] alone has the promise or the timers, and ends that state. It
///   holds no lock meanwhile, because it waits and calls foreign code.
/// - Another thread that closes waits for it, until its own limit; but not if something of the
///   system may wait for that other thread.
/// - Who has seen that state end asks the actors to stop. That does no harm if it is done twice. So
///   scheduled messages come before that, unless the limit of all who close is over.
pub(super) struct Closing {
    registry: Arc<Registry>,
    policy: ClosePolicy,
    progress: Mutex<Progress>,
    /// Signalled when a thread is through with the handover, or gives it up.
    passed_on: Condvar,
}

struct Progress {
    handover: Handover,
    /// The counts when it began, if it has.
    before: Option<SystemMetrics>,
    report: CloseReport,
}

/// The calling thread has the handover, until this is dropped.
struct Holder<'a> {
    closing: &'a Closing,
    then: Handover,
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        let then = std::mem::replace(&mut self.then, Handover::Done);
        self.closing.progress.lock().handover = then;
        self.closing.passed_on.notify_all();
    }
}

impl Closing {
    pub(super) fn new(registry: Arc<Registry>, policy: ClosePolicy) -> Self {
        let progress =
            Progress { handover: Handover::Due, before: None, report: CloseReport::default() };
        Self { registry, policy, progress: Mutex::new(progress), passed_on: Condvar::default() }
    }

    /// Whether the calling thread has the handover.
    pub(super) fn is_here(&self) -> bool {
        let progress = self.progress.lock();
        matches!(progress.handover, Handover::With(thread) if thread == thread::current().id())
    }

    /// The counts when the first call that closes began.
    pub(super) fn begin(&self) -> SystemMetrics {
        self.registry.begin_close();
        *self.progress.lock().before.get_or_insert_with(|| self.registry.metrics())
    }

    /// Lets the actors work off what they have, unless the calling thread is `inside` the system;
    /// stops the scheduler, if the system owns one, and sees to what it hands back. If another
    /// thread does, waits for that thread, unless the calling one is inside. False if the other is
    /// still at it.
    pub(super) fn hand_over(
        self: &Arc<Self>,
        stop: Option<&StopScheduler>,
        inside: bool,
        deadline: Option<Instant>,
    ) -> bool {
        let mut progress = self.progress.lock();
        loop {
            match progress.handover {
                Handover::Due | Handover::Promised(_) => break,
                Handover::With(_) => {}
                Handover::Done => return true,
            }
            if inside || deadline.is_some_and(|deadline| real_now() >= deadline) {
                return false;
            }
            progress = self.passed_on.wait(progress, deadline);
        }
        let (taken, mut holder) = self.take(&mut progress);
        drop(progress);
        let promise = match taken {
            Handover::Promised(promise) => promise,
            _ => {
                if !inside {
                    drain(&self.registry, deadline);
                }
                let Some(stop) = stop else { return true };
                // In virtual time it may tell timers that they are handed back: foreign code.
                stop()
            }
        };
        // In virtual time it is kept already, or will be when this movement of time ends. The timer
        // thread may wait for a message that is being made, to make room where that one lies.
        let must_not = self.registry.is_timer_thread()
            || self.registry.dispatcher.as_manual().is_some()
            || Mapping::is_running();
        let left = match deadline {
            _ if must_not => Duration::ZERO,
            None => Duration::MAX,
            Some(deadline) => deadline.saturating_duration_since(real_now()),
        };
        let until = if must_not { None } else { deadline };
        match promise.wait_timeout(left) {
            Ok(timers) => {
                self.see_to(timers, until);
                if !inside {
                    drain(&self.registry, deadline);
                }
            }
            Err(later) => {
                holder.then = Handover::Promised(later);
                drop(holder);
                // They may have come by now.
                self.look(until);
            }
        }
        true
    }

    /// Gives the calling thread the handover, and what there was: it is due or promised.
    fn take<'a>(&'a self, progress: &mut Progress) -> (Handover, Holder<'a>) {
        let here = Handover::With(thread::current().id());
        let taken = std::mem::replace(&mut progress.handover, here);
        (taken, Holder { closing: self, then: Handover::Done })
    }

    /// Deals with what the scheduler hands back. By the thread that has the handover; beyond
    /// `deadline`, if there is one, by the threads of the system.
    fn see_to(&self, timers: Vec<PendingTask>, deadline: Option<Instant>) {
        // Kept until the actors have stopped.
        let [mut sent, mut dropped, mut kept] = [const { Vec::new() }; 3];
        {
            let report = &mut self.progress.lock().report;
            for task in timers {
                let (count, tasks) = if task.is_repeat() {
                    let runs = task.runs_on_close() && self.policy == ClosePolicy::SendPending;
                    (&mut report.repeats_ended, if runs { &mut sent } else { &mut dropped })
                } else if !task.runs_on_close() {
                    // A closure, or what belongs to one actor or question.
                    (&mut report.timers_ended, &mut kept)
                } else if self.policy == ClosePolicy::SendPending {
                    (&mut report.sent, &mut sent)
                } else {
                    (&mut report.dropped, &mut dropped)
                };
                *count += 1;
                tasks.push(task);
            }
        }
        self.registry.keep_unsent(kept);
        let sent = sent.into_iter().map(|task| (Fate::Run, task));
        self.befall_all(sent.chain(dropped.into_iter().map(|task| (Fate::Drop, task))), deadline);
    }

    /// Has all of them run or dropped, beyond `deadline`, if there is one, by the threads of the
    /// system. The caller holds no lock: marked closures, hooks and destructors are foreign code.
    fn befall_all(
        &self,
        mut all: impl Iterator<Item = (Fate, PendingTask)>,
        deadline: Option<Instant>,
    ) {
        while let Some((fate, task)) = all.next() {
            fate.befall(task);
            if deadline.is_some_and(|deadline| real_now() >= deadline) {
                let rest = Arc::new(Rest(Mutex::new(all.collect())));
                self.registry.dispatcher.schedule(rest as Task);
                return;
            }
        }
    }

    /// Ends the questions that are open, and drops what else was kept until the actors had stopped:
    /// that beyond `deadline`, if there is one, by the threads of the system. These may be occupied
    /// by actors that wait for the answers, so the questions come first, and here.
    pub(super) fn end_questions(&self, deadline: Option<Instant>) {
        let unsent = self.registry.take_unsent().into_iter();
        let (questions, others): (Vec<_>, Vec<_>) = unsent.partition(is_question);
        drop(questions);
        self.registry.close_questions();
        // In virtual time no thread would see to the rest.
        let deadline = deadline.filter(|_| self.registry.dispatcher.as_manual().is_none());
        self.befall_all(others.into_iter().map(|task| (Fate::Drop, task)), deadline);
    }

    /// Sees to what the scheduler has handed back after closing has gone on without it, or waits to
    /// be woken. The timer thread does that, as the last thing that it does; so does, until
    /// `deadline`, if there is one, the thread that closes.
    fn look(self: &Arc<Self>, deadline: Option<Instant>) {
        let waker = Waker::from(Arc::clone(self));
        let mut progress = self.progress.lock();
        let Handover::Promised(promise) = &mut progress.handover else {
            // Another call that closes has taken it, and polls it.
            return;
        };
        let Poll::Ready(timers) = Pin::new(promise).poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let (_kept, _holder) = self.take(&mut progress);
        drop(progress);
        self.see_to(timers, deadline);
    }

    pub(super) fn report(&self, before: &SystemMetrics) -> CloseReport {
        let (mut report, handed_over) = {
            let progress = self.progress.lock();
            (progress.report.clone(), matches!(progress.handover, Handover::Done))
        };
        // Before the paths: what stops in between is then in neither.
        let metrics = self.registry.metrics();
        report.actors_stopped = self.registry.tree.stopped_since_close();
        report.scheduler_stopped = handed_over;
        report.running = self.registry.tree.paths();
        report.threads = self.registry.dispatcher.running();
        report.received = metrics.processed.saturating_sub(before.processed);
        report.undelivered = metrics.dead_letters.saturating_sub(before.dead_letters);
        report.dead_letters = metrics.dead_letters;
        report.timers_ended += self.registry.late_timers();
        report
    }
}

/// What becomes of a task that was handed back.
#[derive(Clone, Copy)]
enum Fate {
    Run,
    Drop,
}

impl Fate {
    fn befall(self, task: PendingTask) {
        match self {
            Self::Run => drop(task.run()),
            Self::Drop => drop(task),
        }
    }
}

/// What the thread that closes had no more time for. The threads of the system end behind it.
struct Rest(Mutex<VecDeque<(Fate, PendingTask)>>);

impl Activate for Rest {
    fn activate(self: Arc<Self>) -> bool {
        let _no_turn = NoTurn::enter(None);
        let next = self.0.lock().pop_front();
        let Some((fate, task)) = next else { return false };
        guard("what was scheduled on a system that is closed", || fate.befall(task));
        true
    }
}

impl Wake for Closing {
    fn wake(self: Arc<Self>) {
        self.look(None);
    }
}
