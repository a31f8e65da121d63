//! What the operating system knows about this process: memory, page faults, processor time.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

const PAGE: usize = 4096;

/// The least that is touched. Above 32 MiB the allocator maps and unmaps, and learns nothing from
/// it.
const MIN_TOUCHED: usize = 64 << 20;

/// What one timer may take; the largest peer takes less.
const MOST_BYTES: usize = 600;

/// Touches as much memory as this many timers may take, and gives it back, so that the host has it
/// in place and a first touch costs what the kernel takes for it and no more. Returns that cost, in
/// nanoseconds a page.
pub fn touch_for(timers: u64) -> f64 {
    touch(bytes_for(timers).max(MIN_TOUCHED).min(available() / 2));
    touch(MIN_TOUCHED)
}

/// Whether there is memory for this many timers of any peer.
pub fn has_room_for(timers: u64) -> bool {
    bytes_for(timers) < available()
}

fn bytes_for(timers: u64) -> usize {
    usize::try_from(timers).unwrap_or(usize::MAX).saturating_mul(MOST_BYTES)
}

fn touch(bytes: usize) -> f64 {
    let mut memory = vec![0_u8; bytes];
    let start = Instant::now();
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    let time = start.elapsed();
    black_box(&memory);
    time.as_nanos() as f64 / (bytes / PAGE).max(1) as f64
}

/// A vector of this capacity, whose pages are there.
pub fn touched_vec<T>(capacity: usize) -> Vec<T> {
    let mut vector = Vec::with_capacity(capacity);
    let stride = (PAGE / size_of::<T>().max(1)).max(1);
    // (Of values without a size there is room for more than anybody counts to.)
    for slot in vector.spare_capacity_mut().iter_mut().take(capacity).step_by(stride) {
        // One byte would do, and zeroed ones are never read.
        *slot = std::mem::MaybeUninit::zeroed();
    }
    vector
}

/// The memory that can be had, in bytes.
fn available() -> usize {
    kibibytes("/proc/meminfo", "MemAvailable:").unwrap_or(4 << 20) * 1024
}

/// The resident set, exactly: the counters of `statm` lag by some hundred pages.
pub fn resident() -> usize {
    kibibytes("/proc/self/smaps_rollup", "Rss:")
        .or_else(|| kibibytes("/proc/self/status", "VmRSS:"))
        .unwrap_or(0)
        * 1024
}

/// The most that was resident since [`forget_peak`], in bytes.
pub fn peak() -> usize {
    kibibytes("/proc/self/status", "VmHWM:").unwrap_or(0) * 1024
}

/// Lets [`peak`] begin with what is resident now.
pub fn forget_peak() {
    // 5 is the peak's number in proc_pid_clear_refs(5). Without the permission the peak is that of
    // the process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn kibibytes(path: &str, key: &str) -> Option<usize> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Page faults that needed no disk, so far.
pub fn page_faults() -> u64 {
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0, |usage| u64::try_from(usage.minor_page_faults()).unwrap_or(0))
}

/// Processor time of all threads, so far.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Into::into)
}

/// How often a thread of this process went to sleep by itself, so far.
pub fn voluntary_switches() -> u64 {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return 0 };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .filter_map(|status| {
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        })
        .sum()
}
