//! std's condition variable with parking_lot's interface, for Miri.
#![allow(missing_docs)]

use std::sync::PoisonError;
use std::time::Instant;

use super::unpoisoned::{MutexGuard, WaitTimeoutResult};

#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.lend(|held| Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner)));
    }

    pub fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        let limit = deadline.saturating_duration_since(Instant::now());
        guard.lend(|held| {
            let waited = self.0.wait_timeout(held, limit);
            Some(waited.unwrap_or_else(PoisonError::into_inner).0)
        });
        WaitTimeoutResult::new(Instant::now() >= deadline)
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
