//! The one timer of a future, and the waker that it wakes.
//!
//! # Ground rules
//!
//! The task of the timer *is* the waker: nothing is shared with the future, nothing is allocated,
//! and no wake-up can be missed. The future knows with which waker it made the timer. While that
//! timer waits, its copy of the waker exists. So a waker with the same data and the same functions
//! wakes the same task, and a poll with it has nothing to do. A poll with another waker makes a new
//! timer.
//!
//! ```text
//! poll:   the timer waits, and the waker is its own:   nothing to do; it will wake it
//!         otherwise:                                   cancel what is left, make a timer
//! timer:  leave the waiting state, then wake
//! ```

use std::cell::Cell;
use std::panic::Location;
use std::task::Waker;

use super::following::woke_elsewhere;
use super::moment::Moment;
use crate::executor::TaskBody;
use crate::sync::thread_slot;
use crate::{Cancellable, Handle, Refusal, Task};
use lars_base::debug_fields;

/// A timer that wakes a task. Dropping it cancels the timer.
pub(crate) struct WakeTimer {
    timer: Cancellable,
    /// The timer's copy of the waker. Never followed, only compared, while that copy exists.
    wakes: Identity,
}

/// What tells one waker from another: the addresses of its data and of its functions. Those of the
/// functions may differ between a waker and its clone, because a compiler may keep several copies
/// of a constant.
#[derive(Clone, Copy)]
struct Identity {
    data: usize,
    functions: [usize; 2],
}

impl Identity {
    #[inline]
    fn of(original: &Waker, copy: &Waker) -> Self {
        let data = copy.data().addr();
        let own = functions_of(copy);
        // A copy with other data says nothing about who else may get the original's address.
        let first = if original.data().addr() == data { functions_of(original) } else { own };
        Self { data, functions: [first, own] }
    }

    #[inline]
    fn is_of(&self, waker: &Waker) -> bool {
        self.data == waker.data().addr() && self.functions.contains(&functions_of(waker))
    }
}

fn functions_of(waker: &Waker) -> usize {
    let functions: *const _ = waker.vtable();
    functions.addr()
}

impl WakeTimer {
    /// Whether the timer waits.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.timer.is_pending()
    }

    /// Whether the timer waits, and will wake `waker`.
    #[inline]
    fn will_wake(&self, waker: &Waker) -> bool {
        // Compared first: if they are equal and the timer waits after that, its copy existed when
        // they were compared.
        self.wakes.is_of(waker) && self.timer.is_pending()
    }

    /// Makes sure that `waker` is woken at a deadline, by the timer in `place` or a new one. One in
    /// `place` has this deadline already: [`move_to`](Self::move_to) moves it. `due` is a reading
    /// of the clock, and the deadline. The timer belongs to the call at `made_at`.
    ///
    /// # Errors
    ///
    /// If the scheduler refuses the timer. Then `place` holds none.
    #[inline]
    pub(crate) fn set(
        place: &mut Option<Self>,
        waker: &Waker,
        handle: &Handle,
        due: (Moment, Moment),
        made_at: &'static Location<'static>,
    ) -> Result<(), Refusal> {
        if place.as_ref().is_some_and(|timer| timer.will_wake(waker)) {
            return Ok(());
        }
        // The code of a user, which may panic; nothing has changed yet.
        let copy = waker.clone();
        // Out of its place first: where places are limited, this one is for the new timer.
        *place = None;
        let wakes = Identity::of(waker, &copy);
        // Inline: to wake is all that it does.
        let ring = Ring { waker: Cell::new(Some(copy)), thread: thread_slot() };
        let task = Task::new(ring).inline();
        let timer = handle.schedule_from(due, task, made_at)?;
        *place = Some(Self { timer, wakes });
        Ok(())
    }

    /// Moves the timer, if it waits. If it does not, there is nothing to be done: it has woken the
    /// waker, and the next poll makes another timer.
    #[inline]
    pub(crate) fn move_to(&self, now: Moment, deadline: Moment) {
        let _waits = self.timer.reset_from(now, deadline);
    }
}

impl Drop for WakeTimer {
    #[inline]
    fn drop(&mut self) {
        self.timer.cancel();
    }
}

debug_fields!(|it: WakeTimer| timer: it.timer);

/// The timer's task: it wakes the future at its time. It also does so when it is handed back or
/// dropped unrun, because then the scheduler has stopped, and the future must learn of it. It does
/// not when it is cancelled, because only the future cancels it.
///
/// (Somebody may keep the list of what was handed back. It keeps no waker.)
struct Ring {
    waker: Cell<Option<Waker>>,
    /// The number of the thread that made the timer.
    thread: usize,
}

impl Ring {
    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl TaskBody for Ring {
    fn run(self) {
        if self.thread != thread_slot() {
            woke_elsewhere();
        }
        self.wake();
    }

    fn handed_back(&self) {
        self.wake();
    }

    fn lost(self) {
        self.wake();
    }
}
