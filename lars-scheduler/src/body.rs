//! What a task does, with its type and without: three words of storage and a table of functions.
//!
//! A body of up to three words lies in the storage itself, so that scheduling it allocates nothing; a larger
//! one is boxed and its address lies there.

use std::mem::{self, ManuallyDrop, MaybeUninit};

/// What a task does: run once, or be cancelled.
///
/// Every `FnOnce() + Send + 'static` is one. A type of one's own, scheduled through
/// [`Task::new`](crate::Task::new), can
/// also do something when it is cancelled, and can be taken apart again when it was refused
/// ([`Task::into_body`](crate::Task::into_body)), which a closure cannot.
///
/// A body of up to three words is stored in the timer itself; a larger one is boxed.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, Task, TaskBody};
/// use std::sync::mpsc::{Sender, channel};
/// use std::time::Duration;
///
/// struct Timeout(u32, Sender<(u32, bool)>);
///
/// impl TaskBody for Timeout {
///     fn run(self) {
///         drop(self.1.send((self.0, false)));
///     }
///     fn cancelled(self) {
///         drop(self.1.send((self.0, true))); // answered in time
///     }
/// }
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, receiver) = channel();
/// let second = Duration::from_secs(1);
/// let first = time.schedule_once(second, Task::new(Timeout(1, sender.clone())))?;
/// let _ = time.schedule_once(second, Task::new(Timeout(2, sender.clone())))?;
/// first.cancel();
/// time.advance(second);
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [(1, true), (2, false)]);
///
/// time.close()?;
/// let refused = time.schedule_once(second, Task::new(Timeout(3, sender))).unwrap_err();
/// assert_eq!(refused.into_task().into_body().0, 3); // taken apart again
/// # Ok(()) }
/// ```
pub trait TaskBody: Send + Sized + 'static {
    /// Runs the body.
    fn run(self);

    /// The task was cancelled: called once, on the cancelling thread, instead of `run`. Not called when
    /// the task is handed back by `stop`, or was refused; then the body is just dropped.
    fn cancelled(self) {}

    /// Whether being cancelled is nothing but being dropped.
    #[doc(hidden)]
    const CANCELLED_IS_DROPPED: bool = false;

    /// Runs the body on this very thread, whatever executor it may have: `close` does that.
    #[doc(hidden)]
    fn run_here(self) {
        self.run();
    }
}

impl<F: FnOnce() + Send + 'static> TaskBody for F {
    const CANCELLED_IS_DROPPED: bool = true;

    fn run(self) {
        self();
    }
}

/// How many words of captures are stored without a box.
const INLINE_WORDS: usize = 3;

type Storage = MaybeUninit<[usize; INLINE_WORDS]>;

/// A [`TaskBody`] of any type, owned. Dropping it drops the body without running it.
pub(crate) struct RawTask {
    storage: Storage,
    table: &'static Table,
}

/// The functions of one body type.
///
/// Each of them consumes the body: the storage must hold one, and holds none after.
struct Table {
    run: unsafe fn(*mut Storage),
    run_here: unsafe fn(*mut Storage),
    cancelled: unsafe fn(*mut Storage),
    discard: unsafe fn(*mut Storage),
    /// Whether nothing needs to be done for a body that does not run.
    plain: bool,
}

// SAFETY: a `RawTask` is made of a `TaskBody`, which is `Send`, and owns it alone.
unsafe impl Send for RawTask {}

/// Whether a body of type `B` fits the storage.
const fn fits<B>() -> bool {
    mem::size_of::<B>() <= mem::size_of::<Storage>()
        && mem::align_of::<B>() <= mem::align_of::<Storage>()
}

/// Reads a body of type `B` out of the storage.
///
/// # Safety
///
/// The storage holds a body of type `B`, written by `RawTask::new`, and holds none afterwards.
unsafe fn take<B: TaskBody>(storage: *mut Storage) -> B {
    if fits::<B>() {
        // SAFETY: by the caller's promise the storage holds a `B` in place; size and alignment
        // were checked when it was written.
        unsafe { storage.cast::<B>().read() }
    } else {
        // SAFETY: by the caller's promise the storage holds the address of a boxed `B`.
        *unsafe { Box::from_raw(storage.cast::<*mut B>().read()) }
    }
}

struct TableOf<B>(std::marker::PhantomData<B>);

impl<B: TaskBody> TableOf<B> {
    const TABLE: Table = Table {
        // SAFETY: `RawTask` calls these four with storage that holds a `B`, at most one of them, once, and as
        // the last thing that it does with the storage.
        run: |storage| unsafe { take::<B>(storage) }.run(),
        // SAFETY: as for `run`.
        run_here: |storage| unsafe { take::<B>(storage) }.run_here(),
        // SAFETY: as for `run`.
        cancelled: |storage| unsafe { take::<B>(storage) }.cancelled(),
        // SAFETY: as for `run`.
        discard: |storage| drop(unsafe { take::<B>(storage) }),
        plain: fits::<B>() && !mem::needs_drop::<B>() && B::CANCELLED_IS_DROPPED,
    };
}

