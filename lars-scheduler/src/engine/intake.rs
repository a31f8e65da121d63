//! The way in: an intrusive queue for many producers and one consumer.
//!
//! The algorithm is Dmitry Vyukov's, "Intrusive MPSC node-based queue" (1024cores.net, 2010).
//! A push is one exchange and one store, whatever the other producers do: wait-free. Entries of
//! one thread leave in the order in which it pushed them.
//!
//! ```text
//!   tail ─▶ stub ─▶ A ─▶ B      C ◀─ head
//!                         └ × ┘   the producer of C has exchanged the head and not linked yet
//! ```
//!
//! Between its exchange and its store a producer leaves the queue in two pieces. The consumer must
//! not take this for the end of the queue: it would go to sleep on work. [`Pop`] tells the two
//! apart.
//!
//! The stub belongs to the queue and never leaves it. The queue does not refer to an entry that was
//! popped.

use std::ptr;

use crossbeam_utils::CachePadded;

use crate::engine::entry::{Entry, Links};
use crate::sync::{AtomicPtr, Ordering, UnsafeCell, model_fence};

/// What [`Intake::pop`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Pop {
    /// The oldest entry.
    Entry(*mut Entry),
    /// Nothing has been pushed that was not popped.
    Empty,
    /// There is more, but a producer is between its exchange and its store. It was interrupted
    /// there, or is running right now: try again soon, and do something else first.
    Inconsistent,
}

/// A place in an [`Intake`]: what was its newest entry.
#[derive(Debug)]
pub(crate) struct Mark(*mut Links);

#[derive(Debug)]
pub(crate) struct Intake {
    /// The newest entry. Written by every producer.
    head: CachePadded<AtomicPtr<Links>>,
    /// The oldest. The consumer's alone.
    tail: UnsafeCell<*mut Links>,
    /// Owned, but kept as a pointer: `head` and `tail` alias it, which a `Box` would deny.
    stub: *mut Links,
}

// SAFETY: the queue owns its stub, and links entries, which may be sent to another thread.
unsafe impl Send for Intake {}
// SAFETY: producers touch `head`, and the `next` of links that they push or have replaced as head;
// both are atomic. Only functions that demand to be called by the one consumer touch `tail`.
unsafe impl Sync for Intake {}

impl Intake {
    pub(crate) fn new() -> Self {
        let stub = Box::into_raw(Box::new(Links::new()));
        Self { head: CachePadded::new(AtomicPtr::new(stub)), tail: UnsafeCell::new(stub), stub }
    }

    /// Appends an entry. Wait-free.
    ///
    /// # Safety
    ///
    /// Nobody but the caller touches the entry's links, and the entry stays alive until it has been
    /// popped.
    #[inline]
    pub(crate) unsafe fn push(&self, entry: *mut Entry) {
        Entry::assert_address(entry);
        // SAFETY: the entry is alive until it is popped, and nobody else touches its links.
        unsafe { self.push_links(Entry::links(entry), Entry::links(entry)) };
    }

    /// Appends a chain of entries, linked from `first` to `last`, in one step: the consumer finds
    /// all of them or none. Wait-free.
    ///
    /// # Safety
    ///
    /// Nobody but the caller touches the links of these entries. Each stays alive until it has been
    /// popped.
    pub(crate) unsafe fn push_chain(&self, first: *mut Entry, last: *mut Entry) {
        Entry::assert_address(first);
        Entry::assert_address(last);
        // SAFETY: the entries are alive until they are popped, and nobody else touches their links.
        unsafe { self.push_links(Entry::links(first), Entry::links(last)) };
    }

    /// # Safety
    ///
    /// The links are those of entries that stay alive until they have been popped, and nobody but
    /// the caller touches them. Or they are the stub, and the caller is the consumer and has
    /// stepped over it.
    #[inline]
    unsafe fn push_links(&self, first: *mut Links, last: *mut Links) {
        debug_assert!(first != self.stub || last == self.stub, "the stub is pushed with entries");
        // SAFETY: the links are alive, and nobody but the caller touches them yet.
        unsafe { &*last }.set_next(ptr::null_mut());
        // Release: a thread that finds the entry, by our store below or by exchanging the head
        // after us, sees the entry as we filled it. Acquire: we see the links of the one before us
        // as reset. SeqCst on top: this exchange and the load of the sleep word that follows it
        // stand in one order with the timer thread's store of that word and its look at `head`. See
        // `sleep`.
        let previous = self.head.swap(last, Ordering::SeqCst);
        // Release: publishes the entry to the consumer, which follows the link.
        // SAFETY: the consumer does not pass `previous` before its link is set, and only we set it,
        // here. Until then `previous` is in the queue, and alive.
        unsafe { &*previous }.next.store(first, Ordering::Release);
    }

