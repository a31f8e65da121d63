use super::*;
use crate::base::late::Timed;
use crate::mailbox::asides::{Aside, Told};
use crate::mailbox::block::Slot;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

mod room;

/// Of the small messages in these tests.
const SLOTS: u64 = Block::<u64>::SLOTS;
/// Those of the first block.
const FEW: u64 = Block::<u64>::FEW;

#[test]
fn the_first_message_asks_for_an_activation_and_the_last_worked_off_ends_it() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    // SAFETY: the test is the only activation.
    let again = unsafe { mailbox.finish(Some(mailbox.position())) };
    assert!(!again, "a new mailbox counts as scheduled");
    assert!(!mailbox.is_scheduled());
    assert_eq!(mailbox.send(1), Ok(Sent::Schedule));
    assert!(mailbox.is_scheduled());
    assert_eq!(mailbox.send(2), Ok(Sent::Counted));
    // SAFETY: the test is the only activation.
    unsafe {
        assert_eq!(mailbox.pop(), Some(1));
        assert!(mailbox.finish(Some(mailbox.position())));
        assert_eq!(mailbox.pop(), Some(2));
        assert!(!mailbox.finish(Some(mailbox.position())));
    }
    assert_eq!(mailbox.send(3), Ok(Sent::Schedule));
}

#[test]
fn an_activation_that_has_seen_less_than_was_taken_out_is_followed_by_another() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    // SAFETY: the test is the only activation.
    let seen = unsafe { mailbox.position() };
    assert!(
        mailbox
            .send_with((), &mut Aside::default(), |()| -> u32 { panic!("expected by this test") })
            .is_err()
    );
    // SAFETY: the test is the only activation.
    unsafe {
        assert_eq!(mailbox.pop(), None::<u32>);
        assert!(mailbox.finish(Some(seen)), "nobody has looked at this position");
        assert!(!mailbox.finish(Some(mailbox.position())));
    }
}

#[test]
fn an_activation_that_a_signal_has_come_to_is_followed_by_another() {
    let mailbox = Mailbox::<u32>::new(Capacity::Unbounded);
    assert!(!mailbox.is_signalled());
    assert_eq!(mailbox.signal(), Sent::Counted);
    assert!(mailbox.is_signalled());
    // SAFETY: the test is the only activation.
    unsafe {
        assert!(mailbox.finish(Some(0)));
        mailbox.signals_seen();
        assert!(!mailbox.is_signalled());
        assert!(!mailbox.finish(Some(0)));
    }
    assert_eq!(mailbox.signal(), Sent::Schedule);
}

#[test]
fn a_closed_mailbox_gives_messages_back_and_says_how_many_it_had_accepted() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    for number in 0..100 {
        let _ = mailbox.send(number).unwrap();
        assert_eq!(mailbox.accepted(), number + 1);
    }
    assert!(!mailbox.is_closed());
    assert_eq!(mailbox.close(), 100);
    assert!(mailbox.is_closed());
    assert_eq!(mailbox.send(2), Err((Refused::Closed, 2)));
    assert_eq!(mailbox.depth(), 100);
}

#[test]
fn messages_left_in_a_mailbox_are_dropped_with_it() {
    for left in [0, 1, FEW - 1, FEW, FEW + 1, FEW + SLOTS, 3 * SLOTS] {
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

/// Panics when it is dropped, and counts that.
struct Bomb(Arc<std::sync::atomic::AtomicU64>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("expected by this test");
    }
}

#[test]
fn all_messages_left_in_a_mailbox_are_dropped_although_their_destructors_panic() {
    for left in [1, FEW, FEW + 1, FEW + SLOTS, 3 * SLOTS] {
        let dropped = Arc::default();
        let mailbox = Mailbox::new(Capacity::Unbounded);
        for _ in 0..left {
            assert!(mailbox.send(Bomb(Arc::clone(&dropped))).is_ok());
        }
        drop(mailbox);
        assert_eq!(dropped.load(Ordering::Relaxed), left);
    }
}

#[test]
fn a_message_whose_making_panics_leaves_no_gap() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    let _ = mailbox.send(1).unwrap();
    match mailbox
        .send_with((), &mut Aside::default(), |()| -> u32 { panic!("expected by this test") })
    {
        Err(Unsent::Panicked(Sent::Counted, _)) => {}
        _ => panic!("it panicked"),
    }
    let _ = mailbox.send(3).unwrap();
    // SAFETY: the test is the only activation.
    unsafe {
        assert_eq!((mailbox.pop(), mailbox.pop(), mailbox.pop()), (Some(1), Some(3), None));
        assert!(!mailbox.finish(Some(mailbox.position())));
    }
}

