//! Nodes in virtual time: without threads, and with a clock that the test moves.
//!
//! A [`Store`] keeps timers in memory, and any number of nodes share it. They are driven by the
//! scheduler whose time they live in: a [`VirtualTime`](lars_scheduler::VirtualTime), or that of
//! mini-actor's `TestKit`. So a test can move time by days in a moment, kill nodes, and get the
//! same result each time.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_durable::test_kit::Store;
//! use lars_durable::{Fired, Payload};
//! use lars_scheduler::LightArrayRevolverScheduler;
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Invoice(u64);
//! impl Payload for Invoice { const NAME: &'static str = "invoice"; }
//!
//! let time = LightArrayRevolverScheduler::builder().build_virtual()?;
//! let store = Store::new(&time.handle());
//! let (sent, invoices) = mpsc::channel();
//! let node = || {
//!     let sent = sent.clone();
//!     store.node().handle(move |due: &Fired<Invoice>| drop(sent.send(due.payload().0)))
//! };
//! let (one, two) = (node().start()?, node().start()?);
//! let hour = Duration::from_secs(3_600);
//! one.timers().schedule_once(hour, Invoice(17)).key("invoice/17").submit().wait()?;
//! time.advance(hour / 2);
//! one.kill(); // whoever has the timer: the other node takes it over
//! time.advance(hour / 2 + Duration::from_secs(20));
//! assert_eq!(invoices.try_iter().collect::<Vec<_>>(), [17]);
//! # drop(two);
//! # Ok(()) }
//! ```

use std::fmt;

use lars_scheduler::Handle;

use super::durable::Builder;
use crate::store::{FaultyStore, MemoryStore};
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::time::{Micros, Timestamp};

/// Into how many buckets the timers of a group are divided.
const BUCKETS: u16 = 64;

/// What the store's clock shows in the beginning: 2023-11-14, 22:13:20 UTC.
const START: i64 = 1_700_000_000_000_000;

/// A store in memory, in virtual time, for any number of nodes of one group. It lives as long as
/// the last of them.
///
/// Calls on its nodes are carried out at once, so that a test may wait for the answer. Nodes do not
/// notify each other: what is due at once in a bucket of another node is found with its next sweep,
/// within three seconds, and a free bucket with the next renewal of a lease.
pub struct Store {
    store: FaultyStore,
    time: Handle,
    /// How many nodes were made.
    nodes: Arc<AtomicUsize>,
}

impl Store {
    /// An empty store whose clock is that of `time`, which must be virtual: nothing else drives its
    /// nodes.
    pub fn new(time: &Handle) -> Self {
        let (origin, here) = (time.now(), time.clone());
        let clock = Arc::new(move || {
            let passed = here.now().saturating_duration_since(origin).as_micros();
            Timestamp(START) + Micros(i64::try_from(passed).unwrap_or(i64::MAX))
        });
        let store = FaultyStore::new(MemoryStore::new(BUCKETS, clock));
        Self { store, time: time.clone(), nodes: Arc::default() }
    }

    /// A node on this store, to be given handlers and started.
    pub fn node(&self) -> Builder {
        // Relaxed: a number that no other node has, and the same each time.
        let number = self.nodes.fetch_add(1, Ordering::Relaxed);
        Builder::on(self.store.clone(), self.time.clone(), number as u64)
    }

    /// The same store by another path: for nodes that lose it, with
    /// [`set_reachable`](Self::set_reachable), while others do not.
    pub fn other_path(&self) -> Self {
        let (store, time) = (self.store.other_path(), self.time.clone());
        Self { store, time, nodes: Arc::clone(&self.nodes) }
    }

    /// Makes the store unreachable for all nodes that were made of this value, or reachable again.
    /// While it is unreachable, each transaction fails, and nodes try again, with pauses of up to
    /// two seconds. Their leases end when four fifths of them have passed.
    ///
    /// A call is then answered when the store is reachable again, or with an error when its time is
    /// up: move time before you wait for it.
    pub fn set_reachable(&self, reachable: bool) {
        self.store.set_reachable(reachable);
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}
