//! Time for async code: sleeps, timeouts and intervals as futures, with any runtime or none.
//!
//! They are methods of the [`Handle`](crate::Handle), and so of the owner and of
//! [`VirtualTime`](crate::VirtualTime) too:
//!
//! | call | result |
//! |---|---|
//! | [`sleep`], [`sleep_until`] | [`Sleep`]: ready when a delay has passed, or at an instant |
//! | [`timeout`], [`timeout_at`] | [`Timeout`]: other work, with a limit |
//! | [`interval`], [`interval_at`] | [`Interval`]: ready again and again; a `Stream` |
//! | [`after`] | [`After`]: a sleep, and then other work |
//! | [`FutureExt`] | the same as methods of the other work |
//! | [`VirtualTime::block_on`] | hours of async code in no time, for tests |
//!
//! The `retry` of `lars-jobs` repeats work that fails. `lars-bridges` has timers for hyper and
//! tower.
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
//! - **Never early.** The scheduler's clock decides whether a future's time has come. A wake-up
//!   alone proves nothing. (A poll reads the exact clock only if the deadline is less than 20 ms
//!   away, or has passed. Otherwise it reads the kernel's coarse clock, at a quarter of the cost.)
//! - **A deadline is fixed when the future is made**, as with all timers of this crate, and not
//!   when it is first polled.
//! - **At most one timer for each future, and none before it is polled.** The first poll that has
//!   to wait makes the timer, and it is cancelled when the future is dropped or ready. So a timeout
//!   whose work is ready at once has none. A reset moves the timer in place.
//! - **A deadline that has passed is ready at the first poll**, without a timer.
//! - **Any waker, any thread, any executor.** The waker of the last poll is the one that is woken.
//!   A future may be polled by one executor first and by another later. A poll with another waker
//!   replaces the timer.
//! - **Nothing allocates**, not even the first poll that has to wait. (A waker may, when it is
//!   cloned.)
//! - **Cancel-safe.** All state is in the future. A `select!` that abandons it after a poll loses
//!   nothing.
//! - **A waker that panics is contained** on the timer thread, and reported like a task that
//!   panics.
//!
//! The timer thread calls the wakers of all due futures one after another, outside any lock. A
//! waker that blocks delays other timers; the wakers of common executors only put the task into a
//! queue.
//!
//! # Why the result is a `Result`
//!
//! A future can outlive its scheduler. Then it must not wait forever. It must not be ready as if
//! the time had passed, because nothing here is early. And it should not panic, because a shutdown
//! in one place would then be a bug in another. So it reports the end: every wait ends with `Ok`
//! when its time has come, with [`Refusal::Stopped`](crate::Refusal::Stopped) if the scheduler was
//! stopped, closed or dropped first, and with [`Refusal::Full`](crate::Refusal::Full) if
//! `max_pending` leaves no place for its timer. In tokio this cannot happen, because the runtime
//! that polls a sleep also owns its timer, and the output is `()`. If you come from tokio, write
//! `timers.sleep(d).await?`, or `let _ =` if the task ends with the scheduler anyway. Ignoring the
//! result is a compiler warning.
//!
//! After `close`, `stop` or dropping the owner, every waiting future is woken and ends with
//! `Stopped`, even while the list from `stop` is kept.
//!
//! # Origin
//!
//! Names and meanings are tokio's (`sleep`, `timeout`, `interval`, the three kinds of missed
//! ticks); `after` is a pattern of Akka and Pekko. There are four differences from tokio: the
//! result; [`reset`](Sleep::reset) of a sleep takes a delay and [`reset_at`](Sleep::reset_at) an
//! instant, as those of [`Cancellable`](crate::Cancellable) do; a deadline may be
//! [`Duration::MAX`](std::time::Duration::MAX) away, which is never; and a period of zero is an
//! error, not a panic.
//!
//! # Virtual time
//!
//! A test that polls by hand and moves [`VirtualTime`](crate::VirtualTime) sees every instant
//! exactly. [`block_on`](crate::VirtualTime::block_on) does both for a whole piece of async code,
//! and `TokioInVirtualTime` of `lars-bridges` for code that spawns tokio's tasks. Time never moves
//! by itself.
//!
//! [`sleep`]: crate::Handle::sleep
//! [`sleep_until`]: crate::Handle::sleep_until
//! [`timeout`]: crate::Handle::timeout
//! [`timeout_at`]: crate::Handle::timeout_at
//! [`interval`]: crate::Handle::interval
//! [`interval_at`]: crate::Handle::interval_at
//! [`after`]: crate::Handle::after
//! [`VirtualTime::block_on`]: crate::VirtualTime::block_on

pub(crate) mod default;

pub(crate) mod following;
mod moment;

mod wake_timer;

mod block_on;
mod closing;
mod sleep;

mod after;
mod interval;
mod timeout;

mod extension;

pub use self::after::After;
pub use self::block_on::BlockOnError::{self, Stalled};
pub use self::closing::Closing;
pub use self::extension::FutureExt;
pub use self::interval::Interval;
pub use self::sleep::Sleep;
pub use self::timeout::{Timeout, TimeoutError};