#[test]
fn a_suspended_mailbox_accepts_and_asks_for_nobody() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    mailbox.suspend(true);
    let _ = mailbox.send(1).unwrap();
    // SAFETY: the test is the only activation.
    assert!(!unsafe { mailbox.finish(Some(mailbox.position())) });
    assert_eq!(mailbox.send(2), Ok(Sent::Counted));
    assert_eq!(mailbox.signal(), Sent::Schedule, "a signal wakes it");
    mailbox.signals_seen();
    mailbox.suspend(false);
    // SAFETY: the test is the only activation.
    assert!(unsafe { mailbox.finish(Some(mailbox.position())) });
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
            // SAFETY: the test is the only activation.
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
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let mailbox = &mailbox;
            scope.spawn(move || {
                for number in 0..each {
                    let (mut message, mut place) = ((sender, number), None);
                    while let Err((refused, back)) = mailbox.send(message) {
                        assert_eq!(refused, Refused::Full);
                        assert!(mailbox.wait_for_room(&mut place, None, true));
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
    // SAFETY: the test is the only activation.
    assert!(!unsafe { mailbox.finish(Some(mailbox.position())) });
}

#[test]
fn messages_sent_together_lie_behind_each_other_over_any_number_of_blocks() {
    for before in [0, 1, FEW - 1, FEW, FEW + SLOTS - 1, FEW + SLOTS] {
        for count in [1, 2, FEW, FEW + 1, SLOTS - 1, SLOTS, SLOTS + 1, 3 * SLOTS + 2] {
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
            // SAFETY: the test is the only activation.
            assert!(!unsafe { mailbox.finish(Some(mailbox.position())) });
        }
    }
}

#[test]
fn messages_sent_together_ask_for_one_activation() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    // SAFETY: the test is the only activation.
    assert!(!unsafe { mailbox.finish(Some(mailbox.position())) });
    let (few, slots) = (FEW as usize, SLOTS as usize);
    let all = few + slots + 3;
    let mut messages = 0..all as u64;
    assert_eq!(mailbox.send_some(all, &mut messages), Ok((few, Sent::Schedule)));
    assert_eq!(mailbox.send_some(slots + 3, &mut messages), Ok((slots, Sent::Counted)));
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
        assert!(!mailbox.finish(Some(mailbox.position())));
    }
}

#[test]
fn rows_and_single_messages_of_several_senders_arrive_once_and_in_order() {
    let each: u64 = if cfg!(miri) { 60 } else { 20_000 };
    let mailbox = Mailbox::new(Capacity::Unbounded);
    let mut next = [0; 2];
    thread::scope(|scope| {
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

/// Takes all messages out as an activation that ends with it.
fn drain<T>(mailbox: &Mailbox<T>) -> usize {
    // SAFETY: the test is the only activation.
    let count = std::iter::from_fn(|| unsafe { mailbox.pop() }).count();
    // SAFETY: the test is the only activation.
    assert!(!unsafe { mailbox.finish(Some(mailbox.position())) });
    count
}

#[test]
fn a_mailbox_without_messages_has_no_block() {
    for capacity in [Capacity::Unbounded, Capacity::Bounded(3, Overflow::DropOldest)] {
        let mailbox = Mailbox::<u64>::new(capacity);
        assert_eq!(drain(&mailbox), 0);
        assert_eq!(mailbox.signal(), Sent::Schedule);
        mailbox.signals_seen();
        assert_eq!((mailbox.accepted(), mailbox.depth(), mailbox.evict()), (0, 0, None));
        assert_eq!(mailbox.blocks(), 0);
        assert!(mailbox.send(1).is_ok());
        assert_eq!((mailbox.blocks(), mailbox.accepted(), mailbox.depth()), (1, 1, 1));
        let never_used = Mailbox::<u64>::new(capacity);
        assert_eq!(never_used.close(), 0);
        assert_eq!(never_used.send(2), Err((Refused::Closed, 2)));
        assert_eq!(never_used.blocks(), 0);
    }
}

#[test]
fn the_first_block_has_few_slots_and_is_freed_when_they_have_been_read() {
    const { assert!(1 < FEW && FEW < SLOTS) };
    let mailbox = Mailbox::new(Capacity::Unbounded);
    for number in 1..FEW {
        assert!(mailbox.send(number).is_ok());
    }
    assert_eq!((mailbox.blocks(), mailbox.accepted()), (1, FEW - 1));
    assert!(mailbox.send(FEW).is_ok());
    assert_eq!((mailbox.blocks(), mailbox.accepted()), (2, FEW));
    assert_eq!(drain(&mailbox) as u64, FEW);
    assert_eq!((mailbox.blocks(), mailbox.received(), mailbox.depth()), (1, FEW, 0));
}

#[test]
fn an_idle_mailbox_gives_back_what_a_burst_has_taken() {
    const MANY: u64 = if cfg!(miri) { 300 } else { 1_000 };
    fn burst<T: Copy>(message: T, kept: usize) {
        let mailbox = Mailbox::new(Capacity::Unbounded);
        for round in 0..3 {
            for _ in 0..MANY {
                assert!(mailbox.send(message).is_ok());
            }
            assert!(mailbox.blocks() as u64 >= MANY / Block::<T>::SLOTS);
            assert_eq!(drain(&mailbox) as u64, MANY, "round {round}");
            let blocks = mailbox.blocks();
            assert!(blocks <= kept, "{blocks} blocks are left in round {round}");
        }
    }
    burst(7_u8, 2);
    burst([7_u64; 16], 2);
    burst([7_u8; 5_000], 1);
}

#[test]
fn a_mailbox_at_its_end_gives_all_its_blocks_back_however_it_was_used() {
    let (few, slots) = (Block::<u32>::FEW as u32, Block::<u32>::SLOTS as u32);
    let policies = [Overflow::Fail, Overflow::DropOldest].map(|it| Capacity::Bounded(1_000, it));
    for capacity in policies.into_iter().chain([Capacity::Unbounded]) {
        for count in [0, 1, few - 1, few, few + 1, few + slots - 1, few + slots, 3 * slots] {
            let mailbox = Mailbox::new(capacity);
            for number in 0..count {
                let _ = mailbox.send(number).unwrap();
            }
            assert_eq!(drain(&mailbox), count as usize);
            let _ = mailbox.signal(); // another activation
            let accepted = mailbox.close();
            // SAFETY: nobody else uses the mailbox, and there is no other activation.
            unsafe {
                assert_eq!(mailbox.position(), accepted);
                mailbox.free_blocks();
            }
            assert_eq!((mailbox.blocks(), mailbox.evict()), (0, None));
            assert_eq!(mailbox.send(7).unwrap_err(), (Refused::Closed, 7));
            assert_eq!((mailbox.accepted(), mailbox.blocks()), (u64::from(count), 0));
        }
    }
}

#[test]
fn a_mailbox_in_use_makes_no_blocks() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    for _ in 0..10 * SLOTS {
        for number in 0..SLOTS / 2 {
            assert!(mailbox.send(number).is_ok());
        }
        assert_eq!(drain(&mailbox) as u64, SLOTS / 2);
        assert!(mailbox.blocks() <= 2);
    }
    // And not because the end of an activation gives them back.
    let _ = mailbox.signal();
    for number in 0..10 * SLOTS {
        assert!(mailbox.send(number).is_ok());
        // SAFETY: the test is the only activation.
        assert_eq!(unsafe { mailbox.pop() }, Some(number));
        assert!(mailbox.blocks() <= 2);
    }
}

#[test]
fn a_mailbox_in_use_keeps_so_many_spare_blocks_and_no_more() {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    for number in 0..2 * Mailbox::<u64>::SPARE as u64 * SLOTS {
        mailbox.send(number).map(drop).unwrap();
    }
    // SAFETY: the test is the only activation.
    while unsafe { mailbox.pop() }.is_some() {}
    // And the one that the next message goes into.
    assert_eq!(mailbox.blocks(), Mailbox::<u64>::SPARE + 1);
    assert_eq!((Mailbox::<u64>::SPARE, Mailbox::<[u8; 143]>::SPARE), (32, 32));
    // Of large messages, as many as have 32 KiB.
    assert_eq!((Mailbox::<[u8; 6_000]>::SPARE, Mailbox::<[u8; 1 << 20]>::SPARE), (5, 0));
}

#[test]
fn a_block_has_a_kibibyte_at_most_or_one_slot_and_no_fewer_than_fit() {
    fn check<T>() {
        let (bytes, slots) = (Block::<T>::LAYOUT.size(), Block::<T>::SLOTS);
        assert!(bytes <= 1024 || slots == 1, "{slots} messages of {}: {bytes}", size_of::<T>());
        // The next of 1, 3, 7, 15 and 31.
        let (more, slot) = (2 * slots as usize + 1, size_of::<Slot<T>>());
        let needed = more * slot + size_of::<Block<()>>();
        assert!(slots == 31 || needed > 1024, "{more} messages of {} fit", size_of::<T>());
    }
    check::<()>();
    check::<u64>();
    check::<[u64; 3]>();
    check::<[u64; 4]>();
    check::<[u8; 66]>();
    check::<[u64; 16]>();
    check::<[u8; 143]>();
    check::<[u64; 17]>();
    check::<[u8; 335]>();
    check::<[u8; 336]>();
    check::<[u8; 1 << 20]>();
}

#[test]
fn a_block_of_large_messages_needs_no_stack() {
    // A mailbox, and a block that is larger than the stack of this thread.
    let small = std::thread::Builder::new().stack_size(128 * 1024);
    let thread = small.spawn(|| {
        drop(Mailbox::<[u8; 1 << 20]>::new(Capacity::Unbounded));
        let block = Block::<[u8; 1 << 20]>::new();
        // SAFETY: just made, and nobody else has it.
        unsafe { Block::free(block) };
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn messages_with_an_alignment_of_their_own_lie_as_they_must() {
    #[repr(align(256))]
    #[derive(Clone, Copy)]
    struct Aligned(u8);

    let mailbox = Mailbox::new(Capacity::Unbounded);
    for number in 0..100 {
        assert!(mailbox.send(Aligned(number)).is_ok());
    }
    // SAFETY: the test is the only activation.
    let received = std::iter::from_fn(|| unsafe { mailbox.pop() }).map(|message| message.0);
    assert!(received.eq(0..100));
}

#[cfg(not(lars_shuttle))]
#[test]
fn the_parts_of_a_mailbox_begin_a_cache_line_apart() {
    use std::mem::offset_of;
    assert_eq!(offset_of!(Mailbox<u64>, tail), 0);
    assert_eq!(offset_of!(Mailbox<u64>, middle), LINE);
    assert_eq!(offset_of!(Mailbox<u64>, head), 2 * LINE);
    // So that the first two words of a part lie on one line wherever an allocator puts it.
    assert_eq!(align_of::<Mailbox<u64>>(), 2 * size_of::<u64>());
}

fn beside(told: Option<Told>) -> Aside {
    Aside { told, timed: None }
}

#[test]
fn messages_come_with_their_spans_and_every_span_is_given_back() {
    let span: Told = Arc::new(lars_base::in_span::CapturedSpan::here());
    let told = |number: u64| number.is_multiple_of(3).then(|| Arc::clone(&span));
    let send = |mailbox: &Mailbox<u64>, number| {
        mailbox.send_with(number, &mut beside(told(number)), |it| it).map(drop).is_ok()
    };
    let pop = |mailbox: &Mailbox<u64>| {
        let mut found = Aside::default();
        // SAFETY: the test is the only activation.
        let message = unsafe { mailbox.pop_with_aside(&mut found) };
        (message, found.told.is_some())
    };
    let mailbox = Mailbox::new(Capacity::Unbounded).with_asides(true, false);
    for round in 0..3 {
        for number in 0..5 * SLOTS + round {
            assert!(send(&mailbox, number));
        }
        for number in 0..5 * SLOTS + round {
            assert_eq!(pop(&mailbox), (Some(number), told(number).is_some()));
        }
        assert_eq!(Arc::strong_count(&span), 1);
    }
    // One whose making panics, one that is refused, one that is left.
    let panics = |()| -> u64 { panic!("expected by this test") };
    assert!(mailbox.send_with((), &mut beside(told(0)), panics).is_err());
    assert!(send(&mailbox, 0));
    mailbox.close();
    assert!(!send(&mailbox, 3));
    assert_eq!(Arc::strong_count(&span), 2);
    drop(mailbox);
    assert_eq!(Arc::strong_count(&span), 1);

    let bounded = Mailbox::new(Capacity::Bounded(2, Overflow::DropOldest)).with_asides(true, false);
    assert!(send(&bounded, 0) && send(&bounded, 3) && !send(&bounded, 6));
    assert_eq!((bounded.evict().as_deref(), Arc::strong_count(&span)), (Some(&0), 2));
    assert!(send(&bounded, 1));
    assert_eq!(bounded.evict().as_deref(), Some(&3));
    assert_eq!((pop(&bounded), Arc::strong_count(&span)), ((Some(1), false), 1));
}

#[test]
fn messages_of_timers_come_with_when_they_were_due_and_are_counted_while_they_wait() {
    let now = crate::sync::real_now();
    let due = || Aside { told: None, timed: Some(Timed { promised: now, put_in: now }) };
    let pop = |mailbox: &Mailbox<u64>| {
        let mut found = Aside::default();
        // SAFETY: the test is the only activation.
        (unsafe { mailbox.pop_with_aside(&mut found) }, found.timed.is_some())
    };
    let timed = |mailbox: &Mailbox<u64>| mailbox.asides().unwrap().timed();
    for spans in [true, false] {
        let capacity = Capacity::Bounded(2, Overflow::DropOldest);
        let mailbox = Mailbox::new(capacity).with_asides(spans, true);
        assert_eq!(mailbox.has_spans(), spans);
        assert!(mailbox.send(1).is_ok());
        assert!(mailbox.send_with(2, &mut due(), |it| it).is_ok());
        assert!(mailbox.send_with(3, &mut due(), |it| it).is_err());
        assert_eq!(timed(&mailbox), (true, 1));
        assert_eq!(pop(&mailbox), (Some(1), false));
        assert!(mailbox.send_with(4, &mut due(), |it| it).is_ok());
        assert_eq!((mailbox.evict().as_deref(), timed(&mailbox)), (Some(&2), (true, 2)));
        assert_eq!((pop(&mailbox), timed(&mailbox)), ((Some(4), true), (false, 2)));
        assert_eq!(pop(&mailbox), (None, false));
    }
    assert!(Mailbox::<u64>::new(Capacity::Unbounded).with_asides(false, false).asides().is_none());
}

#[test]
fn messages_of_two_threads_are_received_with_the_spans_in_which_they_were_told() {
    const EACH: u64 = if cfg!(miri) { 100 } else { 300_000 };
    let span: Told = Arc::new(lars_base::in_span::CapturedSpan::here());
    let mailbox = Mailbox::new(Capacity::Unbounded).with_asides(true, false);
    thread::scope(|scope| {
        // Of one sender every second message has a span, of the other none.
        for spans in [true, false] {
            let (mailbox, span) = (&mailbox, &span);
            scope.spawn(move || {
                for number in 0..EACH {
                    let number = 2 * number + u64::from(spans);
                    let told = (number % 4 == 3).then(|| Arc::clone(span));
                    assert!(mailbox.send_with(number, &mut beside(told), |it| it).is_ok());
                }
            });
        }
        let mut received = 0;
        while received < 2 * EACH {
            let mut found = Aside::default();
            // SAFETY: the test is the only activation.
            let Some(number) = (unsafe { mailbox.pop_with_aside(&mut found) }) else {
                thread::yield_now();
                continue;
            };
            assert_eq!(found.told.is_some(), number % 4 == 3, "message {number}");
            received += 1;
        }
    });
    assert_eq!(Arc::strong_count(&span), 1);
}
