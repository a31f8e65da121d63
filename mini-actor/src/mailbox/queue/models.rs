//! Blocks have three slots here; the models begin where the last one is near.

use super::*;
use crate::base::late::Timed;
use crate::mailbox::asides::Aside;
use crate::sync::{AtomicU64, yield_now};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

/// Explores with at most three involuntary switches per execution, which finds nearly all there is
/// to find (Musuvathi and Qadeer, *Iterative context bounding*, PLDI 2007) and keeps the time
/// finite.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    // A model that begins after a burst has a longer way.
    builder.max_branches = 4_000;
    builder.check(model);
}

/// Runs `code` on a thread of its own.
fn beside<T, R>(
    mailbox: &Arc<Mailbox<T>>,
    code: impl FnOnce(Arc<Mailbox<T>>) -> R + 'static,
) -> thread::JoinHandle<R>
where
    T: Send + 'static,
    R: 'static,
{
    let mailbox = Arc::clone(mailbox);
    thread::spawn(move || code(mailbox))
}

/// Takes messages out until it has this many.
fn receive(mailbox: &Mailbox<u32>, seen: &mut Vec<u32>, count: usize) {
    while seen.len() < count {
        // SAFETY: we are the activation.
        match unsafe { mailbox.pop() } {
            Some(message) => seen.push(message),
            None => yield_now(),
        }
    }
}

/// How many messages lie before the last slot of the first block, which is short; and of the
/// second one.
const LAST_OF_SHORT: u32 = 1;
const LAST_OF_WHOLE: u32 = 4;

/// A mailbox that has had so many messages.
fn used(capacity: Capacity, nth: u32) -> Mailbox<u32> {
    const { assert!(Block::<u32>::SLOTS == 3 && Block::<u32>::FEW == 2) };
    let mailbox = Mailbox::new(capacity);
    for _ in 0..nth {
        mailbox.send(9).map(drop).unwrap();
        // SAFETY: nobody else has it.
        assert_eq!(unsafe { mailbox.pop() }, Some(9));
    }
    mailbox
}

/// A mailbox that nobody is scheduled for, and that has had so many messages.
fn idle(nth: u32) -> Mailbox<u32> {
    let mailbox = used(Capacity::Unbounded, nth);
    // SAFETY: nobody else has it.
    assert!(!unsafe { mailbox.finish(Some(mailbox.position())) });
    mailbox
}

/// Activations, as tokens: a sender that is told to schedule adds one; a token in use is a run.
#[derive(Default)]
struct Tokens(AtomicU64);

impl Tokens {
    fn add(&self, sent: Sent) {
        if sent == Sent::Schedule {
            assert_eq!(self.0.fetch_add(1, Ordering::AcqRel), 0, "two activations at once");
        }
    }

