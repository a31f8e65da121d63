//! Cancelling, from any thread.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::base::deadline::Deadline;
use crate::base::identity::TaskIdentity;
use crate::engine::entry_handle::EntryHandle;
use crate::engine::shared::Core;
use lars_base::debug_fields;
use lars_base::time::Instant;

/// What the cancellable of a repeat refers to: its series, whose current entry changes.
pub(crate) trait Series: Send + Sync {
    fn cancel(&self) -> bool;
    fn is_cancelled(&self) -> bool;
    fn is_waiting(&self) -> bool;
    fn identity(&self) -> TaskIdentity;
    /// The deadline of the timer that waits, and the clock that it is read on.
    fn due(&self) -> Option<(u64, &Clock)>;
}

/// What a cancellable refers to: an [`EntryHandle`], or an `Arc<dyn Series>`, owned.
///
/// Two words, and not an enum of the two. The enum has three words and is passed in memory; each
/// move waits for the stores of the last one (4 ns).
struct Target {
    /// The entry of the handle. Without a core, the series, in a box.
    of: NonNull<()>,
    core: Option<NonNull<Core>>,
}

// SAFETY: it owns a handle or a shared series, which may be sent to another thread.
unsafe impl Send for Target {}
// SAFETY: it lends the handle or the series, which may both be shared.
unsafe impl Sync for Target {}

/// What [`Target`] lends.
enum Lent<'a> {
    /// Not to be dropped: it is the target's.
    Once(ManuallyDrop<EntryHandle>),
    Series(&'a dyn Series),
}

impl Target {
    #[inline(always)]
    fn lend(&self) -> Lent<'_> {
        match self.core {
            Some(core) => {
                // SAFETY: `Cancellable::once` took these two out of a handle, which they stand for.
                let handle = unsafe { EntryHandle::new(self.of.cast(), core) };
                Lent::Once(ManuallyDrop::new(handle))
            }
            // SAFETY: `Cancellable::series` made it of a box, which lives as long as `self`.
            None => Lent::Series(&**unsafe { self.of.cast::<Arc<dyn Series>>().as_ref() }),
        }
    }

    fn clock(&self) -> Option<&Clock> {
        // SAFETY: the handle keeps the core alive, and lives as long as `self`.
        self.core.map(|core| unsafe { &core.as_ref().clock })
    }

    #[cold]
    fn drop_series(&mut self) {
        // SAFETY: without a core it is a series, which `Cancellable::series` made of a box, and
        // which is not used after this.
        drop(unsafe { Box::from_raw(self.of.cast::<Arc<dyn Series>>().as_ptr()) });
    }
}

impl Drop for Target {
    #[inline]
    fn drop(&mut self) {
        match self.lend() {
            Lent::Once(handle) => drop(ManuallyDrop::into_inner(handle)),
            Lent::Series(_) => self.drop_series(),
        }
    }
}

