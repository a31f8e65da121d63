//! The last check before a run begins, on the thread that runs it.
//!
//! The engine decides early: it launches a run a lead before its deadline, and a thread may be
//! late. So what it knew is asked again at the last moment. What lies between this check and the
//! handler's first step no process can exclude; for that there is the fence.

use crate::store::Seen;
use crate::sync::{Arc, AtomicBool, AtomicI64, Mutex, Ordering};
use crate::time::{Clock, Micros, Mono, MonoClock, Timestamp};

/// Whether a run may begin: its time has come, the lease holds, and the node is open.
pub(crate) struct Gate {
    clock: MonoClock,
    store_clock: StoreClock,
    /// The lease of the node's present life.
    lease: Mutex<Lease>,
    closed: AtomicBool,
}

/// The lease of a node, until it is declared dead. Each run keeps the one under which it was
/// launched. When the node has joined again, it has another one, and a run that waited for a thread
/// meanwhile finds that its own has ended: its bucket may have been another node's in between.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    /// Nothing may begin at this instant or later.
    valid_until: Arc<AtomicI64>,
}

impl Lease {
    fn new() -> Self {
        Self { valid_until: Arc::new(AtomicI64::new(i64::MIN)) }
    }

    fn set_valid_until(&self, until: Mono) {
        // Relaxed, as the load: the number alone says everything, and a late one is as if the run
        // had begun earlier.
        self.valid_until.store(until.0, Ordering::Relaxed);
    }

    /// Whether it holds, as far as this process knows.
    pub(crate) fn is_valid(&self, now: Mono) -> bool {
        now.0 < self.valid_until.load(Ordering::Relaxed)
    }
}

/// What is known here of the store's clock.
enum StoreClock {
    /// It is one of this process.
    Local(Clock),
    /// The most by which the local clock may be ahead of it, estimated from what it showed.
    Estimated(AtomicI64),
}

impl Gate {
    pub(super) fn new(clock: MonoClock, seen: &Seen) -> Self {
        let store_clock = match seen {
            Seen::Here(clock) => StoreClock::Local(Arc::clone(clock)),
            Seen::There(shown) => {
                StoreClock::Estimated(AtomicI64::new(clock.now().0.saturating_sub(shown.0)))
            }
        };
        let lease = Mutex::new(Lease::new());
        Self { clock, store_clock, lease, closed: AtomicBool::new(false) }
    }

    /// The lease for a run that is launched now.
    pub(super) fn lease(&self) -> Lease {
        self.lease.lock().clone()
    }

    pub(super) fn set_valid_until(&self, until: Mono) {
        self.lease.lock().set_valid_until(until);
    }

    /// What was launched so far may not begin any more, whatever lease follows.
    pub(super) fn begin_anew(&self) {
        let before = std::mem::replace(&mut *self.lease.lock(), Lease::new());
        before.set_valid_until(Mono::MIN);
    }

    pub(super) fn close(&self) {
        // Relaxed, as the load: a run that does not see it began before.
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_ahead(&self, ahead: Option<Micros>) {
        if let (StoreClock::Estimated(known), Some(ahead)) = (&self.store_clock, ahead) {
            // Relaxed, as the load: the number alone says everything.
            known.store(ahead.0, Ordering::Relaxed);
        }
    }

    pub(crate) fn now(&self) -> Mono {
        self.clock.now()
    }

    /// What the store's clock shows, if it is one of this process.
    pub(crate) fn local_store_now(&self) -> Option<Timestamp> {
        match &self.store_clock {
            StoreClock::Local(clock) => Some(clock()),
            StoreClock::Estimated(_) => None,
        }
    }

    /// What the store's clock shows, or a lower bound of that.
    pub(crate) fn store_now(&self) -> Timestamp {
        match &self.store_clock {
            StoreClock::Local(clock) => clock(),
            StoreClock::Estimated(ahead) => {
                Timestamp(self.clock.now().0.saturating_sub(ahead.load(Ordering::Relaxed)))
            }
        }
    }

    /// A row is `deleted` if its handler runs at most once: nobody else can run it.
    pub(crate) fn opens(&self, deadline: Timestamp, deleted: bool, lease: &Lease) -> bool {
        self.store_now() >= deadline
            && (deleted || !self.closed.load(Ordering::Relaxed) && lease.is_valid(self.now()))
    }
}
