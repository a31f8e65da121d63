//! Virtual time that one thread moves.

use std::cell::Cell;

use super::default::Entered;
use crate::VirtualTime;

thread_local! {
    /// Whether this thread has fired a timer that another thread made.
    static WOKE_ELSEWHERE: Cell<bool> = const { Cell::new(false) };
}

/// While it exists, the calling thread moves this virtual time whenever it has nothing else to do,
/// and other threads must not wait for that time. It is the default of this thread.
///
/// [`VirtualTime::block_on`] is made of this, and so is a runtime whose tasks are in virtual time.
#[derive(Debug)]
pub struct Following<'a> {
    time: &'a VirtualTime,
    /// Whether it is not inside another one, which goes on after it.
    is_outermost: bool,
    _default: Entered,
}

impl<'a> Following<'a> {
    /// From now on the calling thread moves `time`.
    pub fn begin(time: &'a VirtualTime) -> Self {
        let is_outermost = time.core().clock.follow_this_thread();
        Self { time, is_outermost, _default: Entered::new(time) }
    }

    /// Whether another thread has waited for it nevertheless.
    pub fn has_waiter_elsewhere(&self) -> bool {
        self.time.core().clock.has_waiter_elsewhere()
    }

    /// Whether the calling thread has woken a future that another thread polled last, since it was
    /// asked last.
    pub fn take_woke_elsewhere() -> bool {
        WOKE_ELSEWHERE.take()
    }
}

/// The calling thread has fired a timer that another thread made.
pub(super) fn woke_elsewhere() {
    WOKE_ELSEWHERE.set(true);
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        if self.is_outermost {
            self.time.core().clock.follow_nobody();
        }
    }
}
