//! What schedulers without a thread have in common: a driver that its owner turns.

use crate::api::close::{self, CloseError, CloseReport};
use crate::api::config::OwnerSettings;
use crate::api::handle::Handle;
use crate::api::listing::{ListingFuture, TimerQuery};
use crate::api::pending::StopFuture;
use crate::base::clock::Clock;
use crate::engine::driver::walk::Walked;
use crate::engine::driver::{Driver, Intaken, Next, Turn};
use crate::engine::shared::{Core, Executors, Live, Settings};
use crate::engine::sleep_word::Alarm;
use crate::sync::{Arc, Mutex, MutexGuard, relax, thread};

/// A driver, its handle, and what its owner needs to end it.
pub(crate) struct Turned {
    pub(crate) handle: Handle,
    driver: Mutex<Driver>,
    settings: OwnerSettings,
}

impl Turned {
    pub(crate) fn new(
        (settings, executors, owner): (Settings, Executors, OwnerSettings),
        clock: Clock,
        alarm: Alarm,
        exact_order: bool,
    ) -> Self {
        let live = Live::new(settings, executors, clock, alarm);
        let driver = Driver::new(Arc::clone(&live), owner.wheel_size, exact_order);
        Self { handle: Handle::new(live), driver: Mutex::new(driver), settings: owner }
    }

    pub(crate) fn core(&self) -> &Core {
        self.handle.core()
    }

    /// The driver, to be turned by the caller; others wait until it is done. `None` if the calling
    /// thread is turning it already.
    pub(crate) fn begin(&self) -> Option<Turning<'_>> {
        let core = self.core();
        (!core.is_driven_here()).then(|| Turning::new(self.driver.lock(), core))
    }

    /// Lists what is pending. Called by a task that this scheduler runs, its future resolves later;
    /// otherwise it is resolved on return.
    pub(crate) fn list(&self, query: TimerQuery) -> ListingFuture {
        let future = self.handle.list(query);
        if let Some(mut turning) = self.begin() {
            turning.walk_to_the_end();
        }
        future
    }

    /// Stops the scheduler. Called by a task that it runs, its future resolves at the end of the
    /// turn; otherwise it is resolved on return.
    pub(crate) fn stop(&self) -> StopFuture {
        self.request_stop(true)
    }

    fn request_stop(&self, tells: bool) -> StopFuture {
        let future = StopFuture::new(self.core().stop.request(tells));
        if let Some(mut turning) = self.begin() {
            // Wakers are called here, and may come back to the scheduler.
            turning.driver.finish();
        }
        future
    }

    /// Drops what is pending, unrun.
    pub(crate) fn end(&self) {
        drop(self.request_stop(false));
    }

    pub(crate) fn close(&self) -> Result<CloseReport, CloseError> {
        if self.core().is_driven_here() {
            return Err(CloseError::OnTimerThread);
        }
        let OwnerSettings { close_policy, shutdown_timeout, .. } = self.settings;
        let stopped = self.request_stop(false);
        close::close(self.handle.live(), stopped, close_policy, shutdown_timeout)
    }
}

/// What one turn did.
pub(crate) struct Step {
    pub(crate) intaken: Intaken,
    pub(crate) fired: usize,
    pub(crate) next: Next,
    /// The scheduler has stopped.
    pub(crate) ended: bool,
}

/// The driver while it is turned; marks the calling thread as the one that does so.
pub(crate) struct Turning<'a> {
    driver: MutexGuard<'a, Driver>,
    core: &'a Core,
}

impl<'a> Turning<'a> {
    fn new(driver: MutexGuard<'a, Driver>, core: &'a Core) -> Self {
        *core.driven_by.lock() = Some(thread::current().id());
        Self { driver, core }
    }

    /// Takes in what was scheduled, and fires at most `most` tasks that are due at `now`. If the
    /// scheduler was asked to stop, everything else is handed back after that.
    pub(crate) fn turn(&mut self, now: u64, most: usize) -> Step {
        self.driver.begins_again();
        let intaken = self.driver.take_in();
        let Turn { fired, next, .. } = self.driver.turn_within(now, most);
        let ended = self.core.stop.is_requested();
        if ended {
            self.driver.finish();
        }
        Step { intaken, fired, next, ended }
    }

    /// Goes on with a listing that somebody asked for. To be called after [`turn`](Self::turn).
    pub(crate) fn walk(&mut self, busy: bool) -> Walked {
        self.driver.walk(busy)
    }

    /// Carries out all listings that were asked for.
    pub(crate) fn walk_to_the_end(&mut self) {
        let mut spins = 0;
        loop {
            let intaken = self.driver.take_in();
            match self.driver.walk(false) {
                Walked::Idle => return,
                Walked::More if intaken != Intaken::Gap => {}
                // Another thread is in the middle of scheduling something.
                Walked::More | Walked::Waiting => {
                    relax(spins);
                    spins = spins.saturating_add(1);
                }
            }
        }
    }

    /// The owner is about to do something else, for as long as it likes.
    pub(crate) fn pause(&mut self) {
        self.driver.pause();
        self.driver.leaves();
    }

    /// Whether the last tasks scheduled nothing that has to come in.
    pub(crate) fn nothing_to_take_in(&self) -> bool {
        self.driver.nothing_to_take_in()
    }
}

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        // Before the lock is released; later it would remove the next thread's mark.
        *self.core.driven_by.lock() = None;
    }
}
