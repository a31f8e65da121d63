use super::*;
use std::sync::Arc;

#[test]
fn the_first_message_asks_for_an_activation_and_the_last_worked_off_ends_it() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    // SAFETY: here and below, the test is the only activation.
    assert!(!unsafe { mailbox.finish(false) }, "a new mailbox counts as scheduled");
    assert_eq!(mailbox.send(1), Ok(Sent::Schedule));
    assert_eq!(mailbox.send(2), Ok(Sent::Counted));
    // SAFETY: as above.
    unsafe {
        assert_eq!(mailbox.pop(), Some(1));
        assert!(mailbox.finish(false));
        assert_eq!(mailbox.pop(), Some(2));
        assert!(!mailbox.finish(false));
    }
    assert_eq!(mailbox.send(3), Ok(Sent::Schedule));
}

#[test]
fn a_closed_mailbox_gives_messages_back_and_says_how_many_it_had_accepted() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    for number in 0..100 {
        let _ = mailbox.send(number).unwrap();
        assert_eq!(mailbox.accepted(), number + 1);
    }
    assert_eq!(mailbox.close(), 100);
    assert_eq!(mailbox.send(2), Err((Refused::Closed, 2)));
    assert_eq!(mailbox.depth(), 100);
}

#[test]
fn messages_left_in_a_mailbox_are_dropped_with_it() {
    for left in [0, 1, SLOTS - 1, SLOTS, SLOTS + 1, 3 * SLOTS] {
        let shared = Arc::new(());
        let mailbox = Mailbox::new(Capacity::Unbounded);
        for _ in 0..left + 5 {
            assert!(mailbox.send(Arc::clone(&shared)).is_ok());
        }
        for _ in 0..5 {
            // SAFETY: the test is the only activation.
            assert!(unsafe { mailbox.pop() }.is_some());
        }
        drop(mailbox);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}

#[test]
fn a_message_whose_making_panics_leaves_no_gap() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    let _ = mailbox.send(1).unwrap();
    match mailbox.send_with((), |()| panic!("expected by this test")) {
        Err(Unsent::Panicked(Sent::Counted, _)) => {}
        _ => panic!("it panicked"),
    }
    let _ = mailbox.send(3).unwrap();
    // SAFETY: the test is the only activation.
    unsafe {
        assert_eq!((mailbox.pop(), mailbox.pop(), mailbox.pop()), (Some(1), Some(3), None));
        assert!(!mailbox.finish(false));
    }
}

#[test]
fn a_suspended_mailbox_accepts_and_asks_for_nobody() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    mailbox.suspend(true);
    let _ = mailbox.send(1).unwrap();
    // SAFETY: here and below, the test is the only activation.
    assert!(!unsafe { mailbox.finish(false) });
    assert_eq!(mailbox.send(2), Ok(Sent::Counted));
    assert_eq!(mailbox.signal(), Sent::Schedule, "a signal wakes it");
    mailbox.signals_seen();
    mailbox.suspend(false);
    // SAFETY: as above.
    assert!(unsafe { mailbox.finish(false) });
}

#[test]
fn a_bounded_mailbox_holds_exactly_its_capacity_and_has_room_again_at_once() {
    let mailbox = Mailbox::new(Capacity::Bounded(3, Overflow::Fail));
    for round in 0..50 {
        for number in 0..3 {
            assert!(mailbox.send(number).is_ok(), "round {round}");
        }
        assert_eq!(mailbox.send(9), Err((Refused::Full, 9)));
        // SAFETY: the test is the only activation.
        assert_eq!(unsafe { mailbox.pop() }, Some(0));
        assert!(mailbox.send(3).is_ok());
        for expected in [1, 2, 3] {
            // SAFETY: as above.
            assert_eq!(unsafe { mailbox.pop() }, Some(expected));
        }
    }
}

#[test]
fn each_sender_s_messages_arrive_once_and_in_order() {
    each_arrives_in_order(Capacity::Unbounded);
}

#[test]
fn the_same_with_senders_that_wait_for_room() {
    each_arrives_in_order(Capacity::Bounded(7, Overflow::Block(Duration::MAX)));
}

fn each_arrives_in_order(capacity: Capacity) {
    const SENDERS: u64 = 3;
    let each = if cfg!(miri) { 50 } else { 20_000 };
    let mailbox = Mailbox::new(capacity);
    let mut next = [0; SENDERS as usize];
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let mailbox = &mailbox;
            scope.spawn(move || {
                for number in 0..each {
                    let mut message = (sender, number);
                    while let Err((refused, back)) = mailbox.send(message) {
                        assert_eq!(refused, Refused::Full);
                        assert!(mailbox.wait_for_room(None));
                        message = back;
                    }
                }
            });
        }
        let mut received = 0;
        while received < SENDERS * each {
            // SAFETY: the only activation.
            match unsafe { mailbox.pop() } {
                Some((sender, number)) => {
                    assert_eq!(number, next[sender as usize]);
                    next[sender as usize] += 1;
                    received += 1;
                }
                None => crate::sync::yield_now(),
            }
        }
    });
    assert_eq!(mailbox.accepted(), SENDERS * each);
    // SAFETY: as above.
    assert!(!unsafe { mailbox.finish(false) });
}
