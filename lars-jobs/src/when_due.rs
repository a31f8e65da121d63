//! What is due at an instant or never, on a handle.

use std::time::Duration;

use lars_base::when_due::WhenDue;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::future::Sleep;
use lars_scheduler::{Cancellable, Handle, ScheduleError, Start, Task};

/// The methods of a handle that take a [`WhenDue`].
pub(crate) trait DueOn {
    /// When something is due that happens `delay` from now.
    fn due_after(&self, delay: Duration) -> WhenDue;

    /// When the first run of a repeat is due.
    fn due_from(&self, start: Start) -> WhenDue;

    #[track_caller]
    fn schedule_due<B: TaskBody>(
        &self,
        due: WhenDue,
        task: Task<B>,
    ) -> Result<Cancellable, ScheduleError<Task<B>>>;
}

impl DueOn for Handle {
    fn due_after(&self, delay: Duration) -> WhenDue {
        WhenDue::after(self.now(), delay)
    }

    fn due_from(&self, start: Start) -> WhenDue {
        match start {
            Start::After(delay) => self.due_after(delay),
            Start::At(instant) => WhenDue::At(instant),
        }
    }

    #[track_caller]
    fn schedule_due<B: TaskBody>(
        &self,
        due: WhenDue,
        task: Task<B>,
    ) -> Result<Cancellable, ScheduleError<Task<B>>> {
        match due {
            WhenDue::At(deadline) => self.schedule_at(deadline, task),
            WhenDue::Never => self.schedule_once(Duration::MAX, task),
        }
    }
}

/// The start of a repeat whose first run is due then.
pub(crate) fn start_at(due: WhenDue) -> Start {
    match due {
        WhenDue::At(instant) => Start::At(instant),
        WhenDue::Never => Start::After(Duration::MAX),
    }
}

/// Moves a timer to when it is due.
pub(crate) fn reset_due(timer: &Cancellable, due: WhenDue) -> bool {
    match due {
        WhenDue::At(deadline) => timer.reset_at(deadline),
        WhenDue::Never => timer.reset(Duration::MAX),
    }
}

/// Moves a sleep to when it is due.
pub(crate) fn reset_sleep(sleep: &mut Sleep, due: WhenDue) {
    match due {
        WhenDue::At(deadline) => sleep.reset_at(deadline),
        WhenDue::Never => sleep.reset(Duration::MAX),
    }
}

#[cfg(test)]
mod tests {
    use lars_scheduler::LightArrayRevolverScheduler;

    use super::*;

    #[test]
    fn what_is_never_due_waits_and_can_be_moved_to_an_instant() {
        let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
        let timer = time.schedule_due(WhenDue::Never, Task::new(|| ())).unwrap();
        assert_eq!((time.advance_to_next(), time.pending()), (None, 1));
        assert!(reset_due(&timer, time.due_after(Duration::from_secs(1))));
        assert!(reset_due(&timer, WhenDue::Never));
        assert_eq!((time.advance_to_next(), time.pending()), (None, 1));
        assert!(reset_due(&timer, time.due_after(Duration::from_secs(1))));
        assert_eq!(time.advance_to_next(), Some(Duration::from_secs(1)));
    }
}
