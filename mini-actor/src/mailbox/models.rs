//! Blocks have three slots here; the models begin where the last one is near.

use super::*;
use crate::sync::{AtomicU64, yield_now};
use loom::thread;
use std::sync::Arc;

/// Explores with at most three involuntary switches per execution, which finds nearly all there is to
/// find (Musuvathi and Qadeer, *Iterative context bounding*, PLDI 2007) and keeps the time finite.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(model);
}

/// A mailbox that nobody is scheduled for, whose next message is the nth of a block.
fn idle(nth: u32) -> Mailbox<u32> {
    let mailbox = Mailbox::new(Capacity::Unbounded);
    for _ in 0..nth {
        mailbox.send(9).map(drop).unwrap();
        // SAFETY: nobody else has it.
        assert_eq!(unsafe { mailbox.pop() }, Some(9));
    }
    // SAFETY: nobody else has it.
    assert!(!unsafe { mailbox.finish(false) });
    mailbox
}

/// Activations, as tokens: whoever is told to schedule adds one; a token in use is a run.
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
        if unsafe { mailbox.finish(false) } {
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
fn the_same_while_one_of_the_senders_hangs_on_a_block() {
    two_senders_and_an_activation(2);
}

#[test]
fn a_message_that_races_with_closing_is_given_back_or_counted() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Unbounded));
        assert_eq!(mailbox.send(0), Ok(Sent::Counted));
        let sender = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.send(1))
        };
        let accepted = mailbox.close();
        let mut seen = Vec::new();
        while (seen.len() as u64) < accepted {
            // SAFETY: we are the activation.
            match unsafe { mailbox.pop() } {
                Some(message) => seen.push(message),
                None => yield_now(),
            }
        }
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
            if !unsafe { mailbox.finish(false) } {
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
        // SAFETY: as above.
        while unsafe { mailbox.pop() }.is_some() {
            received.fetch_add(1, Ordering::Relaxed);
        }
        let accepted = accepted.load(Ordering::Relaxed);
        assert!(accepted >= 1);
        assert_eq!(received.load(Ordering::Relaxed), accepted);
    });
}

#[test]
fn a_sender_that_waits_for_room_is_woken_when_there_is_some() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, Overflow::Block(Duration::MAX))));
        mailbox.send(0).map(drop).unwrap();
        let sender = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                while mailbox.send(1).is_err() {
                    assert!(mailbox.wait_for_room(None, true));
                }
            })
        };
        let mut seen = Vec::new();
        while seen.len() < 2 {
            // SAFETY: we are the activation.
            match unsafe { mailbox.pop() } {
                Some(message) => seen.push(message),
                None => yield_now(),
            }
        }
        assert_eq!(seen, [0, 1]);
        sender.join().unwrap();
    });
}

#[test]
fn a_sender_that_waits_for_room_is_woken_when_a_slot_without_a_message_makes_it() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, Overflow::Block(Duration::MAX))));
        // As by a mapping that panics.
        mailbox.send_some(1, &mut std::iter::empty()).map(drop).unwrap();
        let sender = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                while mailbox.send(1).is_err() {
                    assert!(mailbox.wait_for_room(None, false));
                }
            })
        };
        // SAFETY: we are the activation.
        while unsafe { mailbox.pop() }.is_none() {
            yield_now();
        }
        sender.join().unwrap();
    });
}

#[test]
fn an_actor_that_waits_for_room_or_is_about_to_is_told_that_it_must_not() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, Overflow::Block(Duration::MAX))));
        mailbox.send(0_u32).map(drop).unwrap();
        let waiting = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.wait_for_room(None, true))
        };
        mailbox.let_actors_wait(false);
        assert!(!waiting.join().unwrap(), "there is no room");
    });
}

#[test]
fn the_oldest_message_is_received_or_evicted_and_never_both() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Bounded(1, Overflow::DropOldest)));
        mailbox.send(0).map(drop).unwrap();
        let sender = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                let mut evicted = Vec::new();
                while mailbox.send(1).is_err() {
                    evicted.extend(mailbox.evict());
                }
                evicted
            })
        };
        // SAFETY: we are the activation.
        let mut seen: Vec<u32> = unsafe { mailbox.pop() }.into_iter().collect();
        seen.extend(sender.join().unwrap());
        // SAFETY: as above.
        while let Some(message) = unsafe { mailbox.pop() } {
            seen.push(message);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
    });
}

#[test]
fn a_block_that_is_given_back_while_others_are_hung_on_is_used_by_one_of_them() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Unbounded));
        // A full block, and the next one up to its last slot.
        for number in 0..5 {
            mailbox.send(number).map(drop).unwrap();
        }
        let sender = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                for number in 5..9 {
                    mailbox.send(number).map(drop).unwrap();
                }
            })
        };
        let mut seen = Vec::new();
        for _ in 0..6 {
            // SAFETY: we are the activation.
            seen.extend(unsafe { mailbox.pop() });
        }
        sender.join().unwrap();
        // SAFETY: as above.
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
    a_row_a_sender_and_an_activation(0);
}

#[test]
fn the_same_with_a_row_that_goes_over_two_blocks() {
    a_row_a_sender_and_an_activation(1);
}

#[test]
fn a_row_that_races_with_closing_is_counted_as_far_as_it_came() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Capacity::Unbounded));
        assert_eq!(mailbox.send(0), Ok(Sent::Counted));
        let row = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
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
            })
        };
        let accepted = mailbox.close();
        let mut seen = Vec::new();
        while (seen.len() as u64) < accepted {
            // SAFETY: we are the activation.
            match unsafe { mailbox.pop() } {
                Some(message) => seen.push(message),
                None => yield_now(),
            }
        }
        assert_eq!(accepted, 1 + row.join().unwrap());
        assert_eq!(seen, (0..accepted as u32).collect::<Vec<_>>());
    });
}
