//! Virtual time that moves whenever a future waits for it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::following::Following;
use crate::VirtualTime;
use crate::sync::{AtomicBool, Ordering};

/// [`VirtualTime::block_on`] gave up.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures::channel::oneshot;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::future::Stalled; // a `BlockOnError`
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, mut answer) = oneshot::channel();
/// assert_eq!(time.block_on(&mut answer), Err(Stalled)); // no timer leads to an answer
/// sender.send(42).unwrap();
/// assert_eq!(time.block_on(answer), Ok(Ok(42)));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockOnError {
    /// The future waits for something other than a timer of this scheduler.
    #[error("the future waits for something, and no timer is pending that could come due")]
    Stalled,
    /// A task on another thread waits for this scheduler's time. That time moves as soon as the
    /// blocked thread has nothing to do, so it would race with what the task still has to do.
    #[error(
        "a task on another thread waits for virtual time, which this thread moves whenever it has \
         nothing to do: keep everything on one thread"
    )]
    OtherThread,
}

/// Remembers that it was woken.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        // Release, and Acquire in `take`: the poll sees what was done before the wake-up.
        self.0.store(true, Ordering::Release);
    }
}

impl Woken {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Acquire)
    }
}

impl VirtualTime {
    /// Runs `future` on this thread, and moves time to the next deadline whenever it waits. So
    /// hours of async code run in milliseconds, and see each instant exactly.
    ///
    /// All that is due at a deadline runs before the future is polled again. To run several
    /// futures, join them, with `futures::join!` for example, or spawn them on a pool that this
    /// future runs. To hold time still, poll the future by other means: time moves only in the
    /// methods of `VirtualTime`.
    ///
    /// # Errors
    ///
    /// [`Stalled`](BlockOnError::Stalled) if the future waits and no timer is pending that could
    /// ever come due. A future that waits for another thread looks like that as well.
    /// [`OtherThread`](BlockOnError::OtherThread) if a task on another thread waits for this time,
    /// as those of a runtime with several threads do. For tokio's tasks there is
    /// `TokioInVirtualTime`, of `lars-bridges`.
    ///
    /// # Panics
    ///
    /// Same as [`advance`](Self::advance). Panics of the future pass through.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::{Refusal, future::Stalled};
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let timers = time.handle();
    /// let day = Duration::from_secs(24 * 3600);
    /// time.block_on(async {
    ///     for _ in 0..365 {
    ///         timers.sleep(day).await?;
    ///     }
    ///     Ok::<_, Refusal>(())
    /// })??;
    /// assert_eq!(time.elapsed(), 365 * day);
    /// assert_eq!(time.block_on(std::future::pending::<()>()), Err(Stalled));
    /// # Ok(()) }
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, BlockOnError> {
        let mut future = pin!(future);
        let following = Following::begin(self);
        Following::take_woke_elsewhere();
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        loop {
            while woken.take() {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return match following.has_waiter_elsewhere() {
                        false => Ok(output),
                        true => Err(BlockOnError::OtherThread),
                    };
                }
            }
            // Nothing ran, so no timer has woken it; but another thread may have, or the end of a
            // scheduler that was stopped.
            let moved = self.advance_to_next();
            if Following::take_woke_elsewhere() || following.has_waiter_elsewhere() {
                return Err(BlockOnError::OtherThread);
            }
            if moved.is_none() && !woken.0.load(Ordering::Acquire) {
                return Err(BlockOnError::Stalled);
            }
        }
    }
}
