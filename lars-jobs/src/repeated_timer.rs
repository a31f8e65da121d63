//! A timer that can be started, stopped and pushed back any number of times, after JRaft's
//! `RepeatedTimer`.
//!
//! Protocol engines make a timer once, start and stop it with the role of their node, and push it
//! back with every heartbeat; each round has a new random timeout. A [`RepeatedTimer`] is a
//! trigger, a period, and at most one chain of runs, whatever is called on it and from where.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_scheduler::LightArrayRevolverScheduler;
//! use lars_jobs::repeated_timer::RepeatedTimer;
//! use std::time::Duration;
//!
//! let ms = Duration::from_millis;
//! let time = LightArrayRevolverScheduler::builder().build_virtual()?;
//! let election = RepeatedTimer::builder(&time, ms(150))
//!     .adjust_timeout(|period| period.mul_f64(1.0 + fastrand::f64()))
//!     .build(|timer| {
//!         println!("no word from the leader: standing for election");
//!         timer.stop();
//!     })?;
//!
//! election.start()?;
//! for _heartbeat in 0..10 {
//!     time.advance(ms(100));
//!     election.reset()?; // the leader is alive
//! }
//! assert!(election.is_started());
//! time.advance(ms(300)); // and now it is not
//! assert!(!election.is_started());
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! - **One chain.** Triggers never overlap, and the end of each one arms the next. While the
//!   trigger runs, `reset`, `restart`, and `stop` followed by `start` change what happens after
//!   that run, whether another thread or the trigger itself calls them. They never start a second
//!   chain.
//! - **Stopped is stopped.** When [`stop`](RepeatedTimer::stop) has returned, no trigger starts.
//!   One that was running may still run; [`stop_within`](RepeatedTimer::stop_within) waits for
//!   its end too.
//! - **Never early.** A trigger starts no earlier than one timeout after it was armed, or after the
//!   last `reset`.
//! - **Nothing is held while user code runs.** All methods may be called from the trigger, from the
//!   hooks, and from any thread.
//! - **A trigger that panics** is reported like a task that panics
//!   ([`Builder::on_panic`](lars_scheduler::Builder::on_panic)), and the chain goes on: losing the
//!   election timer would be worse for the node. Panics in the hooks are reported too; if
//!   [`adjust_timeout`](RepeatedTimerBuilder::adjust_timeout) panics, the period is used as it is.
//!
//! # Pushing back is cheap
//!
//! A [`reset`](RepeatedTimer::reset) that moves the trigger further out, as a heartbeat does,
//! writes down the new time and touches no timer of the scheduler. At the old time the repeated
//! timer wakes, sees the new time, and sleeps on. While the scheduler runs it cannot be refused,
//! not even when `max_pending` timers are pending. Only a timeout that comes nearer needs another
//! timer.
//!
//! # The end
//!
//! [`destroy`](RepeatedTimer::destroy) ends the timer for good. So does dropping its last clone:
//! nothing could stop the timer after that. (A clone of the timer in its own trigger keeps the
//! timer alive; the trigger should use the timer that it gets as its argument.) When the scheduler
//! stops, its repeated timers are stopped, even while the list from `stop` is kept. As with all
//! repeats, `close` does not run a trigger before its time.
//!
//! # Differences from JRaft
//!
//! | there | here |
//! |---|---|
//! | calls during a run fork a second chain, which `stop` does not stop | one chain |
//! | a thread and a wheel for each timer, unless flags share them | any number on one scheduler |
//! | calls on a destroyed timer do nothing | they return an error |
//! | `runOnceNow` runs with the timer's lock held | nothing is held |
//! | `destroy` from the trigger leaves the timer's thread behind | it leaves nothing behind |
//! | a period is not checked | zero is refused |

mod chain;

mod builder;

use std::sync::Arc;
use std::time::Duration;

pub use self::builder::RepeatedTimerBuilder;
use self::chain::{How, SharedTimer};
use lars_base::debug_fields;
use lars_base::time::Instant;
use lars_scheduler::extend::check_period;
use lars_scheduler::{Handle, Refusal};

