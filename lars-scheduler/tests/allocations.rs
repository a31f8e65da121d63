//! What is allocated in steady state: nothing, counted by the allocator, on the thread of the test.
#![allow(missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::{Future, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use lars_scheduler::{LightArrayRevolverScheduler, VirtualTime};

struct Counting;

thread_local! {
    /// Allocations of this thread. (The harness has threads of its own, which allocate when they
    /// like.)
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Their bytes.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`, which is the system allocator's too.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller got the address from `alloc` with this layout, and so from the
        // system's allocator.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// One round of everything: timeouts that are cancelled, timers that fire, runs of the repeat.
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

/// A waker on the heap, as executors have them: to clone it allocates nothing.
struct Counter(AtomicU64);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn making_polling_waking_and_resetting_a_future_allocate_nothing() {
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let woken = Arc::new(Counter(AtomicU64::new(0)));
    let wakers = [Waker::from(Arc::clone(&woken)), Waker::from(Arc::clone(&woken))];
    let ms = Duration::from_millis;
    let mut sleep = pin!(time.sleep(ms(10)));
    let mut interval = time.interval(ms(7)).unwrap();
    let mut round = || {
        for waker in &wakers {
            let mut context = Context::from_waker(waker);
            assert!(sleep.as_mut().poll(&mut context).is_pending());
            while interval.poll_tick(&mut context).is_ready() {}
            assert!(pin!(time.timeout(ms(1), ready(()))).poll(&mut context).is_ready());
        }
        sleep.reset(ms(30)); // further out
        sleep.reset(ms(20)); // nearer
        time.advance(ms(20));
        let mut context = Context::from_waker(&wakers[0]);
        assert!(sleep.as_mut().poll(&mut context).is_ready());
        sleep.reset(ms(10));
    };
    for _ in 0..3 {
        round();
    }
    let before = ALLOCATIONS.get();
    for _ in 0..50 {
        round();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert_eq!(woken.0.load(Ordering::Relaxed), 2 * 53);

    // The first timer of a place in the source allocates the identity that all of it share.
    let one_more = || {
        let before = ALLOCATIONS.get();
        let mut another = pin!(time.sleep(ms(1)));
        assert!(another.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
        ALLOCATIONS.get() - before
    };
    one_more();
    assert_eq!(one_more(), 0);
}

#[test]
fn a_repeat_takes_no_more_than_is_written_down() {
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let second = Duration::from_secs(1);
    let start = || time.schedule_at_fixed_rate(second, second, || ()).unwrap();
    let _first = start(); // with the memory for timers
    let (allocations, bytes) = (ALLOCATIONS.get(), BYTES.get());
    let _second = start();
    let (allocations, bytes) = (ALLOCATIONS.get() - allocations, BYTES.get() - bytes);
    // Beside the 64 bytes of its timer, where an address has 64 bits.
    assert!(allocations <= 3 && bytes <= 224, "{allocations} allocations of {bytes} bytes");
}
