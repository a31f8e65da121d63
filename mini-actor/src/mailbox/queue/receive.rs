//! The reader's side: taking messages out, as the activation or as a sender that evicts.

use std::ptr;

use super::{Mailbox, Next};
use crate::mailbox::asides::Aside;
use crate::mailbox::block::{Block, Found, Slot};
use crate::mailbox::bound::Bound;
use crate::sync::Ordering;

impl<T> Mailbox<T> {
    /// Takes the oldest message out, as a sender that needs room for a newer one. Boxed, since it
    /// may be too large to be passed from frame to frame.
    pub(crate) fn evict(&self) -> Option<Box<T>> {
        let bound = self.middle.bound.as_deref().filter(|bound| bound.evicts())?;
        // Dropped outside the lock: it calls the log subscriber.
        let mut aside = Aside::default();
        let reader = bound.reader();
        // SAFETY: all readers of a mailbox that evicts hold the lock, as this one does. The message
        // is moved into the new box, and its slot is empty then.
        let evicted = unsafe {
            self.take_with(Some(bound), |message| {
                aside = self.take_aside(message);
                let mut evicted = Box::new_uninit();
                ptr::copy_nonoverlapping(message, evicted.as_mut_ptr(), 1);
                evicted.assume_init()
            })
        };
        drop(reader);
        evicted
    }

    /// Takes the next message out, if it is there yet. For a mailbox that keeps nothing beside it.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Option<T> {
        debug_assert!(self.asides().is_none(), "something is left behind");
        // SAFETY: the caller is the one activation. The message is read once, since its slot is
        // empty then.
        unsafe { self.pop_with(|message| message.read()) }
    }

    /// Takes the next message out, if it is there yet, and what is kept beside it.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation.
    pub(crate) unsafe fn pop_with_aside(&self, aside: &mut Aside) -> Option<T> {
        // SAFETY: the caller is the one activation. The message is read once, since its slot is
        // empty then.
        unsafe {
            self.pop_with(|message| {
                *aside = self.take_aside(message);
                message.read()
            })
        }
    }

    /// Gives `read` the next message, if it is there yet.
    ///
    /// # Safety
    ///
    /// The caller is the mailbox's one activation, and `read` moves the message out.
    #[inline]
    unsafe fn pop_with(&self, read: impl FnMut(*mut T) -> T) -> Option<T> {
        self.assert_activation();
        match self.middle.bound.as_deref() {
            // SAFETY: the caller is the one activation, and only that reads this mailbox.
            None => unsafe { self.take_with(None, read) },
            Some(bound) if bound.evicts() => {
                let _reader = bound.reader();
                // SAFETY: all readers of a mailbox that evicts hold the lock, as this one does.
                unsafe { self.take_with(Some(bound), read) }
            }
            Some(bound) => {
                // Relaxed: only the reader writes it.
                let before = self.head.taken.load(Ordering::Relaxed);
                // SAFETY: the caller is the one activation, and only that reads this mailbox.
                let message = unsafe { self.take_with(Some(bound), read) };
                // A slot whose message panicked on its way makes room as well.
                let free = self.head.taken.load(Ordering::Relaxed) - before;
                if free > 0 {
                    bound.made_room(free as usize);
                }
                message
            }
        }
    }

    /// Gives `read` the next message, if it is there yet, to be moved out or dropped in place.
    ///
    /// # Safety
    ///
    /// The caller is the only reader, and `read` does not use the message in another way.
    #[inline]
    pub(super) unsafe fn take_with<R>(
        &self,
        bound: Option<&Bound>,
        mut read: impl FnMut(*mut T) -> R,
    ) -> Option<R> {
        #[cfg(not(any(lars_loom, lars_shuttle)))]
        debug_assert!(
            bound.is_none_or(|bound| !bound.evicts() || bound.is_read()),
            "readers of a mailbox that evicts hold its lock"
        );
        self.head.next.with_mut(|next| {
            // SAFETY: this part of the head is the reader's.
            let next = unsafe { &mut *next };
            if next.block.is_null() {
                // Acquire: as the sender that made it left it.
                let first = self.middle.first.load(Ordering::Acquire);
                if first.is_null() {
                    return None;
                }
                next.block = first;
            }
            loop {
                let offset = next.position % Block::<T>::LAP;
                // SAFETY: the block has an unread slot, so it is there; and the offset is a slot's.
                let slot = unsafe { Block::slot(next.block, offset) };
                // SAFETY: the block is there, and the caller is the only reader.
                let message = match unsafe { Slot::take(slot, &mut read) } {
                    Found::Empty => return None,
                    Found::Message(message) => Some(message),
                    Found::Void => None,
                };
                if offset + 1 == Block::<T>::SLOTS {
                    // SAFETY: it is there until it is recycled below.
                    // Relaxed: stored before the slot's state by the same sender.
                    let after = unsafe { &*next.block }.next.load(Ordering::Relaxed);
                    let read =
                        std::mem::replace(next, Next { position: next.position + 2, block: after });
                    // SAFETY: the only reader, nothing is left in it, and the head has moved on.
                    unsafe { self.recycle(read) };
                } else {
                    next.position += 1;
                }
                if bound.is_some() {
                    // Relaxed: only a number; see `room`.
                    self.head.taken.store(Self::count(next.position), Ordering::Relaxed);
                }
                if message.is_some() {
                    return message;
                }
            }
        })
    }

    /// What is kept beside the message at this address, which its reader is about to move out.
    fn take_aside(&self, message: *const T) -> Aside {
        self.asides().map(|asides| asides.take(message.addr())).unwrap_or_default()
    }
}