/// A scheduled task, as its caller sees it.
///
/// It is `Send` and `Sync`; all methods may be called from any thread, at any time, even after the
/// scheduler is gone. Dropping it does **not** cancel the task;
/// [`cancel_on_drop`](Self::cancel_on_drop) makes a guard that does.
///
/// A cancellable that outlives the scheduler keeps the memory of all its timers and its panic hook,
/// but neither its executor nor a thread.
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
    #[inline]
    pub(crate) fn once(handle: EntryHandle) -> Self {
        let (entry, core) = handle.into_parts();
        Self { target: Target { of: entry.cast(), core: Some(core) } }
    }

    pub(crate) fn series(series: Arc<dyn Series>) -> Self {
        let series = Box::into_raw(Box::new(series));
        // SAFETY: a box is not null.
        let of = unsafe { NonNull::new_unchecked(series) }.cast();
        Self { target: Target { of, core: None } }
    }

    /// Cancels the task. Lock-free, and never waits for the timer thread.
    ///
    /// For a one-shot, `true` means that this call prevented the run: exactly one caller gets it,
    /// and the task will not run. `false` means that it runs, has run, was cancelled before, was
    /// handed back by `stop`, or went with its scheduler. A run that has begun is not interrupted.
    ///
    /// For a repeat, `true` means that this call ended the series: a run in progress finishes, and
    /// none follows. `false` means that the series had been cancelled before, or had ended.
    ///
    /// When it returns `true`, the task's captures have been dropped, and its cancelled hook has
    /// been called. (If a run of a repeat is in progress or waits in its executor, this happens
    /// when the run ends or its turn comes.) The timer's memory is reused without waiting for the
    /// deadline.
    ///
    /// # Panics
    ///
    /// Never. A destructor or a hook that panics is contained and reported.
    #[inline]
    pub fn cancel(&self) -> bool {
        match self.target.lend() {
            Lent::Once(handle) => handle.cancel(),
            Lent::Series(series) => series.cancel(),
        }
    }

    /// Moves the deadline of a one-shot to `delay` from now, nearer or further out, in place: the
    /// task, its options and this cancellable stay.
    ///
    /// `true` means that the new deadline holds: the task does not run before it. `false` means
    /// that there is nothing left to move: the task runs, has run, was cancelled or was handed
    /// back; or this is a repeat, whose runs go by their own rule.
    ///
    /// Pushing a deadline further out, as a connection does with each request, costs two exchanges
    /// on the timer's own memory. It touches nothing shared, and the timer thread learns of it only
    /// when the old deadline comes. Moving a deadline nearer costs what scheduling does, and may
    /// [sleep](crate::Handle::schedule_once) as that does. Neither allocates.
    ///
    /// Any thread may call it at any time. Concurrent calls on one cancellable wait for each other
    /// while they write the deadline; the last one holds. With respect to cancelling and firing it
    /// is lock-free.
    ///
    /// # Ordering
    ///
    /// Among equal deadlines, a task that was moved comes in the order in which the timer thread
    /// placed it again, which may be behind tasks that were scheduled later.
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
        match self.target.lend() {
            Lent::Once(handle) => {
                let now = handle.core().clock.now();
                handle.reset(Deadline::after(now, delay), true)
            }
            Lent::Series(_) => false,
        }
    }

    /// [`reset`](Self::reset) for futures, which have read the clock and do not wait.
    #[cfg(not(lars_loom))]
    pub(crate) fn reset_to(&self, due: Deadline) -> bool {
        match self.target.lend() {
            Lent::Once(handle) => handle.reset(due, false),
            Lent::Series(_) => false,
        }
    }

    /// Moves the deadline of a one-shot to `deadline`; one that has passed is now. Otherwise like
    /// [`reset`](Self::reset).
    pub fn reset_at(&self, deadline: Instant) -> bool {
        match self.target.lend() {
            Lent::Once(handle) => {
                let clock = &handle.core().clock;
                handle.reset(Deadline::at(clock.now(), clock.nanos_at(deadline)), true)
            }
            Lent::Series(_) => false,
        }
    }

    /// Whether a call of [`cancel`](Self::cancel) returned `true`.
    pub fn is_cancelled(&self) -> bool {
        match self.target.lend() {
            Lent::Once(handle) => handle.entry().state.is_cancelled(),
            Lent::Series(series) => series.is_cancelled(),
        }
    }

    /// Whether the task waits for its time: it was neither fired, nor cancelled, nor handed back.
    ///
    /// A repeat waits from the end of one run to the beginning of the next, even while that run is
    /// queued in its executor, or has been handed back by `stop` and is neither run nor dropped.
    pub fn is_pending(&self) -> bool {
        match self.target.lend() {
            Lent::Once(handle) => handle.entry().state.is_waiting(),
            Lent::Series(series) => series.is_waiting(),
        }
    }

    /// Whose the task is.
    pub fn identity(&self) -> TaskIdentity {
        match self.target.lend() {
            Lent::Once(handle) => handle.identity(),
            Lent::Series(series) => series.identity(),
        }
    }

    /// When the task is due; for a repeat, when its next run is. `None` if it does not wait (see
    /// [`is_pending`](Self::is_pending)), or if its deadline is beyond the clock's range.
    ///
    /// If another thread is moving the deadline, this may be the old one or the new one. A run of a
    /// repeat that waits in its executor is past its deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let second = Duration::from_secs(1);
    /// let beat = time.schedule_at_fixed_rate(second, 10 * second, || ())?;
    /// time.advance(5 * second);
    /// assert_eq!(beat.remaining(), Some(6 * second)); // the first run was at 1 s
    /// assert_eq!(beat.deadline(), Some(time.now() + 6 * second));
    /// beat.cancel();
    /// assert_eq!(beat.remaining(), None);
    /// # Ok(()) }
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.due().and_then(|(due, clock)| clock.instant(due))
    }

    /// How long it is until the task is due; zero if that has passed. Otherwise the same as
    /// [`deadline`](Self::deadline).
    pub fn remaining(&self) -> Option<Duration> {
        let (due, clock) = self.due()?;
        let remaining = Duration::from_nanos(due.saturating_sub(clock.now()));
        clock.instant(due).map(|_| remaining)
    }

    fn due(&self) -> Option<(u64, &Clock)> {
        match self.target.lend() {
            Lent::Once(handle) => handle.deadline().zip(self.target.clock()),
            Lent::Series(series) => series.due(),
        }
    }

    /// A guard that cancels the task when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop {
        CancelOnDrop { inner: Some(self) }
    }
}

debug_fields!(
    |it: Cancellable| identity: it.identity(),
    pending: it.is_pending(),
    cancelled: it.is_cancelled(),
);

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
