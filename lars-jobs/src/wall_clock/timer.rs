//! The caller's side of a wall-clock timer, and the state that it shares with the timer's looks at
//! the clock.

use std::fmt;
use std::time::SystemTime;

use lars_base::sync::{Arc, Mutex};
use lars_scheduler::Cancellable;

/// What is known of a timer. No code of the user runs while this is locked.
#[derive(Debug, Clone, Copy)]
struct Known {
    phase: TimerPhase,
    next: Option<SystemTime>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimerPhase {
    /// Until its time comes.
    Waiting,
    Running,
    Cancelled,
    /// It ran for the last time, panicked, or ended with its scheduler.
    Ended,
}

/// The looks' end of the state. The timer has ended when this is dropped.
pub(super) struct Status(Arc<Mutex<Known>>);

impl Status {
    pub(super) fn new(next: Option<SystemTime>) -> Self {
        Self(Arc::new(Mutex::new(Known { phase: TimerPhase::Waiting, next })))
    }

    /// A run begins, unless the timer was cancelled. True if it may.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.0.lock();
        if state.phase != TimerPhase::Waiting {
            return false;
        }
        *state = Known { phase: TimerPhase::Running, next: None };
        true
    }

    /// The timer waits for `next`. True unless it was cancelled meanwhile.
    pub(super) fn wait_for(&self, next: SystemTime) -> bool {
        let mut state = self.0.lock();
        if state.phase == TimerPhase::Cancelled {
            return false;
        }
        *state = Known { phase: TimerPhase::Waiting, next: Some(next) };
        true
    }

    /// The caller's end, to be completed when the looks have been scheduled.
    pub(super) fn caller(&self) -> Caller {
        Caller(Arc::clone(&self.0))
    }
}

/// The caller's end of the state, before there is anything to cancel.
pub(super) struct Caller(Arc<Mutex<Known>>);

impl Caller {
    pub(super) fn timer(self, looks: Cancellable, repeats: bool) -> WallClockTimer {
        WallClockTimer { state: self.0, looks, repeats }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.next = None;
        if state.phase != TimerPhase::Cancelled {
            state.phase = TimerPhase::Ended;
        }
    }
}

/// A timer on the wall clock. It tells its next run, and can be cancelled.
///
/// Dropping it does not cancel. It is `Send` and `Sync`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::wall_clock::WallClockScheduler;
/// use std::time::{Duration, SystemTime};
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let wall = WallClockScheduler::new(scheduler.handle());
/// let tomorrow = SystemTime::now() + Duration::from_secs(24 * 3600);
/// let reminder = wall.schedule_at_system_time(tomorrow, || println!("dentist"))?;
/// assert_eq!(reminder.next_run(), Some(tomorrow));
/// assert!(reminder.cancel());
/// assert_eq!(reminder.next_run(), None);
/// # Ok(()) }
/// ```
pub struct WallClockTimer {
    state: Arc<Mutex<Known>>,
    looks: Cancellable,
    repeats: bool,
}

impl WallClockTimer {
    /// Cancels the timer, from any thread, even from inside its own task.
    ///
    /// For a one-shot, `true` means that this call prevented the run: exactly one caller gets it.
    /// `false` means that it runs, has run, was cancelled before, or ended with its scheduler.
    ///
    /// For a repeat, `true` means that this call ended the series: a run in flight finishes, and
    /// none follows. `false` means that it was cancelled before, or had ended.
    ///
    /// When it returns `true`, the task's captures have been dropped. If the timer was just looking
    /// at the clock, or is a running repeat, they are dropped at the end of that.
    ///
    /// # Panics
    ///
    /// Never. A destructor that panics is contained and reported.
    pub fn cancel(&self) -> bool {
        {
            let mut state = self.state.lock();
            match state.phase {
                TimerPhase::Waiting => {}
                TimerPhase::Running if self.repeats => {}
                TimerPhase::Running | TimerPhase::Cancelled | TimerPhase::Ended => return false,
            }
            *state = Known { phase: TimerPhase::Cancelled, next: None };
        }
        self.looks.cancel();
        true
    }

    /// Whether a call of [`cancel`](Self::cancel) returned `true`.
    pub fn is_cancelled(&self) -> bool {
        self.state.lock().phase == TimerPhase::Cancelled
    }

    /// Whether the task waits for its time: it neither runs nor was cancelled, and has not ended.
    ///
    /// A timer that `stop` has handed back waits until the holder of the list runs or drops it.
    pub fn is_pending(&self) -> bool {
        self.state.lock().phase == TimerPhase::Waiting
    }

    /// The time by the wall clock that the task waits for. `None` while it runs, and when the timer
    /// was cancelled or has ended.
    ///
    /// It changes when the clock is set back so far that an earlier occurrence comes first, as soon
    /// as the timer notices.
    pub fn next_run(&self) -> Option<SystemTime> {
        self.state.lock().next
    }
}

impl fmt::Debug for WallClockTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Known { phase, next } = *self.state.lock();
        f.debug_struct("WallClockTimer").field("phase", &phase).field("next_run", &next).finish()
    }
}
