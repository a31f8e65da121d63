//! Stacks of entries that are pushed one by one or in chains and taken whole.
//!
//! Taking everything with one swap, and never popping a single entry, is what keeps a
//! compare-and-swap stack free of the ABA problem (R. K. Treiber, *Systems Programming: Coping
//! with Parallelism*, IBM RJ 5118, 1986, has the stack; the problem comes with its pop).

use std::marker::PhantomData;
use std::ptr;

use crate::engine::entry::Entry;
use crate::sync::{AtomicPtr, Ordering};

/// Which field of an entry links it into a stack.
pub(crate) trait StackLink {
    /// # Safety
    ///
    /// The entry is alive, and by the ground rules of [`Entry`] only the caller may touch the
    /// field.
    unsafe fn set(entry: *mut Entry, next: *mut Entry);
    /// # Safety
    ///
    /// The entry is alive, and by the ground rules of [`Entry`] only the caller may touch the
    /// field.
    unsafe fn get(entry: *mut Entry) -> *mut Entry;
}

/// Links entries that are in no list by `links.next`: free ones, and those that their handle
/// releases.
#[derive(Debug)]
pub(crate) enum FreeLink {}

impl StackLink for FreeLink {
    #[inline]
    unsafe fn set(entry: *mut Entry, next: *mut Entry) {
        Entry::assert_address(entry);
        // SAFETY: the entry is alive, and only the caller may touch `links.next`.
        unsafe { &*Entry::links(entry) }.set_next(Entry::links(next));
    }
    #[inline]
    unsafe fn get(entry: *mut Entry) -> *mut Entry {
        Entry::assert_address(entry);
        // SAFETY: the entry is alive, and only the caller may touch `links.next`.
        Entry::of_links(unsafe { &*Entry::links(entry) }.next())
    }
}

/// Links cancelled entries by the slot of the task, which is free. Their `links` still link them
/// into the wheel.
#[derive(Debug)]
pub(crate) enum CancelLink {}

impl StackLink for CancelLink {
    unsafe fn set(entry: *mut Entry, next: *mut Entry) {
        Entry::assert_address(entry);
        // SAFETY: the entry is alive, and only the caller may touch its slot, which holds no task.
        unsafe { (*entry).set_cancel_link(next) };
    }
    unsafe fn get(entry: *mut Entry) -> *mut Entry {
        Entry::assert_address(entry);
        // SAFETY: the entry is alive, and only the caller may touch its slot, which holds a link.
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
    /// The chain is not empty, and ends at `last`. Nobody but the caller refers to its entries by
    /// this link, and the caller gives them away.
    #[inline]
    pub(crate) unsafe fn push_chain(&self, first: *mut Entry, last: *mut Entry) {
        // SAFETY: nobody but the caller refers to the chain by this link. The caller has something
        // else that keeps the stack alive: it holds a reference to it.
        let pushed = unsafe { self.push_unless_closed(first, last) };
        debug_assert!(pushed, "only stacks that are pushed to in another way are closed");
    }

    /// Pushes a chain, unless the stack is closed. Says whether it did. If not, the caller keeps
    /// the chain. If it did, the stack may be gone, unless the caller keeps it alive in another
    /// way. Lock-free.
    ///
    /// # Safety
    ///
    /// The chain is not empty, and ends at `last`. Nobody but the caller refers to its entries by
    /// this link; if this succeeds, the caller has given them away. The stack is alive for as long
    /// as the caller has the chain.
    #[inline]
    pub(crate) unsafe fn push_unless_closed(&self, first: *mut Entry, last: *mut Entry) -> bool {
        Entry::assert_address(first);
        Entry::assert_address(last);
        // Relaxed: the head is only compared and linked to, never followed here.
        let mut head = self.head.load(Ordering::Relaxed);
        while head != CLOSED {
            // SAFETY: nobody but the caller refers to the chain until the exchange below succeeds.
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

    /// Puts a chain, whose last link is null, onto an empty stack. Says whether the stack was
    /// empty; if not, the caller keeps the chain.
    ///
    /// # Safety
    ///
    /// The chain is not empty, and its last link is null. Nobody but the caller refers to its
    /// entries by this link; if this succeeds, the caller has given them away.
    unsafe fn put(&self, chain: *mut Entry) -> bool {
        Entry::assert_address(chain);
        // Release: publishes the links, and whatever the caller did to the entries.
        let put = self.head.compare_exchange(
            ptr::null_mut(),
            chain,
            Ordering::Release,
            Ordering::Relaxed,
        );
        put.is_ok()
    }

    /// Whether nothing is on it now.
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a hint.
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes everything: a chain to be followed with [`StackLink::get`], newest first.
    pub(crate) fn take_all(&self) -> *mut Entry {
        // Relaxed peek: an empty stack costs no exchange, and what this misses is seen next time.
        let head = self.head.load(Ordering::Relaxed);
        debug_assert!(head != CLOSED, "the stack was closed");
        if head.is_null() {
            return ptr::null_mut();
        }
        // Acquire: pairs with the pushes of all entries in the chain. (A later push extends the
        // release sequence of an earlier one, because it is a read-modify-write of the same word.)
        self.head.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes the newest entries, up to `most`: a chain. (If more is pushed meanwhile, this takes
    /// all that was there.)
    pub(crate) fn take_some(&self, most: usize) -> *mut Entry {
        let chain = self.take_all();
        let mut last = chain;
        // SAFETY: the stack gave up the chain, so nobody else refers to its entries by this link.
        // `rest` is a whole chain when it is put back.
        unsafe {
            for _ in 1..most {
                if last.is_null() {
                    return chain;
                }
                last = L::get(last);
            }
            if !last.is_null() {
                let rest = L::get(last);
                if !rest.is_null() && self.put(rest) {
                    L::set(last, ptr::null_mut());
                }
            }
        }
        chain
    }

    /// Takes everything, for the last time: nothing can be pushed any more.
    ///
    /// # Safety
    ///
    /// Nobody calls [`take_all`](Self::take_all) after this: the head of a closed stack is not an
    /// entry.
    pub(crate) unsafe fn close(&self) -> *mut Entry {
        // Acquire: pairs with the pushes of all entries in the chain.
        self.head.swap(CLOSED, Ordering::Acquire)
    }
}
