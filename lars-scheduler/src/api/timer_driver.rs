//! A scheduler without a thread: its owner turns it, on the system's clock.

use std::ops::Deref;

use crate::api::close::{CloseError, CloseReport};
use crate::api::config::Builder;
use crate::api::handle::Handle;
use crate::api::listing::{ListingFuture, TimerQuery};
use crate::api::pending::StopFuture;
use crate::api::scheduler::{WHEEL_AFTER, channels};
use crate::api::settings::DEFAULT_TICK;
use crate::api::turned::Turned;
use crate::base::backpressure::Backpressure;
use crate::base::clock::Clock;
use crate::base::error::ConfigError;
use crate::base::panics::{PanicIn, Reporter};
use crate::engine::driver::walk::Walked;
use crate::engine::driver::{Intaken, Next};
use crate::engine::shared::DefaultExecutor;
use crate::engine::sleep_word::{Alarm, FOREVER};
use crate::sync::relax;
use lars_base::debug_fields;
use lars_base::time::Instant;

/// How many steps of up to 512 tasks a turn takes before it lets its caller look at other things.
const STEPS: u32 = 8;

/// A scheduler without a thread, for event loops. The loop [`turn`](Self::turn)s it, and learns
/// when to turn it next.
///
/// Built by [`Builder::build_driver`]. It has the same [`Handle`] as a scheduler with a thread, for
/// any number of threads, and keeps the same promises: never early, exact cancel, nothing lost. Its
/// tasks run on the thread that turns it, inside `turn`, unless they have an executor of their own.
///
/// A timer fires at the first turn after its tick, so the loop decides how late it is.
///
/// The time is the system's. For time with rules of its own, as in a simulation or a game that can
/// be paused, there is [`VirtualTime`](crate::VirtualTime).
///
/// # Examples
///
/// A loop that does nothing else. `examples/mio_loop.rs` has one that waits for sockets.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::sync::mpsc::{self, RecvTimeoutError};
/// use std::time::{Duration, Instant};
///
/// let (events, inbox) = mpsc::channel();
/// let wake = events.clone();
/// // The hook: interrupt the wait of the loop.
/// let mut timers = LightArrayRevolverScheduler::builder()
///     .build_driver(move || drop(wake.send("turn")))?;
/// let done = events.clone();
/// let _ = timers.schedule_once(Duration::from_millis(5), move || drop(done.send("done")))?;
///
/// loop {
///     let next = timers.turn(Instant::now());
///     let event = match next {
///         Some(next) => inbox.recv_timeout(next.saturating_duration_since(Instant::now())),
///         None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
///     };
///     match event {
///         Ok("done") => break,
///         Ok(_) | Err(RecvTimeoutError::Timeout) => {} // turn again
///         Err(RecvTimeoutError::Disconnected) => unreachable!("the hook has a sender"),
///     }
/// }
/// # Ok(()) }
/// ```
pub struct TimerDriver {
    turned: Turned,
}

impl Builder {
    /// A scheduler without a thread, to be turned by an event loop. See [`TimerDriver`].
    ///
    /// `wake` is called when the loop has to turn earlier than the last [`turn`](TimerDriver::turn)
    /// said, because something is due before that, or somebody stops the scheduler or lists its
    /// timers. It is called at most once between two turns, on the thread that caused it; that may
    /// be the loop's own. It should only interrupt the loop's wait: by a `mio::Waker`, a winit
    /// `EventLoopProxy`, an eventfd. It must neither wait for another thread nor use the scheduler:
    /// a stop may be waiting for the call that it runs in. A panic in it is contained and logged. A
    /// loop that turns at short intervals anyway needs no hook: pass `|| ()`.
    ///
    /// Two settings mean something else here. By default tasks run inline, on the thread that
    /// turns. And `thread_name` names only the threads of the pool.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a setting is out of its range.
    ///
    /// # Platforms
    ///
    /// In a web page use `build_browser`. Without the clock of a host, time stands still on
    /// `wasm32-unknown-unknown`.
    pub fn build_driver(
        self,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<TimerDriver, ConfigError> {
        let inline = |_: &_| DefaultExecutor::Inline;
        // (The thread that is to turn it might wait for itself.)
        let free = self.backpressure(Backpressure::Off);
        let clock = Clock::real(free.settings.count_suspend)?;
        let checked = free.check(DEFAULT_TICK, channels(), Some(WHEEL_AFTER), inline)?;
        let contained = move || {
            Reporter::default().contain(PanicIn::Cleanup, &wake);
        };
        let alarm = Alarm::Call(Box::new(contained));
        Ok(TimerDriver { turned: Turned::new(checked, clock, alarm, false) })
    }
}

impl TimerDriver {
    /// A handle to schedule with, to be cloned and passed around.
    pub fn handle(&self) -> Handle {
        self.turned.handle.clone()
    }

