//! The arena: finding and returning entries, and the end of the memory.

use std::time::Duration;

use loom::thread;

use super::{Token, check, scheduler};
use crate::engine::driver::Next;

const LATER: Duration = Duration::from_nanos(5);

#[test]
fn two_threads_that_look_for_free_entries_while_some_come_back_never_find_the_same() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        // Both entries of the first block were used, and are on their way back.
        for _ in 0..2 {
            drop(handle.schedule_once(Duration::ZERO, || ()).unwrap());
        }
        let _ = driver.take_in();
        let other = {
            let handle = handle.clone();
            thread::spawn(move || {
                let (token, fate) = Token::new();
                drop(handle.schedule_once(LATER, move || token.run()).unwrap());
                fate
            })
        };
        let driving = thread::spawn(move || {
            let _ = driver.turn(0);
            driver
        });
        let (token, here) = Token::new();
        drop(handle.schedule_once(LATER, move || token.run()).unwrap());
        let there = other.join().unwrap();
        let mut driver = driving.join().unwrap();
        let _ = driver.take_in();
        while driver.turn(9).fired > 0 {}
        assert_eq!((here.runs(), here.drops()), (1, 1));
        assert_eq!((there.runs(), there.drops()), (1, 1));
    });
}

#[test]
fn the_memory_outlives_the_last_of_handles_driver_and_cancellables_and_goes_with_it() {
    check(3, || {
        let (handle, driver) = scheduler();
        let (token, fate) = Token::new();
        let one = handle.schedule_once(LATER, move || token.run()).unwrap();
        let two = handle.schedule_once(LATER, || ()).unwrap();
        // Three parties release it at the same time; loom tracks that all memory is freed, once,
        // after all of them.
        let first = thread::spawn(move || drop(one));
        let second = thread::spawn(move || {
            assert!(!two.is_cancelled());
            drop(two);
        });
        drop(driver);
        drop(handle);
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!((fate.runs(), fate.drops()), (0, 1));
    });
}

#[test]
fn the_memory_outlives_handles_that_let_go_of_fired_timers_as_it_ends() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let one = handle.schedule_once(Duration::ZERO, || ()).unwrap();
        let two = handle.schedule_once(Duration::ZERO, || ()).unwrap();
        let _ = driver.take_in();
        assert_eq!(driver.turn(0).fired, 2);
        // The driver has left both entries. Their handles push them onto a stack, or find it
        // closed, or are told that they are orphans.
        let first = thread::spawn(move || drop(one));
        let second = thread::spawn(move || drop(two));
        drop(driver);
        drop(handle);
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn a_handle_dropped_while_its_timer_fires_leaves_the_entry_to_be_used_again() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(Duration::ZERO, move || token.run()).unwrap();
        let _ = driver.take_in();
        let dropper = thread::spawn(move || drop(task));
        let _ = driver.turn(0);
        let _ = driver.take_in();
        dropper.join().unwrap();
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
        let before = handle.metrics().timer_memory;
        let _ = driver.take_in();
        // The block has two entries: both are there, and each once.
        let next = Token::new();
        let other = Token::new();
        drop(handle.schedule_once(Duration::ZERO, move || next.0.run()).unwrap());
        drop(handle.schedule_once(Duration::ZERO, move || other.0.run()).unwrap());
        assert_eq!(handle.metrics().timer_memory, before);
        let _ = driver.take_in();
        assert_eq!(driver.turn(0).fired, 2);
        assert_eq!((next.1.runs(), other.1.runs()), (1, 1));
    });
}

#[test]
fn what_is_cancelled_all_at_once_is_collected_in_steps_and_used_again() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let timers: Vec<_> = (0..3).map(|_| handle.schedule_once(LATER, || ()).unwrap()).collect();
        let _ = driver.take_in();
        let canceller = thread::spawn(move || assert!(timers.iter().all(|timer| timer.cancel())));
        // Two in a step, and perhaps not all of them yet.
        let _ = driver.turn(0);
        canceller.join().unwrap();
        while driver.turn(0).next == Next::Now {}
        let memory = handle.metrics().timer_memory;
        for _ in 0..3 {
            drop(handle.schedule_once(LATER, || ()).unwrap());
        }
        assert_eq!(handle.metrics().timer_memory, memory);
        // The rest of what is cancelled goes with the memory.
        drop(driver);
    });
}

#[test]
fn a_handle_dropped_while_its_cancelled_timer_is_retired_leaves_the_entry_to_be_used_again() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let task = handle.schedule_once(LATER, || ()).unwrap();
        assert!(task.cancel());
        let dropper = thread::spawn(move || drop(task));
        let _ = driver.take_in();
        dropper.join().unwrap();
        let before = handle.metrics().timer_memory;
        let _ = driver.take_in();
        let both = (handle.schedule_once(LATER, || ()), handle.schedule_once(LATER, || ()));
        assert_eq!(handle.metrics().timer_memory, before);
        drop(both);
    });
}
