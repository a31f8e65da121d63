//! The owner of a system, which closes it.

use std::ops::Deref;
use std::time::Duration;

use crate::cell::registry::Registry;
use crate::dispatcher::manual::LAST_TURNS;
use crate::dispatcher::worker::about_to_block;
use crate::refs::system::System;
use crate::sync::{Arc, real_now};
use crate::system::close::{CloseError, ClosePolicy, CloseReport};
use crate::system::closing::{Closing, StopScheduler};

/// A system of actors: their threads, their scheduler, and the tree of living actors.
///
/// This is the owner, which closes the system; spawning goes through the [`System`] that it
/// dereferences to, or through clones of that. Dropping it asks all actors to stop after what is
/// queued, and drops the scheduled messages; it waits for the timer thread, up to the
/// `shutdown_timeout`, and not for actors.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::{Actor, ActorSystem, Context};
/// use std::time::Duration;
///
/// struct Printer;
///
/// impl Actor for Printer {
///     type Message = &'static str;
///     fn receive(&mut self, line: &'static str, _: &mut Context<Self>) {
///         println!("{line}");
///     }
/// }
///
/// let system = ActorSystem::new("demo")?;
/// let printer = system.spawn("printer", || Printer)?;
/// printer.tell("now")?;
/// let _ = system.scheduler().schedule_once(Duration::from_secs(60), &printer, "a minute later")?;
/// assert_eq!(system.find(printer.path()), Some(printer));
/// assert_eq!(system.metrics().alive, 1);
///
/// let report = system.close()?; // sends what is scheduled now, and lets everything be received
/// assert_eq!((report.sent, report.undelivered), (1, 0));
/// assert!(report.is_complete());
/// # Ok(()) }
/// ```
pub struct ActorSystem {
    system: System,
    /// `None` if the system does not own the scheduler.
    stop: Option<Box<StopScheduler>>,
    shutdown_timeout: Duration,
    closing: Arc<Closing>,
}

impl ActorSystem {
    /// The owner of the system of this registry. `stop` stops its scheduler, if it owns one.
    pub(super) fn own(
        registry: Arc<Registry>,
        stop: Option<Box<StopScheduler>>,
        shutdown_timeout: Duration,
        policy: ClosePolicy,
    ) -> Self {
        let closing = Arc::new(Closing::new(Arc::clone(&registry), policy));
        Self { system: System::new(registry), stop, shutdown_timeout, closing }
    }

    /// The system as its actors see it, to be cloned and passed around.
    pub fn system(&self) -> System {
        self.system.clone()
    }

    /// Closes the system within the `shutdown_timeout`: [`close_within`](Self::close_within), which
    /// says what it waits for, with an error if it is not finished then.
    ///
    /// # Errors
    ///
    /// [`CloseError`] with the report if something is left. Closing goes on by itself; closing
    /// again waits for it.
    pub fn close(&self) -> Result<CloseReport, CloseError> {
        let report = self.close_within(self.shutdown_timeout);
        if report.is_complete() {
            Ok(report)
        } else {
            Err(CloseError { report, limit: self.shutdown_timeout })
        }
    }

    /// Closes the system, and waits at most `limit`. The report says what became of everything. In
    /// this order:
    ///
    /// 1. Actors work off what they have, and what that leads to, while everything is as before:
    ///    they tell, ask, spawn, and start timers. This takes half of `limit` at most, and ends
    ///    with actors that always have another message.
    /// 2. Scheduling is refused from now on. Scheduled messages are sent now, before their time, or
    ///    dropped, as [`Builder::close_policy`](crate::Builder::close_policy) says. Periodic sends
    ///    and the actors' own timers end; starting one of these is no error, and it never fires.
    ///    (On a scheduler that the system does not own, scheduled messages stay there: see
    ///    [`Builder::on_scheduler`](crate::Builder::on_scheduler).) Actors work off what was sent.
    /// 3. Spawning is refused from now on. Every actor without a parent is asked to stop: it
    ///    receives what is in its mailbox, its children stop in the same way, and then it stops.
    ///    Meanwhile actors still receive, and send to every actor that has not closed its mailbox.
    /// 4. Questions that are still open get [`AskError::Closed`](crate::AskError::Closed), and the
    ///    threads end. Until then a thread that waits for an answer waits no longer than its
    ///    timeout, but a future has no timer left that could wake it then. So when the limit has
    ///    passed, open questions get that error even if actors still run.
    ///
    /// # What it waits for
    ///
    /// - For the timer thread, until that has handed over what is scheduled: a task that runs there
    ///   holds it up. It does not wait for a scheduler that the system does not own.
    /// - For all actors, until they have stopped.
    /// - For the threads that actors share, until they have ended: closures and futures that are
    ///   running there hold them up. It does not wait for those of pinned actors, which end with
    ///   their actors.
    ///
    /// It always returns. When the limit has passed, closing goes on by itself, and the report
    /// names the actors that are left. Closing again waits for them, and its report covers both
    /// calls; so it does while another thread is in the middle of the first. Called by an actor, it
    /// does not wait for actors, because it would wait for itself. The same holds for a hook or a
    /// destructor that closing calls, for the hook of
    /// [`Builder::on_thread_start`](crate::Builder::on_thread_start), and for a closure that
    /// [maps](crate::ActorRef::map) a message. If an inline task on the timer thread calls this, it
    /// waits for nothing; scheduled messages are then sent when that task has returned. In all
    /// these cases open questions end with the last actor, unless another thread closes the system
    /// before that.
    pub fn close_within(&self, limit: Duration) -> CloseReport {
        let registry = self.system.registry();
        let deadline = real_now().checked_add(limit);
        // What closing calls may close the system as well, and would then wait for itself.
        let inside = registry.is_inside() || self.closing.is_here();
        if !inside {
            // It waits; an actor of another system may be calling.
            about_to_block();
        }
        let before = self.closing.begin();
        if self.closing.hand_over(self.stop.as_deref(), inside, deadline) {
            registry.close();
        }
        if let Some(manual) = registry.dispatcher.as_manual() {
            if !inside {
                manual.run(LAST_TURNS);
            }
        } else if !inside && registry.tree.wait_until_empty(deadline) {
            // So that nothing of the system runs when this returns.
            registry.dispatcher.wait_ended(deadline);
        }
        let mut report = self.closing.report(&before);
        report.scheduler_stopped |= self.stop.is_none();
        if !inside {
            // The last actor has seen to it, or the limit is over.
            self.closing.end_questions(deadline);
        }
        report
    }
}

impl Deref for ActorSystem {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

show!([] ActorSystem, "ActorSystem", |it| name: it.system.name());

impl Drop for ActorSystem {
    fn drop(&mut self) {
        let registry = self.system.registry();
        registry.begin_close();
        if let Some(stop) = &self.stop {
            drop(stop());
        }
        registry.close();
        if let Some(manual) = registry.dispatcher.as_manual()
            && !registry.is_inside()
        {
            // No thread runs the actors, so this call lets them stop.
            manual.run(LAST_TURNS);
        }
        registry.drop_unsent();
        registry.disown();
        // The fields are dropped next; the scheduler waits for its thread.
        about_to_block();
    }
}
