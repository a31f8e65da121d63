//! A mutex with parking_lot's interface, which knows no poison, over one that does: shuttle's, or
//! std's under Miri. (parking_lot makes pointers of integers when it waits, which strict provenance
//! forbids.)

use std::ops::{Deref, DerefMut};
use std::time::Duration;

#[cfg(lars_shuttle)]
use shuttle::sync as primitives;
#[cfg(not(lars_shuttle))]
use std::sync as primitives;

use super::{Condvar, real_now};

#[derive(Debug, Default)]
pub struct Mutex<T>(primitives::Mutex<T>);

#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only during a wait.
    guard: Option<primitives::MutexGuard<'a, T>>,
}

/// Whether a wait ended because time was over.
#[derive(Debug, Clone, Copy)]
pub struct WaitTimeoutResult(bool);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(primitives::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, guard: Some(self.lock_inner()) }
    }

    /// Whether somebody holds it.
    #[cfg(not(lars_shuttle))]
    pub fn is_locked(&self) -> bool {
        matches!(self.0.try_lock(), Err(std::sync::TryLockError::WouldBlock))
    }

    fn lock_inner(&self) -> primitives::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<'a, T> MutexGuard<'a, T> {
    /// Gives the lock to `wait`, which may give it back; takes it again if not.
    pub(super) fn lend(
        &mut self,
        wait: impl FnOnce(primitives::MutexGuard<'a, T>) -> Option<primitives::MutexGuard<'a, T>>,
    ) {
        let held = self.guard.take().expect("no wait is under way");
        self.guard = Some(wait(held).unwrap_or_else(|| self.mutex.lock_inner()));
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("no wait is under way")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("no wait is under way")
    }
}

impl WaitTimeoutResult {
    pub(super) const fn new(timed_out: bool) -> Self {
        Self(timed_out)
    }

    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        limit: Duration,
    ) -> WaitTimeoutResult {
        let deadline = real_now() + limit;
        let mut result = WaitTimeoutResult::new(false);
        while !result.timed_out() && condition(guard) {
            result = self.wait_until(guard, deadline);
        }
        result
    }
}
