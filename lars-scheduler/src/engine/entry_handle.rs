//! The right to cancel an entry, and to move its deadline: the handle bit, held.

use std::ptr::NonNull;

use crate::base::deadline::Deadline;
use crate::base::identity::TaskIdentity;
use crate::base::panics::PanicIn;
use crate::engine::entry::state::{Cancel, Released};
use crate::engine::entry::{Entry, Whereabouts};
use crate::engine::lane::{For, LaneWheel, OwnLane};
use crate::engine::shared::{Core, report_orphan};
use crate::sync::CHECKED;

/// The right to cancel one entry. While it exists, the entry and the core exist.
pub(crate) struct EntryHandle {
    entry: NonNull<Entry>,
    core: NonNull<Core>,
}

// SAFETY: the entry's state is atomic. Only the winner of the transition does what `cancel` does
// beyond it. The core may be shared.
unsafe impl Send for EntryHandle {}
// SAFETY: all methods take part in the protocol of the state word, which is made for any thread at
// any time.
unsafe impl Sync for EntryHandle {}

impl EntryHandle {
    /// # Safety
    ///
    /// The entry's handle bit is set and stands for this handle; the entry belongs to this core.
    #[inline]
    pub(crate) unsafe fn new(entry: NonNull<Entry>, core: NonNull<Core>) -> Self {
        let handle = Self { entry, core };
        debug_assert!(CHECKED || handle.entry().state.has_handle(), "the handle bit is not set");
        handle
    }

    /// Gives the handle away as its entry's address; the bit stays set.
    pub(crate) fn into_entry(self) -> *mut Entry {
        self.into_parts().0.as_ptr()
    }

    /// Gives the handle away as what [`new`](Self::new) makes it of; the bit stays set.
    #[inline]
    pub(crate) fn into_parts(self) -> (NonNull<Entry>, NonNull<Core>) {
        let this = std::mem::ManuallyDrop::new(self);
        (this.entry, this.core)
    }

    pub(crate) fn entry(&self) -> &Entry {
        // SAFETY: the entry's handle bit keeps it alive.
        unsafe { self.entry.as_ref() }
    }

    pub(crate) fn core(&self) -> &Core {
        // SAFETY: the entry's handle bit keeps the core alive.
        unsafe { self.core.as_ref() }
    }

    /// The wheel that the entry waits in, if it is the calling thread's.
    #[inline]
    fn own_wheel(&self) -> Option<(OwnLane<'_>, &LaneWheel)> {
        let (lane, local) = self.entry().state.home();
        let own = local.then(|| self.core().arena.lanes.own(lane))??;
        Some((own, own.wheel()?))
    }

    #[inline]
    pub(crate) fn cancel(&self) -> bool {
        match self.own_wheel() {
            Some((own, wheel)) if own.lane.gate().enter() => {
                // SAFETY: the owner has entered the gate of the entry's lane, whose wheel this is.
                let (how, unlinked) = unsafe { self.cancel_behind_the_gate(wheel) };
                own.lane.gate().leave();
                self.clean_up(Some(own), how, unlinked)
            }
            _ => self.clean_up(None, self.entry().state.cancel(), false),
        }
    }

    /// After the cancel: counts it, has the entry unlinked, and drops the task.
    #[inline]
    fn clean_up(&self, own: Option<OwnLane<'_>>, how: Cancel, unlinked: bool) -> bool {
        if how == Cancel::TooLate {
            return false;
        }
        // SAFETY: the caller's cancel moved the state out of `QUEUED` or `ARMED`, and takes the
        // task only here.
        let task = unsafe {
            let entry = self.entry();
            (!entry.has_plain_task()).then(|| entry.take_task())
        };
        let core = self.core();
        if core.limit.is_some() && !self.entry().state.flags().is_repeat() {
            core.release_places(1);
        }
        let own = own.unwrap_or_else(|| core.arena.lanes.of_this_thread());
        own.count_cancelled();
        if !unlinked {
            // It is left to the driver, and so gives no credit back.
            own.charge(1);
            if how == Cancel::WhileArmed {
                self.have_unlinked(own);
            }
        }
        if let Some(task) = task {
            // Last, because it runs the caller's code, which may do anything, panic included.
            let whose = task.whose();
            core.reporter.contain_task(whose, PanicIn::Cleanup, move || task.cancelled());
        }
        true
    }

