//! The caller's side of a wall-clock timer, and what it shares with the looks.

use std::fmt;
use std::time::SystemTime;

use crate::cancel::Cancellable;
use crate::sync::{Arc, Mutex};

/// What is known of a timer. No code of the user runs while this is locked.
#[derive(Debug, Clone, Copy)]
struct State {
    phase: Phase,
    next: Option<SystemTime>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// For its time.
    Waiting,
    Running,
    Cancelled,
    /// It ran for the last time, panicked, or went with its scheduler.
    Ended,
}

/// The looks' end of the state. The timer has ended when this is dropped.
pub(super) struct Status(Arc<Mutex<State>>);

impl Status {
    pub(super) fn new(next: Option<SystemTime>) -> Self {
        Self(Arc::new(Mutex::new(State { phase: Phase::Waiting, next })))
    }

    /// A run begins, unless the timer was cancelled; says whether it may.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.0.lock();
        if state.phase != Phase::Waiting {
            return false;
        }
        *state = State { phase: Phase::Running, next: None };
        true
    }

    /// The timer waits for `next`; says whether it was not cancelled meanwhile.
    pub(super) fn wait_for(&self, next: SystemTime) -> bool {
        let mut state = self.0.lock();
        if state.phase == Phase::Cancelled {
            return false;
        }
        *state = State { phase: Phase::Waiting, next: Some(next) };
        true
    }

    /// The caller's end, to be completed when the looks have been scheduled.
    pub(super) fn caller(&self) -> Caller {
        Caller(Arc::clone(&self.0))
    }
}

/// The caller's end of the state, before there is anything to cancel.
pub(super) struct Caller(Arc<Mutex<State>>);

impl Caller {
    pub(super) fn timer(self, looks: Cancellable, repeats: bool) -> WallClockTimer {
        WallClockTimer { state: self.0, looks, repeats }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.next = None;
        if state.phase != Phase::Cancelled {
            state.phase = Phase::Ended;
        }
    }
}

/// A timer on the wall clock: to ask for its next run, and to cancel it.
///
/// Dropping it does not cancel. It is `Send` and `Sync`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::wall_clock::WallClockScheduler;
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
    state: Arc<Mutex<State>>,
    looks: Cancellable,
    repeats: bool,
}

impl WallClockTimer {
    /// Cancels the timer; from any thread, also from inside its own task.
    ///
    /// For a one-shot, `true` means that this call prevented the run: exactly one caller gets it. `false`
    /// means that it runs, has run, was cancelled before, or ended with its scheduler.
    ///
    /// For a repeat, `true` means that this call ended the series: a run that is under way finishes, and
    /// none follows. `false` means that it was cancelled before, or had ended.
    ///
    /// When it returns `true`, the task's captures have been dropped, or, if it was just looking at the
    /// clock or is a repeat that is running, they are dropped at the end of that.
    ///
    /// # Panics
    ///
    /// Never. A destructor that panics is contained and reported.
    pub fn cancel(&self) -> bool {
        {
            let mut state = self.state.lock();
            match state.phase {
                Phase::Waiting => {}
                Phase::Running if self.repeats => {}
                Phase::Running | Phase::Cancelled | Phase::Ended => return false,
            }
            *state = State { phase: Phase::Cancelled, next: None };
        }
        self.looks.cancel();
        true
    }

    /// Whether a call of [`cancel`](Self::cancel) returned `true`.
    pub fn is_cancelled(&self) -> bool {
        self.state.lock().phase == Phase::Cancelled
    }

    /// Whether the task waits for its time: it neither runs nor was cancelled, and has not ended.
    ///
    /// A timer that `stop` has handed back waits until that is run or dropped.
    pub fn is_pending(&self) -> bool {
        self.state.lock().phase == Phase::Waiting
    }

    /// The time by the wall clock that the task waits for. `None` while it runs, and when the timer was
    /// cancelled or has ended.
    ///
    /// It changes when the clock is set back so far that an earlier occurrence comes first, as soon as
    /// that has been noticed.
    pub fn next_run(&self) -> Option<SystemTime> {
        self.state.lock().next
    }
}

impl fmt::Debug for WallClockTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { phase, next } = *self.state.lock();
        f.debug_struct("WallClockTimer").field("phase", &phase).field("next_run", &next).finish()
    }
}
