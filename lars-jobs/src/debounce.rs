//! Debounce and throttle: many calls, few runs. Modelled on the operators of lodash and Rx.
//!
//! - A [`Debounce`] runs its action when the calls have paused for a while: saving what a user
//!   types, reacting to a file that is written piece by piece.
//! - A [`Throttle`] runs its action at most once per interval, however many calls there are:
//!   progress reports, reacting to a mouse or to a sensor.
//!
//! Each call brings a value. The action gets the newest one. It supersedes the earlier ones, which
//! are dropped.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_scheduler::LightArrayRevolverScheduler;
//! use lars_jobs::debounce::{Debounce, Throttle};
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! let ms = Duration::from_millis;
//! let time = LightArrayRevolverScheduler::builder().build_virtual()?;
//! let (sender, saved) = mpsc::channel();
//! let save = Debounce::new(&time, ms(300), move |text| drop(sender.send(text)))?;
//! for text in ["h", "he", "hel"] {
//!     save.call(text)?;
//!     time.advance(ms(100)); // somebody types
//! }
//! time.advance(ms(200));
//! assert_eq!(saved.try_iter().collect::<Vec<_>>(), ["hel"]);
//!
//! let (sender, reported) = mpsc::channel();
//! let report = Throttle::new(&time, ms(100), move |percent| drop(sender.send(percent)))?;
//! for percent in 1..=100 {
//!     report.call(percent)?;
//!     time.advance(ms(3));
//! }
//! time.advance(ms(100));
//! assert_eq!(reported.try_iter().collect::<Vec<_>>(), [1, 34, 67, 100]);
//! # Ok(()) }
//! ```
//!
//! # Edges
//!
//! A call that comes after a pause begins a *window*. For a debounce, the window ends when there
//! has been no call for as long as the wait; for a throttle, an interval after it began. A run at
//! the trailing edge of a throttle begins another window when it starts, so a late one puts off the
//! next. The action can run at the *leading* edge of the window, for the call that begins it, and
//! at its *trailing* edge, for the last call that came later. With the leading edge alone, later
//! calls of the window are dropped; without it, the first call waits for the trailing edge as well.
//!
//! | here | leading | trailing | lodash | Rx |
//! |---|---|---|---|---|
//! | `Debounce` | | x | `debounce` | `debounce` |
//! | with `leading(true)` | x | x | `leading: true` | |
//! | with `leading(true).trailing(false)` | x | | `trailing: false` | |
//! | with `max_wait` | | x | `maxWait` | |
//! | `Throttle` | x | x | `throttle` | `throttleLatest` |
//! | with `trailing(false)` | x | | `trailing: false` | `throttleFirst` |
//! | with `leading(false)` | | x | `leading: false` | `throttleLast` |
//!
//! # What it promises
//!
//! - **Never early.** A debounced value does not run before its wait has passed, and runs of a
//!   throttle are due at least an interval apart. (lodash's `throttle` runs again at once if the
//!   last call was an interval ago and the last run was not.) `flush` and `close` are the
//!   exceptions.
//! - **One run at a time.** A value that comes due while the action runs waits for the end of that
//!   run. Of several such values the newest one stays.
//! - **Never on the stack of the call.** The leading edge, too, is a task of the scheduler.
//! - **What is accepted runs, or is superseded** by a newer value. A call that cannot get a timer
//!   gives its value back. A value that waits keeps the one timer that it got, so a full scheduler
//!   cannot lose it.
//! - **Panics.** An action that panics is reported like a task that panics, and the next value
//!   runs.
//!
//! # The end
//!
//! Dropping the last clone cancels nothing: a value that waits runs when it is due.
//! [`cancel`](Debounce::cancel) takes it back, [`flush`](Debounce::flush) runs it at once. To the
//! scheduler it is a one-shot. So `close` runs it by its policy, and `stop` hands it back; while
//! that list is kept, calls are refused.
//!
//! An action that owns a clone of its own debounce is never freed.

mod core;

mod builder;

use std::sync::Arc;
use std::time::Duration;

pub use self::builder::{DebounceBuilder, DebounceError, ThrottleBuilder};
use self::core::Shared;
use lars_base::debug_fields;
use lars_scheduler::{Handle, Refusal, ScheduleError};

