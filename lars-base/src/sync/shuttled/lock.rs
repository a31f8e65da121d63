//! shuttle's mutex with parking_lot's interface, which knows no poison; and a condition variable
//! whose waits end with the model's time.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use super::park::{Parker, Unparker};
use super::time;

#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// `None` only during a wait.
    guard: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, guard: Some(self.lock_inner()) }
    }

    fn lock_inner(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("no wait is under way")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("no wait is under way")
    }
}

#[derive(Debug, Default)]
pub struct Condvar {
    waiting: std::sync::Mutex<Vec<Unparker>>,
}

/// Whether a wait ended because time was over.
#[derive(Debug, Clone, Copy)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub const fn new() -> Self {
        Self { waiting: std::sync::Mutex::new(Vec::new()) }
    }

    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.sleep(guard, Parker::park);
    }

    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.sleep(guard, |parker| parker.park_deadline(deadline));
        WaitTimeoutResult(time::instant() >= deadline)
    }

    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        limit: Duration,
    ) -> WaitTimeoutResult {
        let deadline = time::instant() + limit;
        let mut result = WaitTimeoutResult(false);
        while !result.timed_out() && condition(guard) {
            result = self.wait_until(guard, deadline);
        }
        result
    }

    pub fn notify_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().expect("nobody panics here"));
        waiting.iter().for_each(Unparker::unpark);
    }

    fn sleep<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, park: impl FnOnce(&Parker)) {
        let parker = Parker::new();
        let waiting = || self.waiting.lock().expect("nobody panics here");
        // While the mutex is held, so a thread that changes something after this notifies us.
        waiting().push(parker.unparker().clone());
        guard.guard = None;
        park(&parker);
        waiting().retain(|other| !other.is(parker.unparker()));
        guard.guard = Some(guard.mutex.lock_inner());
    }
}
