//! Wall-clock times: a task at a time of day, once or by a calendar.
//!
//! A scheduler counts monotonic time, which has no dates and does not jump. A daily job at 9:00
//! needs the wall clock: people set it, NTP corrects it, it is hours ahead after a suspend, and it
//! changes by an hour twice a year. A [`WallClockScheduler`] runs tasks by that clock, on the
//! threads and with the guarantees of its scheduler:
//!
//! - [`schedule_at_system_time`](WallClockScheduler::schedule_at_system_time): once, at a
//!   [`SystemTime`];
//! - [`schedule_by_calendar`](WallClockScheduler::schedule_by_calendar): at each occurrence of a
//!   [`Calendar`], such as a cron expression in a time zone (`CronSchedule`, with the feature
//!   `cron`).
//!
//! # Promises
//!
//! - **Never early.** A task runs only when the clock, read just before, shows its time or a later
//!   one.
//! - **Jumps are followed.** A timer looks at the clock at least once per
//!   [`recheck`](WallClockScheduler::recheck), one minute unless it is set, and notices a jump
//!   then. The last wait is exact, so without a jump the task is as punctual as one of
//!   [`schedule_once`](Handle::schedule_once).
//! - **Once.** A one-shot that has run does not run again, whatever the clock does.
//! - **Ends with the scheduler.** `close` does not run it, whatever the policy: its time has not
//!   come.
//!
//! # When the clock jumps
//!
//! | the clock is set | a one-shot | a repeat |
//! |---|---|---|
//! | forwards, not past its time | waits less | waits less |
//! | forwards, past its time | runs at once | one run for all, unless [`MissedRuns`] differs |
//! | back, before it ran | waits longer | waits longer |
//! | back by less than 3 hours, after it ran | has run | does not run again |
//! | back by 3 hours or more | waits longer, or has run | starts over from the time shown |
//!
//! Everything happens when the jump is noticed, and what counts is what the clock shows then. A
//! calendar can [ask](Calendar::runs_again_when_set_back) to run again what a small adjustment
//! repeats. The line between that and a correction is drawn at three hours, as in Vixie cron.
//!
//! To a timer, a suspend looks like a clock that is set forwards. On Linux the scheduler's time
//! stands still meanwhile; the timer notices within one re-check after the resume.
//!
//! A change to or from daylight-saving time is not a jump, because [`SystemTime`] has no zone. The
//! calendar handles it; see `CronSchedule`.
//!
//! # Panics, stop, close
//!
//! A task that panics is contained and reported, and its series ends, as with other repeats of this
//! crate. `stop` hands back each timer's next look at the clock, marked
//! [`is_repeat`](lars_scheduler::PendingTask::is_repeat). If the holder of the list runs that look,
//! it runs the task if its time has come, and otherwise drops it unrun. Until then the timer is
//! pending, and can be cancelled.
//!
//! # Cost
//!
//! A waiting timer takes one place of the scheduler's `max_pending`, and reads the clock once a
//! minute, on the executor that would run the task. With a longer re-check it looks less often, and
//! notices a jump later.
//!
//! # Tests
//!
//! A [`VirtualWallClock`] over [`VirtualTime`](lars_scheduler::VirtualTime) follows the virtual
//! time, and jumps when it is told to:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_scheduler::LightArrayRevolverScheduler;
//! use lars_jobs::wall_clock::{VirtualWallClock, WallClockScheduler};
//! use std::sync::mpsc;
//! use std::time::{Duration, SystemTime};
//!
//! let hour = Duration::from_secs(3600);
//! let midnight = SystemTime::UNIX_EPOCH;
//! let time = LightArrayRevolverScheduler::builder().build_virtual()?;
//! let clock = VirtualWallClock::new(time.handle(), midnight);
//! let wall = WallClockScheduler::with_clock(time.handle(), clock.clone());
//!
//! let (sender, receiver) = mpsc::channel();
//! wall.schedule_at_system_time(midnight + 9 * hour, move || drop(sender.send("nine")))?;
//! time.advance(8 * hour);
//! clock.jump_back(2 * hour); // it is six again
//! time.advance(2 * hour);
//! assert!(receiver.try_recv().is_err());
//! time.advance(hour);
//! assert_eq!(receiver.try_recv()?, "nine");
//! # Ok(()) }
//! ```

