//! Tokio's names for [`future`]: free functions on a default scheduler.
//!
//! A program that uses `tokio::time` changes one line:
//!
//! ```
//! use lars_scheduler::time::{self, Duration, Instant}; // instead of `tokio::time`
//!
//! # futures::executor::block_on(async {
//! let begin = Instant::now();
//! time::sleep(Duration::from_millis(5)).await;
//! assert!(begin.elapsed() >= Duration::from_millis(5));
//!
//! let answer = time::timeout(Duration::from_secs(60), async { 42 }).await;
//! assert_eq!(answer, Ok(42));
//!
//! let mut beat = time::interval(Duration::from_millis(1));
//! beat.tick().await; // at once
//! let first = beat.tick().await;
//! assert_eq!(beat.tick().await - first, Duration::from_millis(1));
//! # });
//! ```
//!
//! The futures are those of [`future`], with all of their promises. They run on any
//! executor, tokio's with or without `enable_time`.
//!
//! # The default scheduler
//!
//! It starts at the first use, with default settings and a thread named `lars-scheduler-default`,
//! and never stops. [`set_default`] makes one of your own the default, once for the life of the
//! process and before the first use; a library should leave that to the program.
//! [`default_scheduler`] is its handle, for everything else that it can do.
//!
//! Where several schedulers are in use, where sleeps have to end at a shutdown, or where
//! `max_pending` may refuse some, use the methods of a [`Handle`]: their futures report a
//! [`Refusal`].
//!
//! # Virtual time
//!
//! While a thread is inside of [`VirtualTime::block_on`](crate::VirtualTime::block_on), or of
//! `block_on` of `TokioInVirtualTime`, that virtual time is the default of this thread, for
//! [`Instant::now`] too. So the code needs no change to be tested:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_scheduler::time::{Duration, Instant, sleep};
//!
//! let day = Duration::from_secs(24 * 3600);
//! let time = lars_scheduler::LightArrayRevolverScheduler::builder().build_virtual()?;
//! let slept = time.block_on(async {
//!     let begin = Instant::now();
//!     sleep(day).await;
//!     begin.elapsed()
//! })?;
//! assert_eq!(slept, day);
//! # Ok(()) }
//! ```
//!
//! Other threads have the process's default meanwhile, those of `spawn_blocking` included. A future
//! belongs to the scheduler that was the default when it was made: make it inside, as
//! `block_on(async { sleep(day).await })` does and `block_on(sleep(day))` does not.
//!
//! # Differences from tokio
//!
//! | | tokio | here |
//! |---|---|---|
//! | needs | a runtime with `enable_time` | nothing |
//! | a sleep of `Duration::MAX` | ends after thirty years | never ends |
//! | [`Sleep`], [`Timeout`] | not `Unpin` | `Unpin`, as far as the work is |
//! | [`Elapsed`](error::Elapsed) | one case | also [`Refused`](error::Elapsed::Refused): there is no timer |
//! | [`Timeout::deadline`] | – | there |
//! | a tick counts as late, for `Delay`, after | 5 ms | 5 ms and a tick of the scheduler |
//! | a sleep whose time has come | counts against the task's budget, so it may yield | is ready at the first poll |
//! | `pause`, `advance`, `start_paused` | tokio's own clock | [`VirtualTime`](crate::VirtualTime) |
//! | after the end of the timers | panics | panics, except for `timeout`, which says [`Refused`](error::Elapsed::Refused) |
//!
//! A sleep is due, as there, at the time of the call plus its duration, and is rounded up to a
//! millisecond, a tick of the default scheduler. It is never early.
//!
//! # Panics
//!
//! The functions panic if the default scheduler has to start and cannot, because the platform has
//! no threads or no more of them. A [`Sleep`] or an [`Interval`] that is waiting panics when it is
//! polled after its scheduler was stopped, or when that refuses a timer because of `max_pending`.
//! The message names the place of the call. Neither can happen with the default that starts by
//! itself. A [`timeout`] gives an error instead.
//!
//! # Forks and WebAssembly
//!
//! A forked child has no timer thread, and the default scheduler does not start a second time:
//! sleeps there never end. So fork before the first use. (`std::process::Command` is not affected.)
//!
//! On `wasm32-unknown-unknown` there is no thread, so nothing starts by itself: without
//! [`set_default`] the functions panic.

mod instant;
mod sleep;

mod interval;

use std::future::IntoFuture;
pub use std::time::Duration;

pub use self::instant::Instant;
pub use self::interval::Interval;
pub use self::sleep::Sleep;
pub use crate::MissedTickBehavior;
pub use crate::future::Timeout;

use crate::future::{self, default};
use crate::{Handle, Refusal};

/// What can go wrong.
pub mod error {
    pub use crate::future::TimeoutError as Elapsed;
    pub use crate::future::default::SetDefaultError;
}

