//! A sleep, and then other work.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::sleep::Sleep;
use crate::{Handle, Refusal};

impl Handle {
    /// A future that waits for `delay`, counted from this call, and then does `work`.
    ///
    /// Dropping it cancels both. The work does not begin before the delay is over.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] if the wait ends too soon, as for [`sleep`](Self::sleep). Then the work has
    /// not begun, and [`After::into_inner`] takes it back.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let minute = Duration::from_secs(60);
    /// let start = time.now();
    /// let work = time.after(minute, async { time.now() - start });
    /// assert_eq!(time.block_on(work)?, Ok(minute));
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn after<F: IntoFuture>(&self, delay: Duration, work: F) -> After<F::IntoFuture> {
        After { sleep: self.sleep(delay), work: work.into_future() }
    }
}

pin_project! {
    /// A sleep, and then other work. Made by [`Handle::after`].
    ///
    /// Polling it again after the work's result polls the work again, which most futures do not
    /// allow.
    ///
    /// # Cancel safety
    ///
    /// That of a [`Sleep`] until the delay is over, and that of the work from then on.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct After<F> {
        sleep: Sleep,
        #[pin]
        work: F,
    }
}

impl<F> After<F> {
    /// The work, without the delay.
    pub fn into_inner(self) -> F {
        self.work
    }
}

impl<F: Future> Future for After<F> {
    type Output = Result<F::Output, Refusal>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // A sleep that is over is ready again at each poll.
        ready!(this.sleep.poll_deadline(context))?;
        this.work.poll(context).map(Ok)
    }
}
