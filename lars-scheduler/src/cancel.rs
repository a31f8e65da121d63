//! Cancelling, from any thread.

use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::entry::Entry;
use crate::entry::state::{Cancel, Released};
use crate::report::PanicIn;
use crate::shared::{Core, report_orphan};
use crate::sync::Ordering;

/// After so many cancels in a lane a sleeping timer thread is woken to collect the entries.
///
/// A wake-up costs the caller about 15 µs: 2 ns for each of these cancels. The entries that wait
/// for it take 512 KiB at the most.
pub(crate) const BACKLOG: u64 = 8192;

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

    pub(crate) fn cancel(&self) -> bool {
        let how = self.entry().state.cancel();
        if how == Cancel::TooLate {
            return false;
        }
        // SAFETY: this call moved the state out of `QUEUED` or `ARMED`.
        let task = unsafe { self.entry().take_task() };
        let core = self.core();
        if !self.entry().state.is_repeat() {
            core.release_place();
        }
        let lane = &core.lanes()[core.own_lane()];
        // Release: pairs with the load in `metrics`, so that the schedule is counted before it.
        let cancelled = lane.counts.cancelled.fetch_add(1, Ordering::Release) + 1;
        if how == Cancel::WhileArmed {
            // SAFETY: the slot is empty and ours; the driver unlinks the entry and does not free it
            // before the handle bit is cleared.
            unsafe { lane.cancelled.push_chain(self.entry.as_ptr(), self.entry.as_ptr()) };
        }
        if cancelled.is_multiple_of(BACKLOG) {
            core.sleep.wake();
        }
        // Last, because it runs the caller's code, which may do anything, panic included. What is reported of
        // that goes to a log subscriber, which may panic as well.
        let clean_up = || core.reporter.contain(PanicIn::Cleanup, move || task.cancelled());
        let _ = catch_unwind(AssertUnwindSafe(clean_up));
        true
    }
}

impl Drop for EntryHandle {
    fn drop(&mut self) {
        match self.entry().state.release_handle() {
            Released::ToScheduler => {}
            Released::Orphan => {
                // SAFETY: the bit was cleared on the line above, and `self` is not used again.
                unsafe { report_orphan(self.core.as_ptr()) };
            }
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
    /// When it returns `true`, the task's captures have been dropped (for a repeat that is just
    /// running: they are dropped when that run ends), and its cancelled hook has been called. The
    /// memory of the timer is used again without waiting for the deadline.
    ///
    /// # Panics
    ///
    /// Never. A destructor or a hook that panics is contained and reported.
    pub fn cancel(&self) -> bool {
        match &self.target {
            Target::Once(handle) => handle.cancel(),
            Target::Series(series) => series.cancel(),
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
