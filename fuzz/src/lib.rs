//! What the targets share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts operations, and says now and then how many there were.
pub fn count(operations: u64) {
    const EVERY: u64 = 5_000_000;
    static TOTAL: AtomicU64 = AtomicU64::new(0);
    let before = TOTAL.fetch_add(operations, Ordering::Relaxed);
    if before / EVERY != (before + operations) / EVERY {
        eprintln!("operations: {} million", (before + operations) / 1_000_000);
    }
}

/// Does `work`, which must not keep the processor for longer than `limit`. Other threads and
/// processes do not count. (Zone files are read in system calls; what they take counts, and is
/// small.) A pause of a virtual machine does count, so the fastest of five attempts decides.
pub fn in_time<R>(limit: Duration, work: impl Fn() -> R) -> R {
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let begin = processor_time();
        let result = work();
        fastest = fastest.min(processor_time() - begin);
        if fastest <= limit {
            return result;
        }
    }
    panic!("it took {fastest:?}, and may take {limit:?}");
}

/// The time that this thread has had a processor.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to a local variable and nothing else.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "the thread's clock cannot be read");
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