mod calendar;
mod clock;
#[cfg(feature = "cron")]
mod cron;
mod timer;

use std::any::type_name;
use std::panic::Location;
use std::time::{Duration, SystemTime};

pub use self::calendar::{Calendar, Later, MissedRuns, UntilTime};
use self::calendar::{NextRun, Progress};
pub use self::clock::{SystemClock, VirtualWallClock, WallClock};
#[cfg(feature = "cron")]
#[cfg_attr(docsrs, doc(cfg(feature = "cron")))]
pub use self::cron::{CronError, CronSchedule};
use self::timer::Status;
pub use self::timer::WallClockTimer;
use crate::label::{Label, Labelled};
use lars_base::debug_fields;
use lars_base::sync::{Arc, Mutex};
use lars_scheduler::extend::{Systems, goes_on};
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Handle, Periodic, Repeat, ScheduleError, TaskIdentity, Verdict};

/// The longest wait before a timer looks at the clock again, unless it is set.
const RECHECK: Duration = Duration::from_secs(60);

/// The shortest re-check. A shorter one would be a busy loop for every timer.
const MIN_RECHECK: Duration = Duration::from_millis(1);

/// Schedules by the time of day. See the [module](self).
///
/// Cheap to clone, `Send` and `Sync`. Its settings apply to what is scheduled through it
/// afterwards. Like a [`Handle`], it does not keep the scheduler running.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::wall_clock::WallClockScheduler;
/// use std::time::{Duration, SystemTime};
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let wall = WallClockScheduler::new(scheduler.handle());
/// let in_an_hour = SystemTime::now() + Duration::from_secs(3600);
/// let lunch = wall.schedule_at_system_time(in_an_hour, || println!("lunch"))?;
/// assert!(lunch.is_pending());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct WallClockScheduler {
    handle: Handle,
    clock: Arc<dyn WallClock>,
    recheck: Duration,
    missed: MissedRuns,
    name: Option<&'static str>,
}

/// A re-check that is too short.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::wall_clock::WallClockScheduler;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let wall = WallClockScheduler::new(time.handle());
/// let error = wall.recheck(Duration::from_micros(5)).unwrap_err();
/// assert_eq!((error.given, error.min), (Duration::from_micros(5), Duration::from_millis(1)));
/// assert_eq!(error.to_string(), "the recheck is 5µs, but it must be at least 1ms");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the recheck is {given:?}, but it must be at least {min:?}")]
#[non_exhaustive]
pub struct RecheckError {
    /// What was asked for.
    pub given: Duration,
    /// The shortest re-check.
    pub min: Duration,
}

impl WallClockScheduler {
    /// By the system's clock.
    pub fn new(handle: Handle) -> Self {
        Self::with_clock(handle, SystemClock)
    }

    /// By another clock: a [`VirtualWallClock`] in a test, a closure that asks a time server.
    pub fn with_clock(handle: Handle, clock: impl WallClock) -> Self {
        let (clock, missed) = (Arc::new(clock), MissedRuns::default());
        Self { handle, clock, recheck: RECHECK, missed, name: None }
    }