    /// Sends the cancelled entry to the holder of its wheel, which unlinks it: the owner of its
    /// lane or the driver.
    #[inline(never)]
    fn have_unlinked(&self, own: OwnLane<'_>) {
        let core = self.core();
        let entry = self.entry.as_ptr();
        let lanes = &core.arena.lanes;
        let (lane, local) = self.entry().state.home();
        let stack = match lanes.lane(lane).wheel().filter(|_| local) {
            Some(wheel) => &wheel.cancelled,
            None => &lanes.channel_of(own).cancelled,
        };
        // SAFETY: this cancel has taken the task, so the slot is empty and nobody else touches it.
        // The engine frees the entry only after this handle has let it go.
        unsafe {
            self.entry().make_link(own.remember_cancelled(entry));
            stack.push_chain(entry, entry);
        }
        // (An entry that was not armed is in an intake, and was counted there.)
        core.count_backlog(own, 1);
    }

    /// Cancels, and says whether the entry was taken out of the wheel on the way.
    ///
    /// # Safety
    ///
    /// The caller is behind the gate of the entry's lane, whose wheel this is.
    #[inline]
    unsafe fn cancel_behind_the_gate(&self, wheel: &LaneWheel) -> (Cancel, bool) {
        let entry = self.entry();
        debug_assert!(
            CHECKED || entry.state.home() == (wheel.lane().number(), true),
            "the wheel is another lane's"
        );
        debug_assert!(CHECKED || wheel.lane().gate().has_owner(), "the owner is outside");
        if entry.whereabouts() != Whereabouts::Linked {
            return (entry.state.cancel(), false);
        }
        let how = entry.state.cancel_linked();
        if how == Cancel::WhileArmed {
            // SAFETY: the caller is behind the gate, and the entry is linked into this wheel.
            unsafe { wheel.with(|inner| inner.unlink(self.entry.as_ptr())) };
        }
        (how, true)
    }

    /// Whose the task is, or was.
    pub(crate) fn identity(&self) -> TaskIdentity {
        // SAFETY: the entry of a handle was filled with a task, and does not become free before the
        // handle is gone.
        unsafe { self.entry().identity() }
    }

