//! Cancelling, from any thread.

use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::entry::Entry;
use crate::entry::state::{Cancel, Released};
use crate::report::PanicIn;
use crate::shared::{Core, report_orphan};
use crate::tick::nanos;

/// After so many calls in a lane that leave something to do a sleeping timer thread is woken to do it.
///
/// A wake-up costs the caller about 15 µs: 1 ns for each of these calls. The entries that wait for it take
/// 1 MiB at the most, and taking them in less than a millisecond.
pub(crate) const BACKLOG: u64 = 16_384;

/// The right to cancel one entry. While it exists, the entry and the core exist.
pub(crate) struct EntryHandle {
    entry: NonNull<Entry>,
    core: NonNull<Core>,
}

// SAFETY: the entry's state is atomic, and what `cancel` does beyond it only the winner of the
// transition does; the core is shared state.
unsafe impl Send for EntryHandle {}
// SAFETY: as above.
unsafe impl Sync for EntryHandle {}

impl EntryHandle {
    /// # Safety
    ///
    /// The entry's handle bit is set and stands for this handle; the entry belongs to this core.
    pub(crate) unsafe fn new(entry: NonNull<Entry>, core: NonNull<Core>) -> Self {
        Self { entry, core }
    }

    /// Gives the handle away as its entry's address; the bit stays set.
    pub(crate) fn into_entry(self) -> *mut Entry {
        std::mem::ManuallyDrop::new(self).entry.as_ptr()
    }

    pub(crate) fn entry(&self) -> &Entry {
        // SAFETY: the handle bit keeps it alive.
        unsafe { self.entry.as_ref() }
    }

    fn core(&self) -> &Core {
        // SAFETY: the handle bit keeps it alive.
        unsafe { self.core.as_ref() }
    }

    #[inline]
    pub(crate) fn cancel(&self) -> bool {
        let how = self.entry().state.cancel();
        if how == Cancel::TooLate {
            return false;
        }
        // SAFETY: this call moved the state out of `QUEUED` or `ARMED`.
        let task = unsafe { self.entry().take_task() };
        let core = self.core();
        if core.limit.is_some() && !self.entry().state.is_repeat() {
            core.release_places(1);
        }
        let place = core.lanes.of_this_thread();
        place.count_cancelled();
        if how == Cancel::WhileArmed {
            let entry = self.entry.as_ptr();
            // SAFETY: the slot is empty and ours; the driver unlinks the entry and does not free it
            // before this handle lets it go.
            unsafe { place.lane.to_driver.cancelled.push_chain(entry, entry) };
            // (An entry that was not armed is in an intake, and was counted there.)
            if place.add_backlog(1, BACKLOG) {
                core.sleep.wake();
            }
        }
        if task.is_plain() {
            std::mem::forget(task);
            return true;
        }
        // Last, because it runs the caller's code, which may do anything, panic included. What is reported of
        // that goes to a log subscriber, which may panic as well.
        let clean_up = || core.reporter.contain(PanicIn::Cleanup, move || task.cancelled());
        let _ = catch_unwind(AssertUnwindSafe(clean_up));
        true
    }

    /// Moves the deadline, in nanoseconds of the scheduler's clock. True exactly if it holds.
    pub(crate) fn reset(&self, deadline: u64, immediate: bool) -> bool {
        let entry = self.entry();
        if !entry.state.lock_deadline() {
            return false;
        }
        let core = self.core();
        // The order of writing and of making it hold is explained in `state`. (Without a delay it is "nearer" also
        // if the old deadline has passed: the entry need not wait for its tick any more.)
        if deadline >= entry.deadline() && !immediate {
            entry.set_deadline(deadline);
            return entry.state.move_deadline(false, true);
        }
        if !entry.state.move_deadline(immediate, false) {
            return false;
        }
        entry.set_deadline(deadline);
        let send = entry.state.call_carrier();
        if send {
            let place = core.lanes.of_this_thread();
            // SAFETY: the carrier was free and is ours alone; the `moving` bit, which the call above set, keeps
            // the entry alive until the carrier has come, and the handle bit until then.
            unsafe {
                let carrier = core.arena.find_carrier(&core.lanes, place);
                (*carrier).fill_move(self.entry.as_ptr());
                (*carrier).state.publish_move();
                place.lane.intake.push(carrier);
            }
            // A thread that sleeps for long must not let carriers pile up.
            if place.add_backlog(1, BACKLOG) {
                core.sleep.wake();
            }
        }
        // Whether the carrier is ours or was sent before: the thread may have gone to sleep for longer than the
        // new deadline may wait. (After a stop nobody pops it; then the entry was handed back.)
        let _ = core.sleep.after_push(core.pop_by(deadline, immediate));
        if send {
            entry.state.unlock_deadline();
        }
        true
    }