/// Makes `timers` the default scheduler of this process. That can be done once, before anything
/// uses the default.
///
/// It does not keep the scheduler running: its owner is yours. (After its end, sleeps
/// [panic](self#panics).)
///
/// # Errors
///
/// [`SetDefaultError`](error::SetDefaultError) if it was set before, or has started by itself.
/// Nothing changes then.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::time::{self, Duration};
///
/// let tick = Duration::from_micros(200);
/// let scheduler = LightArrayRevolverScheduler::builder().tick_duration(tick).build()?;
/// time::set_default(&scheduler)?;
/// futures::executor::block_on(time::sleep(3 * tick));
/// assert_eq!(time::default_scheduler().tick_duration(), tick);
/// assert!(time::set_default(&scheduler).is_err());
/// # Ok(()) }
/// ```
pub fn set_default(timers: &Handle) -> Result<(), error::SetDefaultError> {
    default::set(timers)
}

/// The default scheduler, which starts now if nothing has started or set it.
///
/// # Panics
///
/// If it has to start and [cannot](self#panics).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::time::{Duration, default_scheduler};
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let _ = default_scheduler()
///     .schedule_once(Duration::from_millis(1), move || drop(sender.send("now")))?;
/// assert_eq!(receiver.recv()?, "now");
/// # Ok(()) }
/// ```
#[track_caller]
pub fn default_scheduler() -> Handle {
    default::current().clone()
}

/// Ready when `duration` has passed since this call. See [`Handle::sleep`].
///
/// # Panics
///
/// If the default scheduler has to start and [cannot](self#panics).
///
/// # Examples
///
/// ```
/// use lars_scheduler::time::{Duration, sleep};
/// # futures::executor::block_on(async {
/// sleep(Duration::from_millis(2)).await;
/// println!("2 ms later, or a little more");
/// # });
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(default::current().sleep(duration))
}

/// Ready at `deadline`, or at once if that has passed. See [`Handle::sleep_until`].
///
/// # Panics
///
/// If the default scheduler has to start and [cannot](self#panics).
///
/// # Examples
///
/// ```
/// use lars_scheduler::time::{Duration, Instant, sleep_until};
/// # futures::executor::block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(2);
/// sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # });
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(default::current().sleep_until(deadline.into_std()))
}

/// Does `work` for at most `duration`, which counts from this call. See [`Handle::timeout`].
///
/// # Errors
///
/// [`Elapsed`](error::Elapsed) if the time is over first. It becomes an
/// [`io::Error`](std::io::Error) of the kind `TimedOut` by `?`.
///
/// # Panics
///
/// If the default scheduler has to start and [cannot](self#panics).
///
/// # Examples
///
/// ```
/// use lars_scheduler::time::{Duration, timeout};
/// use std::io;
/// async fn connect() -> io::Result<u32> {
///     timeout(Duration::from_millis(2), std::future::pending()).await?
/// }
/// # futures::executor::block_on(async {
/// assert_eq!(connect().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
/// # });
/// ```
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, work: F) -> Timeout<F::IntoFuture> {
    default::current().timeout(duration, work)
}

/// Does `work` until `deadline` at most. See [`Handle::timeout_at`].
///
/// # Errors
///
/// Same as [`timeout`].
///
/// # Panics
///
/// Same as [`timeout`].
///
/// # Examples
///
/// ```
/// use lars_scheduler::time::{Duration, Instant, timeout_at};
/// # futures::executor::block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(2);
/// // Two steps, one deadline.
/// assert_eq!(timeout_at(deadline, async { 1 }).await, Ok(1));
/// assert!(timeout_at(deadline, std::future::pending::<u32>()).await.is_err());
/// # });
/// ```
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, work: F) -> Timeout<F::IntoFuture> {
    default::current().timeout_at(deadline.into_std(), work)
}

/// Ticks at once, and then every `period`, without drift. See [`Handle::interval`].
///
/// # Panics
///
/// If the period is zero, and if the default scheduler has to start and [cannot](self#panics).
///
/// # Examples
///
/// ```
/// use lars_scheduler::time::{Duration, MissedTickBehavior, interval};
/// # futures::executor::block_on(async {
/// let mut beat = interval(Duration::from_millis(2));
/// beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
/// for _ in 0..3 {
///     beat.tick().await; // now, 2 ms later, 4 ms later
/// }
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    ticking(default::current().interval(period))
}

/// Ticks at `start`, and then every `period`, without drift. See [`Handle::interval_at`].
///
/// # Panics
///
/// Same as [`interval`](interval()).
///
/// # Examples
///
/// ```
/// use lars_scheduler::time::{Duration, Instant, interval_at};
/// # futures::executor::block_on(async {
/// let start = Instant::now() + Duration::from_millis(2);
/// let mut beat = interval_at(start, Duration::from_millis(1));
/// assert_eq!(beat.tick().await, start);
/// # });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    ticking(default::current().interval_at(start.into_std(), period))
}

#[track_caller]
fn ticking(interval: Result<future::Interval, Refusal>) -> Interval {
    match interval {
        Ok(interval) => Interval::new(interval),
        Err(refusal) => panic!("{refusal}"),
    }
}
