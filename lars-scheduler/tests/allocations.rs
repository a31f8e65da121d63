//! What is allocated in steady state: nothing, counted by the allocator, on the thread of the test.
#![allow(missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lars_scheduler::{LightArrayRevolverScheduler, VirtualTime};

struct Counting;

thread_local! {
    /// Allocations of this thread. (The harness has threads of its own, which allocate when they like.)
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; `alloc` got it from there.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// One round of everything: time-outs that are cancelled, timers that fire, runs of the repeat.
fn round(time: &VirtualTime, count: &Arc<AtomicU64>) {
    for number in 0..200_u64 {
        let count = Arc::clone(count);
        // Two words of captures.
        let add = move || {
            count.fetch_add(number, Ordering::Relaxed);
        };
        let timer = time.schedule_once(Duration::from_millis(1 + number % 90), add).unwrap();
        if number % 2 == 0 {
            assert!(timer.cancel());
        }
    }
    time.advance(Duration::from_millis(100));
}

#[test]
fn scheduling_cancelling_firing_and_repeating_allocate_nothing_in_steady_state() {
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let runs = Arc::clone(&count);
    let every = Duration::from_millis(7);
    let repeat = time
        .schedule_at_fixed_rate(every, every, move || {
            runs.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    // As many timers as there will ever be, and every lazily made thing of the process.
    for _ in 0..3 {
        round(&time, &count);
    }
    let before = ALLOCATIONS.get();
    for _ in 0..50 {
        round(&time, &count);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(count.load(Ordering::Relaxed) > 0);
    assert!(repeat.cancel());
}