    fn reset_in(&self, delay: Duration) -> bool {
        let now = self.core().clock.now();
        self.reset(now.saturating_add(nanos(delay)), delay.is_zero())
    }

    fn reset_to(&self, deadline: Instant) -> bool {
        let clock = &self.core().clock;
        let (now, deadline) = (clock.now(), clock.nanos_at(deadline));
        self.reset(deadline.max(now), deadline <= now)
    }
}

impl Drop for EntryHandle {
    #[inline]
    fn drop(&mut self) {
        let released = self.entry().state.release_handle();
        if released != Released::ToDriver {
            self.drop_last(released);
        }
    }
}

impl EntryHandle {
    /// What is left to do when the driver, or the whole scheduler, was done with the entry before.
    #[inline(never)]
    fn drop_last(&self, mut released: Released) {
        if released == Released::Left {
            let entry = self.entry.as_ptr();
            let core = self.core();
            let place = core.lanes.of_this_thread();
            // Before the push: after it nothing of the scheduler's may be touched.
            if place.add_backlog(1, BACKLOG) {
                core.sleep.wake();
            }
            // SAFETY: the driver has left the entry, so its links are ours; and up to the push the bit, which is
            // still set, keeps all alive.
            if unsafe { place.lane.to_driver.dropped.push_unless_closed(entry, entry) } {
                return;
            }
            released = self.entry().state.release_handle_at_the_end();
        }
        if released == Released::Orphan {
            // SAFETY: the bit was cleared just now, and the entry is not touched again.
            unsafe { report_orphan(self.core.as_ptr()) };
        }
    }
}

/// What the cancellable of a repeat refers to: its series, whose current entry changes.
pub(crate) trait Series: Send + Sync {
    fn cancel(&self) -> bool;
    fn is_cancelled(&self) -> bool;
    fn is_waiting(&self) -> bool;
}

enum Target {
    Once(EntryHandle),
    Series(Arc<dyn Series>),
}

/// A scheduled task, as its caller sees it.
///
/// It is `Send` and `Sync`; all methods may be called from any thread, at any time, also after the
/// scheduler is gone. Dropping it does **not** cancel the task; [`cancel_on_drop`](Self::cancel_on_drop)
/// makes a guard that does.
///
/// One that outlives the scheduler keeps the memory of all its timers, its executor and its panic hook; it keeps
/// no thread.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let timeout = time.schedule_once(5 * second, || println!("no answer"))?;
/// assert!(timeout.is_pending());
/// assert!(timeout.reset_at(time.now() + 10 * second)); // a sign of life
///
/// assert!(timeout.cancel()); // the answer: it will not run
/// assert!(timeout.is_cancelled() && !timeout.is_pending());
/// assert!(!timeout.cancel(), "only one caller prevents the run");
///
/// let guarded = time.schedule_once(second, || println!("kept"))?.cancel_on_drop();
/// let kept = guarded.detach(); // no guard any more
/// drop(kept); // which does not cancel
/// assert_eq!(time.advance(second), 1);
/// # Ok(()) }
/// ```
pub struct Cancellable {
    target: Target,
}

impl Cancellable {
    pub(crate) fn once(handle: EntryHandle) -> Self {
        Self { target: Target::Once(handle) }
    }

    pub(crate) fn series(series: Arc<dyn Series>) -> Self {
        Self { target: Target::Series(series) }
    }

    /// Cancels the task. Lock-free, and never waits for the timer thread.
    ///
    /// For a one-shot, `true` means that this call prevented the run: exactly one caller gets it,
    /// and the task will not run. `false` means that it runs, has run, was cancelled before, or was
    /// handed back by `stop`. A run that has begun is not interrupted.
    ///
    /// For a repeat, `true` means that this call ended the series: a run that is under way
    /// finishes, and none follows. `false` means that it had been cancelled before, or had ended.
    ///
    /// When it returns `true`, the task's captures have been dropped, and its cancelled hook has been called.
    /// (For a repeat whose run is under way, or waits in its executor, that is done when this run ends or its
    /// turn comes.) The memory of the timer is used again without waiting for the deadline.
    ///
    /// # Panics
    ///
    /// Never. A destructor or a hook that panics is contained and reported.
    #[inline]
    pub fn cancel(&self) -> bool {
        match &self.target {
            Target::Once(handle) => handle.cancel(),
            Target::Series(series) => series.cancel(),
        }
    }