    /// Runs an activation for one message, the most demanding. `false` if there is no token.
    fn run(&self, mailbox: &Mailbox<u32>, seen: &mut Vec<u32>) -> bool {
        if self.0.load(Ordering::Acquire) == 0 {
            return false;
        }
        // SAFETY: we hold the token.
        seen.extend(unsafe { mailbox.pop() });
        // Given up before `finish`, which may hand it to a sender.
        self.0.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: the activation ends with this.
        if unsafe { mailbox.finish(Some(mailbox.position())) } {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
        true
    }
}

fn two_senders_and_an_activation(nth: u32) {
    check(move || {
        let mailbox = Arc::new(idle(nth));
        let tokens = Arc::new(Tokens::default());
        let senders: Vec<_> = (1..=2)
            .map(|number| {
                let (mailbox, tokens) = (Arc::clone(&mailbox), Arc::clone(&tokens));
                thread::spawn(move || tokens.add(mailbox.send(number).unwrap()))
            })
            .collect();
        let mut seen = Vec::new();
        tokens.run(&mailbox, &mut seen);
        for sender in senders {
            sender.join().unwrap();
        }
        // Whatever is left in the mailbox, somebody has been asked to see to it.
        while tokens.run(&mailbox, &mut seen) {}
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    });
}

#[test]
fn two_senders_and_an_activation_lose_nothing_and_never_run_twice_at_once() {
    two_senders_and_an_activation(0);
}

#[test]
fn the_same_while_one_of_the_senders_appends_a_block() {
    two_senders_and_an_activation(LAST_OF_WHOLE);
}

#[test]
fn the_same_while_the_first_block_of_all_is_read_and_freed() {
    two_senders_and_an_activation(LAST_OF_SHORT);
}

#[test]
fn the_first_message_of_all_races_with_closing_and_is_given_back_or_counted() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Unbounded));
        let sender = beside(&mailbox, move |mailbox| mailbox.send(1));
        let accepted = mailbox.close();
        let mut seen = Vec::new();
        receive(&mailbox, &mut seen, accepted as usize);
        match sender.join().unwrap() {
            Ok(_) => assert_eq!(seen, [1]),
            Err((Refused::Closed, 1)) => assert!(seen.is_empty()),
            Err(other) => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_message_that_races_with_closing_is_given_back_or_counted() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Unbounded));
        assert_eq!(mailbox.send(0), Ok(Sent::Counted));
        let sender = beside(&mailbox, move |mailbox| mailbox.send(1));
        let accepted = mailbox.close();
        let mut seen = Vec::new();
        receive(&mailbox, &mut seen, accepted as usize);
        match sender.join().unwrap() {
            Ok(_) => assert_eq!(seen, [0, 1]),
            Err((Refused::Closed, 1)) => assert_eq!(seen, [0]),
            Err(other) => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_signal_that_races_with_the_end_of_an_activation_is_seen() {
    check(|| {
        let mailbox = Arc::new(Mailbox::<u32>::new(Capacity::Unbounded));
        let lane = Arc::new(AtomicU64::new(0));
        let sender = {
            let (mailbox, lane) = (Arc::clone(&mailbox), Arc::clone(&lane));
            thread::spawn(move || {
                lane.fetch_add(1, Ordering::Release);
                mailbox.signal()
            })
        };
        // An activation that looks at its lane, and whatever comes after it.
        loop {
            mailbox.signals_seen();
            let taken = lane.swap(0, Ordering::Acquire);
            // SAFETY: we are the activation.
            if !unsafe { mailbox.finish(Some(mailbox.position())) } {
                let again = sender.join().unwrap() == Sent::Schedule;
                let left = lane.load(Ordering::Acquire);
                // What was not taken asked for another activation.
                assert!(left == 0 || again, "taken {taken}, left {left}");
                break;
            }
            yield_now();
        }
    });
}

/// An actor's life: touched by its activations only, which the model sees.
struct Life(UnsafeCell<u32>);

// SAFETY: the run word lets one activation touch it at a time, which is what the models check.
unsafe impl Sync for Life {}
// SAFETY: it is a number.
unsafe impl Send for Life {}

/// Each of two threads asks for an activation, and runs it if it is told to, on its own. The second
/// may read the word before the first one's activation and change it after that: the word may then
/// be the same as before.
fn activations_follow_each_other(
    first: fn(&Mailbox<u32>) -> Sent,
    second: fn(&Mailbox<u32>) -> Sent,
) {
    check(move || {
        let mailbox = Arc::new(idle(0));
        let life = Arc::new(Life(UnsafeCell::new(0)));
        let asks = |ask: fn(&Mailbox<u32>) -> Sent| {
            let life = Arc::clone(&life);
            move |mailbox: Arc<Mailbox<u32>>| {
                if ask(&mailbox) == Sent::Counted {
                    return;
                }
                loop {
                    // SAFETY: we are the activation.
                    life.0.with_mut(|life| unsafe { *life += 1 });
                    if mailbox.is_signalled() {
                        mailbox.signals_seen();
                    }
                    // SAFETY: we are the activation.
                    let seen = unsafe { mailbox.position() };
                    // SAFETY: we are the activation.
                    let popped = unsafe { mailbox.pop() };
                    // SAFETY: we are the activation.
                    if !unsafe { mailbox.finish(popped.is_none().then_some(seen)) } {
                        break;
                    }
                    yield_now();
                }
            }
        };
        let second = beside(&mailbox, asks(second));
        asks(first)(Arc::clone(&mailbox));
        second.join().unwrap();
        // SAFETY: no activation is left.
        assert!(life.0.with_mut(|life| unsafe { *life }) > 0);
    });
}

#[test]
fn the_activation_for_a_message_comes_after_that_for_a_signal_which_its_sender_did_not_see() {
    activations_follow_each_other(Mailbox::signal, |mailbox| mailbox.send(1).unwrap());
}

#[test]
fn the_activation_for_a_signal_comes_after_the_one_before() {
    activations_follow_each_other(Mailbox::signal, Mailbox::signal);
    activations_follow_each_other(|mailbox| mailbox.send(1).unwrap(), Mailbox::signal);
}

#[test]
fn what_is_signalled_is_seen_by_the_activation_that_clears_the_bit() {
    check(|| {
        let mailbox = Arc::new(Mailbox::<u32>::new(Capacity::Unbounded));
        let lane = Arc::new(Life(UnsafeCell::new(0)));
        let signalling = {
            let lane = Arc::clone(&lane);
            beside(&mailbox, move |mailbox| {
                // SAFETY: the activation looks when it has seen the bit.
                lane.0.with_mut(|lane| unsafe { *lane = 7 });
                assert_eq!(mailbox.signal(), Sent::Counted);
            })
        };
        while !mailbox.is_signalled() {
            yield_now();
        }
        mailbox.signals_seen();
        // SAFETY: nobody writes after the signal.
        lane.0.with(|lane| assert_eq!(unsafe { *lane }, 7));
        signalling.join().unwrap();
    });
}

#[test]
fn what_an_actor_did_before_it_closed_is_seen_by_those_who_find_it_closed() {
    check(|| {
        let mailbox = Arc::new(Mailbox::<u32>::new(Capacity::Unbounded));
        let life = Arc::new(Life(UnsafeCell::new(0)));
        let is_refused = |mailbox: &Mailbox<u32>| mailbox.send(1).is_err();
        let looks: [fn(&Mailbox<u32>) -> bool; 2] = [Mailbox::is_closed, is_refused];
        let others = looks.map(|finds_it_closed| {
            let life = Arc::clone(&life);
            beside(&mailbox, move |mailbox| {
                if finds_it_closed(&mailbox) {
                    // SAFETY: the actor writes no more.
                    life.0.with(|life| assert_eq!(unsafe { *life }, 7));
                }
            })
        });
        // SAFETY: the others read only when the mailbox is closed.
        life.0.with_mut(|life| unsafe { *life = 7 });
        mailbox.close();
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn a_bounded_mailbox_never_holds_more_than_its_capacity() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, Overflow::Fail)));
        let accepted = Arc::new(AtomicU64::new(0));
        let received = Arc::new(AtomicU64::new(0));
        let senders: Vec<_> = (1..=2)
            .map(|number| {
                let (mailbox, accepted) = (Arc::clone(&mailbox), Arc::clone(&accepted));
                thread::spawn(move || {
                    if mailbox.send(number).is_ok() {
                        accepted.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            // SAFETY: we are the activation.
            let taken = unsafe { mailbox.pop() }.is_some();
            received.fetch_add(u64::from(taken), Ordering::Relaxed);
            assert!(mailbox.accepted() <= received.load(Ordering::Relaxed) + 1);
            yield_now();
        }
        for sender in senders {
            sender.join().unwrap();
        }
        // SAFETY: we are the activation.
        while unsafe { mailbox.pop() }.is_some() {
            received.fetch_add(1, Ordering::Relaxed);
        }
        let accepted = accepted.load(Ordering::Relaxed);
        assert!(accepted >= 1);
        assert_eq!(received.load(Ordering::Relaxed), accepted);
    });
}

#[test]
fn who_finds_a_message_of_a_timer_finds_when_it_was_due() {
    check(|| {
        let capacity = Capacity::Bounded(2, Overflow::DropOldest);
        let mailbox = Arc::new(Mailbox::new(capacity).with_asides(false, true));
        let send = |mailbox: &Mailbox<u32>, message: u32| {
            let now = crate::sync::real_now();
            let timed = Some(Timed { promised: now, put_in: now });
            let mut aside = Aside { told: None, timed };
            assert!(mailbox.send_with(message, &mut aside, |it| it).is_ok());
        };
        let sending = beside(&mailbox, move |mailbox| {
            send(&mailbox, 1);
            mailbox.send(2).map(drop).unwrap();
        });
        let evicting = beside(&mailbox, |mailbox| usize::from(mailbox.evict().is_some()));
        let mut seen = 0;
        let mut pop = || {
            let mut aside = Aside::default();
            // SAFETY: we are the activation.
            let message = unsafe { mailbox.pop_with_aside(&mut aside) };
            if let Some(message) = message {
                assert_eq!(aside.timed.is_some(), message == 1, "message {message}");
                seen += 1;
            }
        };
        pop();
        sending.join().unwrap();
        let evicted = evicting.join().unwrap();
        pop();
        pop();
        assert_eq!(seen + evicted, 2);
        assert!(!mailbox.asides().unwrap().timed().0, "what is beside one is left");
    });
}

#[test]
fn the_oldest_message_is_received_or_evicted_and_never_both() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, Overflow::DropOldest)));
        mailbox.send(0).map(drop).unwrap();
        let sender = beside(&mailbox, move |mailbox| {
            let mut evicted = Vec::new();
            while mailbox.send(1).is_err() {
                evicted.extend(mailbox.evict().map(|it| *it));
            }
            evicted
        });
        // SAFETY: we are the activation.
        let mut seen: Vec<u32> = unsafe { mailbox.pop() }.into_iter().collect();
        seen.extend(sender.join().unwrap());
        // SAFETY: we are the activation.
        while let Some(message) = unsafe { mailbox.pop() } {
            seen.push(message);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
    });
}

