//! The gate of a lane: its owner passes with plain loads and stores, and never waits for anybody.
//!
//! Two parties use what lies behind it: the *owner*, one thread, millions of times a second; and
//! the *visitor*, the timer thread, a thousand times a second at most. Each has a flag.
//!
//! ```text
//!   owner                                  visitor
//!   owner := true              (1)         visitor := true            (3)   knock
//!   light fence                            heavy fence
//!   visitor? if so, step back  (2)         owner? if so, come back    (4)   is_free
//!   ... inside ...                         ... inside ...
//!   owner := false             leave       visitor := false                 open
//! ```
//!
//! The fences put one of (1) before (4), or (3) before (2): they cannot both miss the other. The
//! owner steps back at once, and takes the way through the intake. The visitor leaves its flag
//! where it is, and looks again: the owner is inside for some twenty nanoseconds, or until it gets
//! a processor again, and cannot enter a second time.
//!
//! This is the mutual exclusion of E. W. Dijkstra (*Cooperating sequential processes*, 1965, after
//! Th. J. Dekker), with one side that always gives way, and with the asymmetric fences of D. Dice,
//! M. Huang and M. Yang (*Asymmetric Dekker Synchronization*, 2001).

use crate::sync::{AtomicBool, Ordering, light_fence};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Gate {
    owner: AtomicBool,
    visitor: AtomicBool,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { owner: AtomicBool::new(false), visitor: AtomicBool::new(false) }
    }

    /// The owner passes, unless a visitor is inside or about to be. It has to
    /// [`leave`](Self::leave) without calling anything that is not ours.
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        // Relaxed: (1); the fence orders it before (2).
        self.owner.store(true, Ordering::Relaxed);
        light_fence();
        // Acquire: (2); pairs with `open`, so that what the last visitor did is seen.
        if !self.visitor.load(Ordering::Acquire) {
            return true;
        }
        self.leave();
        false
    }

    /// The owner leaves. What lies behind the gate may be gone after this.
    #[inline]
    pub(crate) fn leave(&self) {
        // Release: pairs with `is_free`.
        self.owner.store(false, Ordering::Release);
    }

    /// The visitor asks to be let in: from the heavy fence that has to follow, the owner cannot
    /// enter any more.
    pub(crate) fn knock(&self) {
        // Relaxed: (3); the fence orders it before (4).
        self.visitor.store(true, Ordering::Relaxed);
    }

    /// Whether the owner has left, so that the visitor is inside. Asked after the heavy fence.
    pub(crate) fn is_free(&self) -> bool {
        // Acquire: (4); pairs with `leave`.
        !self.owner.load(Ordering::Acquire)
    }

    /// For assertions: whether the owner is inside. Only the owner may rely on `true`.
    pub(crate) fn has_owner(&self) -> bool {
        // Relaxed: the owner reads what it wrote itself.
        self.owner.load(Ordering::Relaxed)
    }

    /// For assertions: whether a visitor is inside, or asks to be.
    pub(crate) fn has_visitor(&self) -> bool {
        // Relaxed: the visitor reads what it wrote itself.
        self.visitor.load(Ordering::Relaxed)
    }

    /// The visitor leaves, or does not want to enter any more.
    pub(crate) fn open(&self) {
        // Release: pairs with `enter`.
        self.visitor.store(false, Ordering::Release);
    }
}
