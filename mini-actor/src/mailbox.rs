//! The mailbox: a queue and a word that says whether somebody has to run the actor.
//!
//! # The run word
//!
//! ```text
//!  63                                   1        0
//! +---------------------------------------+--------+
//! | messages pushed and not worked off    | closed |
//! +---------------------------------------+--------+
//! ```
//!
//! A sender pushes its message and then counts it. Whoever counts the first one, from zero to one, has to
//! schedule the actor; as long as the count is not zero there is exactly one activation, scheduled or
//! running. It works off at most as many messages as are counted, and takes them off the count when it is
//! done: if some are left it has to be scheduled again, and if none is, the next sender does it. So the
//! question whether there is more is never asked of the queue, and its moment of inconsistency (see below)
//! cannot put an actor to sleep with a message in its mailbox.
//!
//! Closing sets the lowest bit. A sender that sees it gives its message back to the caller. One that
//! looked before and counts after has sent its message, and sees to it like any other: the activation that
//! finds the actor stopped makes a dead letter of it. So no message is without an end.
//!
//! # The queue
//!
//! Dmitry Vyukov's "Non-intrusive MPSC node-based queue" (1024cores.net, 2010): a push is one exchange and
//! one store, a pop follows one link. The node that was popped stays as the new stub. Between a push's
//! exchange and its store what comes behind it cannot be reached; `pop` then finds nothing, although
//! messages are counted, and the activation ends early and is scheduled again.

use std::mem::MaybeUninit;
use std::ptr;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicPtr, AtomicU64, Ordering, UnsafeCell};

const CLOSED: u64 = 1;
const ONE: u64 = 2;

/// What a sender has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Sent {
    /// Nothing: the actor is scheduled or running.
    Counted,
    /// Schedule the actor.
    Schedule,
}