/// The mailbox is closed with one message in it, which its activation receives or a sender evicts.
/// Whichever it is, an activation sees that nothing is left.
#[test]
fn the_last_message_of_a_closed_mailbox_is_evicted_and_an_activation_sees_its_end() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, Overflow::DropOldest)));
        mailbox.send(0_u32).map(drop).unwrap();
        let sender = beside(&mailbox, move |mailbox| mailbox.evict().map(|it| *it));
        let accepted = mailbox.close();
        // What an activation does, and those that it asks for.
        let ended = loop {
            // SAFETY: we are the activation.
            let seen = unsafe { mailbox.position() };
            if seen == accepted {
                break true;
            }
            // SAFETY: we are the activation.
            let popped = unsafe { mailbox.pop() };
            // SAFETY: we are the activation.
            if popped.is_none() && !unsafe { mailbox.finish(Some(seen)) } {
                break false;
            }
            yield_now();
        };
        assert!(ended, "nobody looks at the closed mailbox again");
        sender.join().unwrap();
    });
}

/// Closes the mailbox, receives what it has accepted, and frees its blocks, as a last activation
/// does.
fn close_and_free(mailbox: &Mailbox<u32>) -> Vec<u32> {
    let accepted = mailbox.close();
    let mut seen = Vec::new();
    // SAFETY: we are the one activation, and the last.
    unsafe {
        while mailbox.position() < accepted {
            match mailbox.pop() {
                Some(message) => seen.push(message),
                None => yield_now(),
            }
        }
        mailbox.free_blocks();
    }
    seen
}

