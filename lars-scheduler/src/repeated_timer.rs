//! A timer that can be started, stopped and pushed back for ever: after JRaft's `RepeatedTimer`.
//!
//! Protocol engines need timers that are devices rather than tasks: made once, then started and stopped with the
//! role of their node, pushed back with every heartbeat, and with another random time-out in every round. A
//! [`RepeatedTimer`] is one: a trigger, a period, and at most one chain of runs, whatever is called on it and from
//! where.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_scheduler::LightArrayRevolverScheduler;
//! use lars_scheduler::repeated_timer::RepeatedTimer;
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
//! - **One chain.** Triggers never overlap, and each next one is armed by the end of the one before. `reset`,
//!   `restart`, and `stop` with a `start` after it, called while the trigger runs, from another thread or from the
//!   trigger itself, change what happens after that run; they never start a second chain beside it.
//! - **Stopped is stopped.** When [`stop`](RepeatedTimer::stop) has returned, no trigger starts; one that was
//!   running then may still run. [`stop_and_wait`](RepeatedTimer::stop_and_wait) waits for its end too.
//! - **Never early.** A trigger starts no earlier than its time-out after it was armed, or after the last `reset`.
//! - **Nothing is held while user code runs.** All methods may be called from the trigger, from the hooks, and
//!   from any thread.
//! - **A trigger that panics** is reported like a task that panics ([`Builder::on_panic`](crate::Builder::on_panic)),
//!   and the chain goes on: a node without its election timer would be worse off. So are panics in the hooks; if
//!   [`adjust_timeout`](RepeatedTimerBuilder::adjust_timeout) panics, the period is used as it is.
//!
//! # Pushing back is cheap
//!
//! A [`reset`](RepeatedTimer::reset) that moves the trigger further out, as a heartbeat does, writes down the new
//! time and touches no timer: when the old time comes, the timer looks, and sleeps on. It cannot be
//! refused, not even when `max_pending` timers are pending. Only a time-out that comes nearer is armed anew.
//!
//! # The end
//!
//! [`destroy`](RepeatedTimer::destroy) ends the timer for good. So does dropping the last clone of it: nobody could
//! stop it any more. (A trigger that keeps a clone of its own timer keeps it alive. It gets the timer as its
//! argument instead.) When the scheduler stops, its repeated timers are stopped: as with all repeats, `close` does
//! not run a trigger before its time.
//!
//! # Differences from JRaft
//!
//! | there | here |
//! |---|---|
//! | `reset`, `restart` or `stop` and `start` during a run fork a second chain, which `stop` does not stop | one chain |
//! | a thread and a wheel for each timer, unless shared by flags | as many on one scheduler as you like |
//! | calls on a destroyed timer do nothing | they return an error |
//! | `runOnceNow` runs with the timer's lock held | nothing is held |
//! | `destroy` from the trigger leaves the timer's thread behind | there is none; the hook is called after the run |
//! | a period is not checked | zero is refused |

mod chain;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Refusal;
use crate::executor::Executor;
use crate::handle::Handle;

use self::chain::{How, Parts, RunsOn, Shared, check_period};

/// A timer that is started, stopped and pushed back. See the [module](self).
///
/// Cheap to clone; all clones are the same timer. All methods may be called from any thread, and from the
/// trigger. Dropping the last clone [destroys](Self::destroy) the timer; while the trigger runs, at the end of that run.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::repeated_timer::RepeatedTimer;
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
    shared: Arc<Shared>,
}

impl RepeatedTimer {
    /// A builder for a timer with this `period`, on the scheduler of `handle`.
    pub fn builder(handle: &Handle, period: Duration) -> RepeatedTimerBuilder {
        RepeatedTimerBuilder {
            handle: handle.clone(),
            period,
            runs_on: RunsOn::Default,
            adjust: None,
            on_destroy: None,
        }
    }

    /// A timer with this `period` and no options, stopped. Same as [`builder`](Self::builder) and `build`.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a period of zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::repeated_timer::RepeatedTimer;
    /// use std::time::Duration;
    /// let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let snapshot =
    ///     RepeatedTimer::new(&time, Duration::from_secs(3600), |_| println!("snapshot"))?;
    /// assert_eq!(time.advance(Duration::from_secs(7200)), 0); // it has not been started
    /// snapshot.start()?;
    /// assert_eq!(time.advance(Duration::from_secs(7200)), 2);
    /// # Ok(()) }
    /// ```
    pub fn new(
        handle: &Handle,
        period: Duration,
        trigger: impl FnMut(&Self) + Send + 'static,
    ) -> Result<Self, Refusal> {
        Self::builder(handle, period).build(trigger)
    }

