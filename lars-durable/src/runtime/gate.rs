//! The last check before a run begins, on the thread that runs it.

use crate::sync::{AtomicBool, AtomicI64, Ordering};
use crate::time::{Clock, Mono, MonoClock, Timestamp};

/// Whether a run may begin: its time has come, the lease holds, and the node is open.
pub(crate) struct Gate {
    clock: MonoClock,
    /// The store's clock, where it is one of this process.
    store_clock: Option<Clock>,
    /// Nothing may begin at this instant or later.
    valid_until: AtomicI64,
    closed: AtomicBool,
    /// The most by which the local clock may be ahead of the store's: `UNKNOWN`, or an estimate.
    #[cfg(feature = "postgres")]
    ahead: AtomicI64,
}

/// Nothing is known of the store's clock.
#[cfg(feature = "postgres")]
const UNKNOWN: i64 = i64::MAX;

impl Gate {
    pub(super) fn new(clock: MonoClock, store_clock: Option<Clock>) -> Self {
        let valid_until = AtomicI64::new(i64::MIN);
        Self {
            clock,
            store_clock,
            valid_until,
            closed: AtomicBool::new(false),
            #[cfg(feature = "postgres")]
            ahead: AtomicI64::new(UNKNOWN),
        }
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
        // Relaxed, as the load: the number alone says everything.
        self.ahead.store(ahead.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Mono {
        self.clock.now()
    }

    /// What the store's clock shows, if it is one of this process.
    pub(crate) fn local_store_now(&self) -> Option<Timestamp> {
        self.store_clock.as_ref().map(|clock| clock())
    }

    /// What the store's clock shows, or a lower bound of that; `None` if it is not known here.
    pub(crate) fn store_now(&self) -> Option<Timestamp> {
        let here = self.local_store_now();
        #[cfg(feature = "postgres")]
        let here = here.or_else(|| match self.ahead.load(Ordering::Relaxed) {
            UNKNOWN => None,
            ahead => Some(Timestamp(self.clock.now().0.saturating_sub(ahead))),
        });
        here
    }

    /// Whether this node's lease holds, as far as this process knows.
    pub(crate) fn is_valid(&self) -> bool {
        self.clock.now().0 < self.valid_until.load(Ordering::Relaxed)
    }

    /// `deleted` are the rows of handlers that run at most once: nobody else can run them.
    pub(super) fn opens(&self, deadline: Timestamp, deleted: bool) -> bool {
        let due = self.store_now().is_none_or(|now| now >= deadline);
        due && (deleted || !self.closed.load(Ordering::Relaxed) && self.is_valid())
    }
}
