//! The engine without a thread: each caller that gives it something turns it, and so does a
//! scheduler in virtual time.

use std::time::Duration;

use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::{Cancellable, Executor, Handle, Task};

use super::driver::{Driver, Step};
use super::{Beside, Handlers, RunHandler, Runtime, Shared};
use crate::engine::{Node, NodeSettings};
use crate::error::StartError;
use crate::model::BucketNo;
use crate::store::Backend;
use crate::sync::{Arc, Mutex, Weak};
use crate::time::{Micros, Mono, MonoClock};

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
            let next = match driver.step() {
                Step::Waits(next) => next,
                Step::Ended => {
                    *turning = None;
                    return;
                }
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

impl Runtime {
    /// Without threads, in the virtual time of `time`.
    pub(crate) fn start_virtual(
        beside: Beside,
        settings: NodeSettings,
        backend: Backend,
        handlers: Vec<Box<dyn RunHandler>>,
        (time, rng): (Handle, fastrand::Rng),
    ) -> Result<Self, StartError> {
        let (origin, here) = (time.now(), time.clone());
        let clock = MonoClock::Virtual(Arc::new(move || {
            Mono(0) + Micros::from(here.now().saturating_duration_since(origin))
        }));
        let shared = Shared::new(beside, time.clone(), &settings, &clock, &backend.seen())?;
        let node = Node::new(settings, rng, clock.now());
        let handlers: Handlers = handlers.into();
        handlers.iter().for_each(|handler| handler.bind(&shared));
        let driver = Driver::new(node, backend, Arc::clone(&handlers), Arc::clone(&shared), clock)?;
        let turner = Turner::start(time, driver, &shared);
        Ok(Self { shared, scheduler: None, thread: None, turner: Some((turner, handlers)) })
    }

    /// Ends the node as if the process had died: nothing is recorded any more.
    pub(crate) fn kill(&mut self) {
        let Some((turner, handlers)) = self.turner.take() else { return };
        self.shared.gate.close();
        self.shared.gate.set_valid_until(Mono::MIN);
        turner.kill();
        self.shared.looks.end();
        drop(self.shared.inbox.end());
        for handler in &*handlers {
            for bucket in 0..=BucketNo::from(u8::MAX) {
                handler.vacate(bucket, u32::MAX, true);
            }
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