    /// The deadline, if the task waits.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let deadline = self.entry().deadline();
        // Asked after the deadline was read: it is that of this task, whatever comes next.
        self.entry().state.is_waiting().then_some(deadline)
    }

    /// Moves the deadline. True exactly if it holds. If that leaves work to the timer thread, and
    /// the calling thread has used up its share, it waits if it `may_wait`.
    pub(crate) fn reset(&self, due: Deadline, may_wait: bool) -> bool {
        let state = &self.entry().state;
        if !state.lock_deadline() {
            return false;
        }
        // `state` explains the order of the steps. (A move to "at once" always counts as nearer,
        // even if the old deadline has passed: the entry need not wait for its tick any more.)
        if due.at >= self.entry().deadline() && !due.immediate {
            self.entry().set_deadline(due.at);
            return state.move_deadline(false, true);
        }
        if !state.move_deadline(due.immediate, false) {
            return false;
        }
        self.entry().set_deadline(due.at);
        if !self.place_anew(due) {
            self.send_carrier(due);
            if may_wait {
                let core = self.core();
                core.wait_for_share(core.arena.lanes.of_this_thread());
            }
        }
        true
    }

    /// The deadline was moved nearer. If the entry waits in the calling thread's wheel and the gate
    /// is open, places it again, unlocks the deadline and returns true.
    fn place_anew(&self, due: Deadline) -> bool {
        let Some((own, wheel)) = self.own_wheel() else { return false };
        let lane = own.lane;
        if !lane.gate().enter() {
            return false;
        }
        let entry = self.entry.as_ptr();
        let core = self.core();
        let tick = if self.entry().whereabouts() == Whereabouts::Linked {
            // SAFETY: this thread has entered the gate, and the entry is linked into this wheel.
            // Unlinked, it can be placed again.
            unsafe {
                wheel.with(|inner| {
                    inner.unlink(entry);
                    inner.place(entry, due.immediate)
                })
            }
        } else {
            // The entry is due, or in the intake. The next drain of the intake comes after this,
            // and sees the new deadline. That drain has to come in time.
            core.tick_of(due)
        };
        let asks = !lane.expects_visit_by(tick);
        lane.gate().leave();
        self.entry().state.unlock_deadline();
        if asks {
            lane.ask_for_visit(tick);
            let _ = core.sleep.after_push(core.visit_by(tick));
        }
        true
    }

    /// The deadline was moved nearer: tells the holder of the entry's wheel.
    fn send_carrier(&self, due: Deadline) {
        let core = self.core();
        let state = &self.entry().state;
        let lanes = &core.arena.lanes;
        // The wheel of the entry's lane, or the driver's.
        let home = lanes.lane(state.lane());
        let wheel = home.wheel().filter(|_| state.flags().is_local());
        let send = state.call_carrier();
        if send {
            let own = lanes.of_this_thread();
            let carrier = core.arena.find(own, For::Carrier);
            // SAFETY: the carrier was free, and no other thread has seen it. `call_carrier` set the
            // `CARRIER_SENT` bit, which keeps the entry alive until the carrier has arrived.
            unsafe {
                (*carrier).fill_carrier(self.entry.as_ptr());
                (*carrier).state.publish_carrier(own.lane.number());
                match wheel {
                    Some(wheel) => wheel.intake.push(carrier),
                    None => lanes.channel_of(own).intake.push(carrier),
                }
            }
            // The next to lock comes after the push. And the wake hook of an event loop, which may
            // run below, is foreign code: whoever waits for the deadline must not wait for that.
            state.unlock_deadline();
            own.charge(1);
            // Carriers must not pile up while the timer thread sleeps for long.
            core.count_backlog(own, 1);
        }
        // Also if the carrier was sent before: the timer thread may have gone to sleep for longer
        // than the new deadline may wait. (After a stop nobody pops the carrier; then the entry was
        // handed back.)
        if wheel.is_some() {
            home.ask_for_visit(core.tick_of(due));
        }
        let _ = core.sleep.after_push(core.pop_by(due));
    }
}

impl Drop for EntryHandle {
    #[inline]
    fn drop(&mut self) {
        let released = self.entry().state.release_handle();
        if released != Released::ToEngine {
            self.drop_last(released);
        }
    }
}

impl EntryHandle {
    /// Finishes the drop if the engine, or the whole scheduler, was done with the entry before.
    #[inline]
    fn drop_last(&self, mut released: Released) {
        if released == Released::Left {
            let entry = self.entry.as_ptr();
            let lanes = &self.core().arena.lanes;
            let flags = self.entry().state.flags();
            let lane = flags.lane();
            if let Some(own) = lanes.own(lane)
                && own.lane.gate().enter()
            {
                self.entry().state.set_free();
                // SAFETY: the calling thread owns the lane. The entry is free, belongs to the lane,
                // and was left to this handle, so nobody else refers to it, except that the driver
                // may have it in hand if it took the task.
                unsafe {
                    if flags.is_taken() {
                        own.put_own_left(entry, &lanes.in_hand);
                    } else {
                        own.put_own(entry);
                    }
                }
                // Up to here the gate keeps the scheduler's memory alive. Nothing of it is touched
                // after this.
                own.lane.gate().leave();
                return;
            }
            // SAFETY: the engine has left the entry to this handle, so nobody else touches its
            // links. The handle bit is still set, and keeps the stack alive up to the push.
            if unsafe { lanes.lane(lane).dropped().push_unless_closed(entry, entry) } {
                return;
            }
            released = self.entry().state.release_handle_at_the_end();
        }
        if released == Released::Orphan {
            // SAFETY: the release above cleared the handle bit and found the orphan bit. Neither
            // the entry nor the core is touched after this.
            unsafe { report_orphan(self.core.as_ptr()) };
        }
    }
}