    /// Fires what is due at `now`, and returns the instant of the next turn. Turn earlier if the
    /// wake hook is called. An instant that has passed means at once; `None` means that nothing is
    /// pending.
    ///
    /// A turn that comes too early does nothing. One that comes late makes timers late, and does no
    /// other harm. `now` is the time of the loop: [`Instant::now`]. An instant that has not come
    /// yet counts as the present, so nothing is early.
    ///
    /// After some thousand tasks a turn returns even if more are due, so that the loop can look at
    /// its other events. Tasks that schedule each other without a delay do not hold it up.
    ///
    /// # Panics
    ///
    /// Never: the panic of a task is contained, counted and reported.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::{Duration, Instant};
    ///
    /// let mut timers = LightArrayRevolverScheduler::builder().build_driver(|| ())?;
    /// assert_eq!(timers.turn(Instant::now()), None);
    /// let begin = Instant::now();
    /// let _ = timers.schedule_once(Duration::from_millis(2), || println!("due"))?;
    /// while let Some(next) = timers.turn(Instant::now()) {
    ///     std::thread::sleep(next.saturating_duration_since(Instant::now()));
    /// }
    /// assert!(begin.elapsed() >= Duration::from_millis(2));
    /// # Ok(()) }
    /// ```
    pub fn turn(&mut self, now: Instant) -> Option<Instant> {
        self.turn_at(now)
    }

    /// For owners that share it; whoever is in the middle of a turn gets nothing.
    pub(crate) fn turn_at(&self, now: Instant) -> Option<Instant> {
        let core = self.turned.core();
        let now = core.clock.nanos_at(now).min(core.clock.now());
        let at_once = core.clock.instant(now);
        let mut turning = self.turned.begin()?;
        if core.stop.is_resolved() {
            // The sleep word keeps telling producers, late ones too, that the driver has stopped.
            return None;
        }
        core.sleep.announce_awake();
        let mut announced = None;
        for step in 0..STEPS {
            let turned = turning.turn(now, usize::MAX);
            if turned.ended {
                return None;
            }
            let walked = turning.walk(turned.next == Next::Now);
            if walked == Walked::More {
                // It has visited lanes, so when to turn next has to be asked anew.
                announced = None;
            }
            let until = match turned.next {
                _ if turned.intaken == Intaken::Gap || walked != Walked::Idle => None,
                Next::Now | Next::Soon => None,
                Next::At(instant) => Some(core.sleep_until(now, instant)),
                Next::Idle => Some(FOREVER),
            };
            match (until, announced) {
                // The announcement was made before the notices were looked at, and nothing is due
                // before it: a producer that gives one later sees it, and calls the hook.
                (Some(until), Some(announced))
                    if announced <= until && core.sleep.stays_asleep() =>
                {
                    turning.pause();
                    return core.clock.instant(announced);
                }
                (Some(until), _) => {
                    core.sleep.announce_sleep(until);
                    announced = Some(until);
                }
                (None, _) => {
                    announced = None;
                    if turned.next != Next::Now && walked != Walked::More {
                        // Another thread is in the middle of scheduling something.
                        relax(step);
                    }
                }
            }
        }
        turning.pause();
        core.sleep.announce_awake();
        at_once
    }

    /// Lists what is pending. See [`Handle::list`]. The future is resolved on return. A listing
    /// that a handle asks for is resolved by the next turn.
    pub fn list(&self, query: TimerQuery) -> ListingFuture {
        self.turned.list(query)
    }

    /// Stops the scheduler, and hands back what is pending. See
    /// [`LightArrayRevolverScheduler::stop`](crate::LightArrayRevolverScheduler::stop). The future
    /// is resolved on return.
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

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
impl TimerDriver {
    /// Stops without running anything: pending tasks are dropped.
    pub(crate) fn end(&self) {
        self.turned.end();
    }
}

impl Drop for TimerDriver {
    /// Stops without running anything: pending tasks are dropped.
    fn drop(&mut self) {
        self.turned.end();
    }
}

impl Deref for TimerDriver {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.turned.handle
    }
}

debug_fields!(|it: TimerDriver| handle: it.turned.handle);

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use crate::LightArrayRevolverScheduler;
    use crate::engine::sleep_word::AfterPush;
    use crate::sync::real_now;

    #[test]
    fn who_pushes_after_the_stop_learns_of_it_although_the_driver_is_turned_again() {
        let mut driver = LightArrayRevolverScheduler::builder().build_driver(|| ()).unwrap();
        assert_eq!(driver.stop().wait().len(), 0);
        assert_eq!(driver.turn(real_now()), None);
        assert_eq!(driver.turned.core().sleep.after_push(0), AfterPush::Stopped);
    }
}
