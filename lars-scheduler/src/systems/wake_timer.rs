//! The one timer of a future, and the waker that it wakes.
//!
//! # Ground rules
//!
//! The future and its timer share one waker slot and nothing else. The timer's own state says
//! whether it is over. The order of the steps on both sides makes it impossible to miss a wake-up:
//!
//! ```text
//! poll:   put the waker into the slot     then  look whether the timer waits
//! timer:  leave the waiting state         then  take the waker out of the slot, and wake it
//! ```
//!
//! Both sides change the slot's one word by read-modify-write operations, which have one order. If
//! the timer's comes later, it finds the waker. If it comes earlier, the poll's acquires what the
//! timer did before, so the poll sees that the timer is no longer pending. `AtomicWaker` does that
//! without making either side wait for the other: a timer thread must not queue for a lock whose
//! holder has been descheduled.

use std::sync::Arc;
use std::task::Waker;

use futures::task::AtomicWaker;

use crate::systems::facade::debug_fields;
use crate::systems::when_due::WhenDue;
use crate::{Cancellable, Handle, Refusal, Task, TaskBody};

/// A timer that wakes a task. Dropping it cancels the timer.
pub(crate) struct WakeTimer {
    slot: Arc<AtomicWaker>,
    timer: Option<Cancellable>,
}

impl WakeTimer {
    fn new() -> Self {
        Self { slot: Arc::new(AtomicWaker::new()), timer: None }
    }

    /// Sees to it that `waker` is woken when `due` has come, with the one in `place` or a new one.
    ///
    /// A pending timer stays as it is: [`move_to`](Self::move_to) moves it.
    pub(crate) fn set(
        place: &mut Option<Self>,
        waker: &Waker,
        handle: &Handle,
        due: WhenDue,
    ) -> Result<(), Refusal> {
        // Out of its place meanwhile: if the waker's own code panics in here, it is dropped with
        // its slot, which may be stuck in the middle of a registration.
        let mut this = place.take().unwrap_or_else(Self::new);
        this.slot.register(waker);
        let armed = match this.is_armed() {
            true => Ok(()),
            // There was no timer yet, or it has fired, and its wake-up may have missed this waker.
            false => this.arm(handle, due),
        };
        *place = Some(this);
        armed
    }

    /// Whether a timer waits, which will wake the registered waker.
    fn is_armed(&self) -> bool {
        self.timer.as_ref().is_some_and(Cancellable::is_pending)
    }

    fn arm(&mut self, handle: &Handle, due: WhenDue) -> Result<(), Refusal> {
        // Inline: it only wakes.
        let task = Task::new(Ring(Arc::clone(&self.slot))).inline();
        let timer = handle.schedule_due(due, task).map_err(|refused| refused.refusal().clone())?;
        self.timer = Some(timer);
        Ok(())
    }

    /// Moves the timer if it is pending. Otherwise it has woken the waker, and the next poll makes
    /// another timer.
    pub(crate) fn move_to(&self, due: WhenDue) {
        if let Some(timer) = &self.timer {
            let _waits = timer.reset_due(due);
        }
    }

    /// Cancels the timer, and drops the waker.
    pub(crate) fn disarm(&mut self) {
        self.cancel();
        drop(self.slot.take());
    }

    fn cancel(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
    }
}

impl Drop for WakeTimer {
    fn drop(&mut self) {
        self.cancel();
    }
}

debug_fields!(|it: WakeTimer| timer: it.timer);

/// What the timer does: it wakes the future at its time. It also does so when it is handed back or
/// dropped unrun, because then the scheduler has stopped, and the future must learn of it. It does
/// not when it is cancelled, because only the future cancels it.
struct Ring(Arc<AtomicWaker>);

impl TaskBody for Ring {
    fn run(self) {
        self.0.wake();
    }

    fn handed_back(&self) {
        self.0.wake();
    }

    fn lost(self) {
        self.0.wake();
    }
}