/// The mailbox ends with one message in it, the one after so many, while a sender evicts that and
/// puts another in. The model fails if the sender looks at a block that has been freed.
fn a_sender_that_evicts_races_with_the_end(nth: u32) {
    check(move || {
        let mailbox = Arc::new(used(Capacity::Bounded(1, Overflow::DropOldest), nth));
        mailbox.send(0).map(drop).unwrap();
        let sender = beside(&mailbox, |mailbox| {
            let mut had = Vec::new();
            loop {
                match mailbox.send(1) {
                    Ok(_) => return had,
                    Err((Refused::Closed, message)) => {
                        had.push(message);
                        return had;
                    }
                    Err((Refused::Full, _)) => match mailbox.evict() {
                        Some(message) => had.push(*message),
                        None => yield_now(),
                    },
                }
            }
        });
        let mut seen = close_and_free(&mailbox);
        seen.extend(sender.join().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
        assert_eq!(mailbox.blocks(), 0);
    });
}

#[test]
fn a_sender_that_evicts_at_the_end_of_a_mailbox_looks_at_no_block_that_has_been_freed() {
    a_sender_that_evicts_races_with_the_end(0);
}

#[test]
fn the_same_while_the_reader_goes_from_one_block_to_the_next() {
    a_sender_that_evicts_races_with_the_end(LAST_OF_WHOLE);
}

#[test]
fn the_same_while_the_reader_leaves_the_first_block_of_all_which_is_freed() {
    a_sender_that_evicts_races_with_the_end(LAST_OF_SHORT);
}

#[test]
fn a_sender_that_appends_a_block_at_the_end_of_a_mailbox_leaves_none() {
    for nth in [0, LAST_OF_SHORT, LAST_OF_WHOLE] {
        check(move || {
            let mailbox = Arc::new(idle(nth));
            let sender = beside(&mailbox, |mailbox| mailbox.send(1).is_err());
            let mut seen = close_and_free(&mailbox);
            seen.extend(sender.join().unwrap().then_some(1));
            assert_eq!(seen, [1]);
            assert_eq!(mailbox.blocks(), 0);
        });
    }
}

#[test]
fn a_block_that_is_given_back_while_others_are_appended_is_used_by_one_of_them() {
    check(|| {
        let mailbox = Arc::new(idle(LAST_OF_SHORT + 1));
        // A full block, and the next one up to its last slot.
        for number in 0..5 {
            mailbox.send(number).map(drop).unwrap();
        }
        let sender = beside(&mailbox, move |mailbox| {
            for number in 5..9 {
                mailbox.send(number).map(drop).unwrap();
            }
        });
        let mut seen = Vec::new();
        for _ in 0..6 {
            // SAFETY: we are the activation.
            seen.extend(unsafe { mailbox.pop() });
        }
        sender.join().unwrap();
        // SAFETY: we are the activation.
        while let Some(message) = unsafe { mailbox.pop() } {
            seen.push(message);
        }
        assert_eq!(seen, (0..9).collect::<Vec<u32>>());
    });
}

/// Sends all, however many calls that takes.
fn send_all(mailbox: &Mailbox<u32>, tokens: &Tokens, messages: std::ops::Range<u32>) {
    let mut left = messages.len();
    let mut messages = messages;
    while left > 0 {
        let (taken, sent) = mailbox.send_some(left, &mut messages).unwrap();
        tokens.add(sent);
        left -= taken;
    }
}

fn a_row_a_sender_and_an_activation(nth: u32) {
    check(move || {
        let mailbox = Arc::new(idle(nth));
        let tokens = Arc::new(Tokens::default());
        let row = {
            let (mailbox, tokens) = (Arc::clone(&mailbox), Arc::clone(&tokens));
            thread::spawn(move || send_all(&mailbox, &tokens, 1..4))
        };
        let sender = {
            let (mailbox, tokens) = (Arc::clone(&mailbox), Arc::clone(&tokens));
            thread::spawn(move || tokens.add(mailbox.send(7).unwrap()))
        };
        let mut seen = Vec::new();
        tokens.run(&mailbox, &mut seen);
        row.join().unwrap();
        sender.join().unwrap();
        while tokens.run(&mailbox, &mut seen) {}
        let row: Vec<_> = seen.iter().copied().filter(|&number| number < 7).collect();
        assert_eq!(row, [1, 2, 3], "of {seen:?}");
        assert_eq!(seen.len(), 4);
    });
}

#[test]
fn a_row_that_fills_a_block_races_with_a_sender_and_an_activation() {
    a_row_a_sender_and_an_activation(LAST_OF_SHORT + 1);
}

#[test]
fn the_same_with_a_row_that_goes_over_two_blocks() {
    a_row_a_sender_and_an_activation(LAST_OF_SHORT + 2);
}

#[test]
fn the_same_with_a_row_that_goes_over_the_first_block_of_all() {
    a_row_a_sender_and_an_activation(0);
}

#[test]
fn a_row_that_races_with_closing_is_counted_as_far_as_it_came() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Unbounded));
        assert_eq!(mailbox.send(0), Ok(Sent::Counted));
        let row = beside(&mailbox, move |mailbox| {
            let mut messages = 1..4;
            let mut sent = 0;
            while sent < 3 {
                match mailbox.send_some(3 - sent, &mut messages) {
                    Ok((taken, _)) => sent += taken,
                    Err(refused) => {
                        assert_eq!(refused, Refused::Closed);
                        break;
                    }
                }
            }
            assert_eq!(messages.len(), 3 - sent, "what was not sent is still there");
            sent as u64
        });
        let accepted = mailbox.close();
        let mut seen = Vec::new();
        receive(&mailbox, &mut seen, accepted as usize);
        assert_eq!(accepted, 1 + row.join().unwrap());
        assert_eq!(seen, (0..accepted as u32).collect::<Vec<_>>());
    });
}

