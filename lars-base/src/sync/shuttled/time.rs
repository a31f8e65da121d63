//! The time of a model: it stands still until the model moves it, and then ends the sleeps whose
//! end has come.
//!
//! If all threads sleep and no sleep has ended, that is a deadlock, and shuttle reports it: a lost
//! wake-up cannot hide behind a timeout.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use shuttle::thread::{self, Thread};

std::thread_local! {
    /// One thread of the system runs all threads of a model, so this is the model's.
    static TIME: RefCell<Time> = const { RefCell::new(Time { now: 0, sleepers: Vec::new() }) };
}

struct Time {
    now: u64,
    sleepers: Vec<(u64, Thread)>,
}

/// The instant at which time begins.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

pub(super) fn begin() {
    TIME.with_borrow_mut(|time| *time = Time { now: 0, sleepers: Vec::new() });
}

/// Nanoseconds since the beginning.
pub(super) fn now() -> u64 {
    TIME.with_borrow(|time| time.now)
}

pub(super) fn instant() -> Instant {
    origin() + Duration::from_nanos(now())
}

pub(super) fn nanos_at(instant: Instant) -> u64 {
    crate::rate::nanos(instant.saturating_duration_since(origin()))
}

/// Moves time forwards, and ends the sleeps whose end has come.
pub fn advance(by: Duration) {
    // Others may be faster, or not.
    thread::yield_now();
    let due = TIME.with_borrow_mut(|time| {
        time.now += crate::rate::nanos(by);
        let now = time.now;
        time.sleepers.extract_if(.., |(until, _)| *until <= now).collect::<Vec<_>>()
    });
    for (_, sleeper) in due {
        sleeper.unpark();
    }
}

/// The calling thread is unparked when that time has come.
pub(super) fn enter_sleeper(until: u64) {
    let sleeper = thread::current();
    TIME.with_borrow_mut(|time| time.sleepers.push((until, sleeper)));
}

pub(super) fn leave_sleeper() {
    let sleeper = thread::current().id();
    TIME.with_borrow_mut(|time| time.sleepers.retain(|(_, other)| other.id() != sleeper));
}
