//! The owner: starts the timer thread, stops it, closes.

use std::io;
use std::ops::Deref;
use std::pin::Pin;
use std::time::Duration;

use futures::channel::oneshot;

use crate::api::close::{self, CloseError, CloseReport};
use crate::api::config::{Builder, OwnerSettings};
use crate::api::handle::Handle;
use crate::api::pending::StopFuture;
use crate::api::settings::DEFAULT_TICK;
use crate::base::clock::{Clock, limit_of_wait};
use crate::base::error::BuildError;
use crate::base::threads::{OnThreadStart, ThreadKind};
use crate::engine::driver::Driver;
use crate::engine::shared::{DefaultExecutor, Executors, Live, Settings};
use crate::engine::timer_thread;
use crate::executor::pool::Pool;
use crate::sync::{Arc, CHECKED, Mutex, Parker, count_begun, count_ended, thread};
use lars_base::panics::quietly;
use lars_base::waiting;

/// The most channels for threads without a wheel.
const MAX_CHANNELS: usize = 16;
/// After how many timers a thread gets a wheel of its own. Each takes Miri milliseconds.
pub(crate) const WHEEL_AFTER: u64 = if CHECKED {
    1
} else if cfg!(miri) {
    8
} else {
    64
};

/// How many channels there are on this machine.
pub(crate) fn channels() -> usize {
    num_cpus::get().next_power_of_two().min(MAX_CHANNELS)
}

/// Beyond this many schedulers in a process, the log warns, once, of a possible leak.
const MANY: usize = 64;

/// A light array revolver scheduler, after Akka's and Pekko's: one timer thread, timing wheels
/// where the timers live, and a lock-free way in.
///
/// This is the owner: it stops the thread when it is closed or dropped. Scheduling goes through the
/// [`Handle`] that it dereferences to, or through clones of that.
///
/// One scheduler serves a whole process; it is made for millions of timers. Every instance has a
/// thread of its own, so you rarely want many. The first time that more than 64 are alive, the log
/// has a warning.
///
/// # Examples
///
/// ```
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let retry = scheduler.schedule_once(Duration::from_secs(30), || println!("retry"))?;
/// assert!(retry.cancel()); // it will never run
/// let report = scheduler.close()?;
/// assert_eq!(report.ran, 0);
/// assert!(scheduler.schedule_once(Duration::ZERO, || ()).is_err());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct LightArrayRevolverScheduler {
    handle: Handle,
    settings: OwnerSettings,
    thread: Mutex<Option<TimerThread>>,
}

#[derive(Debug)]
struct TimerThread {
    thread: thread::JoinHandle<()>,
    /// Resolves when it ends. (`JoinHandle::join` has no timeout.)
    ended: oneshot::Receiver<()>,
}

impl Builder {
    /// Starts the scheduler: one thread.
    ///
    /// # Errors
    ///
    /// [`BuildError::Config`] if a setting is out of its range; [`BuildError::Thread`] if the
    /// thread could not be started.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    /// let scheduler = LightArrayRevolverScheduler::builder()
    ///     .tick_duration(Duration::from_millis(10))
    ///     .ticks_per_wheel(256)
    ///     .max_pending(1_000_000)
    ///     .build()?;
    /// # drop(scheduler);
    /// let wrong = LightArrayRevolverScheduler::builder().ticks_per_wheel(100);
    /// let error = wrong.build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "ticks_per_wheel is 100, but it must be a power of two between 2 and 65536",
    /// );
    /// # Ok(()) }
    /// ```
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn build(self) -> Result<LightArrayRevolverScheduler, BuildError> {
        let thread = TimerThreadSettings {
            name: self.settings.name().to_owned(),
            on_start: self.on_thread_start.clone(),
            short_slices: self.settings.short_slices,
            stack_size: self.settings.stack_size,
        };
        let clock = Clock::real(self.settings.count_suspend)?;
        let pool = |pool: &Pool| DefaultExecutor::Pool(pool.clone());
        let checked = self.check(DEFAULT_TICK, channels(), Some(WHEEL_AFTER), pool)?;
        Ok(LightArrayRevolverScheduler::start(checked, thread, clock)?)
    }
}

struct TimerThreadSettings {
    name: String,
    on_start: OnThreadStart,
    short_slices: bool,
    stack_size: Option<usize>,
}