/// A mailbox after a burst: its activation is about to end, so many of its blocks are spare, and
/// the next message is the last of its block.
fn after_a_burst(spare: usize, capacity: Capacity) -> Mailbox<u32> {
    let mailbox = Mailbox::new(capacity);
    let (slots, few) = (Block::<u32>::SLOTS as usize, Block::<u32>::FEW as usize);
    let mut left = few + (spare + 1) * slots - 1;
    while left > 0 {
        // The first blocks together, so that they are in use at once.
        let row = left.min(few + spare * slots);
        send_all(&mailbox, &Tokens::default(), 0..row as u32);
        for _ in 0..row {
            // SAFETY: nobody else has it.
            assert!(unsafe { mailbox.pop() }.is_some());
        }
        left -= row;
    }
    assert_eq!(mailbox.blocks(), spare + 1);
    mailbox
}

/// Ends an activation, and runs those that are asked for, until there is none.
fn end(mailbox: &Mailbox<u32>, seen: &mut Vec<u32>) {
    loop {
        // SAFETY: we are the activation.
        let position = unsafe { mailbox.position() };
        // SAFETY: we are the activation.
        seen.extend(unsafe { mailbox.pop() });
        // SAFETY: we are the activation.
        if !unsafe { mailbox.finish(Some(position)) } {
            break;
        }
        yield_now();
    }
}

