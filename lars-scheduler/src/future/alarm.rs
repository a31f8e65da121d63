//! The one timer of a future, and the waker that it wakes.
//!
//! # Who shares what
//!
//! The future and its timer share one waker slot and nothing else. Whether the timer is over, the timer's own
//! state says. The order of the steps on both sides makes a wake-up that nobody gets impossible:
//!
//! ```text
//! poll:   put the waker into the slot     then  look whether the timer waits
//! timer:  leave the waiting state         then  take the waker out of the slot, and wake it
//! ```
//!
//! Both sides change the slot's one word by read-modify-write operations, which are in one order. If the timer's
//! comes later, it finds the waker. If it comes earlier, the poll's acquires what the timer did before, and so
//! the poll sees that the timer does not wait any more. `AtomicWaker` does that without either side ever waiting for
//! the other: a timer thread must not stand in a queue for a lock whose holder has been descheduled.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;

use crate::body::TaskBody;
use crate::cancel::Cancellable;
use crate::error::Refusal;
use crate::handle::Handle;
use crate::task::Task;

/// A timer that wakes a task. Dropping it cancels the timer.
pub(super) struct Alarm {
    slot: Arc<AtomicWaker>,
    timer: Option<Cancellable>,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self { slot: Arc::new(AtomicWaker::new()), timer: None }
    }

    /// Whether a timer waits, which will wake the registered waker.
    pub(super) fn is_armed(&self) -> bool {
        self.timer.as_ref().is_some_and(Cancellable::is_pending)
    }

    /// Makes `waker` the one to wake, instead of the last one.
    pub(super) fn register(&self, waker: &Waker) {
        self.slot.register(waker);
    }

    /// Makes the timer. There must be none that waits.
    pub(super) fn arm(
        &mut self,
        handle: &Handle,
        deadline: Option<Instant>,
    ) -> Result<(), Refusal> {
        // Inline: to wake is all it does.
        let task = Task::new(Ring { slot: Some(Arc::clone(&self.slot)) }).inline();
        let scheduled = match deadline {
            Some(deadline) => handle.schedule_at(deadline, task),
            None => handle.schedule_once(Duration::MAX, task),
        };
        match scheduled {
            Ok(timer) => {
                self.timer = Some(timer);
                Ok(())
            }
            Err(error) => {
                let (refusal, task) = error.into_parts();
                task.into_body().cancelled();
                Err(refusal)
            }
        }
    }

    /// Moves the timer, if it waits. If it does not, there is nothing to be done: it has woken the waker, or
    /// will when what `stop` handed back is dropped, and the next poll makes another timer.
    pub(super) fn move_to(&self, deadline: Option<Instant>) {
        if let Some(timer) = &self.timer {
            let _waits = match deadline {
                Some(deadline) => timer.reset_at(deadline),
                None => timer.reset(Duration::MAX),
            };
        }
    }

    /// No timer, and nobody to wake.
    pub(super) fn disarm(&mut self) {
        self.cancel();
        drop(self.slot.take());
    }

    fn cancel(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("timer", &self.timer).finish_non_exhaustive()
    }
}

/// What the timer does: wakes, at its time, and also when it is dropped without having run, because then
/// the scheduler is gone and the future has to hear of it. Not when it was cancelled: the future did that.
struct Ring {
    slot: Option<Arc<AtomicWaker>>,
}

impl TaskBody for Ring {
    fn run(self) {
        drop(self);
    }

    fn cancelled(mut self) {
        self.slot = None;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.wake();
        }
    }
}