    /// Starts the timer: the first trigger comes one time-out from now. A timer that is started stays as it is.
    ///
    /// While a trigger runs, a timer that was stopped goes on after that run.
    ///
    /// # Errors
    ///
    /// [`Refusal::Destroyed`] after [`destroy`](Self::destroy); [`Refusal::Stopped`] and [`Refusal::Full`] as for
    /// [`Handle::schedule_once`]. The timer is as it was, then.
    pub fn start(&self) -> Result<(), Refusal> {
        self.shared.arm(How::Start)
    }

    /// Starts the timer, or starts it anew: the next trigger comes one time-out from now, in any case.
    ///
    /// While a trigger runs, that is one time-out from the end of the run.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub fn restart(&self) -> Result<(), Refusal> {
        self.shared.arm(How::Restart)
    }

    /// Pushes the next trigger back, or forwards: it comes one time-out from now. A timer that is stopped stays
    /// stopped.
    ///
    /// While a trigger runs this changes nothing: the next one is armed when that run ends.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start). A trigger that moves further out is never refused by a scheduler that runs.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::repeated_timer::RepeatedTimer;
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

    /// Changes the period, and pushes the next trigger back or forwards: it comes one new time-out from now. A timer
    /// that is stopped stays stopped, and has the new period when it is started.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a period of zero; otherwise as for [`start`](Self::start). The period is as it was, then.
    pub fn reset_to(&self, period: Duration) -> Result<(), Refusal> {
        check_period(period)?;
        self.shared.arm(How::Reset(Some(period)))
    }

    /// Stops the timer. Says whether it was started.
    ///
    /// When this has returned no trigger starts, until the timer is started again. One that is running may
    /// still run; [`stop_and_wait`](Self::stop_and_wait) waits for its end.
    pub fn stop(&self) -> bool {
        self.shared.stop().0
    }

    /// Stops the timer, and waits until a trigger that was running has ended: for `limit` of real time at most, for
    /// ever with [`Duration::MAX`].
    ///
    /// # Errors
    ///
    /// The timer is stopped in any case. [`StopWaitError::InTrigger`] if it is called by the trigger, which would have
    /// to wait for itself; [`StopWaitError::Timeout`] if the trigger still ran after the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::repeated_timer::RepeatedTimer;
    /// use std::time::Duration;
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let timer = RepeatedTimer::new(&scheduler, Duration::from_millis(1), |_| println!("vote"))?;
    /// timer.start()?;
    /// timer.stop_and_wait(Duration::from_secs(5))?;
    /// // Nothing is printed any more: what the trigger uses can be taken down.
    /// # Ok(()) }
    /// ```
    pub fn stop_and_wait(&self, limit: Duration) -> Result<(), StopWaitError> {
        self.shared.stop_and_wait(limit)
    }

    /// Runs the trigger now, on the calling thread, instead of the one that is armed; the next one comes one time-out
    /// after the end of this run. Says whether it ran: it does if the timer is started and no trigger is running.
    ///
    /// This is the one call of the crate that runs a user's code on the caller's stack by intention. A panic of the trigger is contained
    /// and reported as always.
    ///
    /// # Errors
    ///
    /// [`Refusal::Destroyed`] after [`destroy`](Self::destroy). [`Refusal::Stopped`] if the trigger has run, and the scheduler
    /// was stopped: the timer is too. [`Refusal::Full`] if the trigger has run, and the next one is due sooner than the
    /// timer looks, by a time-out that was shortened or is random: it comes when the timer does look, at the latest when
    /// the one was due that this run replaced, or a period after that.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::repeated_timer::RepeatedTimer;
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

    /// Stops the timer for good. Says whether this call did it.
    ///
    /// The trigger and `adjust_timeout` are dropped, and then the
    /// [`on_destroy`](RepeatedTimerBuilder::on_destroy) hook is called: before this returns, on this thread; or, if a trigger is
    /// running, by the end of that run, on its thread.
    pub fn destroy(&self) -> bool {
        self.shared.destroy()
    }

    /// Whether the timer is started: a trigger is armed, or will be at the end of the one that is running.
    pub fn is_started(&self) -> bool {
        self.shared.lock().started
    }

    /// Whether a trigger is running.
    pub fn is_triggering(&self) -> bool {
        self.shared.lock().run.is_some()
    }

    /// Whether the timer was destroyed.
    pub fn is_destroyed(&self) -> bool {
        self.shared.lock().destroyed
    }

    /// The period, without what `adjust_timeout` makes of it.
    pub fn period(&self) -> Duration {
        self.shared.lock().period
    }

    /// When the next trigger is due. `None` while the timer is stopped, while a trigger runs, and if the
    /// time-out is beyond what an [`Instant`] can express: it never comes.
    pub fn due(&self) -> Option<Instant> {
        self.shared.due()
    }
}