#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    word: CachePadded<AtomicU64>,
    queue: Queue<T>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self { word: CachePadded::new(AtomicU64::new(0)), queue: Queue::new() }
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Acquire: what was done before closing is seen.
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Puts a message in. If the mailbox is closed, gives it back. Wait-free.
    pub(crate) fn send(&self, message: T) -> Result<Sent, T> {
        if self.is_closed() {
            return Err(message);
        }
        Ok(self.send_regardless(message))
    }

    /// Puts a message in, whether the mailbox is closed or not.
    pub(crate) fn send_regardless(&self, message: T) -> Sent {
        self.queue.push(message);
        // Release: the activation that counts the message also sees it in the queue. Acquire: if we are
        // to schedule the next activation, it comes after what the last one did.
        let before = self.word.fetch_add(ONE, Ordering::AcqRel);
        if before < ONE { Sent::Schedule } else { Sent::Counted }
    }

    /// How many messages the activation may work off.
    pub(crate) fn waiting(&self) -> u64 {
        // Acquire: pairs with the sender's count.
        self.word.load(Ordering::Acquire) / ONE
    }

    /// Takes the next message out, if it can be reached.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation, and takes no more messages than are counted.
    pub(crate) unsafe fn pop(&self) -> Option<T> {
        // SAFETY: there is one activation, so one consumer.
        unsafe { self.queue.pop() }
    }

    /// Ends an activation that worked off `count` messages. Says whether there has to be another one;
    /// if not, the caller must not touch the actor any more.
    #[must_use]
    pub(crate) fn finish(&self, count: u64) -> bool {
        // Release: the next activation sees what this one did. Acquire: and if that is scheduled from
        // here, it sees the messages that were counted meanwhile.
        let before = self.word.fetch_sub(count * ONE, Ordering::AcqRel);
        before / ONE > count
    }

    /// Closes the mailbox for senders who look from now on.
    pub(crate) fn close(&self) {
        // Release: see `is_closed`.
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct Node<T> {
    next: AtomicPtr<Node<T>>,
    /// Empty in the stub.
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Node<T> {
    fn boxed(value: MaybeUninit<T>) -> *mut Self {
        Box::into_raw(Box::new(Self {
            next: AtomicPtr::new(ptr::null_mut()),
            value: UnsafeCell::new(value),
        }))
    }
}

#[derive(Debug)]
struct Queue<T> {
    /// The newest node. Written by every sender.
    head: CachePadded<AtomicPtr<Node<T>>>,
    /// The stub; its successor has the oldest message. The consumer's alone.
    tail: CachePadded<UnsafeCell<*mut Node<T>>>,
}

// SAFETY: senders touch `head` and the `next` of the node that they replaced, both atomic; the value
// passes from sender to consumer by that link. `tail` is the consumer's.
unsafe impl<T: Send> Send for Queue<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Queue<T> {}

impl<T> Queue<T> {
    fn new() -> Self {
        let stub = Node::boxed(MaybeUninit::uninit());
        Self {
            head: CachePadded::new(AtomicPtr::new(stub)),
            tail: CachePadded::new(UnsafeCell::new(stub)),
        }
    }

    fn push(&self, value: T) {
        let node = Node::boxed(MaybeUninit::new(value));
        // AcqRel: the next sender, who links its node to ours, sees ours as it was made.
        let previous = self.head.swap(node, Ordering::AcqRel);
        // SAFETY: the consumer frees a node only after it has followed its link, which is what we set
        // here and nobody else does; so the node is still there.
        // Release: publishes the node with its value.
        unsafe { &*previous }.next.store(node, Ordering::Release);
    }

    /// # Safety
    ///
    /// There is one consumer, the caller.
    unsafe fn pop(&self) -> Option<T> {
        self.tail.with_mut(|tail| {
            // SAFETY: the tail is the consumer's, and alive until we free it.
            unsafe {
                // Acquire: pairs with the store in `push`.
                let next = (**tail).next.load(Ordering::Acquire);
                if next.is_null() {
                    return None;
                }
                let value = (*next).value.with_mut(|value| (*value).assume_init_read());
                // The old stub: followed, so no sender refers to it any more.
                drop(Box::from_raw(*tail));
                *tail = next;
                Some(value)
            }
        })
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        // SAFETY: nobody else is left: we are the consumer.
        while let Some(message) = unsafe { self.pop() } {
            drop(message);
        }
        self.tail.with(|tail| {
            // SAFETY: the stub is the last node, and ours.
            drop(unsafe { Box::from_raw(*tail) });
        });
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_first_message_asks_for_an_activation_and_the_last_worked_off_ends_it() {
        let mailbox = Mailbox::new();
        assert_eq!(mailbox.send(1), Ok(Sent::Schedule));
        assert_eq!(mailbox.send(2), Ok(Sent::Counted));
        assert_eq!(mailbox.waiting(), 2);
        // SAFETY: the test is the only consumer, and two messages are counted.
        unsafe {
            assert_eq!(mailbox.pop(), Some(1));
            assert!(mailbox.finish(1));
            assert_eq!(mailbox.pop(), Some(2));
            assert!(!mailbox.finish(1));
        }
        assert_eq!(mailbox.send(3), Ok(Sent::Schedule));
    }

    #[test]
    fn a_closed_mailbox_gives_messages_back_and_keeps_what_it_has() {
        let mailbox = Mailbox::new();
        assert_eq!(mailbox.send(1), Ok(Sent::Schedule));
        mailbox.close();
        assert_eq!(mailbox.send(2), Err(2));
        assert_eq!(mailbox.waiting(), 1);
    }

    #[test]
    fn messages_left_in_a_mailbox_are_dropped_with_it() {
        let shared = Arc::new(());
        let mailbox = Mailbox::new();
        for _ in 0..3 {
            let _ = mailbox.send(Arc::clone(&shared)).unwrap();
        }
        drop(mailbox);
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn each_sender_s_messages_arrive_once_and_in_order() {
        const SENDERS: u64 = 3;
        let each = if cfg!(miri) { 30 } else { 20_000 };
        let mailbox = Mailbox::new();
        let mut next = [0; SENDERS as usize];
        std::thread::scope(|scope| {
            for sender in 0..SENDERS {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    for number in 0..each {
                        let _ = mailbox.send((sender, number)).unwrap();
                    }
                });
            }
            let mut received = 0;
            while received < SENDERS * each {
                let counted = mailbox.waiting();
                let mut taken = 0;
                while taken < counted {
                    // SAFETY: the only consumer; no more than are counted.
                    let Some((sender, number)) = (unsafe { mailbox.pop() }) else {
                        break;
                    };
                    assert_eq!(number, next[sender as usize]);
                    next[sender as usize] += 1;
                    taken += 1;
                }
                received += taken;
                let _ = mailbox.finish(taken);
                std::thread::yield_now();
            }
        });
        assert_eq!(mailbox.waiting(), 0);
    }
}

#[cfg(all(test, lars_loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Explores with at most three involuntary switches per execution, which finds nearly all there is to
    /// find (Musuvathi and Qadeer, *Iterative context bounding*, PLDI 2007) and keeps the time finite.
    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(3);
        builder.check(model);
    }

    /// What an activation does, for a throughput of one, the most demanding.
    fn activate(mailbox: &Mailbox<u32>, seen: &mut Vec<u32>) -> bool {
        let mut worked_off = 0;
        if mailbox.waiting() > 0 {
            // SAFETY: activations follow each other (that is what the model checks).
            if let Some(message) = unsafe { mailbox.pop() } {
                seen.push(message);
                worked_off = 1;
            }
        }
        mailbox.finish(worked_off)
    }

    #[test]
    fn two_senders_and_an_activation_lose_nothing_and_never_run_twice_at_once() {
        check(|| {
            let mailbox = Arc::new(Mailbox::new());
            // Activations, as tokens: whoever is told to schedule adds one; a token in use is a run.
            let scheduled = Arc::new(AtomicU64::new(0));
            let senders: Vec<_> = (1..=2)
                .map(|number| {
                    let (mailbox, scheduled) = (Arc::clone(&mailbox), Arc::clone(&scheduled));
                    thread::spawn(move || {
                        if mailbox.send(number) == Ok(Sent::Schedule) {
                            let before = scheduled.fetch_add(1, Ordering::AcqRel);
                            assert_eq!(before, 0, "two activations at once");
                        }
                    })
                })
                .collect();
            let mut seen = Vec::new();
            while seen.len() < 2 {
                if scheduled.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                    continue;
                }
                // The token is given up before `finish`, which may hand it to a sender.
                let mut worked_off = 0;
                if mailbox.waiting() > 0
                    // SAFETY: we hold the token.
                    && let Some(message) = unsafe { mailbox.pop() }
                {
                    seen.push(message);
                    worked_off = 1;
                }
                scheduled.fetch_sub(1, Ordering::AcqRel);
                if mailbox.finish(worked_off) {
                    scheduled.fetch_add(1, Ordering::AcqRel);
                    thread::yield_now();
                }
            }
            for sender in senders {
                sender.join().unwrap();
            }
            seen.sort_unstable();
            assert_eq!(seen, [1, 2]);
        });
    }

    #[test]
    fn a_message_that_races_with_closing_is_given_back_or_found() {
        check(|| {
            let mailbox = Arc::new(Mailbox::new());
            assert_eq!(mailbox.send(0), Ok(Sent::Schedule));
            let sender = {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || mailbox.send(1))
            };
            // The actor's last activation: closes, and works off what is counted.
            mailbox.close();
            let mut seen = Vec::new();
            while activate(&mailbox, &mut seen) {
                thread::yield_now();
            }
            match sender.join().unwrap() {
                Err(1) => assert_eq!(seen, [0]),
                // It was told to schedule: that activation finds it.
                Ok(Sent::Schedule) => {
                    assert_eq!(seen, [0]);
                    while activate(&mailbox, &mut seen) {}
                    assert_eq!(seen, [0, 1]);
                }
                Ok(Sent::Counted) => assert_eq!(seen, [0, 1]),
                Err(other) => panic!("another message came back: {other}"),
            }
            assert_eq!(mailbox.waiting(), 0);
        });
    }
}