#[test]
fn spare_blocks_are_given_back_while_a_sender_appends_a_block() {
    check(|| {
        let mailbox = Arc::new(after_a_burst(2, Capacity::Unbounded));
        let sender = beside(&mailbox, move |mailbox| {
            // The last slot of a block, and the first of the next one.
            let first = mailbox.send(1).unwrap() == Sent::Schedule;
            let second = mailbox.send(2).unwrap() == Sent::Schedule;
            assert!(!(first && second) || mailbox.depth() < 2, "two activations at once");
            first || second
        });
        let mut seen = Vec::new();
        end(&mailbox, &mut seen);
        if sender.join().unwrap() {
            end(&mailbox, &mut seen);
        }
        assert_eq!(seen, [1, 2]);
        assert!(mailbox.blocks() <= 2, "{} blocks", mailbox.blocks());
    });
}

/// The activation has the spare blocks when the signal comes, and gives them back for the block
/// that is appended then.
#[test]
fn spare_blocks_are_given_back_while_a_signal_comes_and_then_a_sender_that_needs_one() {
    check(|| {
        let mailbox = Arc::new(after_a_burst(2, Capacity::Unbounded));
        let sender = beside(&mailbox, move |mailbox| {
            let signalled = mailbox.signal() == Sent::Schedule;
            (mailbox.send(1).unwrap() == Sent::Schedule) | signalled
        });
        let mut seen = Vec::new();
        let mut end = || {
            loop {
                mailbox.signals_seen();
                // SAFETY: we are the activation.
                let position = unsafe { mailbox.position() };
                // SAFETY: we are the activation.
                seen.extend(unsafe { mailbox.pop() });
                // SAFETY: we are the activation.
                if !unsafe { mailbox.finish(Some(position)) } {
                    break;
                }
                yield_now();
            }
        };
        end();
        if sender.join().unwrap() {
            end();
        }
        assert_eq!(seen, [1]);
    });
}

