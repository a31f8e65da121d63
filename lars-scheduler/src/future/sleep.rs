//! A future that is ready at an instant.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::FusedFuture;

use super::moment::Moment;
use super::wake_timer::WakeTimer;
use crate::{Handle, Refusal};
use lars_base::debug_fields;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;

impl Handle {
    /// A future that is ready when `delay` has passed, on any executor.
    ///
    /// The deadline is fixed by this call: `now + delay`. A delay beyond the clock's range, up to
    /// [`Duration::MAX`], never ends. See [`Sleep`].
    ///
    /// # Errors
    ///
    /// The future ends with [`Refusal::Stopped`] if the scheduler is stopped, closed or dropped
    /// before the deadline, and with [`Refusal::Full`] if `max_pending` timers are pending when it
    /// first has to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let timers = scheduler.handle();
    /// futures::executor::block_on(async {
    ///     let begin = timers.now();
    ///     timers.sleep(Duration::from_millis(5)).await?;
    ///     assert!(timers.now() - begin >= Duration::from_millis(5));
    ///     Ok(())
    /// })
    /// # }
    /// ```
    #[track_caller]
    pub fn sleep(&self, delay: Duration) -> Sleep {
        let at = self.moment().after(delay);
        Sleep::new(self.clone(), self.due_at(at), at)
    }

    /// A future that is ready at `deadline`, or at once if that has passed.
    ///
    /// Otherwise like [`sleep`](Self::sleep).
    ///
    /// # Errors
    ///
    /// Same as [`sleep`](Self::sleep).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let noon = time.now() + Duration::from_secs(12 * 3600);
    /// time.block_on(time.sleep_until(noon))??;
    /// assert_eq!(time.now(), noon);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        let due = WhenDue::At(deadline);
        Sleep::new(self.clone(), due, self.moment_of_due(due))
    }
}

/// A future that is ready at an instant. Made by [`Handle::sleep`] and [`Handle::sleep_until`].
///
/// It is ready with `Ok` when a poll finds that the deadline has passed on the scheduler's clock,
/// and never before: a wake-up alone proves nothing. If that can no longer happen, it ends with a
/// [`Refusal`]: `Stopped` if the scheduler was stopped, closed or dropped first, `Full` if there
/// was no place for its timer. [The module](crate::future) says what that means for shutdowns.
///
/// **The timer.** The first poll that has to wait makes it, and dropping the sleep cancels it. So a
/// sleep takes one place in `max_pending` from that poll until it is ready or dropped. A deadline
/// that has passed needs no timer: the first poll is ready, without yielding to other tasks. The
/// timer fires inline: the waker is called on the timer thread, together with those of all sleeps
/// that are due in the same tick.
///
/// **Polling.** The waker of the last poll is woken, on whatever task, thread or executor that is.
/// A poll with the same waker as before only looks whether the timer waits. A poll with another one
/// cancels the timer and makes another. (With `max_pending` reached, some other thread can take the
/// place in between; then the sleep ends with `Full`.) No poll allocates, except for the first one
/// of all sleeps that one place in the source makes. After the sleep was ready, polls give the same
/// answer, until it is reset.
///
/// It is `Send`, `Sync` and `Unpin`: `&mut sleep` can be polled, for example by a `select!` in a
/// loop.
///
/// # Cancel safety
///
/// All state is in the sleep: abandoning it after a poll loses nothing, and a later poll goes on.
///
/// # Lateness
///
/// The waker is called as punctually as any timer fires ([`Handle::schedule_once`]); the rest is up
/// to the executor.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let secs = Duration::from_secs;
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let timers = time.handle();
/// let start = time.now();
/// time.block_on(async {
///     let mut sleep = timers.sleep(secs(5));
///     assert_eq!(sleep.deadline(), Some(start + secs(5)));
///     sleep.reset(secs(1));
///     (&mut sleep).await?;
///     assert!(sleep.is_elapsed());
///     sleep.reset_at(start + secs(3)); // to be used again
///     sleep.await
/// })??;
/// assert_eq!(time.elapsed(), secs(3));
/// # Ok(()) }
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    handle: Handle,
    pub(super) deadline: WhenDue,
    /// The deadline in the scheduler's time.
    at: Moment,
    /// Of the call that made it.
    place: &'static Location<'static>,
    /// Present from the first poll that had to wait.
    timer: Option<WakeTimer>,
    /// How it ended: with its deadline, or too soon.
    outcome: Option<Result<Instant, Refusal>>,
}

impl Sleep {
    #[inline]
    #[track_caller]
    fn new(handle: Handle, deadline: WhenDue, at: Moment) -> Self {
        Self { handle, deadline, at, place: Location::caller(), timer: None, outcome: None }
    }

