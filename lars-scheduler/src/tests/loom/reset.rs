//! Moving a deadline: against the fire, the drain, the cancel, another move, and the sleep.

use std::iter;
use std::time::Duration;

use loom::thread;

use super::{Boxed, Token, check, drive, scheduler, scheduler_waking};
use crate::api::pending::StopFuture;
use crate::base::tick::Tick;
use crate::engine::due::DueList;
use crate::engine::entry::Entry;
use crate::engine::wheel::{Advance, Wheel};
use crate::sync::{Arc, Parker, take_slot};

const SOON: Duration = Duration::from_nanos(5);
const LATER: Duration = Duration::from_nanos(9);

#[test]
fn a_deadline_moved_out_while_it_comes_holds_or_the_task_has_run() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(SOON, move || token.run()).unwrap();
        let _ = driver.take_in();
        let mover = thread::spawn(move || (task.reset(LATER), task));
        let early = driver.turn(5).fired;
        let (moved, task) = mover.join().unwrap();
        assert_eq!(moved, early == 0, "true exactly when the new deadline holds");
        let _ = driver.take_in();
        let _ = driver.turn(8);
        assert_eq!(fate.runs(), early, "it does not run before its new deadline");
        let _ = driver.turn(9);
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
        drop(task);
    });
}

#[test]
fn a_deadline_moved_nearer_while_the_entry_is_taken_in_is_met() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(LATER, move || token.run()).unwrap();
        let mover = thread::spawn(move || assert!(task.reset(SOON)));
        let _ = driver.take_in();
        mover.join().unwrap();
        let _ = driver.take_in();
        let _ = driver.turn(4);
        assert_eq!(fate.runs(), 0);
        let _ = driver.turn(5);
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
    });
}

#[test]
fn a_task_that_runs_before_its_old_deadline_was_moved() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(LATER, move || token.run()).unwrap();
        let mover = thread::spawn(move || task.reset(Duration::ZERO));
        let _ = driver.take_in();
        let fired = driver.turn(0).fired;
        let _ = driver.take_in();
        let fired = fired + driver.turn(0).fired;
        let moved = mover.join().unwrap();
        assert!(moved || fired == 0, "a move that failed moved nothing");
        let _ = driver.take_in();
        let _ = driver.turn(9);
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
    });
}

#[test]
fn a_deadline_moved_nearer_while_the_task_is_cancelled_leaves_nothing_behind() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = Arc::new(handle.schedule_once(LATER, move || token.run()).unwrap());
        let _ = driver.take_in();
        let canceller = {
            let task = Arc::clone(&task);
            thread::spawn(move || assert!(task.cancel()))
        };
        let _ = task.reset(SOON);
        drop(task);
        let _ = driver.take_in();
        canceller.join().unwrap();
        let _ = driver.take_in();
        let _ = driver.turn(0);
        let before = handle.metrics().timer_memory;
        let both = (handle.schedule_once(LATER, || ()), handle.schedule_once(LATER, || ()));
        assert_eq!((fate.runs(), fate.drops()), (0, 1));
        assert_eq!(handle.metrics().timer_memory, before, "the entries are used again");
        drop(both);
    });
}

#[test]
fn a_carrier_finds_its_entry_although_that_fires_and_its_handle_goes() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(SOON, move || token.run()).unwrap();
        let _ = driver.take_in();
        let mover = thread::spawn(move || {
            take_slot(0);
            let moved = task.reset(Duration::from_nanos(3));
            drop(task);
            moved
        });
        // It fires at its old deadline or at the new one, before or after the carrier has come.
        let _ = driver.turn(5);
        let next = handle.schedule_once(LATER, || ()).unwrap();
        let _ = driver.take_in();
        let _ = driver.turn(5);
        let _ = mover.join().unwrap();
        let _ = driver.take_in();
        let _ = driver.turn(5);
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
        assert!(next.is_pending(), "a carrier that is late moves no other timer");
        // The last party to refer to the other entry has freed it, so all entries but this one are
        // free again.
        let before = handle.metrics().timer_memory;
        let here = handle.schedule_once(LATER, || ());
        take_slot(0);
        let others = before / size_of::<Entry>() - 2;
        let kept: Vec<_> = (0..others).map(|_| handle.schedule_once(LATER, || ())).collect();
        assert_eq!(handle.metrics().timer_memory, before);
        drop((here, kept));
    });
}

#[test]
fn an_entry_is_not_used_again_before_its_carrier_has_come_although_its_handle_has_gone() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let task = handle.schedule_once(SOON, || ()).unwrap();
        let _ = driver.take_in();
        let mover = thread::spawn(move || {
            // This is the lane that is looked at first: an entry released there may be seen before
            // the carrier.
            take_slot(0);
            let _ = task.reset(Duration::from_nanos(3));
            drop(task);
        });
        let _ = driver.turn(5);
        let _ = driver.take_in();
        let _ = driver.turn(5);
        mover.join().unwrap();
        // (When the carrier arrives, it checks that the entry still waits.)
        let _ = driver.take_in();
    });
}

#[test]
fn of_two_moves_at_the_same_time_one_holds_and_the_task_runs_then() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = Arc::new(handle.schedule_once(LATER, move || token.run()).unwrap());
        let _ = driver.take_in();
        let other = {
            let task = Arc::clone(&task);
            thread::spawn(move || assert!(task.reset(Duration::from_nanos(3))))
        };
        assert!(task.reset(SOON));
        other.join().unwrap();
        let _ = driver.take_in();
        let _ = driver.turn(2);
        assert_eq!(fate.runs(), 0);
        let _ = driver.turn(5);
        assert_eq!(fate.runs(), 1);
    });
}

