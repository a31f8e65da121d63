//! An entry that is left to its handle by the exchange that takes the task, while the task is still
//! in it.

use std::time::Duration;

use loom::thread;

use super::{Token, check, scheduler};
use crate::sync::take_slot;

const NOW: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_nanos(5);

#[test]
fn an_owner_that_drops_the_handle_of_a_timer_being_fired_does_not_use_its_entry_too_early() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let (token, fate) = Token::new();
        let timer = handle.schedule_once(NOW, move || token.run()).unwrap();
        let driving = thread::spawn(move || {
            let _ = driver.turn(0);
            driver
        });
        drop(timer);
        // The block has two entries: the second of these needs the first timer's, if it is free.
        let next: Vec<_> = (0..2)
            .map(|_| {
                let (token, fate) = Token::new();
                drop(handle.schedule_once(LATER, move || token.run()).unwrap());
                fate
            })
            .collect();
        let mut driver = driving.join().unwrap();
        for _ in 0..3 {
            let _ = driver.turn(5);
        }
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
        assert!(next.iter().all(|fate| (fate.runs(), fate.drops()) == (1, 1)));
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn an_entry_that_another_thread_gives_back_while_it_is_fired_is_used_again_when_it_is_empty() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let (token, fate) = Token::new();
        let timer = handle.schedule_once(NOW, move || token.run()).unwrap();
        let block = handle.metrics().timer_memory;
        let dropper = thread::spawn(move || drop(timer));
        let driving = thread::spawn(move || {
            let _ = driver.turn(0);
            driver
        });
        let schedule = || drop(handle.schedule_once(LATER, || ()).unwrap());
        schedule();
        schedule();
        dropper.join().unwrap();
        let mut driver = driving.join().unwrap();
        for _ in 0..3 {
            let _ = driver.turn(5);
        }
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
        assert_eq!(handle.metrics().pending, 0);
        // Whatever blocks there are, all their entries are free again, each once.
        let memory = handle.metrics().timer_memory;
        (0..2 * memory / block).for_each(|_| schedule());
        assert_eq!(handle.metrics().timer_memory, memory);
    });
}

#[test]
fn an_entry_is_used_again_by_an_owner_that_sees_the_driver_with_the_next_one() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let (token, fate) = Token::new();
        let timer = handle.schedule_once(NOW, move || token.run()).unwrap();
        // Its handle stays, so the driver notes it as well, after the first one.
        let kept = handle.schedule_once(NOW, || ()).unwrap();
        let driving = thread::spawn(move || {
            let _ = driver.turn(0);
            driver
        });
        drop(timer);
        // Both entries of the block are taken, so this needs the first timer's, if it is free.
        drop(handle.schedule_once(LATER, || ()).unwrap());
        let mut driver = driving.join().unwrap();
        for _ in 0..3 {
            let _ = driver.turn(5);
        }
        drop(kept);
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn entries_that_owner_and_driver_let_go_of_one_after_another_are_all_used_again() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let timers = [(); 2].map(|()| handle.schedule_once(NOW, || ()).unwrap());
        let driving = thread::spawn(move || {
            let _ = driver.turn(0);
            driver
        });
        // Each may be the one in hand, and so go aside.
        drop(timers);
        let mut driver = driving.join().unwrap();
        let _ = driver.turn(0);
        assert_eq!(handle.metrics().pending, 0);
        let memory = handle.metrics().timer_memory;
        for _ in 0..2 {
            drop(handle.schedule_once(LATER, || ()).unwrap());
        }
        assert_eq!(handle.metrics().timer_memory, memory);
    });
}