impl RawTask {
    pub(crate) fn new<B: TaskBody>(body: B) -> Self {
        let mut storage = Storage::uninit();
        if fits::<B>() {
            // SAFETY: `fits` says that a `B` has room here, suitably aligned.
            unsafe { storage.as_mut_ptr().cast::<B>().write(body) };
        } else {
            let boxed = Box::into_raw(Box::new(body));
            // SAFETY: an address fits the storage, which is aligned for words.
            unsafe { storage.as_mut_ptr().cast::<*mut B>().write(boxed) };
        }
        Self { storage, table: const { &TableOf::<B>::TABLE } }
    }

    /// Runs the body. A panic passes through; the body is gone either way.
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        let table = this.table;
        // SAFETY: the storage holds the body, and `ManuallyDrop` keeps `drop` from taking it again.
        unsafe { (table.run)(&raw mut this.storage) }
    }

    /// Runs the body on this very thread. A panic passes through; the body is gone either way.
    pub(crate) fn run_here(self) {
        let mut this = ManuallyDrop::new(self);
        let table = this.table;
        // SAFETY: as in `run`.
        unsafe { (table.run_here)(&raw mut this.storage) }
    }

    /// Whether the task may be forgotten instead of being cancelled: it owns nothing and has no hook.
    pub(crate) fn is_plain(&self) -> bool {
        self.table.plain
    }

    /// Drops the captures and calls the cancelled hook. A panic passes through.
    pub(crate) fn cancelled(self) {
        let mut this = ManuallyDrop::new(self);
        let table = this.table;
        // SAFETY: as in `run`.
        unsafe { (table.cancelled)(&raw mut this.storage) }
    }

    /// Takes the body out again, unrun.
    ///
    /// # Safety
    ///
    /// The task was made of a `B`.
    pub(crate) unsafe fn into_body<B: TaskBody>(self) -> B {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: by the caller's promise the body is a `B`; `this` is not used again.
        unsafe { take::<B>(&raw mut this.storage) }
    }
}

impl Drop for RawTask {
    fn drop(&mut self) {
        // SAFETY: whatever consumed the body wrapped `self` in `ManuallyDrop`, so it is still here.
        unsafe { (self.table.discard)(&raw mut self.storage) }
    }
}

impl std::fmt::Debug for RawTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawTask")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// `Rc` in a `Send` coat: these tests stay on one thread and want to count.
    #[derive(Clone)]
    struct Count(Rc<Cell<u32>>);
    // SAFETY: the tests below never leave their thread.
    unsafe impl Send for Count {}
    impl Count {
        fn new() -> Self {
            Self(Rc::new(Cell::new(0)))
        }
        fn add(&self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[repr(align(64))]
    struct Aligned(Count);

    #[test]
    fn a_body_runs_once_and_drops_its_captures_small_large_or_strictly_aligned() {
        let count = Count::new();
        let (small, large, aligned) = (count.clone(), count.clone(), Aligned(count.clone()));
        RawTask::new(move || small.add()).run();
        let ballast = [7_u64; 16];
        RawTask::new(move || {
            assert_eq!(ballast[15], 7);
            large.add();
        })
        .run();
        RawTask::new(move || {
            let aligned = &aligned;
            assert_eq!((&raw const *aligned).addr() % 64, 0);
            aligned.0.add();
        })
        .run();
        assert_eq!(count.0.get(), 3);
        assert_eq!(Rc::strong_count(&count.0), 1);
    }

    #[test]
    fn a_body_that_is_dropped_unrun_drops_its_captures() {
        let count = Count::new();
        let (small, large) = (count.clone(), count.clone());
        drop(RawTask::new(move || small.add()));
        let ballast = [0_u64; 16];
        drop(RawTask::new(move || {
            let _ = ballast;
            large.add();
        }));
        assert_eq!(count.0.get(), 0);
        assert_eq!(Rc::strong_count(&count.0), 1);
    }

    #[test]
    fn a_panicking_body_drops_its_captures_once() {
        let count = Count::new();
        let inside = count.clone();
        let task = RawTask::new(move || {
            inside.add();
            panic!("expected by this test");
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.run()));
        assert!(result.is_err());
        assert_eq!(Rc::strong_count(&count.0), 1);
    }

    #[test]
    fn a_refused_body_comes_back_as_it_was() {
        fn round_trip<B: TaskBody>(body: B) -> B {
            // SAFETY: the task is made of a `B` on the same line.
            unsafe { RawTask::new(body).into_body::<B>() }
        }
        let count = Count::new();
        let inside = count.clone();
        let body = round_trip(move || inside.add());
        body();
        assert_eq!(count.0.get(), 1);
    }
}