impl LightArrayRevolverScheduler {
    /// A scheduler with the default settings: a tick of 1 ms, 512 ticks per wheel.
    ///
    /// # Errors
    ///
    /// [`BuildError::Thread`] if the timer thread could not be started.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// A builder with the default settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn start(
        (settings, executors, owner): (Settings, Executors, OwnerSettings),
        thread: TimerThreadSettings,
        clock: Clock,
    ) -> io::Result<Self> {
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        let live = Live::new(settings, executors, clock, unparker);
        let driver = Driver::new(Arc::clone(&live), owner.wheel_size, false);
        let (end, ended) = oneshot::channel();
        let TimerThreadSettings { name, on_start, short_slices, stack_size } = thread;
        let mut builder = thread::Builder::new().name(name.clone());
        if let Some(bytes) = stack_size {
            builder = builder.stack_size(bytes);
        }
        let thread = builder.spawn(move || {
            let begins = || on_start.call(ThreadKind::Timer, &name);
            timer_thread::run(driver, &parker, short_slices, begins);
            // The receiver may be gone.
            let _ = end.send(());
        })?;
        if count_begun(MANY) {
            quietly(|| {
                tracing::warn!(
                    target: "lars_scheduler",
                    "more than {MANY} schedulers are alive, each with its thread: share one, or \
                     drop those that are done"
                );
            });
        }
        let thread = Mutex::new(Some(TimerThread { thread, ended }));
        Ok(Self { handle: Handle::new(live), settings: owner, thread })
    }

    /// A handle to schedule with, to be cloned and passed around.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops the scheduler, and hands back what is pending.
    ///
    /// The first call wins: its future resolves with every task that was accepted, has not started
    /// and was not cancelled, exactly once each. The future of any further call resolves at once,
    /// with nothing. The call itself never waits, so it may be made from anywhere, even on the
    /// timer thread.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let scheduler = lars_scheduler::LightArrayRevolverScheduler::new()?;
    /// let _ = scheduler.schedule_once(Duration::from_secs(3600), || println!("last will"))?;
    /// let pending = scheduler.stop().wait();
    /// assert_eq!(pending.len(), 1);
    /// for task in pending {
    ///     task.run(); // or drop it
    /// }
    /// assert!(scheduler.stop().wait().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn stop(&self) -> StopFuture {
        self.request_stop(true)
    }

    /// Asks the timer thread to stop. `tells` says whether tasks are notified that they are handed
    /// back; those that `close` deals with at once are not.
    fn request_stop(&self, tells: bool) -> StopFuture {
        let core = self.handle.core();
        let future = StopFuture::new(core.stop.request(tells));
        core.sleep.wake();
        future
    }

    /// Stops the scheduler, waits for the pending tasks, and runs them on this thread, earliest
    /// deadline first, or as the [`ClosePolicy`](crate::ClosePolicy) says. Then waits for the tasks
    /// that the scheduler's own pool has not finished.
    ///
    /// All the waiting together takes at most `shutdown_timeout` (5 s by default); the tasks that
    /// run here take as long as they take. Closing again runs nothing; it waits for the pool again,
    /// and reports what is still unfinished.
    ///
    /// # Errors
    ///
    /// [`CloseError::OnTimerThread`] if it is called on the timer thread: by an inline task, or by
    /// the hook of [`on_thread_start`](Builder::on_thread_start). [`CloseError::Timeout`] if an
    /// inline task occupies the timer thread for longer than the `shutdown_timeout`.
    ///
    /// # Panics
    ///
    /// Never: a task that panics is contained, counted and reported.
    pub fn close(&self) -> Result<CloseReport, CloseError> {
        let core = self.handle.core();
        if core.is_driven_here() {
            return Err(CloseError::OnTimerThread);
        }
        let OwnerSettings { close_policy, shutdown_timeout, .. } = self.settings;
        let stopped = self.request_stop(false);
        let first = stopped.is_first();
        let report = close::close(self.handle.live(), stopped, close_policy, shutdown_timeout)?;
        if first {
            // The promise was kept, so the thread is about to end. After another caller's `stop`
            // the thread may still be occupied, for any time.
            self.join(shutdown_timeout);
        }
        Ok(report)
    }

    /// Waits for the end of the thread, for at most that long. Says whether it has ended.
    fn join(&self, limit: Duration) -> bool {
        let Some(mut timer) = self.thread.lock().take() else { return true };
        let deadline = limit_of_wait(limit);
        if waiting::block_until(Pin::new(&mut timer.ended), deadline).is_none() {
            *self.thread.lock() = Some(timer);
            return false;
        }
        // The thread contains its panics.
        let _ = timer.thread.join();
        true
    }
}

impl Deref for LightArrayRevolverScheduler {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for LightArrayRevolverScheduler {
    /// Stops without running anything: pending tasks are dropped. When this returns no timer fires
    /// any more, unless the timer thread was occupied for longer than the `shutdown_timeout`. What
    /// had been handed to an executor before still runs.
    fn drop(&mut self) {
        count_ended();
        let stopped = self.request_stop(false);
        if self.handle.core().is_driven_here() {
            return; // dropped by an inline task: the thread stops when that is done
        }
        if self.join(self.settings.shutdown_timeout) {
            // What was pending, unless another call got it.
            drop(stopped.wait_timeout(Duration::ZERO));
        } else {
            quietly(|| {
                tracing::warn!(
                    target: "lars_scheduler",
                    limit = ?self.settings.shutdown_timeout,
                    "a scheduler was dropped while a task occupied its timer thread, which ends \
                     after that task"
                );
            });
        }
    }
}
