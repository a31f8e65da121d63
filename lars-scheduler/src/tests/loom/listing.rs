//! The walk that lists what is pending, beside threads that schedule and cancel.
//!
//! The checker sees what the walk reads of a task as a cell of its own (`Entry::whose`), which
//! nobody may write while the walk reads it.

use std::time::Duration;

use futures::FutureExt;
use loom::thread;

use super::{check, scheduler};
use crate::api::listing::{Listing, TimerQuery};
use crate::engine::driver::Driver;
use crate::engine::driver::walk::Walked;
use crate::sync::{relax, take_slot};
use crate::{Handle, Task};

const LATER: Duration = Duration::from_nanos(5);

fn named(handle: &Handle, name: &'static str) -> crate::Cancellable {
    handle.schedule_once(LATER, Task::new(|| ()).named(name)).unwrap()
}

/// Lists what is pending, step by step as the timer thread does. (Nothing is due.)
fn list(handle: &Handle, driver: &mut Driver) -> Listing {
    let listing = handle.list(TimerQuery::new());
    loop {
        let _ = driver.take_in();
        match driver.walk(false) {
            Walked::Idle => break,
            Walked::More => {}
            // (A model's thread that waits gives the others a turn.)
            Walked::Waiting => relax(0),
        }
    }
    listing.now_or_never().expect("the walk has ended")
}

fn count(listing: &Listing, name: &str) -> usize {
    listing.timers.iter().filter(|timer| timer.identity.name() == Some(name)).count()
}

#[test]
fn what_stays_pending_is_listed_once_while_its_thread_uses_other_memory_again() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        let other = {
            let handle = handle.clone();
            thread::spawn(move || {
                take_slot(0);
                let goes = named(&handle, "goes");
                assert!(goes.cancel());
                drop(goes);
                // In the entry that the other has left.
                drop(named(&handle, "comes"));
            })
        };
        take_slot(1);
        drop(named(&handle, "stays"));
        let listing = list(&handle, &mut driver);
        assert_eq!(count(&listing, "stays") + listing.unseen as usize, 1);
        assert!(count(&listing, "goes") <= 1 && count(&listing, "comes") <= 1);
        other.join().unwrap();
    });
}

#[test]
fn a_timer_is_listed_with_its_own_name_while_another_thread_cancels_it() {
    check(2, || {
        let (handle, mut driver) = scheduler();
        take_slot(0);
        let goes = named(&handle, "goes");
        let canceller = thread::spawn(move || assert!(goes.cancel()));
        let listing = list(&handle, &mut driver);
        assert!(count(&listing, "goes") + listing.unseen as usize <= 1);
        assert_eq!(listing.matched as usize, count(&listing, "goes"));
        // The owner uses the memory again, once the driver has given it back.
        drop(named(&handle, "comes"));
        canceller.join().unwrap();
        let listing = list(&handle, &mut driver);
        assert_eq!((listing.matched, count(&listing, "comes")), (1, 1));
    });
}

#[test]
fn a_request_is_seen_before_the_timer_thread_sleeps_or_wakes_it() {
    check(3, || {
        let (handle, mut driver) = scheduler();
        drop(named(&handle, "far"));
        let asks = {
            let handle = handle.clone();
            thread::spawn(move || handle.list(TimerQuery::new()))
        };
        // What the timer thread does: announce, look, sleep. It may sleep only if the request has
        // not come yet; then the one who asks finds the announcement, and takes it back.
        driver.core().sleep.announce_sleep(9);
        let seen = driver.core().requests.is_asked();
        let listing = asks.join().unwrap();
        let woken = driver.core().sleep.is_awake();
        assert!(seen || woken, "a request was missed");
        while driver.walk(false) != Walked::Idle {
            let _ = driver.take_in();
        }
        assert_eq!(listing.now_or_never().map(|listing| listing.matched), Some(1));
    });
}
