//! Time for async code: sleeps, time-outs and intervals as futures, without a runtime and in every runtime.
//!
//! They are methods of the [`Handle`](crate::Handle), and so also of the owner and of
//! [`VirtualTime`](crate::VirtualTime):
//!
//! | call | gives |
//! |---|---|
//! | [`sleep`](crate::Handle::sleep), [`sleep_until`](crate::Handle::sleep_until) | [`Sleep`]: ready when a delay has passed, at an instant |
//! | [`timeout`](crate::Handle::timeout), [`timeout_at`](crate::Handle::timeout_at) | [`Timeout`]: other work, but not for longer than that |
//! | [`interval`](crate::Handle::interval), [`interval_at`](crate::Handle::interval_at) | [`Interval`]: ready again and again; a `Stream` |
//! | [`after`](crate::Handle::after) | [`After`]: a sleep, and then other work |
//! | [`VirtualTime::block_on`](crate::VirtualTime::block_on) | async code through hours in no time, for tests |
//!
//! Work that fails is tried again by [`retry`](crate::retry).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_scheduler::LightArrayRevolverScheduler;
//! use std::time::Duration;
//!
//! let scheduler = LightArrayRevolverScheduler::new()?;
//! let timers = scheduler.handle();
//! let ms = Duration::from_millis;
//! // Any executor will do.
//! futures::executor::block_on(async {
//!     timers.sleep(ms(5)).await?;
//!     let answer = timers.timeout(ms(500), async { 42 }).await?;
//!     assert_eq!(answer, 42);
//!     let too_slow = timers.timeout(ms(5), timers.sleep(ms(60_000))).await;
//!     assert!(too_slow.is_err());
//!     Ok(())
//! })
//! # }
//! ```
//!
//! # Promises
//!
//! - **Never early.** A future says that its time has come when the scheduler's clock says so. A wake-up alone
//!   proves nothing.
//! - **A deadline is fixed when the future is made**, as with all timers of this crate, and not when it is first
//!   polled.
//! - **At most one timer for each future, and none for one that nobody polls.** The timer is made by the first poll
//!   that has to wait, and cancelled when the future is dropped or ready: a time-out whose work is ready at once
//!   costs none. A reset moves the timer in place.
//! - **A deadline that has passed is ready at the first poll**, without a timer.
//! - **Any waker, any thread, any executor.** The waker of the last poll is the one that is woken. A future may be
//!   polled by one executor first and by another later.
//! - **Nothing is allocated by a poll**, but by the first one that has to wait (one small block, for the waker).
//! - **Cancel-safe.** All state is in the future. A `select!` that gives a poll up loses nothing.
//! - **A waker that panics is contained** on the timer thread, and reported like a task that panics.
//!
//! Wakers are called by the timer thread, those of all futures that are due one after the other and outside of any
//! lock. A waker that blocks holds up other timers; those of the known executors only put the task into a queue.
//!
//! # Why the result is a `Result`
//!
//! A future outlives the scheduler that it waits for if the two are not ended in the right order. It must not wait
//! for ever then. It must not be ready as if the time had passed, for nothing here is early. It should not panic,
//! which would make somebody's shutdown the bug of somebody else's task. What is left is to say so: every wait ends
//! with `Ok` when its time has come, and with [`Refusal::Stopped`](crate::Refusal::Stopped) if the scheduler was
//! stopped, closed or dropped first, or with [`Refusal::Full`](crate::Refusal::Full) if `max_pending` leaves no
//! place for its timer. In tokio, where the runtime that polls a sleep also owns its timer, this cannot happen, and
//! the output is `()`; who comes from there writes `timers.sleep(d).await?`, or `let _ =` where the end of the
//! scheduler is the end of the task anyway. The compiler reminds of a result that is not looked at.
//!
//! After `close`, and after `drop` of the owner, every future that waits is woken and says `Stopped`. After `stop`
//! it is woken when the [`PendingTask`](crate::PendingTask) that was handed back for it is run or dropped; polled
//! before that, it says `Stopped` at once.
//!
//! # Origin
//!
//! Names and meanings are tokio's (`sleep`, `timeout`, `interval`, the three kinds of missed ticks), `after` is
//! Akka's and Pekko's pattern. Differences to tokio: the result, see above; a sleep's [`reset`](Sleep::reset) takes
//! a delay and [`reset_at`](Sleep::reset_at) an instant, as [`Cancellable`](crate::Cancellable)'s do; deadlines may
//! be [`Duration::MAX`](std::time::Duration::MAX) away, which is never; and a period of zero is an error, not a
//! panic.
//!
//! # Virtual time
//!
//! Over [`VirtualTime`](crate::VirtualTime), whoever polls and moves time by hand sees every instant exactly; and
//! [`block_on`](crate::VirtualTime::block_on) does both for a whole piece of async code. Time never moves by itself.

mod after;
mod alarm;
mod block_on;
mod interval;
mod sleep;
mod timeout;

pub use self::after::After;
pub use self::block_on::Stalled;
pub use self::interval::Interval;
pub use self::sleep::Sleep;
pub use self::timeout::{Timeout, TimeoutError};