    /// The longest wait before a timer looks at the clock again: one minute unless it is set, and
    /// at least 1 ms. A jump of the clock is noticed within this time.
    ///
    /// With [`Duration::MAX`] the timer looks only when the clock should show the time. It is still
    /// never early, but it notices no jump before then.
    ///
    /// # Errors
    ///
    /// [`RecheckError`] for less than 1 ms.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_jobs::wall_clock::WallClockScheduler;
    /// use std::time::Duration;
    ///
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let wall = WallClockScheduler::new(time.handle());
    /// assert!(wall.recheck(Duration::ZERO).is_err());
    /// let wall = WallClockScheduler::new(time.handle()).recheck(Duration::from_secs(10))?;
    /// # drop(wall);
    /// # Ok(()) }
    /// ```
    pub fn recheck(mut self, recheck: Duration) -> Result<Self, RecheckError> {
        if recheck < MIN_RECHECK {
            return Err(RecheckError { given: recheck, min: MIN_RECHECK });
        }
        self.recheck = recheck;
        Ok(self)
    }

    /// Gives what is scheduled through it a name. See
    /// [`Task::named`](lars_scheduler::Task::named).
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// What repeats do with occurrences in the past; [`MissedRuns::Once`] unless it is set.
    pub fn missed_runs(mut self, missed: MissedRuns) -> Self {
        self.missed = missed;
        self
    }