/// While its actor waits to be restarted an activation ends although messages wait, and so may be
/// in the middle of coming.
#[test]
fn a_suspended_mailbox_gives_spare_blocks_back_while_a_sender_appends_a_block() {
    check(|| {
        let mailbox = Arc::new(after_a_burst(2, Capacity::Unbounded));
        mailbox.suspend(true);
        let sender = beside(&mailbox, move |mailbox| {
            mailbox.send(1).map(drop).unwrap();
            mailbox.send(2).map(drop).unwrap();
        });
        // SAFETY: we are the activation.
        assert!(!unsafe { mailbox.finish(Some(mailbox.position())) });
        sender.join().unwrap();
        mailbox.suspend(false);
        // SAFETY: we are the activation.
        let seen: Vec<_> = std::iter::from_fn(|| unsafe { mailbox.pop() }).collect();
        assert_eq!(seen, [1, 2]);
    });
}

#[test]
fn a_suspended_mailbox_gives_spare_blocks_back_while_a_sender_evicts_the_last_of_a_block() {
    check(|| {
        let capacity = Capacity::Bounded(100, Overflow::DropOldest);
        let mailbox = Arc::new(after_a_burst(3, capacity));
        // Such that one spare block has been read since the last one was taken, one has been taken
        // off the stack, and one message is left, the last of its block.
        send_all(&mailbox, &Tokens::default(), 0..4);
        for number in 0..3 {
            // SAFETY: nobody else has it.
            assert_eq!(unsafe { mailbox.pop() }, Some(number));
        }
        mailbox.suspend(true);
        let sender = beside(&mailbox, move |mailbox| mailbox.evict().map(|it| *it));
        // SAFETY: we are the activation.
        assert!(!unsafe { mailbox.finish(Some(mailbox.position())) });
        assert_eq!(sender.join().unwrap(), Some(3));
    });
}

/// Blocks of one slot: each message is the last of its block.
#[test]
fn large_messages_of_two_senders_race_with_their_reader() {
    check(|| {
        assert_eq!(Block::<[u64; 4]>::SLOTS, 1);
        let mailbox = Arc::new(Mailbox::new(Capacity::Unbounded));
        let senders: Vec<_> = (1..=2)
            .map(|number| {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || mailbox.send([number; 4]).map(drop).unwrap())
            })
            .collect();
        let mut seen = Vec::new();
        // SAFETY: we are the activation.
        seen.extend(unsafe { mailbox.pop() });
        for sender in senders {
            sender.join().unwrap();
        }
        // SAFETY: we are the activation.
        while let Some(message) = unsafe { mailbox.pop() } {
            seen.push(message);
        }
        seen.sort_unstable();
        assert_eq!(seen, [[1; 4], [2; 4]]);
    });
}

/// Wakes the thread that waits in the model.
struct Woken(loom::sync::Notify);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Waits for room as a future does, in a loop that is its executor.
fn wait_as_a_future(mailbox: &Mailbox<u32>) -> bool {
    let woken = Arc::new(Woken(loom::sync::Notify::new()));
    let waker = std::task::Waker::from(Arc::clone(&woken));
    let mut place = None;
    loop {
        match mailbox.poll_room(&mut place, &waker, true) {
            std::task::Poll::Ready(room) => {
                mailbox.leave_room(&mut place, room);
                return room;
            }
            std::task::Poll::Pending => woken.0.wait(),
        }
    }
}

