//! A condition variable whose waits end with the model's time.

use std::time::Instant;

use super::park::{Parker, Unparker};
use super::time;
use crate::sync::unpoisoned::{MutexGuard, WaitTimeoutResult};

#[derive(Debug, Default)]
pub struct Condvar {
    waiting: std::sync::Mutex<Vec<Unparker>>,
}

impl Condvar {
    pub const fn new() -> Self {
        Self { waiting: std::sync::Mutex::new(Vec::new()) }
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.sleep(guard, Parker::park);
    }

    pub fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.sleep(guard, |parker| parker.park_deadline(deadline));
        WaitTimeoutResult::new(time::instant() >= deadline)
    }

    pub fn notify_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().expect("nobody panics here"));
        waiting.iter().for_each(Unparker::unpark);
    }

    fn sleep<T>(&self, guard: &mut MutexGuard<'_, T>, park: impl FnOnce(&Parker)) {
        let parker = Parker::new();
        let waiting = || self.waiting.lock().expect("nobody panics here");
        // While the mutex is held, so a thread that changes something after this notifies us.
        waiting().push(parker.unparker().clone());
        guard.lend(|held| {
            drop(held);
            park(&parker);
            waiting().retain(|other| !other.is(parker.unparker()));
            None
        });
    }
}