    /// Whether there is nothing to pop. A push that is under way counts as something.
    ///
    /// # Safety
    ///
    /// The caller is the consumer.
    #[inline]
    pub(crate) unsafe fn is_empty(&self) -> bool {
        // SAFETY: only the consumer, the caller, touches the tail.
        let tail = self.tail.with(|tail| unsafe { *tail });
        model_fence();
        // SeqCst: see `push_links` and `sleep`.
        tail == self.stub && self.head.load(Ordering::SeqCst) == tail
    }

    /// The end of the queue as it is now, to [`pop_up_to`](Self::pop_up_to).
    pub(crate) fn mark(&self) -> Mark {
        model_fence();
        // SeqCst: see `push_links` and `sleep`. Whatever was pushed before this is before the mark.
        Mark(self.head.load(Ordering::SeqCst))
    }

    /// Removes the oldest entry, unless it was pushed after `mark` was taken. The mark is used up
    /// with the entry at it: then, too, this says `Empty`.
    ///
    /// A consumer that went on to the very end could run behind a busy producer forever, and fetch
    /// every entry out of its cache.
    ///
    /// # Safety
    ///
    /// The caller is the only consumer. Since it took the mark it has popped only with this mark.
    pub(crate) unsafe fn pop_up_to(&self, mark: &mut Mark) -> Pop {
        // SAFETY: only the consumer, the caller, touches the tail.
        let tail = self.tail.with(|tail| unsafe { *tail });
        if mark.0.is_null() || (tail == self.stub && mark.0 == self.stub) {
            return Pop::Empty;
        }
        // SAFETY: the caller is the only consumer.
        let popped = unsafe { self.pop() };
        if let Pop::Entry(entry) = popped
            && Entry::links(entry) == mark.0
        {
            mark.0 = ptr::null_mut();
        }
        popped
    }

    /// Removes the oldest entry.
    ///
    /// # Safety
    ///
    /// There is only one consumer, the caller.
    pub(crate) unsafe fn pop(&self) -> Pop {
        self.tail.with_mut(|tail| {
            // SAFETY: only the consumer, the caller, touches the tail. The tail is the stub or an
            // entry that has not been popped, and so alive. The stub is pushed only when it has
            // been stepped over.
            unsafe {
                // Acquire, here and below: pairs with the producer's store of the link.
                let mut next = (**tail).next.load(Ordering::Acquire);
                if *tail == self.stub {
                    if next.is_null() {
                        return self.end_or_gap(*tail);
                    }
                    // Step over the stub; it is out of the queue from here on.
                    *tail = next;
                    next = (**tail).next.load(Ordering::Acquire);
                }
                if next.is_null() {
                    // The last entry we can see. It may leave only when something follows it.
                    if self.head.load(Ordering::SeqCst) != *tail {
                        return Pop::Inconsistent;
                    }
                    self.push_links(self.stub, self.stub);
                    next = (**tail).next.load(Ordering::Acquire);
                    if next.is_null() {
                        // A producer came between; the stub follows behind its entry.
                        return Pop::Inconsistent;
                    }
                }
                let entry = Entry::of_links(*tail);
                *tail = next;
                Pop::Entry(entry)
            }
        })
    }

    /// The end of the queue, or a push under way?
    fn end_or_gap(&self, tail: *mut Links) -> Pop {
        model_fence();
        // SeqCst: when the timer thread stops it must not miss a push that missed the stop.
        if self.head.load(Ordering::SeqCst) == tail { Pop::Empty } else { Pop::Inconsistent }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        // SAFETY: `new` made it with `Box::into_raw`, and nobody else has the queue any more.
        drop(unsafe { Box::from_raw(self.stub) });
    }
}