    /// Moves the deadline of a one-shot to `delay` from now, nearer or further out, in place: the task, its
    /// options and this cancellable stay.
    ///
    /// `true` means that the new deadline holds: the task does not run before it. `false` means that there is
    /// nothing to move any more: the task runs, has run, was cancelled or was handed back; or this is a repeat,
    /// whose runs go by their own rule.
    ///
    /// Pushing a deadline further out, which a connection does with each request, costs two exchanges on the
    /// timer's own memory: it touches nothing that is shared, and the timer thread only learns of it when the
    /// old deadline comes. Moving a deadline nearer costs what scheduling does. Neither allocates.
    ///
    /// Any thread may call it at any time. Of calls on one cancellable at the same time each waits until the
    /// other has written its deadline; the last one holds. Towards cancelling and firing it is lock-free.
    ///
    /// # Ordering
    ///
    /// Among equal deadlines, a task whose deadline was moved has its place by when the timer thread placed it
    /// anew, which may be behind those that were scheduled later.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let idle = time.schedule_once(Duration::from_secs(30), || println!("idle for 30 s"))?;
    /// time.advance(Duration::from_secs(20));
    /// assert!(idle.reset(Duration::from_secs(30))); // a request came
    /// assert_eq!(time.advance(Duration::from_secs(20)), 0);
    /// assert_eq!(time.advance(Duration::from_secs(10)), 1); // prints "idle for 30 s"
    /// assert!(!idle.reset(Duration::from_secs(30))); // it has run
    /// # Ok(()) }
    /// ```
    pub fn reset(&self, delay: Duration) -> bool {
        match &self.target {
            Target::Once(handle) => handle.reset_in(delay),
            Target::Series(_) => false,
        }
    }

    /// Moves the deadline of a one-shot to `deadline`; one that has passed is now. Otherwise the same as
    /// [`reset`](Self::reset).
    pub fn reset_at(&self, deadline: Instant) -> bool {
        match &self.target {
            Target::Once(handle) => handle.reset_to(deadline),
            Target::Series(_) => false,
        }
    }

    /// Whether a call of [`cancel`](Self::cancel) returned `true`.
    pub fn is_cancelled(&self) -> bool {
        match &self.target {
            Target::Once(handle) => handle.entry().state.is_cancelled(),
            Target::Series(series) => series.is_cancelled(),
        }
    }

    /// Whether the task waits for its time: it was neither fired, nor cancelled, nor handed back.
    ///
    /// A repeat waits from the end of one run to the begin of the next, also while that is queued in its
    /// executor, or has been handed back by `stop` and neither run nor dropped.
    pub fn is_pending(&self) -> bool {
        match &self.target {
            Target::Once(handle) => handle.entry().state.is_waiting(),
            Target::Series(series) => series.is_waiting(),
        }
    }

    /// A guard that cancels the task when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop {
        CancelOnDrop { inner: Some(self) }
    }
}

impl fmt::Debug for Cancellable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellable")
            .field("pending", &self.is_pending())
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

/// Cancels its task when it is dropped. Made by [`Cancellable::cancel_on_drop`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
/// {
///     let _guard = scheduler
///         .schedule_once(Duration::from_secs(5), || println!("took too long"))?
///         .cancel_on_drop();
///     // work that has to be done within five seconds
/// } // done in time: cancelled here
/// assert_eq!(scheduler.metrics().cancelled, 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped at once cancels at once"]
pub struct CancelOnDrop {
    /// `None` only after `detach`.
    inner: Option<Cancellable>,
}

impl CancelOnDrop {
    /// Gives the cancellable back; dropping that does not cancel.
    pub fn detach(mut self) -> Cancellable {
        self.inner.take().expect("detached once, by value")
    }
}

impl Deref for CancelOnDrop {
    type Target = Cancellable;

    fn deref(&self) -> &Cancellable {
        self.inner.as_ref().expect("only `detach` empties it, and takes `self`")
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(inner) = &self.inner {
            inner.cancel();
        }
    }
}
