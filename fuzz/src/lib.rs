//! What the targets share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts operations, and says now and then how many there were.
pub fn count(operations: u64) {
    const EVERY: u64 = 5_000_000;
    static TOTAL: AtomicU64 = AtomicU64::new(0);
    let before = TOTAL.fetch_add(operations, Ordering::Relaxed);
    if before / EVERY != (before + operations) / EVERY {
        eprintln!("operations: {} million", (before + operations) / 1_000_000);
    }
}
