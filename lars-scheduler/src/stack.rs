//! Stacks of entries that are pushed one by one or in chains and taken whole.
//!
//! Taking everything with one swap, and never popping a single entry, is what keeps a
//! compare-and-swap stack free of the ABA problem (R. K. Treiber, *Systems Programming: Coping
//! with Parallelism*, IBM RJ 5118, 1986, has the stack; the problem comes with its pop).

use std::marker::PhantomData;
use std::ptr;

use crate::entry::Entry;
use crate::sync::{AtomicPtr, Ordering};

/// Which field of an entry links it into a stack.
pub(crate) trait StackLink {
    /// # Safety
    ///
    /// The caller owns the field by the ground rules of [`Entry`].
    unsafe fn set(entry: *mut Entry, next: *mut Entry);
    /// # Safety
    ///
    /// As for `set`.
    unsafe fn get(entry: *mut Entry) -> *mut Entry;
}

/// Entries that are in no list are linked by `links.next`: free ones, and those that their handle lets go.
#[derive(Debug)]
pub(crate) enum FreeLink {}

impl StackLink for FreeLink {
    unsafe fn set(entry: *mut Entry, next: *mut Entry) {
        // SAFETY: the caller owns the field, so the entry is alive.
        unsafe { &*Entry::links(entry) }.set_next(Entry::links(next));
    }
    #[inline]
    unsafe fn get(entry: *mut Entry) -> *mut Entry {
        // SAFETY: as in `set`.
        Entry::of_links(unsafe { &*Entry::links(entry) }.next())
    }
}

/// Cancelled entries are still in the wheel by their links; the slot of the task is free.
#[derive(Debug)]
pub(crate) enum CancelLink {}

impl StackLink for CancelLink {
    unsafe fn set(entry: *mut Entry, next: *mut Entry) {
        // SAFETY: the caller owns the slot.
        unsafe { (*entry).set_cancel_link(next) };
    }
    unsafe fn get(entry: *mut Entry) -> *mut Entry {
        // SAFETY: the caller owns the slot.
        unsafe { (*entry).link() }
    }
}

/// What a closed stack's head is: not the address of any entry.
const CLOSED: *mut Entry = ptr::without_provenance_mut(1);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Stack<L> {
    head: AtomicPtr<Entry>,
    link: PhantomData<fn(L)>,
}

impl<L: StackLink> Stack<L> {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), link: PhantomData }
    }

    /// Pushes the chain from `first` to `last`, whose inner links are set already. Lock-free.
    ///
    /// # Safety
    ///
    /// The caller owns the chain's entries and their links and gives them away.
    #[inline]
    pub(crate) unsafe fn push_chain(&self, first: *mut Entry, last: *mut Entry) {
        // SAFETY: the caller's promise.
        let pushed = unsafe { self.push_unless_closed(first, last) };
        debug_assert!(pushed, "only stacks that are pushed to in another way are closed");
    }

    /// Pushes a chain, unless the stack is closed. Says whether it did; if not, the chain is the caller's as before.
    /// If it did, and the caller had nothing else that kept the stack alive, it may be gone. Lock-free.
    ///
    /// # Safety
    ///
    /// As for [`push_chain`](Self::push_chain), if it succeeds. The chain's being the caller's keeps the stack alive.
    #[inline]
    pub(crate) unsafe fn push_unless_closed(&self, first: *mut Entry, last: *mut Entry) -> bool {
        // Relaxed: the head is only compared and linked to, never followed here.
        let mut head = self.head.load(Ordering::Relaxed);
        while head != CLOSED {
            // SAFETY: the chain is the caller's until the exchange below succeeds.
            unsafe { L::set(last, head) };
            // Release: publishes the links, and whatever the caller did to the entries.
            match self.head.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
        false
    }

    /// Puts a chain, which ends by itself, where nothing is. Says whether nothing was there; if not, the chain is
    /// the caller's as before.
    ///
    /// # Safety
    ///
    /// As for [`push_chain`](Self::push_chain), if it succeeds.
    pub(crate) unsafe fn put(&self, chain: *mut Entry) -> bool {
        // Release: as in `push_chain`.
        let put = self.head.compare_exchange(
            ptr::null_mut(),
            chain,
            Ordering::Release,
            Ordering::Relaxed,
        );
        put.is_ok()
    }

    /// Takes everything: a chain to be followed with [`StackLink::get`], newest first.
    pub(crate) fn take_all(&self) -> *mut Entry {
        // Relaxed peek: an empty stack costs no exchange; what is missed now is seen next time.
        let head = self.head.load(Ordering::Relaxed);
        debug_assert!(head != CLOSED);
        if head.is_null() {
            return ptr::null_mut();
        }
        // Acquire: pairs with the pushes of all entries in the chain. (A later push extends the
        // release sequence of an earlier one, because it is a read-modify-write of the same word.)
        self.head.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes everything, for the last time: nothing can be pushed any more.
    ///
    /// # Safety
    ///
    /// Nobody takes from it any more: what a closed stack has for a head is not an entry.
    pub(crate) unsafe fn close(&self) -> *mut Entry {
        // Acquire: as in `take_all`.
        self.head.swap(CLOSED, Ordering::Acquire)
    }
}