impl fmt::Debug for RepeatedTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("RepeatedTimer")
            .field("period", &state.period)
            .field("started", &state.started)
            .field("triggering", &state.run.is_some())
            .field("destroyed", &state.destroyed)
            .finish_non_exhaustive()
    }
}

/// Builds a [`RepeatedTimer`]. Made by [`RepeatedTimer::builder`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::repeated_timer::RepeatedTimer;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, destroyed) = mpsc::channel();
/// let election = RepeatedTimer::builder(&time, ms(100))
///     .adjust_timeout(|period| period + Duration::from_millis(50)) // a random one, in real life
///     .on_destroy(move || drop(sender.send("destroyed")))
///     .inline()
///     .build(|timer| println!("no word for {:?}", timer.period()))?;
/// election.start()?;
/// assert_eq!(time.advance(ms(149)), 0);
/// assert_eq!(time.advance(ms(1)), 1);
/// drop(election);
/// assert_eq!(destroyed.try_recv()?, "destroyed");
/// # Ok(()) }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct RepeatedTimerBuilder {
    handle: Handle,
    period: Duration,
    runs_on: RunsOn,
    adjust: Option<chain::Adjust>,
    on_destroy: Option<chain::Hook>,
}

impl RepeatedTimerBuilder {
    /// Makes a time-out of the period each time before a trigger is armed: by `start`, `restart`, `reset`, and by the end of each run.
    /// For elections, whose time-outs have to differ from node to node and from round to round.
    ///
    /// It runs on the thread that arms, and several threads may call it at once. It may look at the timer and stop it, but
    /// must not arm it: that would call it again. A time-out of zero is at once.
    pub fn adjust_timeout(
        mut self,
        adjust: impl Fn(Duration) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.adjust = Some(Arc::new(adjust));
        self
    }

    /// Calls `hook` once when the timer has been [destroyed](RepeatedTimer::destroy).
    pub fn on_destroy(mut self, hook: impl FnOnce() + Send + 'static) -> Self {
        self.on_destroy = Some(Box::new(hook));
        self
    }

    /// Runs the trigger on the timer thread itself. See [`Task::inline`](crate::Task::inline).
    pub fn inline(mut self) -> Self {
        self.runs_on = RunsOn::Inline;
        self
    }

    /// Runs the trigger on `executor` instead of the scheduler's own.
    pub fn executor(mut self, executor: Arc<dyn Executor>) -> Self {
        self.runs_on = RunsOn::Executor(executor);
        self
    }

    /// The timer, stopped. `trigger` is what it runs; it gets the timer as its argument.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a period of zero.
    pub fn build(
        self,
        trigger: impl FnMut(&RepeatedTimer) + Send + 'static,
    ) -> Result<RepeatedTimer, Refusal> {
        check_period(self.period)?;
        let parts = Parts {
            period: self.period,
            trigger: Box::new(trigger),
            adjust: self.adjust,
            on_destroy: self.on_destroy,
        };
        Ok(RepeatedTimer { shared: Shared::new(self.handle, self.runs_on, parts) })
    }
}

impl fmt::Debug for RepeatedTimerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepeatedTimerBuilder").field("period", &self.period).finish_non_exhaustive()
    }
}

/// Why [`stop_and_wait`](RepeatedTimer::stop_and_wait) did not wait to the end. The timer is stopped all the same.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::repeated_timer::{RepeatedTimer, StopWaitError};
/// use std::{sync::mpsc, time::Duration};
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let second = Duration::from_secs(1);
/// let (sender, receiver) = mpsc::channel();
/// let timer = RepeatedTimer::new(&time, second, move |timer| {
///     drop(sender.send(timer.stop_and_wait(Duration::MAX))); // for itself?
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
    /// It was called by the trigger, which would have waited for itself.
    #[error("stop_and_wait was called by the trigger that it would have to wait for")]
    InTrigger,
    /// The trigger had not ended within the limit.
    #[error("the trigger was still running after {limit:?}")]
    Timeout {
        /// How long it was waited for.
        limit: Duration,
    },
}
