//! Virtual time that moves whenever a future waits for it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::VirtualTime;
use crate::sync::{AtomicBool, Ordering};

/// [`VirtualTime::block_on`] gave up: the future waits for something other than a timer of this
/// scheduler.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures::channel::oneshot;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::future::Stalled;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, mut answer) = oneshot::channel();
/// assert_eq!(time.block_on(&mut answer), Err(Stalled)); // no timer leads to an answer
/// sender.send(42).unwrap();
/// assert_eq!(time.block_on(answer), Ok(Ok(42)));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the future waits, but no timer is pending that could wake it")]
pub struct Stalled;

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
    /// [`Stalled`] if the future waits and no timer is pending that could ever fire. A future that
    /// waits for another thread looks the same.
    ///
    /// # Panics
    ///
    /// As for [`advance`](Self::advance). Panics of the future pass through.
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
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Stalled> {
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        loop {
            while woken.take() {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return Ok(output);
                }
            }
            // Nothing ran, so no timer has woken it; but another thread may have, or the end of the
            // scheduler.
            if self.advance_to_next().is_none() && !woken.0.load(Ordering::Acquire) {
                return Err(Stalled);
            }
        }
    }
}
