//! Wakers that misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{RawWaker, RawWakerVTable, Wake, Waker};

use lars_scheduler::LightArrayRevolverScheduler;
use lars_scheduler::future::Sleep;
use lars_scheduler::hooks::PanicIn;

use super::{Bell, READY, STOPPED, poll};
use crate::common::{Notes, ms, virtual_time};

#[test]
fn a_waker_that_panics_is_contained_and_reported_and_the_others_are_woken() {
    struct Angry;
    impl Wake for Angry {
        fn wake(self: Arc<Self>) {
            panic!("expected by this test");
        }
    }
    let places = Notes::new();
    let note = places.clone();
    let time = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| note.add((report.place, report.message.to_owned())))
        .build_virtual()
        .unwrap();
    let (bell, waker) = Bell::new();
    let angry = Waker::from(Arc::new(Angry));
    let mut sleeps: Vec<_> = (0..9).map(|_| time.sleep(ms(1))).collect();
    for (number, sleep) in sleeps.iter_mut().enumerate() {
        let waker = if number % 3 == 0 { &angry } else { &waker };
        assert!(poll(sleep, waker).is_pending());
    }
    time.advance(ms(1));
    assert_eq!(bell.rung(), 6);
    let expected = (PanicIn::Task, "expected by this test".to_owned());
    assert_eq!(places.take(), vec![expected; 3]);
    for sleep in &mut sleeps {
        assert_eq!(poll(sleep, &waker), READY);
    }
    // And when the scheduler closes, before the time.
    let mut late = time.sleep(ms(1));
    assert!(poll(&mut late, &angry).is_pending());
    assert_eq!(time.close().unwrap().panicked, 1);
    assert_eq!(poll(&mut late, &waker), STOPPED);
}

#[test]
fn a_waker_whose_clone_panics_leaves_a_sleep_that_works() {
    static PANIC: AtomicBool = AtomicBool::new(false);
    const TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            assert!(!PANIC.load(Ordering::SeqCst), "expected by this test");
            RawWaker::new(data, &TABLE)
        },
        |_| {},
        |_| {},
        |_| {},
    );
    // SAFETY: the functions use no data, and may be called from any thread, any number of times.
    let fragile = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) };
    let try_poll = |sleep: &mut Sleep| {
        let poll = std::panic::AssertUnwindSafe(|| poll(sleep, &fragile).is_pending());
        std::panic::catch_unwind(poll)
    };
    let time = virtual_time();
    let (bell, waker) = Bell::new();
    let mut sleep = time.sleep(ms(1));
    // At the first poll, and at one that replaces a waker.
    for armed_before in [false, true] {
        if armed_before {
            assert!(poll(&mut sleep, &waker).is_pending());
        }
        PANIC.store(true, Ordering::SeqCst);
        assert!(try_poll(&mut sleep).is_err());
        PANIC.store(false, Ordering::SeqCst);
        assert_eq!(time.pending(), u64::from(armed_before), "all is as it was before the poll");
    }
    assert!(poll(&mut sleep, &waker).is_pending());
    time.advance(ms(1));
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut sleep, &waker), READY);
}
