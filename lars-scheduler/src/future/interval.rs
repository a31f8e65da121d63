//! A future that is ready again and again, also as a stream.

use std::future::poll_fn;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use futures::stream::FusedStream;

use super::sleep::Sleep;
use crate::base::error::check_period;
use crate::{Handle, MissedTickBehavior, Refusal};
use lars_base::debug_fields;
use lars_base::rate::Rate;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;

/// How long waking a task may take, beyond one tick of the scheduler, before its tick counts as
/// late.
const PUNCTUAL: Duration = Duration::from_millis(5);

impl Handle {
    /// Ticks at once, and then every `period`: the nth tick is due at `now + n * period`, without
    /// drift.
    ///
    /// See [`Interval`].
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a period of zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let second = Duration::from_secs(1);
    /// let start = time.now();
    /// time.block_on(async {
    ///     let mut heartbeat = time.interval(second)?;
    ///     assert_eq!(heartbeat.tick().await?, start);
    ///     assert_eq!(heartbeat.tick().await?, start + second);
    ///     assert_eq!(heartbeat.tick().await?, start + 2 * second);
    ///     Ok(())
    /// })?
    /// # }
    /// ```
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Result<Interval, Refusal> {
        self.interval_at(self.now(), period)
    }

    /// Ticks at `start`, and then every `period`.
    ///
    /// Otherwise like [`interval`](Self::interval).
    ///
    /// # Errors
    ///
    /// Same as [`interval`](Self::interval).
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Result<Interval, Refusal> {
        check_period(period)?;
        let missed = MissedTickBehavior::default();
        Ok(Interval { sleep: self.sleep_until(start), period, missed, stopped: false })
    }
}

/// A future that is ready again and again, to be awaited with [`tick`](Self::tick) or read as a
/// [`Stream`]. Made by [`Handle::interval`] and [`Handle::interval_at`].
///
/// **Missed ticks.** A tick that was not awaited in time is delivered late, at the next call.
/// [`missed_ticks`](Self::missed_ticks) chooses what happens to the ticks after it; names and
/// meanings are tokio's. With a period of 100 ms, if the work after the tick at 0 takes 250 ms:
///
/// ```text
/// due       0     100   200   300   400   500
/// Burst     0─────────────┤250 250 300   400   500    all ticks come, late ones at once
/// Skip      0─────────────┤250   300   400   500      then the multiples of the period
/// Delay     0─────────────┤250         350   450      the following ones count from the late one
/// ```
///
/// (A [`Periodic`](crate::Periodic) task under `Skip` does not run at 250, because no caller waits
/// for that run.) For `Delay`, a tick is late if it is delivered more than one tick of the
/// scheduler plus 5 ms after its time, or more than a period after it if that is shorter. So the
/// time that waking takes does not shift later ticks.
///
/// **The timer.** Like that of a [`Sleep`]: each tick that has to wait makes one. Nothing is
/// allocated. An interval that is not polled costs nothing.
///
/// **The end.** When the scheduler has stopped, each `tick` fails with [`Refusal::Stopped`]; the
/// stream yields that error once, and ends. [`Refusal::Full`] is temporary: the tick is not lost,
/// and the next call tries again.
///
/// # Cancel safety
///
/// A call of `tick` that is abandoned loses no tick.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{LightArrayRevolverScheduler, MissedTickBehavior, Refusal};
/// use std::time::Duration;
///
/// let secs = Duration::from_secs;
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let timers = time.handle();
/// let start = time.now();
/// time.block_on(async {
///     let mut interval =
///         timers.interval_at(start + secs(1), secs(10))?.missed_ticks(MissedTickBehavior::Skip);
///     assert_eq!(interval.period(), secs(10));
///     assert_eq!(interval.tick().await?, start + secs(1));
///     interval.reset_after(secs(2));
///     assert_eq!(interval.tick().await?, start + secs(3));
///     interval.reset(); // a period from now
///     assert_eq!(interval.deadline(), Some(start + secs(13)));
///     interval.reset_immediately();
///     assert_eq!(interval.tick().await?, start + secs(3));
///     Ok::<_, Refusal>(())
/// })??;
/// # Ok(()) }
/// ```
#[must_use = "an interval does nothing unless it is asked for its ticks"]
pub struct Interval {
    /// Its deadline is the next tick.
    sleep: Sleep,
    period: Duration,
    missed: MissedTickBehavior,
    /// The stream has yielded that the scheduler has stopped.
    stopped: bool,
}