/// Runs an action when its calls have paused. See the [module](self).
///
/// Cheap to clone; all clones are the same debounce. All methods may be called from any thread, and
/// from the action.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::debounce::Debounce;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let save = Debounce::builder(&time, ms(300))
///     .max_wait(ms(1_000)) // save now and then, even if the user never pauses
///     .run_on_close()
///     .build(|text: String| println!("saving {text:?}"))?;
/// save.call("draft".to_owned())?;
/// assert!(save.is_pending());
/// assert!(save.flush()?); // the window loses its focus
/// assert_eq!(time.advance(Duration::ZERO), 1);
/// assert_eq!(save.cancel(), None); // nothing waits
/// # Ok(()) }
/// ```
pub struct Debounce<T> {
    shared: Arc<Shared<T>>,
}

/// Runs an action at most once per interval. See the [module](self).
///
/// Cheap to clone; all clones are the same throttle. All methods may be called from any thread, and
/// from the action.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::debounce::Throttle;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, warned) = mpsc::channel();
/// let warn = Throttle::builder(&time, Duration::from_secs(10))
///     .trailing(false) // later ones are dropped
///     .build(move |warning| drop(sender.send(warning)))?;
/// warn.call("the disk is slow")?;
/// warn.call("the disk is very slow")?;
/// time.advance(Duration::from_secs(10));
/// warn.call("the disk is full")?;
/// time.advance(Duration::ZERO);
/// assert_eq!(warned.try_iter().collect::<Vec<_>>(), ["the disk is slow", "the disk is full"]);
/// # Ok(()) }
/// ```
pub struct Throttle<T> {
    shared: Arc<Shared<T>>,
}

impl<T: Send + 'static> Debounce<T> {
    /// Runs `action` when there has been no call for `wait`: on the trailing edge alone, on the
    /// scheduler's executor.
    ///
    /// # Errors
    ///
    /// [`DebounceError::Wait`] for a wait of zero.
    pub fn new(
        handle: &Handle,
        wait: Duration,
        action: impl FnMut(T) + Send + 'static,
    ) -> Result<Self, DebounceError> {
        Debounce::builder(handle, wait).build(action)
    }
}

impl Debounce<()> {
    /// A builder, for the edges and other options.
    pub fn builder(handle: &Handle, wait: Duration) -> DebounceBuilder {
        DebounceBuilder::new(handle, wait)
    }
}

impl<T: Send + 'static> Throttle<T> {
    /// Runs `action` at most once per `interval`: on both edges, on the scheduler's executor.
    ///
    /// # Errors
    ///
    /// [`DebounceError::Interval`] for an interval of zero.
    pub fn new(
        handle: &Handle,
        interval: Duration,
        action: impl FnMut(T) + Send + 'static,
    ) -> Result<Self, DebounceError> {
        Throttle::builder(handle, interval).build(action)
    }
}

impl Throttle<()> {
    /// A builder, for the edges and other options.
    pub fn builder(handle: &Handle, interval: Duration) -> ThrottleBuilder {
        ThrottleBuilder::new(handle, interval)
    }
}

/// What both have.
macro_rules! common {
    ($name:ident) => {
        impl<T: Send + 'static> $name<T> {
            /// Calls the action with `value`, unless a newer value supersedes it before it is due.
            ///
            /// Takes a lock for a moment, and never waits for the action.
            ///
            /// # Errors
            ///
            /// The value is given back with [`Refusal::Full`] if it needs a timer and the scheduler
            /// is full, or with [`Refusal::Stopped`]. A value that waited before goes on waiting.
            #[track_caller]
            pub fn call(&self, value: T) -> Result<(), ScheduleError<T>> {
                self.shared.call(value)
            }

            /// Makes the waiting value due now. It runs as usual, on its executor. False if none
            /// waits.
            ///
            /// # Errors
            ///
            /// [`Refusal::Stopped`] if `stop` has handed the value back.
            pub fn flush(&self) -> Result<bool, Refusal> {
                self.shared.flush()
            }

            /// Takes back the waiting value. It does not run.
            ///
            /// The window goes on: the leading edge comes no earlier than it would have.
            pub fn cancel(&self) -> Option<T> {
                self.shared.cancel()
            }

            /// Whether a value waits for the trailing edge.
            pub fn is_pending(&self) -> bool {
                self.shared.is_pending()
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self { shared: Arc::clone(&self.shared) }
            }
        }

        debug_fields!(|it: $name<T>| rule: it.shared.rule());
    };
}

common!(Debounce);
common!(Throttle);