    /// The place that the [`TaskIdentity`](crate::TaskIdentity) of its timer shows, instead of that
    /// of the call that made it: for code that sleeps on behalf of its own callers.
    pub fn placed_at(self, place: &'static Location<'static>) -> Self {
        Self { place, ..self }
    }

    /// When it is ready; `None` if that is later than what the platform's clock can express.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.instant()
    }

    /// Whether the deadline has passed, by the scheduler's clock.
    pub fn is_elapsed(&self) -> bool {
        self.passed().is_ok()
    }

    /// Moves the deadline to `delay` from now, nearer or further out, in any state of the sleep. A
    /// task that waits for it then waits for the new deadline, without another poll.
    ///
    /// The timer is moved in place, as by [`Cancellable::reset`](crate::Cancellable::reset). Moving
    /// it further out touches nothing that is shared.
    ///
    /// # Examples
    ///
    /// An idle timeout: each request moves it, and there is one timer, however many requests there
    /// are.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures::FutureExt;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let limit = Duration::from_secs(30);
    /// let mut idle = time.sleep(limit);
    /// for _request in 0..100 {
    ///     assert!((&mut idle).now_or_never().is_none());
    ///     time.advance(Duration::from_secs(29));
    ///     idle.reset(limit);
    /// }
    /// assert_eq!(time.metrics().scheduled, 1);
    /// time.advance(limit);
    /// assert_eq!(idle.now_or_never(), Some(Ok(())));
    /// # Ok(()) }
    /// ```
    pub fn reset(&mut self, delay: Duration) {
        let now = self.handle.moment();
        let at = now.after(delay);
        self.move_to(now, self.handle.due_at(at), at);
    }

    /// Moves the deadline to `deadline`, or to now if that has passed. Otherwise like
    /// [`reset`](Self::reset).
    pub fn reset_at(&mut self, deadline: Instant) {
        self.reset_to(WhenDue::At(deadline));
    }

    pub(crate) fn reset_to(&mut self, deadline: WhenDue) {
        let at = self.handle.moment_of_due(deadline);
        // Without a timer there is nothing to compare the new deadline with yet.
        let now = if self.timer.is_some() { self.handle.moment() } else { at };
        self.move_to(now, deadline, at);
    }

    #[inline]
    fn move_to(&mut self, now: Moment, deadline: WhenDue, at: Moment) {
        (self.deadline, self.at) = (deadline, at);
        self.outcome = None;
        if let Some(timer) = &self.timer {
            timer.move_to(now, at);
        }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The place of the call that made it.
    pub(crate) fn place(&self) -> &'static Location<'static> {
        self.place
    }

    /// The deadline, if it has passed; otherwise a reading of the clock.
    #[inline]
    fn passed(&self) -> Result<Instant, Moment> {
        let passed = match &self.timer {
            // It is over, so the time has come, or the scheduler has stopped.
            Some(timer) if !timer.is_pending() => self.handle.has_passed(self.at),
            _ => self.handle.may_have_passed(self.at),
        };
        match (passed, self.deadline) {
            (Ok(()), WhenDue::At(deadline)) => Ok(deadline),
            (Ok(()), WhenDue::Never) => Err(self.at),
            (Err(now), _) => Err(now),
        }
    }

    /// Drops the timer, as if the sleep had never been polled. The deadline stays.
    pub(crate) fn disarm(&mut self) {
        self.timer = None;
    }

    fn end(&mut self, outcome: Result<Instant, Refusal>) -> Poll<Result<Instant, Refusal>> {
        self.disarm();
        self.outcome = Some(outcome.clone());
        Poll::Ready(outcome)
    }

    /// Ready with the deadline.
    pub(crate) fn poll_deadline(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Instant, Refusal>> {
        if let Some(outcome) = &self.outcome {
            return Poll::Ready(outcome.clone());
        }
        let now = match self.passed() {
            Ok(deadline) => return self.end(Ok(deadline)),
            Err(now) => now,
        };
        let (due, waker) = ((now, self.at), context.waker());
        match WakeTimer::set(&mut self.timer, waker, &self.handle, due, self.place) {
            Ok(()) => Poll::Pending,
            // The time may have come meanwhile; then there is no need for a timer.
            Err(refusal) => {
                let outcome = self.passed().map_err(|_| refusal);
                self.end(outcome)
            }
        }
    }
}

impl Future for Sleep {
    type Output = Result<(), Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_deadline(context).map_ok(|_| ())
    }
}

impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        self.outcome.is_some()
    }
}

debug_fields!(|it: Sleep| deadline: it.deadline(), outcome: it.outcome);
