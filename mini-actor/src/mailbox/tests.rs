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
                        assert!(mailbox.wait_for_room(None, true));
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

#[test]
fn messages_sent_together_lie_behind_each_other_over_any_number_of_blocks() {
    for before in [0, 1, SLOTS - 1, SLOTS] {
        for count in [1, 2, SLOTS - 1, SLOTS, SLOTS + 1, 3 * SLOTS + 2] {
            let mailbox = Mailbox::new(Capacity::Unbounded);
            let mut messages = 0..before + count;
            for number in messages.by_ref().take(before as usize) {
                assert_eq!(mailbox.send(number), Ok(Sent::Counted));
            }
            let (mut left, mut calls) = (count as usize, 0);
            while left > 0 {
                let (taken, sent) = mailbox.send_some(left, &mut messages).unwrap();
                assert_eq!(sent, Sent::Counted);
                assert!(taken > 0);
                left -= taken;
                calls += 1;
            }
            assert!(calls <= count / SLOTS + 2, "{calls} calls for {count} behind {before}");
            assert_eq!(mailbox.accepted(), before + count);
            for expected in 0..before + count {
                // SAFETY: the test is the only activation.
                assert_eq!(unsafe { mailbox.pop() }, Some(expected));
            }
            // SAFETY: as above.
            assert!(!unsafe { mailbox.finish(false) });
        }
    }
}

#[test]
fn messages_sent_together_ask_for_one_activation() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    // SAFETY: the test is the only activation.
    assert!(!unsafe { mailbox.finish(false) });
    let mut messages = 0..SLOTS + 3;
    assert_eq!(
        mailbox.send_some(messages.clone().count(), &mut messages),
        Ok((SLOTS as usize, Sent::Schedule))
    );
    assert_eq!(mailbox.send_some(3, &mut messages), Ok((3, Sent::Counted)));
}

#[test]
fn messages_sent_together_do_not_exceed_a_bound_and_none_is_taken_by_a_closed_mailbox() {
    let mailbox = Mailbox::new(Capacity::Bounded(5, Overflow::Fail));
    let mut messages = 0..9;
    assert_eq!(mailbox.send_some(3, &mut messages), Ok((3, Sent::Counted)));
    assert_eq!(mailbox.send_some(6, &mut messages), Ok((2, Sent::Counted)));
    assert_eq!(mailbox.send_some(4, &mut messages), Err(Refused::Full));
    // SAFETY: the test is the only activation.
    assert_eq!(unsafe { mailbox.pop() }, Some(0));
    assert_eq!(mailbox.send_some(4, &mut messages), Ok((1, Sent::Counted)));
    mailbox.close();
    assert_eq!(mailbox.send_some(3, &mut messages), Err(Refused::Closed));
    assert_eq!(messages, 6..9);
}

#[test]
fn a_row_that_ends_too_soon_leaves_no_gap() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    let mut two = [1, 2].into_iter();
    assert!(mailbox.send_some(4, &mut two).is_ok());
    let _ = mailbox.send(3).unwrap();
    // SAFETY: the test is the only activation.
    unsafe {
        assert_eq!((mailbox.pop(), mailbox.pop()), (Some(1), Some(2)));
        assert_eq!((mailbox.pop(), mailbox.pop()), (Some(3), None));
        assert!(!mailbox.finish(false));
    }
}

#[test]
fn rows_and_single_messages_of_several_senders_arrive_once_and_in_order() {
    let each: u64 = if cfg!(miri) { 60 } else { 20_000 };
    let mailbox = Mailbox::new(Capacity::Unbounded);
    let mut next = [0; 2];
    std::thread::scope(|scope| {
        for sender in 0..2_u64 {
            let mailbox = &mailbox;
            scope.spawn(move || {
                let mut messages = (0..each).map(|number| (sender, number));
                let mut left = each as usize;
                while left > 0 {
                    // From 1 to more than two blocks.
                    let wanted = (left * 7 % 70 + 1).min(left);
                    left -= mailbox.send_some(wanted, &mut messages).unwrap().0;
                }
            });
        }
        let mut received = 0;
        while received < 2 * each {
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
}
