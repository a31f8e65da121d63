//! crossbeam's parker: a token, and a thread that sleeps until there is one or time is over.
//!
//! Like the real one it does not wake spuriously, so chance cannot make up for a lost wake-up.

use std::sync::Arc;
use std::time::Instant;

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread::{self, Thread};

use super::time;

#[derive(Debug)]
pub struct Parker(Unparker);

#[derive(Debug, Clone)]
pub struct Unparker(Arc<Seat>);

#[derive(Debug)]
struct Seat {
    token: AtomicBool,
    /// The thread that sleeps here, or did. No other thread of the model comes in between while it
    /// is locked.
    thread: std::sync::Mutex<Option<Thread>>,
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker {
    pub fn new() -> Self {
        let seat = Seat { token: AtomicBool::new(false), thread: std::sync::Mutex::new(None) };
        Self(Unparker(Arc::new(seat)))
    }

    pub fn unparker(&self) -> &Unparker {
        &self.0
    }

    pub fn park(&self) {
        self.sleep(|| false);
    }

    pub fn park_deadline(&self, deadline: Instant) {
        let until = time::nanos_at(deadline);
        time::enter_sleeper(until);
        self.sleep(|| until <= time::now());
        time::leave_sleeper();
    }

    fn sleep(&self, over: impl Fn() -> bool) {
        let seat = &*self.0.0;
        *seat.thread.lock().expect("nobody panics here") = Some(thread::current());
        while !seat.token.swap(false, Ordering::SeqCst) && !over() {
            thread::park();
        }
    }
}

impl Unparker {
    pub fn unpark(&self) {
        self.0.token.store(true, Ordering::SeqCst);
        let thread = self.0.thread.lock().expect("nobody panics here").clone();
        if let Some(thread) = thread {
            thread.unpark();
        }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