/// A timer that is started, stopped and pushed back. See the [module](self).
///
/// Cheap to clone; all clones are the same timer. All methods may be called from any thread, and
/// from the trigger. Dropping the last clone [destroys](Self::destroy) the timer; while the trigger
/// runs, at the end of that run.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::repeated_timer::RepeatedTimer;
/// use std::time::Duration;
///
/// let secs = Duration::from_secs;
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let timer = RepeatedTimer::new(&time, secs(10), |_| println!("no word from the leader"))?;
/// timer.start()?;
/// assert_eq!(timer.due(), Some(time.now() + secs(10)));
/// timer.reset_to(secs(3))?; // another period, from now
/// assert_eq!((timer.period(), time.advance(secs(9))), (secs(3), 3));
///
/// assert!(timer.stop() && !timer.is_started());
/// assert_eq!((timer.due(), time.advance(secs(9))), (None, 0));
/// timer.restart()?;
/// assert!(timer.is_started() && !timer.is_triggering());
/// assert!(timer.destroy() && timer.is_destroyed());
/// assert!(timer.start().is_err());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RepeatedTimer {
    shared: Arc<SharedTimer>,
}

impl RepeatedTimer {
    /// A builder for a timer with this `period`, on the scheduler of `handle`.
    pub fn builder(handle: &Handle, period: Duration) -> RepeatedTimerBuilder {
        RepeatedTimerBuilder::new(handle, period)
    }

