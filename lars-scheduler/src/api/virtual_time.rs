//! Virtual time: the same driver, turned by a test instead of a thread.

use std::ops::Deref;
use std::time::Duration;

use crate::api::close::{CloseError, CloseReport};
use crate::api::config::Builder;
use crate::api::handle::Handle;
use crate::api::listing::{ListingFuture, TimerQuery};
use crate::api::pending::StopFuture;
use crate::api::settings::VIRTUAL_TICK;
use crate::api::turned::{Turned, Turning};
use crate::base::backpressure::Backpressure;
use crate::base::clock::Clock;
use crate::base::error::ConfigError;
use crate::base::tick::{LAST_INSTANT, nanos};
use crate::engine::driver::{Intaken, Next};
use crate::engine::shared::DefaultExecutor;
use crate::engine::sleep_word::Alarm;
use crate::sync::relax;
use lars_base::debug_fields;

/// A scheduler whose time a test moves: no thread, no sleeping, the same [`Handle`].
///
/// Built by [`Builder::build_virtual`](crate::Builder::build_virtual). Time stands still until one
/// of the methods below moves it. It then goes from deadline to deadline. At each one the due tasks
/// run in the order of (deadline, call), on the calling thread unless they have an executor of
/// their own. Timers that they schedule fire in the same movement if they are due within it. A task
/// that reads [`Handle::now`] gets the instant at which it is due.
///
/// Time never moves by itself. Calls from several threads are carried out one after another. A task
/// that schedules itself again without a delay, forever, keeps time from moving on, just as it
/// would keep a thread busy; [`run_until_idle`](Self::run_until_idle) has a limit for such tasks.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, receiver) = mpsc::channel();
/// let year = Duration::from_secs(365 * 24 * 3600);
/// let _ = time.schedule_once(year, move || drop(sender.send("a year has passed")))?;
///
/// time.advance(year - Duration::from_nanos(1));
/// assert!(receiver.try_recv().is_err()); // not yet
/// time.advance(Duration::from_nanos(1));
/// assert_eq!(receiver.try_recv()?, "a year has passed");
/// # Ok(()) }
/// ```
pub struct VirtualTime {
    turned: Turned,
    start: u64,
}

/// [`run_until_idle`](VirtualTime::run_until_idle) gave up: something is pending that is never due,
/// or that is left after as many tasks as it was allowed to run (a repeat that nobody cancels does
/// this).
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
/// let beat = time.schedule_with_fixed_delay(second, second, || ())?;
/// let busy = time.run_until_idle(100).unwrap_err();
/// assert_eq!((busy.ran, busy.limit, busy.pending), (100, 100, 1));
/// beat.cancel();
/// assert_eq!(time.run_until_idle(100), Ok(0));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{pending} timers are pending after {ran} tasks have run, with a limit of {limit}")]
pub struct NotIdle {
    /// How many tasks were allowed to run.
    pub limit: usize,
    /// How many have run. If that is less than the limit, what is pending is never due.
    pub ran: usize,
    /// How many timers wait.
    pub pending: u64,
}

impl Builder {
    /// A scheduler in virtual time: no thread, and a clock that stands still until the test moves
    /// it.
    ///
    /// Two defaults differ: the tick is 1 ns, so that everything fires at its exact deadline, and
    /// tasks run inline, on the thread that moves the clock.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a setting is out of its range.
    ///
    /// # Platforms
    ///
    /// On `wasm32-unknown-unknown` it needs no host. [`Handle::now`] is a `browser::Instant` there,
    /// because std's cannot be made.
    pub fn build_virtual(self) -> Result<VirtualTime, ConfigError> {
        // Time stands still while a task runs.
        let mut timed = self.record_run_times(false).backpressure(Backpressure::Off);
        timed.settings.explain_late = None;
        // One channel, and no wheels but the driver's: the order of all calls is the order of the
        // intake.
        let checked = timed.check(VIRTUAL_TICK, 1, None, |_| DefaultExecutor::Inline)?;
        // No thread sleeps, so there is nobody to wake.
        let turned = Turned::new(checked, Clock::manual(0), Alarm::None, true);
        let start = turned.core().clock.now();
        Ok(VirtualTime { turned, start })
    }
}

impl VirtualTime {
    /// A handle to schedule with, to be cloned and passed around.
    pub fn handle(&self) -> Handle {
        self.turned.handle.clone()
    }