    /// Runs `task` once, when the wall clock shows `at` or a later time. If that has passed, the
    /// task runs at once, through the scheduler, as in `java.util.Timer`.
    ///
    /// # Lateness
    ///
    /// Never early by the wall clock. Without a jump as punctual as a
    /// [`schedule_once`](Handle::schedule_once); after one, late by at most the re-check.
    ///
    /// # Errors
    ///
    /// [`Refusal::Stopped`](lars_scheduler::Refusal::Stopped) and
    /// [`Refusal::Full`](lars_scheduler::Refusal::Full), as for
    /// [`schedule_once`](Handle::schedule_once). The task is given back and never runs.
    ///
    /// # Panics
    ///
    /// If the wall clock panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_jobs::wall_clock::WallClockScheduler;
    /// use std::{sync::mpsc, time::SystemTime};
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let wall = WallClockScheduler::new(scheduler.handle());
    /// let (sender, receiver) = mpsc::channel();
    /// wall.schedule_at_system_time(SystemTime::UNIX_EPOCH, move || drop(sender.send("late")))?;
    /// assert_eq!(receiver.recv()?, "late");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_at_system_time<F: FnOnce() + Send + 'static>(
        &self,
        at: SystemTime,
        task: F,
    ) -> Result<WallClockTimer, ScheduleError<F>> {
        let (clock, recheck, owner) = (Arc::clone(&self.clock), self.recheck, self.owner::<F>());
        let first = wait(at, clock.now(), recheck);
        let look = move |status: &Status, task: &mut Option<F>| {
            let left = wait(at, clock.now(), recheck);
            if !left.is_zero() {
                return Repeat::After(left);
            }
            if let Some(task) = task.take()
                && status.begin()
            {
                owner.run(task);
            }
            Repeat::Stop
        };
        self.look_again(first, Some(at), false, task, look)
    }

    /// Runs `task` at each occurrence of `calendar` that the wall clock comes to; the first is the
    /// first one after now. The task returns nothing, or a [`ControlFlow`](std::ops::ControlFlow)
    /// whose `Break` ends the series.
    ///
    /// Runs never overlap. An occurrence during a run is missed, and so is one that the clock jumps
    /// over: [`missed_runs`](Self::missed_runs) says what happens to them.
    ///
    /// The series ends when it is cancelled, when a run panics or breaks, when the calendar has no
    /// further occurrence ([`Calendar::until`]), and when the scheduler stops. A calendar without
    /// any occurrence is accepted, and the series ends at its first look.
    ///
    /// # Lateness
    ///
    /// Each run is as punctual as a [`schedule_at_system_time`](Self::schedule_at_system_time) for
    /// its occurrence would be.
    ///
    /// # Errors
    ///
    /// Same as [`schedule_at_system_time`](Self::schedule_at_system_time). The calendar is dropped.
    ///
    /// # Panics
    ///
    /// If the wall clock or the calendar panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_jobs::wall_clock::{CronSchedule, WallClockScheduler};
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let wall = WallClockScheduler::new(scheduler.handle());
    /// let weekdays_at_nine = CronSchedule::parse("0 9 * * MON-FRI", "Europe/Berlin")?;
    /// let report = wall.schedule_by_calendar(weekdays_at_nine, || println!("the daily report"))?;
    /// assert!(report.next_run().is_some());
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn schedule_by_calendar<C, R, F>(
        &self,
        calendar: C,
        task: F,
    ) -> Result<WallClockTimer, ScheduleError<F>>
    where
        C: Calendar,
        R: Verdict,
        F: FnMut() -> R + Send + 'static,
    {
        let (clock, recheck, owner) = (Arc::clone(&self.clock), self.recheck, self.owner::<F>());
        let now = clock.now();
        let mut progress = Progress::new(calendar, self.missed, now);
        let next = progress.next();
        let first = next.map_or(Duration::ZERO, |next| wait(next, now, recheck));
        let look = move |status: &Status, task: &mut Option<F>| {
            let mut due = progress.due(clock.now());
            if due == NextRun::Now {
                let Some(run) = task.as_mut().filter(|_| status.begin()) else {
                    return Repeat::Stop;
                };
                if !owner.run(run).is_some_and(goes_on) {
                    return Repeat::Stop;
                }
                // The next one may be due by now. It gets a look of its own, so that others have
                // their turn.
                due = progress.next().map_or(NextRun::Never, NextRun::At);
            }
            match due {
                NextRun::At(next) if status.wait_for(next) => {
                    Repeat::After(wait(next, clock.now(), recheck))
                }
                _ => Repeat::Stop,
            }
        };
        self.look_again(first, next, true, task, look)
    }

    /// Whose a task of this type is that is scheduled by the calling code.
    #[track_caller]
    fn owner<F>(&self) -> TaskOwner {
        let label = Label::at(Location::caller()).named(self.name);
        TaskOwner { handle: self.handle.clone(), whose: label.identity(type_name::<F>()) }
    }

    /// Looks at the clock after `first`, and whenever the look before said so.
    #[track_caller]
    fn look_again<F: Send + 'static>(
        &self,
        first: Duration,
        next: Option<SystemTime>,
        repeats: bool,
        task: F,
        mut look: impl FnMut(&Status, &mut Option<F>) -> Repeat + Send + 'static,
    ) -> Result<WallClockTimer, ScheduleError<F>> {
        // The task goes through a slot, so that it can be taken back from a closure that was
        // refused. The first look takes it out of the slot.
        let slot = Arc::new(Mutex::new(Some(task)));
        let status = Status::new(next);
        let caller = status.caller();
        let looks = {
            let slot = Arc::clone(&slot);
            let mut taken = None;
            move || {
                if taken.is_none() {
                    taken = slot.lock().take();
                }
                look(&status, &mut taken)
            }
        };
        match self.handle.schedule_repeating(first, Periodic::new(looks).labelled(self.name)) {
            Ok(looks) => Ok(caller.timer(looks, repeats)),
            Err(error) => Err(error.map(|looks| {
                drop(looks);
                slot.lock().take().expect("a closure that was refused has not run")
            })),
        }
    }
}

/// Runs a task of the user on behalf of the user.
struct TaskOwner {
    handle: Handle,
    whose: TaskIdentity,
}

impl TaskOwner {
    /// What the task returns; `None` if it panicked.
    fn run<R>(&self, task: impl FnOnce() -> R) -> Option<R> {
        let mut returned = None;
        self.handle.contain(self.whose, PanicIn::Task, || returned = Some(task()));
        returned
    }
}

/// How long to wait for `at` before the next look; zero if it has come.
fn wait(at: SystemTime, now: SystemTime, recheck: Duration) -> Duration {
    at.duration_since(now).unwrap_or_default().min(recheck)
}

debug_fields!(|it: WallClockScheduler| recheck: it.recheck, missed_runs: it.missed);
