//! Places at which a process of the kill test may die.

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
