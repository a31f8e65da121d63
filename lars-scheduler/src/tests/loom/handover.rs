//! The state word and the stop word: cancel against fire, against drain, against stop; push against
//! stop.

use std::time::Duration;

use loom::thread;

use super::{Token, check, scheduler, scheduler_waking};
use crate::api::pending::StopFuture;
use crate::engine::driver::Intaken;
use crate::sync::Parker;

const NOW: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_nanos(5);

#[test]
fn of_two_cancels_and_a_fire_exactly_one_wins() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(NOW, move || token.run()).unwrap();
        let task = crate::sync::Arc::new(task);
        let other = {
            let task = crate::sync::Arc::clone(&task);
            thread::spawn(move || task.cancel())
        };
        let driving = thread::spawn(move || {
            let _ = driver.take_in();
            let _ = driver.turn(0);
            driver
        });
        let here = task.cancel();
        if here {
            assert!(task.is_cancelled());
            assert_eq!(fate.drops(), 1, "captures are gone when `cancel` returns");
        }
        let there = other.join().unwrap();
        let mut driver = driving.join().unwrap();
        let wins = usize::from(here) + usize::from(there) + fate.runs();
        assert_eq!(wins, 1);
        assert_eq!(fate.drops(), 1);
        drop(task);
        let _ = driver.take_in();
        let metrics = handle.metrics();
        assert_eq!((metrics.pending, metrics.fired + metrics.cancelled), (0, 1));
    });
}

#[test]
fn an_entry_cancelled_in_the_wheel_is_unlinked_and_used_again_while_it_races_with_its_deadline() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(LATER, move || token.run()).unwrap();
        let _ = driver.take_in(); // it is in the wheel
        let canceller = thread::spawn(move || task.cancel());
        let _ = driver.turn(5);
        let _ = driver.take_in();
        let cancelled = canceller.join().unwrap();
        assert_eq!(fate.runs(), usize::from(!cancelled));
        assert_eq!(fate.drops(), 1);
        let _ = driver.turn(5);
        let before = handle.metrics().timer_memory;
        // Both entries of the arena's one block are free again.
        let both = (handle.schedule_once(LATER, || ()), handle.schedule_once(LATER, || ()));
        assert_eq!(handle.metrics().timer_memory, before);
        drop(both);
    });
}

#[test]
fn an_entry_cancelled_in_the_intake_is_not_used_again_before_the_canceller_is_done_with_it() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(LATER, move || token.run()).unwrap();
        let canceller = thread::spawn(move || assert!(task.cancel()));
        let _ = driver.take_in();
        // If one of them gets the canceller's entry too early, it writes where the canceller reads.
        let next = (handle.schedule_once(LATER, || ()), handle.schedule_once(LATER, || ()));
        canceller.join().unwrap();
        assert_eq!((fate.runs(), fate.drops()), (0, 1));
        drop(next);
    });
}

#[test]
fn a_task_pushed_while_the_driver_stops_is_handed_back_or_refused() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let producer = {
            let handle = handle.clone();
            thread::spawn(move || match handle.schedule_once(LATER, move || token.run()) {
                Ok(_dropped) => true,
                Err(refused) => {
                    drop(refused.into_task());
                    false
                }
            })
        };
        let stopping = StopFuture::new(handle.core().stop.request(true));
        driver.finish();
        let pending = stopping.wait();
        let accepted = producer.join().unwrap();
        assert_eq!(pending.len(), usize::from(accepted));
        for task in pending {
            task.run();
        }
        assert_eq!(fate.runs(), usize::from(accepted));
        assert_eq!(fate.drops(), 1);
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn a_cancel_that_races_with_stop_prevents_the_run_or_the_task_is_handed_back() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(LATER, move || token.run()).unwrap();
        let _ = driver.take_in();
        let canceller = thread::spawn(move || task.cancel());
        let stopping = StopFuture::new(handle.core().stop.request(true));
        driver.finish();
        // The scheduler is dropped while the cancel may be under way.
        drop(driver);
        drop(handle);
        let pending = stopping.wait();
        let handed_back = pending.len();
        drop(pending);
        let cancelled = canceller.join().unwrap();
        assert_eq!(usize::from(cancelled) + handed_back, 1);
        assert_eq!((fate.runs(), fate.drops()), (0, 1));
    });
}

#[test]
fn only_one_of_two_stops_gets_the_tasks() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let task = handle.schedule_once(LATER, || ()).unwrap();
        drop(task);
        let other = {
            let handle = handle.clone();
            thread::spawn(move || StopFuture::new(handle.core().stop.request(true)))
        };
        let one = StopFuture::new(handle.core().stop.request(true));
        let two = other.join().unwrap();
        driver.finish();
        assert_eq!(one.wait().len() + two.wait().len(), 1);
    });
}

#[test]
fn max_pending_is_exact_when_two_producers_race_for_the_last_place() {
    check(3, || {
        let (handle, mut driver) = scheduler_waking(Parker::new().unparker().clone(), Some(1));
        let other = {
            let handle = handle.clone();
            thread::spawn(move || handle.schedule_once(NOW, || ()).is_ok())
        };
        let here = handle.schedule_once(NOW, || ()).is_ok();
        let there = other.join().unwrap();
        assert!(here ^ there);
        while driver.take_in() != Intaken::All {}
        let _ = driver.turn(0);
        assert!(handle.schedule_once(NOW, || ()).is_ok(), "the place was given back");
    });
}