    /// A stopped timer with this `period` and no options. Short for [`builder`](Self::builder) and
    /// `build`.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a period of zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::repeated_timer::RepeatedTimer;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let snapshot =
    ///     RepeatedTimer::new(&time, Duration::from_secs(3600), |_| println!("snapshot"))?;
    /// assert_eq!(time.advance(Duration::from_secs(7200)), 0); // it has not been started
    /// snapshot.start()?;
    /// assert_eq!(time.advance(Duration::from_secs(7200)), 2);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn new(
        handle: &Handle,
        period: Duration,
        trigger: impl FnMut(&Self) + Send + 'static,
    ) -> Result<Self, Refusal> {
        Self::builder(handle, period).build(trigger)
    }

    /// Starts the timer: the first trigger comes one timeout from now. Does nothing if the timer is
    /// started.
    ///
    /// If the timer was stopped while a trigger runs, it goes on after that run.
    ///
    /// # Errors
    ///
    /// [`Refusal::Destroyed`] after [`destroy`](Self::destroy); [`Refusal::Stopped`] and
    /// [`Refusal::Full`], like [`Handle::schedule_once`]. The timer stays as it was.
    pub fn start(&self) -> Result<(), Refusal> {
        self.shared.arm(How::Start)
    }

    /// Starts the timer, or re-arms it: in any case, the next trigger comes one timeout from now.
    ///
    /// While a trigger runs, that is one timeout from the end of the run.
    ///
    /// # Errors
    ///
    /// Same as [`start`](Self::start).
    pub fn restart(&self) -> Result<(), Refusal> {
        self.shared.arm(How::Restart)
    }

    /// Moves the next trigger: it comes one timeout from now. A timer that is stopped stays
    /// stopped.
    ///
    /// While a trigger runs this changes nothing: the end of that run arms the next one.
    ///
    /// # Errors
    ///
    /// Same as [`start`](Self::start). A running scheduler never refuses to move a trigger further
    /// out.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::repeated_timer::RepeatedTimer;
    /// use std::time::Duration;
    /// let second = Duration::from_secs(1);
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let idle = RepeatedTimer::new(&time, 30 * second, |timer| {
    ///     println!("idle for 30 s");
    ///     timer.stop();
    /// })?;
    /// idle.start()?;
    /// time.advance(29 * second);
    /// idle.reset()?; // a request came
    /// time.advance(29 * second);
    /// assert!(idle.is_started());
    /// time.advance(second); // prints "idle for 30 s"
    /// assert!(!idle.is_started());
    /// # Ok(()) }
    /// ```
    pub fn reset(&self) -> Result<(), Refusal> {
        self.shared.arm(How::Reset(None))
    }

    /// Changes the period, and moves the next trigger: it comes one new timeout from now. A timer
    /// that is stopped stays stopped, and has the new period when it is started.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a period of zero; otherwise the same as [`start`](Self::start). The
    /// period stays as it was.
    pub fn reset_to(&self, period: Duration) -> Result<(), Refusal> {
        check_period(period)?;
        self.shared.arm(How::Reset(Some(period)))
    }

    /// Stops the timer. True if it was started.
    ///
    /// When this has returned, no trigger starts until the timer is started again. One that is
    /// running may still run; [`stop_within`](Self::stop_within) waits for its end.
    pub fn stop(&self) -> bool {
        self.shared.stop().0
    }

    /// Stops the timer, and waits until a trigger that was running has ended: for at most `limit`
    /// of real time, or forever with [`Duration::MAX`].
    ///
    /// # Errors
    ///
    /// The timer is stopped in any case. [`StopWaitError::InTrigger`] if the trigger calls it,
    /// which would have to wait for itself; [`StopWaitError::Timeout`] if the trigger is still
    /// running after the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::repeated_timer::RepeatedTimer;
    /// use std::time::Duration;
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let timer = RepeatedTimer::new(&scheduler, Duration::from_millis(1), |_| println!("vote"))?;
    /// timer.start()?;
    /// timer.stop_within(Duration::from_secs(5))?;
    /// // Nothing is printed any more: what the trigger uses can be taken down.
    /// # Ok(()) }
    /// ```
    pub fn stop_within(&self, limit: Duration) -> Result<(), StopWaitError> {
        self.shared.stop_within(limit)
    }

    /// Runs the trigger now, on the calling thread, instead of the one that is armed. The next one
    /// comes one timeout after the end of this run. True if it ran, which it does if the timer is
    /// started and no trigger is running.
    ///
    /// The trigger runs on the caller's stack, by design. A panic in it is contained and reported
    /// as always.
    ///
    /// # Errors
    ///
    /// [`Refusal::Destroyed`] after [`destroy`](Self::destroy). In the other cases the trigger has
    /// run. [`Refusal::Stopped`]: the scheduler was stopped, and so is the timer.
    /// [`Refusal::Full`] or [`Refusal::Overloaded`]: the next trigger is due before the timer's
    /// planned wake-up, because its timeout was shortened or is random. It then comes at that
    /// wake-up: at the latest when the replaced trigger was due, or one period after that.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::repeated_timer::RepeatedTimer;
    /// use std::time::Duration;
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let snapshot =
    ///     RepeatedTimer::new(&scheduler, Duration::from_secs(3600), |_| println!("snapshot"))?;
    /// assert!(!snapshot.run_once_now()?); // it has not been started
    /// snapshot.start()?;
    /// assert!(snapshot.run_once_now()?); // prints "snapshot"
    /// # Ok(()) }
    /// ```
    pub fn run_once_now(&self) -> Result<bool, Refusal> {
        self.shared.run_once_now(self)
    }

    /// Stops the timer for good. True if this call did it.
    ///
    /// The trigger and `adjust_timeout` are dropped, and then the
    /// [`on_destroy`](RepeatedTimerBuilder::on_destroy) hook is called: before this returns, on
    /// this thread; or, if a trigger is running, at the end of that run, on its thread.
    pub fn destroy(&self) -> bool {
        self.shared.destroy()
    }

    /// Whether the timer is started: a trigger is armed, or will be at the end of the running one.
    /// False once the scheduler has stopped.
    pub fn is_started(&self) -> bool {
        self.shared.is_started()
    }

    /// Whether a trigger is running.
    pub fn is_triggering(&self) -> bool {
        self.shared.lock().run.is_some()
    }

    /// Whether the timer was destroyed.
    pub fn is_destroyed(&self) -> bool {
        self.shared.lock().destroyed
    }

    /// The period, before `adjust_timeout`.
    pub fn period(&self) -> Duration {
        self.shared.lock().period
    }

    /// When the next trigger is due. `None` while the timer is stopped, while a trigger runs, and
    /// if the timeout is beyond what an [`Instant`] can express, and so never ends.
    pub fn due(&self) -> Option<Instant> {
        self.shared.due()
    }
}

debug_fields!(
    |it: RepeatedTimer| period: it.period(),
    started: it.is_started(),
    triggering: it.is_triggering(),
    destroyed: it.is_destroyed(),
);

/// Why [`stop_within`](RepeatedTimer::stop_within) did not wait to the end. The timer is
/// stopped all the same.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::repeated_timer::{RepeatedTimer, StopWaitError};
/// use std::{sync::mpsc, time::Duration};
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let (sender, receiver) = mpsc::channel();
/// let timer = RepeatedTimer::new(&time, second, move |timer| {
///     drop(sender.send(timer.stop_within(Duration::MAX))); // for itself?
/// })?;
/// timer.start()?;
/// time.advance(second);
/// assert_eq!(receiver.try_recv()?, Err(StopWaitError::InTrigger));
/// assert!(!timer.is_started()); // stopped all the same
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopWaitError {
    /// The trigger called it, and would have waited for itself.
    #[error("stop_within was called by the trigger that it would have to wait for")]
    InTrigger,
    /// The trigger had not ended within the limit.
    #[error("the trigger was still running after {limit:?}")]
    Timeout {
        /// How long the call waited.
        limit: Duration,
    },
}
