//! Senders that wait for room: who is woken, and when.

use super::*;
use crate::sync::real_now;
use futures::executor::block_on;
use std::future::poll_fn;
use std::task::Wake;

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for room, if need be, and sends, as a thread or as a future.
fn send_when_room(mailbox: &Mailbox<u64>, message: u64, as_a_future: bool) {
    let mut place = None;
    while mailbox.send(message).is_err() {
        if as_a_future {
            let polled = poll_fn(|context| mailbox.poll_room(&mut place, context.waker(), false));
            assert!(block_on(polled));
        } else {
            assert!(mailbox.wait_for_room(&mut place, None, false));
        }
    }
    mailbox.leave_room(&mut place, true);
}

#[test]
fn each_place_wakes_the_one_sender_that_has_waited_longest() {
    const SENDERS: u64 = 6;
    let mailbox = Mailbox::new(Capacity::Bounded(1, Overflow::Block(Duration::MAX)));
    mailbox.send(0).map(drop).unwrap();
    let mut seen = Vec::new();
    thread::scope(|scope| {
        for number in 1..=SENDERS {
            let mailbox = &mailbox;
            scope.spawn(move || send_when_room(mailbox, number, number % 2 == 0));
            while mailbox.waiting() < number as usize {
                crate::sync::yield_now();
            }
        }
        for _ in 0..=SENDERS {
            let message = loop {
                // SAFETY: the test is the only activation.
                match unsafe { mailbox.pop() } {
                    Some(message) => break message,
                    None => crate::sync::yield_now(),
                }
            };
            // Nobody else sends, so whoever was woken comes back for a moment at most.
            seen.push((message, mailbox.waiting() as u64));
        }
    });
    // Not before: a sender that waits for ever would hang the test.
    let one_was_woken = |&(number, waited): &(u64, u64)| {
        let wait = SENDERS.saturating_sub(number + 1);
        waited == wait || number < SENDERS && waited == wait + 1
    };
    let in_order = seen.iter().map(|&(message, _)| message).eq(0..=SENDERS);
    assert!(in_order && seen.iter().all(one_was_woken), "messages, and who waited still: {seen:?}");
}

#[test]
fn a_sender_to_whom_another_was_faster_keeps_its_place() {
    let mailbox = Mailbox::new(Capacity::Bounded(1, Overflow::Block(Duration::MAX)));
    let woken = [(); 2].map(|()| Arc::new(Woken::default()));
    let mut places = [None; 2];
    mailbox.send(0).map(drop).unwrap();
    let mut poll = |number: usize| {
        let waker = Waker::from(Arc::clone(&woken[number]));
        mailbox.poll_room(&mut places[number], &waker, false)
    };
    assert!(poll(0).is_pending() && poll(1).is_pending());
    for times in 1..=3 {
        // SAFETY: the test is the only activation.
        assert!(unsafe { mailbox.pop() }.is_some());
        mailbox.send(times).map(drop).unwrap();
        assert!(poll(0).is_pending());
        assert_eq!(woken.each_ref().map(|woken| woken.0.load(Ordering::Relaxed)), [times, 0]);
    }
}

#[test]
fn a_sender_whose_time_is_over_is_in_nobody_s_way() {
    let mailbox = Mailbox::new(Capacity::Bounded(1, Overflow::Block(Duration::ZERO)));
    mailbox.send(0).map(drop).unwrap();
    for _ in 0..2 {
        assert!(!mailbox.wait_for_room(&mut None, Some(real_now()), false));
        assert_eq!(mailbox.waiting(), 0);
    }
}

#[test]
fn an_actor_waits_for_room_only_while_actors_may_wait_and_others_wait_in_any_case() {
    let mailbox = Mailbox::new(Capacity::Bounded(1, Overflow::Block(Duration::MAX)));
    mailbox.send(0).map(drop).unwrap();
    let woken = [(); 2].map(|()| Arc::new(Woken::default()));
    let mut places = [None; 2];
    let mut poll = |is_actor: bool| {
        let number = usize::from(is_actor);
        let waker = Waker::from(Arc::clone(&woken[number]));
        mailbox.poll_room(&mut places[number], &waker, is_actor)
    };
    let times = || woken.each_ref().map(|woken| woken.0.load(Ordering::Relaxed));
    assert!(poll(true).is_pending() && poll(false).is_pending());
    mailbox.let_actors_wait(false);
    assert_eq!(times(), [1, 1]);
    assert_eq!(poll(true), Poll::Ready(false));
    assert!(!mailbox.wait_for_room(&mut None, None, true));
    assert!(poll(false).is_pending());
    mailbox.let_actors_wait(true);
    assert!(poll(true).is_pending());
    assert_eq!((times(), mailbox.waiting()), ([1, 1], 2));
}

#[test]
fn a_future_that_goes_leaves_its_place_to_the_next_unless_it_has_used_it() {
    for is_used in [false, true] {
        let mailbox = Mailbox::new(Capacity::Bounded(1, Overflow::Fail));
        mailbox.send(0).map(drop).unwrap();
        let woken = [(); 3].map(|()| Arc::new(Woken::default()));
        let mut places = [None; 3];
        for (woken, place) in woken.iter().zip(&mut places) {
            let waker = Waker::from(Arc::clone(woken));
            assert!(mailbox.poll_room(place, &waker, false).is_pending());
        }
        let times = || woken.each_ref().map(|woken| woken.0.load(Ordering::Relaxed));
        // One that was not woken has nothing to leave.
        mailbox.leave_room(&mut places[2], false);
        assert_eq!((times(), mailbox.waiting()), ([0, 0, 0], 2));
        // SAFETY: the test is the only activation.
        assert!(unsafe { mailbox.pop() }.is_some());
        mailbox.leave_room(&mut places[0], is_used);
        assert_eq!(times(), [1, u64::from(!is_used), 0]);
        // It has no place any more.
        mailbox.leave_room(&mut places[0], false);
        assert_eq!(times(), [1, u64::from(!is_used), 0]);
    }
}
