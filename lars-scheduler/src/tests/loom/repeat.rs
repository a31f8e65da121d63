//! The cell of a repeat: runs, arming and cancels.

use std::time::Duration;

use loom::thread;

use super::{Token, check, scheduler};
use crate::api::pending::StopFuture;
use crate::api::repeat::Repeat;
use crate::sync::Arc;

#[test]
fn a_repeat_cancelled_in_any_moment_runs_no_more_after_that_and_drops_its_captures() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let repeat = handle
            .schedule_repeating(Duration::ZERO, move || {
                token.run();
                Repeat::After(Duration::ZERO)
            })
            .unwrap();
        let canceller = {
            let fate = Arc::clone(&fate);
            thread::spawn(move || {
                assert!(repeat.cancel(), "it would go on forever");
                assert!(!repeat.cancel());
                fate.runs()
            })
        };
        for _ in 0..2 {
            let _ = driver.take_in();
            let _ = driver.turn(0);
        }
        let at_cancel = canceller.join().unwrap();
        let after = fate.runs();
        // One run may have been under way.
        assert!(after <= at_cancel + 1);
        for _ in 0..2 {
            let _ = driver.take_in();
            let _ = driver.turn(0);
        }
        assert_eq!(fate.runs(), after);
        assert_eq!(fate.drops(), 1);
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn a_timer_armed_while_its_series_is_cancelled_does_not_stay_behind() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let repeat = handle
            .schedule_repeating(Duration::ZERO, move || {
                token.run();
                Repeat::After(Duration::from_nanos(5))
            })
            .unwrap();
        let canceller = thread::spawn(move || assert!(repeat.cancel()));
        let _ = driver.take_in();
        let _ = driver.turn(0);
        canceller.join().unwrap();
        assert_eq!(handle.metrics().pending, 0);
        assert_eq!(fate.drops(), 1);
    });
}

#[test]
fn a_first_run_that_beats_its_constructor_is_not_overwritten() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let constructor = {
            let handle = handle.clone();
            thread::spawn(move || {
                handle
                    .schedule_repeating(Duration::ZERO, move || {
                        token.run();
                        Repeat::After(Duration::from_nanos(5))
                    })
                    .unwrap()
            })
        };
        let _ = driver.take_in();
        let _ = driver.turn(0);
        let repeat = constructor.join().unwrap();
        let _ = driver.take_in();
        let _ = driver.turn(0);
        assert_eq!(fate.runs(), 1);
        // Whichever thread came first, the cell has the second timer: the cancel reaches it.
        let _ = driver.take_in();
        assert!(repeat.is_pending());
        assert!(repeat.cancel());
        let _ = driver.take_in();
        let _ = driver.turn(9);
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
        assert_eq!(handle.metrics().pending, 0);
    });
}

#[test]
fn a_repeat_that_is_cancelled_while_the_scheduler_stops_drops_its_captures_once() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let repeat = handle
            .schedule_repeating(Duration::ZERO, move || {
                token.run();
                Repeat::After(Duration::from_nanos(3))
            })
            .unwrap();
        let canceller = thread::spawn(move || {
            let _ = repeat.cancel();
        });
        let _ = driver.take_in();
        let _ = driver.turn(0);
        let stopped = StopFuture::new(handle.core().stop.request(true));
        driver.finish();
        drop(driver);
        drop(stopped.wait());
        canceller.join().unwrap();
        assert!(fate.runs() <= 1);
        assert_eq!(fate.drops(), 1);
        assert_eq!(handle.metrics().pending, 0);
    });
}
