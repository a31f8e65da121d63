//! The clock on the wall: the system's, a closure, or one that a test moves.

use std::time::{Duration, SystemTime};

use lars_base::debug_fields;
use lars_base::sync::{Arc, Mutex};
use lars_base::time::{Instant, time_of_day};
use lars_scheduler::Handle;

/// Tells the time of day. It may jump, both ways.
///
/// Every `Fn() -> SystemTime + Send + Sync + 'static` is one.
///
/// It is read when a timer looks whether it is due, on the thread that would run the task, and when
/// a task is scheduled, on the calling thread. It must not block. A panic while a timer reads it is
/// treated like a panic of the task: it is contained and reported, and ends the timer.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::wall_clock::{VirtualWallClock, WallClock, WallClockScheduler};
/// use std::sync::mpsc;
/// use std::time::{Duration, SystemTime};
///
/// /// Another clock, corrected by what a time server said.
/// struct Corrected<C>(C, Duration);
/// impl<C: WallClock> WallClock for Corrected<C> {
///     fn now(&self) -> SystemTime {
///         self.0.now() + self.1
///     }
/// }
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (midnight, hour) = (SystemTime::UNIX_EPOCH, Duration::from_secs(3600));
/// let clock = Corrected(VirtualWallClock::new(time.handle(), midnight), hour);
/// let wall = WallClockScheduler::with_clock(time.handle(), clock);
/// let (sender, receiver) = mpsc::channel();
/// wall.schedule_at_system_time(midnight + 3 * hour, move || drop(sender.send("three")))?;
/// time.advance(2 * hour);
/// assert_eq!(receiver.try_recv()?, "three");
/// # Ok(()) }
/// ```
pub trait WallClock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> SystemTime;
}

impl<F: Fn() -> SystemTime + Send + Sync + 'static> WallClock for F {
    fn now(&self) -> SystemTime {
        self()
    }
}

/// The operating system's clock: [`SystemTime::now`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::wall_clock::{SystemClock, WallClock, WallClockScheduler};
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let wall = WallClockScheduler::with_clock(scheduler.handle(), SystemClock); // as `new` does
/// let tomorrow = SystemClock.now() + Duration::from_secs(24 * 3600);
/// let report = wall.schedule_at_system_time(tomorrow, || println!("a day has passed"))?;
/// assert!(report.is_pending());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> SystemTime {
        time_of_day()
    }
}

/// A wall clock for tests: it follows a scheduler's time, and jumps when told to.
///
/// Over [`VirtualTime`](lars_scheduler::VirtualTime) the test controls both kinds of time:
/// `advance` moves them together, and the methods here move the wall clock alone, as setting the
/// clock or suspending the machine does. It stands still at the last time that a [`SystemTime`] can
/// express. Clones are the same clock.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::wall_clock::{VirtualWallClock, WallClock};
/// use std::time::{Duration, SystemTime};
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let clock = VirtualWallClock::new(time.handle(), SystemTime::UNIX_EPOCH);
/// let minute = Duration::from_secs(60);
/// time.advance(5 * minute);
/// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + 5 * minute);
/// clock.jump_back(2 * minute);
/// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + 3 * minute);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct VirtualWallClock {
    handle: Handle,
    set: Arc<Mutex<Setting>>,
}

/// What the clock was set to, and when.
#[derive(Clone, Copy)]
struct Setting {
    wall: SystemTime,
    at: Instant,
}

impl VirtualWallClock {
    /// A clock that shows `start` now, and follows the scheduler's time from here on.
    pub fn new(handle: Handle, start: SystemTime) -> Self {
        let set = Setting { wall: start, at: handle.now() };
        Self { handle, set: Arc::new(Mutex::new(set)) }
    }

    /// Sets the clock.
    pub fn set(&self, wall: SystemTime) {
        let at = self.handle.now();
        *self.set.lock() = Setting { wall, at };
    }

    /// Sets the clock forwards by `by`.
    ///
    /// # Panics
    ///
    /// If that is beyond what a [`SystemTime`] can express. The clock goes on as before.
    pub fn jump_forward(&self, by: Duration) {
        self.jump(|shown| shown.checked_add(by));
    }

    /// Sets the clock back by `by`.
    ///
    /// # Panics
    ///
    /// If that is beyond what a [`SystemTime`] can express. The clock goes on as before.
    pub fn jump_back(&self, by: Duration) {
        self.jump(|shown| shown.checked_sub(by));
    }

    fn jump(&self, to: impl Fn(SystemTime) -> Option<SystemTime>) {
        let mut set = self.set.lock();
        let now = self.handle.now();
        let wall =
            to(set.shown(now)).expect("the clock cannot jump beyond what a SystemTime can express");
        let goes_on = set.wall.checked_add(now.saturating_duration_since(set.at)).is_some();
        *set = match to(set.wall).filter(|_| goes_on) {
            // `at` stays: Windows distinguishes 100 ns, and each jump would round what has passed.
            Some(wall) => Setting { wall, at: set.at },
            // It stands still at the last time, or was set to a time so near the first one that
            // only what has passed since leaves room for the jump.
            None => Setting { wall, at: now },
        };
    }
}

impl Setting {
    /// What the clock shows at `now`.
    fn shown(&self, now: Instant) -> SystemTime {
        saturating_add(self.wall, now.saturating_duration_since(self.at))
    }
}

impl WallClock for VirtualWallClock {
    fn now(&self) -> SystemTime {
        let now = self.handle.now();
        self.set.lock().shown(now)
    }
}

/// `time + by`, or the last time that a [`SystemTime`] can express. There is no constant for that
/// time, and it is not the same everywhere.
fn saturating_add(mut time: SystemTime, by: Duration) -> SystemTime {
    let mut step = by;
    while !step.is_zero() {
        match time.checked_add(step) {
            Some(exact) if step == by => return exact,
            // (A step may be too short for the system to distinguish the two times.)
            Some(later) if later > time => time = later,
            _ => step /= 2,
        }
    }
    time
}

debug_fields!(|it: VirtualWallClock| set: it.set.lock().wall);