    /// How far time has been moved.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.turned.core().clock.now() - self.start)
    }

    /// Moves time forwards by `duration` and returns how many tasks ran. An advance of zero runs
    /// what is due now. Time ends 584 years after its start; it does not move beyond that.
    ///
    /// # Panics
    ///
    /// If a task of this scheduler calls it: the task would be at two points in time.
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
    /// let begin = time.now();
    /// let timers = time.handle();
    /// let _ = time.schedule_once(second, move || assert_eq!(timers.now() - begin, second))?;
    /// assert_eq!(time.advance(second), 1);
    /// assert_eq!(time.metrics().panicked, 0);
    /// # Ok(()) }
    /// ```
    pub fn advance(&self, duration: Duration) -> usize {
        let mut turning = self.begin();
        let clock = &self.turned.core().clock;
        let target = clock.now().saturating_add(nanos(duration));
        let fired =
            self.drive(&mut turning, usize::MAX, |next, _| next.is_none_or(|next| next <= target));
        clock.set(target);
        fired
    }

    /// Moves time to the next deadline, and runs what is due there. Returns how far that was;
    /// `None`, without moving, if nothing is pending.
    ///
    /// What is due already counts as a deadline at a distance of zero.
    ///
    /// # Panics
    ///
    /// Same as [`advance`](Self::advance).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    ///
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let hour = Duration::from_secs(3600);
    /// let _ = time.schedule_once(hour, || ())?;
    /// let _ = time.schedule_once(3 * hour, || ())?;
    /// assert_eq!(time.advance_to_next(), Some(hour));
    /// assert_eq!(time.advance_to_next(), Some(2 * hour));
    /// assert_eq!(time.advance_to_next(), None);
    /// assert_eq!(time.elapsed(), 3 * hour);
    /// # Ok(()) }
    /// ```
    pub fn advance_to_next(&self) -> Option<Duration> {
        self.advance_to_next_within(Duration::MAX)
    }

    /// Moves time to the next deadline, like [`advance_to_next`](Self::advance_to_next), unless
    /// that is further away than `limit`. In that case nothing runs, and the result is `None`. (If
    /// a timer was moved, time may have moved to its old deadline.) Use it to check something after
    /// each step on the way to an instant.
    ///
    /// # Panics
    ///
    /// Same as [`advance`](Self::advance).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    ///
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let hour = Duration::from_secs(3600);
    /// let _ = time.schedule_once(hour, || ())?;
    /// let _ = time.schedule_once(3 * hour, || ())?;
    /// assert_eq!(time.advance_to_next_within(2 * hour), Some(hour));
    /// assert_eq!(time.advance_to_next_within(hour), None);
    /// assert_eq!(time.elapsed(), hour);
    /// # Ok(()) }
    /// ```
    pub fn advance_to_next_within(&self, limit: Duration) -> Option<Duration> {
        let mut turning = self.begin();
        let clock = &self.turned.core().clock;
        let before = clock.now();
        let last = before.saturating_add(nanos(limit));
        let until_some_ran =
            |next: Option<u64>, fired| next.is_none_or(|next| fired == 0 && next <= last);
        let fired = self.drive(&mut turning, usize::MAX, until_some_ran);
        let moved = clock.now() - before;
        (fired > 0).then_some(Duration::from_nanos(moved))
    }

    /// Moves time from deadline to deadline until nothing is pending, and returns how many tasks
    /// ran.
    ///
    /// # Errors
    ///
    /// [`NotIdle`] if something is pending after `limit` tasks.
    ///
    /// # Panics
    ///
    /// Same as [`advance`](Self::advance).
    pub fn run_until_idle(&self, limit: usize) -> Result<usize, NotIdle> {
        let fired = self.drive(&mut self.begin(), limit, |_, fired| fired < limit);
        match self.turned.handle.pending() {
            0 => Ok(fired),
            pending => Err(NotIdle { limit, ran: fired, pending }),
        }
    }

    /// The driver, for one movement of time. Others wait until that is over.
    fn begin(&self) -> Turning<'_> {
        self.turned.begin().expect("virtual time was moved from inside one of its own tasks")
    }

    /// Turns the driver until nothing is due now, and moves the clock to the next instant, as long
    /// as `go_on` says so. `go_on` gets that instant, or none if something is due now, and the
    /// number of tasks that have run, which never exceeds `limit`.
    fn drive(
        &self,
        turning: &mut Turning<'_>,
        limit: usize,
        go_on: impl Fn(Option<u64>, usize) -> bool,
    ) -> usize {
        let clock = &self.turned.core().clock;
        let mut fired = 0;
        let mut spins = 0;
        loop {
            let step = turning.turn(clock.now(), limit - fired);
            fired += step.fired;
            if step.ended {
                break;
            }
            if step.intaken == Intaken::Gap {
                // Another thread is in the middle of scheduling something; only it can go on with
                // that.
                relax(spins);
                spins = spins.saturating_add(1);
            }
            let next = match step.next {
                Next::Now | Next::Soon => None,
                // What was scheduled by the last tasks comes in before time moves on.
                _ if !turning.nothing_to_take_in() => None,
                Next::Idle => break,
                Next::At(instant) if instant > LAST_INSTANT => break,
                Next::At(instant) => Some(instant),
            };
            if !go_on(next, fired) {
                break;
            }
            if let Some(instant) = next {
                clock.set(instant);
            }
        }
        turning.walk_to_the_end();
        fired
    }

    /// Lists what is pending. See [`Handle::list`](crate::Handle::list).
    ///
    /// Called by a task of this scheduler, its future resolves when that movement of time ends;
    /// otherwise it is resolved on return.
    pub fn list(&self, query: TimerQuery) -> ListingFuture {
        self.turned.list(query)
    }

    /// Stops the scheduler, and hands back what is pending. See
    /// [`LightArrayRevolverScheduler::stop`](crate::LightArrayRevolverScheduler::stop).
    ///
    /// Called by a task of this scheduler, its future resolves when that movement of time ends;
    /// otherwise it is resolved on return.
    pub fn stop(&self) -> StopFuture {
        self.turned.stop()
    }

    /// Stops the scheduler and runs what is pending. See
    /// [`LightArrayRevolverScheduler::close`](crate::LightArrayRevolverScheduler::close).
    ///
    /// # Errors
    ///
    /// [`CloseError::OnTimerThread`] if it is called by a task of this scheduler.
    pub fn close(&self) -> Result<CloseReport, CloseError> {
        self.turned.close()
    }
}

impl Deref for VirtualTime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.turned.handle
    }
}

debug_fields!(|it: VirtualTime| elapsed: it.elapsed());
