//! What handles send to the driver, taken from the lanes' stacks so that it can be worked off in steps.

use std::ptr;

use crate::entry::Entry;
use crate::lane::Lane;
use crate::stack::{Stack, StackLink};

/// Entries out of one stack of each lane, the driver's.
#[derive(Debug)]
pub(crate) struct Sent<L> {
    stack: fn(&Lane) -> &Stack<L>,
    /// What is left of the stack that was taken last.
    chain: *mut Entry,
    /// Whose stack is looked at next.
    lane: usize,
}

impl<L: StackLink> Sent<L> {
    pub(crate) fn new(stack: fn(&Lane) -> &Stack<L>) -> Self {
        Self { stack, chain: ptr::null_mut(), lane: 0 }
    }

    /// The next entry, and its link is free to be used for something else. Each look at another lane's stack costs one
    /// of `looks`; without any, this ends with the chain that was begun. The next call goes on behind the last lane, so
    /// all get their turn.
    pub(crate) fn next(&mut self, lanes: &[Lane], looks: &mut usize) -> Option<*mut Entry> {
        while self.chain.is_null() {
            *looks = looks.checked_sub(1)?;
            self.chain = (self.stack)(&lanes[self.lane]).take_all();
            self.lane = (self.lane + 1) % lanes.len();
        }
        let entry = self.chain;
        // SAFETY: the stack gave us the chain and its links.
        self.chain = unsafe { L::get(entry) };
        Some(entry)
    }
}
