//! Tokio's tasks in virtual time.

use std::future::{Future, poll_fn};
use std::io;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use ::tokio::runtime::{Builder, Runtime};
use futures::task::AtomicWaker;

use lars_base::debug_fields;
use lars_base::sync::thread::{self, ThreadId};
use lars_base::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use lars_scheduler::VirtualTime;
use lars_scheduler::extend::Following;
use lars_scheduler::future::BlockOnError;

/// A tokio runtime of one thread in virtual time, for tests of code that spawns tasks.
///
/// When no task has anything to do, time moves to the scheduler's next deadline. So everything that
/// is due at a deadline, and everything that follows from it in any task, happens before time moves
/// on.
///
/// It dereferences to the [`VirtualTime`].
///
/// **Only timers of this scheduler** move time. Tokio's own timers and sockets are not enabled:
/// `tokio::time::sleep` panics, instead of waiting in another time. Code under test takes its time
/// from a [`Handle`](lars_scheduler::Handle).
///
/// **Other threads** take no part in virtual time. While a task waits for `spawn_blocking`, time
/// moves on. If no timer is pending then, [`block_on`](Self::block_on) gives up.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_bridges::tokio::TokioInVirtualTime;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let test = TokioInVirtualTime::new(time)?;
/// let timers = test.handle();
/// let hour = Duration::from_secs(3600);
/// let answer = test.block_on(async {
///     let clock = timers.clone();
///     let worker = tokio::spawn(async move { clock.sleep(hour).await.map(|()| "done") });
///     timers.timeout(2 * hour, worker).await
/// })?;
/// assert_eq!(answer???, "done");
/// assert_eq!(test.elapsed(), hour);
/// # Ok(()) }
/// ```
pub struct TokioInVirtualTime {
    runtime: Runtime,
    shared: Arc<Shared>,
    /// Held by `block_on`, one call at a time.
    blocks: Mutex<()>,
    /// The thread that holds it.
    blocked: Mutex<Option<ThreadId>>,
}

struct Shared {
    time: VirtualTime,
    /// The future of `block_on` has something to do.
    woken: AtomicBool,
    /// The waker of `block_on`.
    main: AtomicWaker,
    failed: Mutex<Option<BlockOnError>>,
}

impl Shared {
    fn wake_main(&self) {
        // Release, and Acquire where it is read: the poll sees what was done before the wake-up.
        self.woken.store(true, Ordering::Release);
        self.main.wake();
    }

    /// The runtime's thread has nothing to do, unless the future of `block_on` has been woken.
    fn idle(&self) {
        if self.woken.load(Ordering::Acquire) {
            return;
        }
        Following::take_woke_elsewhere();
        let moved = self.time.advance_to_next();
        let error = match moved {
            _ if Following::take_woke_elsewhere() => BlockOnError::OtherThread,
            // Unless another thread, or a scheduler that ends, has woken something meanwhile.
            None if !self.woken.load(Ordering::Acquire) => BlockOnError::Stalled,
            // What was due may have woken nothing of tokio. So the runtime looks again what there
            // is to do, and comes back here if that is nothing; otherwise it would sleep.
            _ => return self.main.wake(),
        };
        *self.failed.lock() = Some(error);
        self.wake_main();
    }
}

struct Main(Arc<Shared>);

impl Wake for Main {
    fn wake(self: Arc<Self>) {
        self.0.wake_main();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_main();
    }
}

impl TokioInVirtualTime {
    /// A tokio runtime of one thread in this time.
    ///
    /// # Errors
    ///
    /// If tokio cannot build its runtime.
    pub fn new(time: VirtualTime) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            time,
            woken: AtomicBool::new(false),
            main: AtomicWaker::new(),
            failed: Mutex::new(None),
        });
        let parks = Arc::clone(&shared);
        let runtime = Builder::new_current_thread().on_thread_park(move || parks.idle()).build()?;
        Ok(Self { runtime, shared, blocks: Mutex::new(()), blocked: Mutex::new(None) })
    }

    /// Runs `future` and all spawned tasks on this thread, and moves time to the next deadline
    /// whenever all of them wait. Calls of several threads are carried out one after the other.
    ///
    /// # Errors
    ///
    /// Same as [`VirtualTime::block_on`]: [`BlockOnError::Stalled`] if all tasks wait and no timer
    /// is pending, and [`BlockOnError::OtherThread`] if a task on another thread waits for this
    /// time.
    ///
    /// # Panics
    ///
    /// If it is called inside of a runtime, this one or another, by code that the runtime runs on
    /// this thread. Panics of the future pass through.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, BlockOnError> {
        let _one_at_a_time = OneAtATime::begin(self);
        let shared = &self.shared;
        *shared.failed.lock() = None;
        shared.woken.store(true, Ordering::Release);
        let following = Following::begin(&shared.time);
        let mut future = pin!(future);
        let waker = Waker::from(Arc::new(Main(Arc::clone(shared))));
        self.runtime.block_on(poll_fn(|context| {
            shared.main.register(context.waker());
            let mut polled = Poll::Pending;
            if shared.woken.swap(false, Ordering::AcqRel) {
                polled = future.as_mut().poll(&mut Context::from_waker(&waker)).map(Ok);
            }
            if following.has_waiter_elsewhere() {
                return Poll::Ready(Err(BlockOnError::OtherThread));
            }
            match shared.failed.lock().take() {
                Some(error) if polled.is_pending() => Poll::Ready(Err(error)),
                _ => polled,
            }
        }))
    }

    /// The runtime, to enter it or to spawn on it from outside.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// A call of `block_on`, while others wait.
struct OneAtATime<'a> {
    blocked: &'a Mutex<Option<ThreadId>>,
    _lock: MutexGuard<'a, ()>,
}

impl<'a> OneAtATime<'a> {
    fn begin(test: &'a TokioInVirtualTime) -> Self {
        let (blocked, this) = (&test.blocked, thread::current().id());
        // (Tokio says so of other runtimes. Here the lock would wait for its own thread.)
        assert!(
            *blocked.lock() != Some(this),
            "`block_on` of a runtime in virtual time was called by code that this runtime runs on \
             the same thread; await the future instead, or spawn it"
        );
        let lock = test.blocks.lock();
        *blocked.lock() = Some(this);
        Self { blocked, _lock: lock }
    }
}

impl Drop for OneAtATime<'_> {
    fn drop(&mut self) {
        // Before the lock is released; later it would remove the next thread's mark.
        *self.blocked.lock() = None;
    }
}

impl Deref for TokioInVirtualTime {
    type Target = VirtualTime;

    fn deref(&self) -> &VirtualTime {
        &self.shared.time
    }
}

debug_fields!(|it: TokioInVirtualTime| time: it.shared.time);
