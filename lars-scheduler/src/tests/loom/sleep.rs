//! The sleep word: two producers, one sleeper. loom reports a lost wake-up as a deadlock.

use loom::thread;

use super::{Boxed, check};
use crate::api::pending::StopFuture;
use crate::engine::intake::{Intake, Pop};
use crate::engine::sleep_word::{AfterPush, FOREVER, SleepWord};
use crate::engine::stop_word::StopWord;
use crate::sync::{Arc, Parker};

#[test]
fn a_sleeper_without_a_deadline_sees_every_push_of_two_producers() {
    check(3, || {
        let parker = Parker::new();
        let sleep = Arc::new(SleepWord::new(parker.unparker().clone()));
        let intake = Arc::new(Intake::new());
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (sleep, intake) = (Arc::clone(&sleep), Arc::clone(&intake));
                let entry = Boxed::new();
                thread::spawn(move || {
                    let entry = entry;
                    // SAFETY: the entry is new, and the sleeper frees it after the pop.
                    unsafe { intake.push(entry.0) };
                    assert_eq!(sleep.after_push(1), AfterPush::Seen);
                })
            })
            .collect();
        let mut popped = 0;
        let mut announced = false;
        // The loop of `timer_thread::drive`, with a pop in place of a turn.
        while popped < 2 {
            let mut mark = intake.mark();
            let more = loop {
                // SAFETY: this is the only consumer.
                match unsafe { intake.pop_up_to(&mut mark) } {
                    Pop::Entry(entry) => {
                        popped += 1;
                        // SAFETY: `Box` made it, and it is popped once.
                        drop(unsafe { Box::from_raw(entry) });
                    }
                    Pop::Empty => break false,
                    Pop::Inconsistent => break true,
                }
            };
            if popped == 2 {
                break;
            }
            if more {
                thread::yield_now();
            } else if announced {
                parker.park();
                sleep.announce_awake();
                announced = false;
            } else {
                sleep.announce_sleep(FOREVER);
                announced = true;
            }
        }
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

#[test]
fn a_sleeper_sees_a_request_to_stop() {
    check(3, || {
        let parker = Parker::new();
        let sleep = Arc::new(SleepWord::new(parker.unparker().clone()));
        let stop = Arc::new(StopWord::new());
        let stopper = {
            let (sleep, stop) = (Arc::clone(&sleep), Arc::clone(&stop));
            thread::spawn(move || {
                let future = StopFuture::new(stop.request(true));
                sleep.wake();
                future
            })
        };
        let mut announced = false;
        while !stop.is_requested() {
            if announced {
                parker.park();
                sleep.announce_awake();
                announced = false;
            } else {
                sleep.announce_sleep(FOREVER);
                announced = true;
            }
        }
        stop.resolve(Vec::new());
        assert!(stopper.join().unwrap().wait().is_empty());
    });
}

#[test]
fn a_push_is_either_seen_by_the_last_drain_or_its_producer_learns_of_the_stop() {
    check(3, || {
        let parker = Parker::new();
        let sleep = Arc::new(SleepWord::new(parker.unparker().clone()));
        let intake = Arc::new(Intake::new());
        let entry = Boxed::new();
        let address = entry.0;
        let producer = {
            let (sleep, intake) = (Arc::clone(&sleep), Arc::clone(&intake));
            thread::spawn(move || {
                let entry = entry;
                // SAFETY: the entry is new, and freed at the end of the model.
                unsafe { intake.push(entry.0) };
                sleep.after_push(1)
            })
        };
        sleep.announce_stopped();
        let mut mark = intake.mark();
        let seen = loop {
            // SAFETY: this is the only consumer.
            match unsafe { intake.pop_up_to(&mut mark) } {
                Pop::Entry(_) => break true,
                Pop::Empty => break false,
                Pop::Inconsistent => thread::yield_now(),
            }
        };
        let told = producer.join().unwrap();
        assert!(seen || told == AfterPush::Stopped, "a push was lost");
        // SAFETY: `Box` made it, and nobody else refers to it.
        drop(unsafe { Box::from_raw(address) });
    });
}
