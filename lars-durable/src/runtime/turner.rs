//! The engine without a thread: each caller that gives it something turns it, and so does a
//! scheduler in virtual time.

use std::time::Duration;

use lars_scheduler::{Cancellable, Executor, Handle, Rejected, Runnable, Task};

use super::Shared;
use super::driver::Driver;
use crate::sync::{Arc, Mutex, Weak};

pub(super) struct Turner {
    time: Handle,
    shared: Arc<Shared>,
    /// None when it has ended.
    turning: Mutex<Option<Turning>>,
}

struct Turning {
    driver: Driver,
    /// The next turn, if nothing comes in before.
    alarm: Option<Cancellable>,
}

impl Turner {
    pub(super) fn start(time: Handle, driver: Driver, shared: &Arc<Shared>) -> Arc<Self> {
        let turning = Mutex::new(Some(Turning { driver, alarm: None }));
        let turner = Arc::new(Self { time, shared: Arc::clone(shared), turning });
        *shared.turner.lock() = Arc::downgrade(&turner);
        turner.turn();
        turner
    }

    /// Does all that is to be done now. A call from inside a turn, or while another thread turns,
    /// does nothing: that turn goes on until nothing is left.
    pub(super) fn turn(self: &Arc<Self>) {
        loop {
            let Some(mut turning) = self.turning.try_lock() else { return };
            let Some(Turning { driver, alarm }) = turning.as_mut() else { return };
            let Some(next) = driver.step() else {
                *turning = None;
                return;
            };
            let here = Arc::clone(self);
            let again = Task::new(move || here.turn()).inline();
            let again = self.time.schedule_once(next.min(Duration::from_secs(60)), again);
            // A scheduler that has stopped moves no time any more.
            if let Some(before) = std::mem::replace(alarm, again.ok()) {
                before.cancel();
            }
            drop(turning);
            // Whoever pushed after the last look, and found the lock taken, has gone away.
            if self.shared.inbox.is_empty() {
                return;
            }
        }
    }

    /// Ends the node as if its process had died.
    pub(super) fn kill(&self) {
        let turning = self.turning.lock().take();
        if let Some(Turning { alarm: Some(alarm), .. }) = &turning {
            alarm.cancel();
        }
    }
}

impl Shared {
    pub(super) fn turner(&self) -> Option<Arc<Turner>> {
        self.turner.lock().upgrade()
    }
}

/// No turner: nothing turns the engine yet, or a thread does.
pub(super) fn nobody() -> Mutex<Weak<Turner>> {
    Mutex::new(Weak::new())
}

/// Runs tasks as tasks of a scheduler, now.
pub(crate) struct OnTime(pub(crate) Handle);

impl Executor for OnTime {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        // A scheduler that has stopped drops the task, and whoever waits for it is told.
        let task = Task::new(move || task.run()).inline();
        drop(self.0.schedule_once(Duration::ZERO, task));
        Ok(())
    }
}
