//! Lanes with an owner, which writes with plain stores, beside threads that share one.

use std::time::Duration;

use loom::thread;

use super::{Boxed, Token, check, scheduler, scheduler_with};
use crate::engine::entry::Entry;
use crate::engine::stack::{FreeLink, Stack, StackLink};
use crate::sync::{Arc, give_back_slot, take_slot};

const LATER: Duration = Duration::from_nanos(5);

#[test]
fn an_owner_and_a_thread_without_a_lane_schedule_side_by_side() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let other = {
            let handle = handle.clone();
            thread::spawn(move || {
                take_slot(0);
                let (token, fate) = Token::new();
                drop(handle.schedule_once(LATER, move || token.run()).unwrap());
                let (second, _) = Token::new();
                assert!(handle.schedule_once(LATER, move || second.run()).unwrap().cancel());
                fate
            })
        };
        let (token, here) = Token::new();
        drop(handle.schedule_once(LATER, move || token.run()).unwrap());
        let _ = driver.take_in();
        let there = other.join().unwrap();
        let _ = driver.take_in();
        while driver.turn(9).fired > 0 {}
        assert_eq!((here.runs(), here.drops()), (1, 1));
        assert_eq!((there.runs(), there.drops()), (1, 1));
        let metrics = handle.metrics();
        assert_eq!((metrics.scheduled, metrics.fired, metrics.cancelled), (3, 2, 1));
    });
}

#[test]
fn the_next_owner_of_a_lane_finds_what_the_last_one_left() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let first = {
            let handle = handle.clone();
            thread::spawn(move || {
                take_slot(0);
                drop(handle.schedule_once(LATER, || ()).unwrap());
            })
        };
        let _ = driver.take_in();
        let _ = driver.turn(9);
        // The real slots pass from thread to thread under a lock; here the join stands for it.
        first.join().unwrap();
        take_slot(0);
        let memory = handle.metrics().timer_memory;
        let (token, fate) = Token::new();
        drop(handle.schedule_once(LATER, move || token.run()).unwrap());
        assert_eq!(handle.metrics().timer_memory, memory, "the lane's block is used on");
        let _ = driver.take_in();
        let _ = driver.turn(9);
        let _ = driver.turn(9);
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
    });
}

#[test]
fn a_lane_that_is_traded_is_used_on_while_others_cancel_and_fire_what_its_last_owner_left() {
    check(2, || {
        let (handle, mut driver) = scheduler_with(1);
        let (token, left) = Token::new();
        let ended = {
            let handle = handle.clone();
            thread::spawn(move || {
                take_slot(0);
                let left = handle.schedule_once(LATER, move || token.run()).unwrap();
                give_back_slot();
                left
            })
        };
        let ended = ended.join().unwrap();
        // This thread deserves a wheel, and there is none: its first timer goes through the
        // channel, and the call ends with a trade.
        take_slot(1);
        let schedule = || {
            let (token, fate) = Token::new();
            drop(handle.schedule_once(LATER, move || token.run()).unwrap());
            fate
        };
        let first = schedule();
        let canceller = thread::spawn(move || ended.cancel());
        let second = schedule();
        let _ = driver.take_in();
        let _ = driver.turn(0);
        // The next thread with the ended one's slot has the lane that was left for it.
        give_back_slot();
        take_slot(0);
        let third = schedule();
        let cancelled = canceller.join().unwrap();
        let _ = driver.take_in();
        while driver.turn(9).fired > 0 {}
        assert_eq!((left.runs(), left.drops()), (usize::from(!cancelled), 1));
        for fate in [first, second, third] {
            assert_eq!((fate.runs(), fate.drops()), (1, 1));
        }
    });
}

#[test]
fn a_lane_s_entries_may_be_used_by_others_while_its_owner_looks_for_one() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        // Both entries of the owner's block were used, and are on their way back.
        for _ in 0..2 {
            drop(handle.schedule_once(Duration::ZERO, || ()).unwrap());
        }
        let _ = driver.take_in();
        let _ = driver.turn(0);
        let other = {
            let handle = handle.clone();
            thread::spawn(move || {
                let (token, fate) = Token::new();
                drop(handle.schedule_once(LATER, move || token.run()).unwrap());
                fate
            })
        };
        let (token, here) = Token::new();
        drop(handle.schedule_once(LATER, move || token.run()).unwrap());
        let there = other.join().unwrap();
        let _ = driver.take_in();
        while driver.turn(9).fired > 0 {}
        assert_eq!((here.runs(), here.drops()), (1, 1));
        assert_eq!((there.runs(), there.drops()), (1, 1));
    });
}

#[test]
fn a_handle_that_goes_while_the_driver_moves_its_entry_on_is_never_missed() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        let (token, fate) = Token::new();
        let task = handle.schedule_once(Duration::ZERO, move || token.run()).unwrap();
        // While the handle lives the driver's steps are compare-and-swaps; after that plain stores.
        let dropper = thread::spawn(move || drop(task));
        let _ = driver.take_in();
        let _ = driver.turn(0);
        dropper.join().unwrap();
        assert_eq!((fate.runs(), fate.drops()), (1, 1));
        let memory = handle.metrics().timer_memory;
        for _ in 0..3 {
            drop(handle.schedule_once(Duration::ZERO, || ()).unwrap());
            let _ = driver.take_in();
            let _ = driver.turn(0);
        }
        assert_eq!(handle.metrics().timer_memory, memory);
    });
}

/// Entries that another lane does not need go back. If more have come back meanwhile, that lane
/// keeps them.
#[test]
fn of_what_is_taken_from_the_returned_entries_of_a_lane_none_is_lost() {
    check(3, || {
        let stack = Arc::new(Stack::<FreeLink>::new());
        // More than another lane takes at a time.
        let all: Vec<*mut Entry> =
            (0..4).map(|_| Box::into_raw(Box::new(Entry::free(0)))).collect();
        for &entry in &all[1..] {
            // SAFETY: the entry is free, and nobody else knows it.
            unsafe { stack.push_chain(entry, entry) };
        }
        let more = Boxed(all[0]);
        let driver = {
            let stack = Arc::clone(&stack);
            thread::spawn(move || {
                let more = more;
                // SAFETY: the entry is free, and this thread's alone.
                unsafe { stack.push_chain(more.0, more.0) };
            })
        };
        let mut found = 0;
        let mut count = |mut entry: *mut Entry| {
            while !entry.is_null() {
                // SAFETY: the stack gave up the chain, so nobody else touches its links.
                entry = unsafe { FreeLink::get(entry) };
                found += 1;
            }
        };
        count(stack.take_some(2));
        driver.join().unwrap();
        loop {
            let taken = stack.take_some(2);
            if taken.is_null() {
                break;
            }
            count(taken);
        }
        assert_eq!(found, all.len());
        for entry in all {
            // SAFETY: `Box` made it, and nobody refers to it any more.
            drop(unsafe { Box::from_raw(entry) });
        }
    });
}
