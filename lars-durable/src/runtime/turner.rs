//! The engine without a thread: each caller that gives it something turns it, and so does a
//! scheduler in virtual time.

use std::time::Duration;

use lars_scheduler::{Cancellable, Executor, Handle, Rejected, Runnable, Task};

use super::Shared;
use super::driver::Driver;
use crate::sync::{Arc, Mutex, Weak};

pub(super) struct Turner {
    time: Handle,
    /// None when it has ended.
    driver: Mutex<Option<Driver>>,
    alarm: Mutex<Option<Cancellable>>,
}

impl Turner {
    pub(super) fn start(time: Handle, driver: Driver, shared: &Shared) -> Arc<Self> {
        let (driver, alarm) = (Mutex::new(Some(driver)), Mutex::new(None));
        let turner = Arc::new(Self { time, driver, alarm });
        *shared.turner.lock() = Arc::downgrade(&turner);
        turner.turn();
        turner
    }

    /// Does all that is to be done now. A call from inside a turn does nothing: that turn goes on
    /// until nothing is left.
    pub(super) fn turn(self: &Arc<Self>) {
        let Some(mut driver) = self.driver.try_lock() else { return };
        let Some(turning) = driver.as_mut() else { return };
        let Some(next) = turning.step() else {
            *driver = None;
            return;
        };
        drop(driver);
        let here = Arc::clone(self);
        let alarm = Task::new(move || here.turn()).inline();
        let alarm = self.time.schedule_once(next.min(Duration::from_secs(60)), alarm);
        // A scheduler that has stopped moves no time any more.
        let before = std::mem::replace(&mut *self.alarm.lock(), alarm.ok());
        if let Some(before) = before {
            before.cancel();
        }
    }

    /// As if the process had died.
    pub(super) fn kill(&self) {
        let driver = self.driver.lock().take();
        drop(driver);
        if let Some(alarm) = self.alarm.lock().take() {
            alarm.cancel();
        }
    }
}

impl Shared {
    pub(super) fn turner(&self) -> Option<Arc<Turner>> {
        self.turner.lock().upgrade()
    }
}

/// Nothing turns it yet, or a thread does.
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