#[test]
fn a_sleeper_wakes_up_for_a_deadline_that_was_moved_nearer() {
    check(2, || {
        let parker = Parker::new();
        let (handle, mut driver) = scheduler_waking(parker.unparker().clone(), None);
        let (token, fate) = Token::new();
        let task = handle.schedule_once(LATER, move || token.run()).unwrap();
        let mover = thread::spawn(move || {
            assert!(task.reset(Duration::ZERO));
        });
        drive(&mut driver, &parker, &fate);
        mover.join().unwrap();
    });
}

#[test]
fn a_deadline_is_moved_nearer_while_the_scheduler_goes_away() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(LATER, move || token.run()).unwrap();
        let _ = driver.take_in();
        let mover = thread::spawn(move || {
            let _ = task.reset(SOON);
            drop(task);
        });
        drop(driver);
        drop(handle);
        mover.join().unwrap();
        assert_eq!((fate.runs(), fate.drops()), (0, 1));
    });
}

#[test]
fn an_entry_whose_deadline_is_moved_nearer_while_its_list_is_detached_stays_in_one_place() {
    check(3, || {
        let tick = Tick::new(Tick::MIN).expect("the shortest tick is a tick");
        let mut wheel = Wheel::new(tick, 2, 0);
        let entries = [1, 1].map(|due| {
            let entry = Boxed::new();
            // SAFETY: the entry is new, and lives to the end of the model.
            unsafe {
                (*entry.0).set_deadline(due);
                wheel.insert(entry.0);
            }
            entry
        });
        assert_eq!(wheel.advance(1, &mut 9), Advance::Due);
        // The last of the list was moved further out, and is moved nearer again.
        let last = Boxed(entries[1].0);
        // SAFETY: as above.
        unsafe { (*last.0).set_deadline(9) };
        let mover = thread::spawn(move || {
            let last = last;
            // SAFETY: as above.
            unsafe { (*last.0).set_deadline(1) };
        });
        let mut due = DueList::new();
        wheel.detach_due(&mut due, usize::MAX);
        mover.join().unwrap();
        let detached = iter::from_fn(|| due.pop()).count();
        let left = iter::from_fn(|| wheel.pop_any()).count();
        assert_eq!(detached + left, 2);
        for entry in entries {
            // SAFETY: `Box` made it, and nobody refers to it any more.
            drop(unsafe { Box::from_raw(entry.0) });
        }
    });
}

/// The thread that moves the deadline needs an entry for the carrier, and has no share of the
/// scheduler: it must not take one whose handle bit the end of the scheduler counts.
#[test]
fn a_deadline_is_moved_nearer_as_the_scheduler_goes_away_beside_what_another_handle_gave_back() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let fired = handle.schedule_once(Duration::ZERO, || ()).unwrap();
        let task = handle.schedule_once(LATER, || ()).unwrap();
        let _ = driver.take_in();
        assert_eq!(driver.turn(0).fired, 1);
        drop(fired);
        let mover = thread::spawn(move || {
            let _ = task.reset(SOON);
            drop(task);
        });
        drop(driver);
        drop(handle);
        mover.join().unwrap();
    });
}

#[test]
fn a_deadline_moved_nearer_while_the_scheduler_stops_is_handed_back_once() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(LATER, move || token.run()).unwrap();
        let _ = driver.take_in();
        let mover = thread::spawn(move || {
            let moved = task.reset(Duration::from_nanos(3));
            assert!(!task.cancel() || moved);
        });
        let stopped = StopFuture::new(handle.core().stop.request(true));
        driver.finish();
        drop(driver);
        let pending = stopped.wait();
        assert!(pending.len() <= 1);
        let handed_back = pending.len();
        drop(pending);
        mover.join().unwrap();
        assert_eq!((fate.runs(), fate.drops()), (0, 1));
        let metrics = handle.metrics();
        assert_eq!((metrics.pending, metrics.cancelled as usize + handed_back), (0, 1));
    });
}

#[test]
fn a_sleeper_wakes_up_for_the_second_of_two_moves_nearer() {
    check(2, || {
        let parker = Parker::new();
        let (handle, mut driver) = scheduler_waking(parker.unparker().clone(), None);
        let (token, fate) = Token::new();
        let task = Arc::new(handle.schedule_once(LATER, move || token.run()).unwrap());
        let _ = driver.take_in();
        let mover = {
            let task = Arc::clone(&task);
            thread::spawn(move || {
                assert!(task.reset(Duration::from_nanos(3)));
                assert!(task.reset(Duration::ZERO));
            })
        };
        drive(&mut driver, &parker, &fate);
        mover.join().unwrap();
    });
}

#[test]
fn of_a_move_out_and_a_move_nearer_at_the_same_time_the_task_runs_once_and_not_early() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task =
            Arc::new(handle.schedule_once(Duration::from_nanos(5), move || token.run()).unwrap());
        let _ = driver.take_in();
        let other = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.reset(LATER))
        };
        let near = task.reset(Duration::from_nanos(3));
        let _ = driver.take_in();
        let _ = driver.turn(2);
        assert_eq!(fate.runs(), 0);
        let far = other.join().unwrap();
        assert!(near && far, "it waits at 2");
        let _ = driver.take_in();
        for now in 3..10 {
            let _ = driver.turn(now);
            let _ = driver.take_in();
        }
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
    });
}
