//! What can be made to go wrong inside a process of the tests, by its environment.

use std::time::{Duration, SystemTime};

use crate::sync::{AtomicUsize, Ordering};

/// `<place>:<n>`: die when the place is passed for the nth time.
pub(crate) const DIE: &str = "LARS_KILL_DIE";

/// Dies here, if this is the place and the time.
pub(crate) fn may_die(place: &str) {
    static PASSED: AtomicUsize = AtomicUsize::new(0);
    let Ok(die) = std::env::var(DIE) else { return };
    let (here, count) = die.split_once(':').expect("place:count");
    let count: usize = count.parse().expect("a number");
    // Relaxed: a count.
    if here == place && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == count {
        std::process::abort();
    }
}

/// How many seconds the wall clock is wrong.
pub(crate) const WALL_CLOCK: &str = "LARS_WALL_CLOCK_OFF_BY";

/// The wall clock, as this process sees it.
pub(crate) fn shifted(now: SystemTime) -> SystemTime {
    let Ok(seconds) = std::env::var(WALL_CLOCK) else { return now };
    let seconds: i64 = seconds.parse().expect("seconds");
    let by = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { now - by } else { now + by }
}

/// Set where no notification of another node is heard.
#[cfg(feature = "postgres")]
pub(crate) const DEAF: &str = "LARS_DEAF";

#[cfg(feature = "postgres")]
pub(crate) fn is_deaf() -> bool {
    std::env::var_os(DEAF).is_some()
}