/// Waits for room as a thread does.
fn wait_as_a_thread(mailbox: &Mailbox<u32>) -> bool {
    mailbox.wait_for_room(&mut None, None, true)
}

fn a_message(mailbox: &Mailbox<u32>) {
    mailbox.send(0).map(drop).unwrap();
}

/// As a mapping that panics leaves it.
fn a_slot_without_one(mailbox: &Mailbox<u32>) {
    mailbox.send_some(1, &mut std::iter::empty()).map(drop).unwrap();
}

fn a_sender_is_woken(
    overflow: Overflow,
    wait: fn(&Mailbox<u32>) -> bool,
    fill: fn(&Mailbox<u32>),
    received: &'static [u32],
) {
    check(move || {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, overflow)));
        fill(&mailbox);
        let sender = beside(&mailbox, move |mailbox| {
            while mailbox.send(1).is_err() {
                assert!(wait(&mailbox));
            }
        });
        let mut seen = Vec::new();
        receive(&mailbox, &mut seen, received.len());
        assert_eq!(seen, received);
        sender.join().unwrap();
    });
}

#[test]
fn a_sender_that_waits_for_room_is_woken_when_there_is_some() {
    a_sender_is_woken(Overflow::Block(Duration::MAX), wait_as_a_thread, a_message, &[0, 1]);
}

#[test]
fn a_sender_that_waits_for_room_is_woken_when_a_slot_without_a_message_makes_it() {
    a_sender_is_woken(Overflow::Block(Duration::MAX), wait_as_a_thread, a_slot_without_one, &[1]);
}

#[test]
fn a_future_that_waits_for_room_is_woken_when_there_is_some() {
    a_sender_is_woken(Overflow::Fail, wait_as_a_future, a_message, &[0, 1]);
}

#[test]
fn each_of_two_threads_that_wait_for_room_is_woken() {
    check(|| {
        // All messages in one block, or the model would not end.
        let capacity = Capacity::Bounded(1, Overflow::Block(Duration::MAX));
        let mailbox = Arc::new(used(capacity, LAST_OF_SHORT + 1));
        a_message(&mailbox);
        let senders = [1, 2].map(|number| {
            beside(&mailbox, move |mailbox| {
                let mut place = None;
                while mailbox.send(number).is_err() {
                    assert!(mailbox.wait_for_room(&mut place, None, false));
                }
            })
        });
        let mut seen = Vec::new();
        receive(&mailbox, &mut seen, 3);
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

#[test]
fn a_future_that_goes_leaves_the_room_to_a_thread_that_waits() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, Overflow::Block(Duration::MAX))));
        a_message(&mailbox);
        let mut place = None;
        let waker = std::task::Waker::noop();
        assert!(mailbox.poll_room(&mut place, waker, false).is_pending());
        let sender = beside(&mailbox, |mailbox| {
            while mailbox.send(1).is_err() {
                assert!(wait_as_a_thread(&mailbox));
            }
        });
        let future = beside(&mailbox, move |mailbox| mailbox.leave_room(&mut place, false));
        let mut seen = Vec::new();
        receive(&mailbox, &mut seen, 2);
        assert_eq!(seen, [0, 1]);
        future.join().unwrap();
        sender.join().unwrap();
    });
}

fn an_actor_is_told_that_it_must_not_wait(overflow: Overflow, wait: fn(&Mailbox<u32>) -> bool) {
    check(move || {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, overflow)));
        a_message(&mailbox);
        let waiting = beside(&mailbox, move |mailbox| wait(&mailbox));
        mailbox.let_actors_wait(false);
        assert!(!waiting.join().unwrap(), "there is no room");
    });
}

#[test]
fn an_actor_that_waits_for_room_or_is_about_to_is_told_that_it_must_not() {
    an_actor_is_told_that_it_must_not_wait(Overflow::Block(Duration::MAX), wait_as_a_thread);
}

#[test]
fn a_future_of_an_actor_that_waits_for_room_or_is_about_to_is_told_that_it_must_not() {
    an_actor_is_told_that_it_must_not_wait(Overflow::Fail, wait_as_a_future);
}