impl Interval {
    /// What happens to the ticks after a late one; `Burst` by default.
    #[doc(alias = "set_missed_tick_behavior")]
    pub fn missed_ticks(mut self, behavior: MissedTickBehavior) -> Self {
        self.missed = behavior;
        self
    }

    /// [`missed_ticks`](Self::missed_ticks) for an interval that is in its place.
    pub(crate) fn set_missed_ticks(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    pub(crate) fn get_missed_ticks(&self) -> MissedTickBehavior {
        self.missed
    }

    /// The place of the call that made it.
    pub(crate) fn place(&self) -> &'static Location<'static> {
        self.sleep.place()
    }

    /// Ready at the next tick, with the instant at which it was due.
    ///
    /// # Errors
    ///
    /// [`Refusal::Stopped`] and [`Refusal::Full`], as for [`Handle::sleep`].
    pub async fn tick(&mut self) -> Result<Instant, Refusal> {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// [`tick`](Self::tick) for futures written by hand.
    ///
    /// # Errors
    ///
    /// Same as [`tick`](Self::tick).
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Result<Instant, Refusal>> {
        let ticked = ready!(self.sleep.poll_deadline(context));
        match &ticked {
            Ok(due) => self.sleep.reset_to(self.after(*due)),
            // That is final.
            Err(Refusal::Stopped) => {}
            // That is temporary.
            Err(_) => self.sleep.reset_to(self.sleep.deadline),
        }
        Poll::Ready(ticked)
    }

    /// When the next tick is due; `None` if that is later than what the platform's clock can
    /// express.
    pub fn deadline(&self) -> Option<Instant> {
        self.sleep.deadline()
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Starts over: the next tick is due one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Starts over: the next tick is due at once.
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Starts over: the next tick is due `delay` from now.
    pub fn reset_after(&mut self, delay: Duration) {
        self.stopped = false;
        self.sleep.reset(delay);
    }

    /// Starts over: the next tick is due at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.stopped = false;
        self.sleep.reset_at(deadline);
    }

    /// When the next tick is due after one that was due at `due` and is delivered now.
    fn after(&self, due: Instant) -> WhenDue {
        let handle = self.sleep.handle();
        match self.missed {
            MissedTickBehavior::Burst => WhenDue::after(due, self.period),
            MissedTickBehavior::Skip => {
                let rate = Rate::new(self.period, self.missed);
                WhenDue::At(due).count_on(handle.now(), |elapsed| rate.multiple_beyond(elapsed))
            }
            MissedTickBehavior::Delay => {
                let now = handle.now();
                let punctual = PUNCTUAL.saturating_add(handle.tick_duration());
                let is_late = now.saturating_duration_since(due) > punctual.min(self.period);
                WhenDue::after(if is_late { now } else { due }, self.period)
            }
        }
    }
}

impl Stream for Interval {
    type Item = Result<Instant, Refusal>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.stopped {
            return Poll::Ready(None);
        }
        let ticked = ready!(self.poll_tick(context));
        self.stopped = ticked == Err(Refusal::Stopped);
        Poll::Ready(Some(ticked))
    }
}

impl FusedStream for Interval {
    fn is_terminated(&self) -> bool {
        self.stopped
    }
}

debug_fields!(|it: Interval| next: it.deadline(), period: it.period, missed: it.missed);
