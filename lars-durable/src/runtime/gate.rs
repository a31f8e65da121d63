//! The last check before a run begins, on the thread that runs it.

use crate::store::Seen;
use crate::sync::{Arc, AtomicBool, AtomicI64, Ordering};
use crate::time::{Clock, Mono, MonoClock, Timestamp};

/// Whether a run may begin: its time has come, the lease holds, and the node is open.
pub(crate) struct Gate {
    clock: MonoClock,
    store_clock: StoreClock,
    /// Nothing may begin at this instant or later.
    valid_until: AtomicI64,
    closed: AtomicBool,
}

/// What is known here of the store's clock.
enum StoreClock {
    /// It is one of this process.
    Local(Clock),
    /// The most by which the local clock may be ahead of it, estimated from what it showed.
    #[cfg(feature = "postgres")]
    Estimated(AtomicI64),
}

impl Gate {
    pub(super) fn new(clock: MonoClock, seen: &Seen) -> Self {
        let store_clock = match seen {
            Seen::Here(clock) => StoreClock::Local(Arc::clone(clock)),
            #[cfg(feature = "postgres")]
            Seen::There(shown) => {
                StoreClock::Estimated(AtomicI64::new(clock.now().0.saturating_sub(shown.0)))
            }
        };
        let valid_until = AtomicI64::new(i64::MIN);
        Self { clock, store_clock, valid_until, closed: AtomicBool::new(false) }
    }

    pub(super) fn set_valid_until(&self, until: Mono) {
        // Relaxed, as the load: the number alone says everything, and a late one is as if the run
        // had begun earlier.
        self.valid_until.store(until.0, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        // Relaxed, as the load: a run that does not see it began before.
        self.closed.store(true, Ordering::Relaxed);
    }

    #[cfg(feature = "postgres")]
    pub(super) fn set_ahead(&self, ahead: Option<i64>) {
        if let (StoreClock::Estimated(known), Some(ahead)) = (&self.store_clock, ahead) {
            // Relaxed, as the load: the number alone says everything.
            known.store(ahead, Ordering::Relaxed);
        }
    }

    pub(crate) fn now(&self) -> Mono {
        self.clock.now()
    }

    /// What the store's clock shows, if it is one of this process.
    pub(crate) fn local_store_now(&self) -> Option<Timestamp> {
        match &self.store_clock {
            StoreClock::Local(clock) => Some(clock()),
            #[cfg(feature = "postgres")]
            StoreClock::Estimated(_) => None,
        }
    }

    /// What the store's clock shows, or a lower bound of that.
    pub(crate) fn store_now(&self) -> Timestamp {
        match &self.store_clock {
            StoreClock::Local(clock) => clock(),
            #[cfg(feature = "postgres")]
            StoreClock::Estimated(ahead) => {
                Timestamp(self.clock.now().0.saturating_sub(ahead.load(Ordering::Relaxed)))
            }
        }
    }

    /// Whether this node's lease holds, as far as this process knows.
    pub(crate) fn is_valid(&self) -> bool {
        self.clock.now().0 < self.valid_until.load(Ordering::Relaxed)
    }

    /// `deleted` are the rows of handlers that run at most once: nobody else can run them.
    pub(super) fn opens(&self, deadline: Timestamp, deleted: bool) -> bool {
        self.store_now() >= deadline
            && (deleted || !self.closed.load(Ordering::Relaxed) && self.is_valid())
    }
}
