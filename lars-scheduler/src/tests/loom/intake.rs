//! The intake: two producers and the consumer.

use loom::thread;

use super::{Boxed, check};
use crate::base::identity::Label;
use crate::base::raw_task::RawTask;
use crate::engine::entry::Entry;
use crate::engine::intake::{Intake, Pop};
use crate::sync::Arc;

fn entry() -> Boxed {
    Boxed::new()
}

/// Fills an entry and pushes it, as a producer does.
fn fill_and_push(intake: &Intake, entry: Boxed) {
    // SAFETY: the entry is new, and freed at the end of the model.
    unsafe {
        (*entry.0).fill(7, |task| RawTask::write(task, || (), Label::default()));
        intake.push(entry.0);
    }
}

/// What the consumer may do with a popped entry: the model fails if that is not ordered after the
/// fill.
fn consume(entry: *mut Entry) {
    // SAFETY: `Box` made it, and it is popped once.
    unsafe {
        assert_eq!((*entry).deadline(), 7);
        drop((*entry).take_task());
        drop(Box::from_raw(entry));
    }
}

#[test]
fn what_two_producers_push_is_popped_once_each_in_their_order() {
    check(3, || {
        let intake = Arc::new(Intake::new());
        let entries: [[Boxed; 2]; 2] = [[entry(), entry()], [entry(), entry()]];
        let addresses: Vec<Vec<*mut Entry>> =
            entries.iter().map(|own| own.iter().map(|entry| entry.0).collect()).collect();
        let producers: Vec<_> = entries
            .into_iter()
            .map(|own| {
                let intake = Arc::clone(&intake);
                thread::spawn(move || {
                    for entry in own {
                        fill_and_push(&intake, entry);
                    }
                })
            })
            .collect();
        let mut popped = Vec::new();
        while popped.len() < 4 {
            // SAFETY: this is the only consumer.
            match unsafe { intake.pop() } {
                Pop::Entry(entry) => {
                    popped.push(entry);
                    consume(entry);
                }
                Pop::Empty | Pop::Inconsistent => thread::yield_now(),
            }
        }
        for producer in producers {
            producer.join().unwrap();
        }
        // SAFETY: the producers are done, and this thread is the only consumer.
        assert_eq!(unsafe { intake.pop() }, Pop::Empty);
        for own in &addresses {
            let order: Vec<_> = popped.iter().filter(|entry| own.contains(entry)).collect();
            assert_eq!(order, own.iter().collect::<Vec<_>>());
        }
    });
}

#[test]
fn empty_is_never_said_after_a_push_has_returned() {
    check(3, || {
        let intake = Arc::new(Intake::new());
        let (first, second) = (entry(), entry());
        let other = {
            let intake = Arc::clone(&intake);
            thread::spawn(move || {
                // Bound as a whole, so that the closure captures the `Send` wrapper.
                let first = first;
                // SAFETY: the entry is new, and freed at the end of the model.
                unsafe { intake.push(first.0) };
            })
        };
        // SAFETY: the entry is new, and freed at the end of the model.
        unsafe { intake.push(second.0) };
        let mut popped = 0;
        let mut empty_seen = false;
        loop {
            // SAFETY: this is the only consumer.
            match unsafe { intake.pop() } {
                Pop::Entry(entry) => {
                    popped += 1;
                    // SAFETY: `Box` made it, and it is popped once.
                    drop(unsafe { Box::from_raw(entry) });
                    if popped == 2 {
                        break;
                    }
                }
                Pop::Empty => {
                    assert!(popped > 0, "our own push has returned");
                    empty_seen = true;
                    thread::yield_now();
                }
                Pop::Inconsistent => {
                    assert!(popped == 0 || !empty_seen || popped == 1);
                    thread::yield_now();
                }
            }
        }
        other.join().unwrap();
    });
}

#[test]
fn what_was_pushed_before_the_mark_is_popped_up_to_it() {
    check(3, || {
        let intake = Arc::new(Intake::new());
        let (before, racing) = (entry(), entry());
        let (before, racing_address) = (before.0, racing.0);
        // SAFETY: the entry is new, and freed at the end of the model.
        unsafe { intake.push(before) };
        let other = {
            let intake = Arc::clone(&intake);
            thread::spawn(move || {
                let racing = racing;
                // SAFETY: the entry is new, and freed at the end of the model.
                unsafe { intake.push(racing.0) };
            })
        };
        let mut mark = intake.mark();
        let mut popped = Vec::new();
        loop {
            // SAFETY: this is the only consumer, and it pops with one mark at a time.
            match unsafe { intake.pop_up_to(&mut mark) } {
                Pop::Entry(entry) => popped.push(entry),
                Pop::Empty => break,
                Pop::Inconsistent => thread::yield_now(),
            }
        }
        assert_eq!(popped.first(), Some(&before));
        other.join().unwrap();
        let mut mark = intake.mark();
        // SAFETY: this is the only consumer, and it pops with one mark at a time.
        while let Pop::Entry(entry) = unsafe { intake.pop_up_to(&mut mark) } {
            popped.push(entry);
        }
        assert_eq!(popped, [before, racing_address]);
        for entry in popped {
            // SAFETY: `Box` made it, and it is popped once.
            drop(unsafe { Box::from_raw(entry) });
        }
    });
}
