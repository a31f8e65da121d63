//! Chains: the intake's consumer and a stop find a batch whole or not at all, also beside other
//! pushes.

use std::time::Duration;

use loom::thread;

use super::{Token, check, scheduler};
use crate::api::pending::StopFuture;
use crate::sync::take_slot;

const SOON: Duration = Duration::from_nanos(3);

#[test]
fn a_batch_that_races_with_a_stop_is_handed_back_whole_or_refused_whole() {
    races_with_a_stop(None);
}

#[test]
fn a_batch_that_is_placed_in_pieces_is_handed_back_whole_or_refused_whole_by_a_stop() {
    races_with_a_stop(Some(0));
}

/// The thread with the batch has this slot, and so a wheel.
fn races_with_a_stop(slot: Option<usize>) {
    check(3, move || {
        let (handle, mut driver) = scheduler();
        let tokens: Vec<_> = (0..2).map(|_| Token::new()).collect();
        let (tasks, fates): (Vec<_>, Vec<_>) =
            tokens.into_iter().map(|(token, fate)| ((SOON, move || token.run()), fate)).unzip();
        let stopped = StopFuture::new(handle.core().stop.request(true));
        // Past the first look at the stop word: this models the race with the drain.
        let producer = {
            let handle = handle.clone();
            thread::spawn(move || {
                slot.into_iter().for_each(take_slot);
                handle.schedule_admitted(tasks)
            })
        };
        driver.finish();
        let outcome = producer.join().unwrap();
        let pending = stopped.wait();
        match outcome {
            Ok(timers) => {
                assert_eq!((timers.len(), pending.len()), (2, 2));
                assert!(timers.iter().all(|timer| !timer.is_pending()));
            }
            Err(refused) => {
                assert_eq!((refused.into_task().len(), pending.len()), (2, 0));
            }
        }
        drop(pending);
        assert!(fates.iter().all(|fate| (fate.runs(), fate.drops()) == (0, 1)));
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn a_batch_and_another_threads_task_all_come_in_and_the_batch_in_its_order() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let order = crate::sync::Arc::new(crate::sync::Mutex::new(Vec::new()));
        let task = |number: u32| {
            let order = crate::sync::Arc::clone(&order);
            (SOON, move || order.lock().push(number))
        };
        let other = {
            let (handle, (delay, task)) = (handle.clone(), task(9));
            thread::spawn(move || drop(handle.schedule_once(delay, task).unwrap()))
        };
        let timers = handle.schedule_batch([task(1), task(2)]).unwrap();
        assert!(timers.iter().all(|timer| timer.is_pending()));
        let _ = driver.take_in();
        let _ = driver.turn(3);
        other.join().unwrap();
        let _ = driver.take_in();
        let _ = driver.turn(3);
        let mut ran = std::mem::take(&mut *order.lock());
        assert!(ran.contains(&9));
        ran.retain(|&number| number != 9);
        assert_eq!(ran, [1, 2]);
    });
}

#[test]
fn a_batch_that_comes_with_the_stop_is_whole_although_the_driver_is_turned_after_it() {
    for (first, second) in
        [(0, 3), (3, 0)].map(|(a, b)| (Duration::from_nanos(a), Duration::from_nanos(b)))
    {
        check(3, move || {
            let (handle, mut driver) = scheduler();
            let (one, two) = (Token::new(), Token::new());
            let fates = [one.1, two.1];
            let (one, two) = (one.0, two.0);
            let tasks: Vec<(Duration, Box<dyn FnOnce() + Send>)> =
                vec![(first, Box::new(move || one.run())), (second, Box::new(move || two.run()))];
            let stopped = StopFuture::new(handle.core().stop.request(true));
            let producer = {
                let handle = handle.clone();
                thread::spawn(move || handle.schedule_admitted(tasks))
            };
            driver.finish();
            let pending = stopped.wait();
            // The steps of a caller that goes on moving virtual time.
            let _ = driver.take_in();
            let _ = driver.turn(3);
            driver.finish();
            let runs: usize = fates.iter().map(|fate| fate.runs()).sum();
            assert_eq!(runs, 0, "nothing runs after the end");
            match producer.join().unwrap() {
                Ok(_timers) => assert_eq!(pending.len(), 2),
                Err(refused) => assert_eq!((refused.into_task().len(), pending.len()), (2, 0)),
            }
        });
    }
}
