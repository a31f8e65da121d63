//! A system as its actors and users see it.

use std::fmt;

use crate::registry::Registry;
use crate::sends::Scheduler;
use crate::sync::{Arc, Ordering};

/// A system of actors, to spawn in and to schedule with. Cheap to clone, `Send` and `Sync`.
///
/// It does not keep the system open; that is what its [`ActorSystem`](crate::ActorSystem) does.
#[derive(Clone)]
pub struct System {
    registry: Arc<Registry>,
    scheduler: Scheduler,
}

/// Counts of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SystemMetrics {
    /// Actors that were spawned and have not stopped.
    pub alive: usize,
    /// Actors that have stopped.
    pub stopped: usize,
    /// Panics contained.
    pub panicked: u64,
    /// Messages that reached nobody.
    pub dead_letters: u64,
}

impl System {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let scheduler = Scheduler::new(registry.timers.clone());
        Self { registry, scheduler }
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The scheduler for messages to actors of this system.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The name that the system was built with.
    pub fn name(&self) -> &str {
        &self.registry.name
    }

    /// A snapshot of the system's counts.
    pub fn metrics(&self) -> SystemMetrics {
        SystemMetrics {
            alive: self.registry.alive(),
            // Relaxed: statistics.
            stopped: self.registry.stopped.load(Ordering::Relaxed),
            panicked: self.registry.panics.load(Ordering::Relaxed),
            dead_letters: self.registry.dead_letters.count(),
        }
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("System").field(&self.registry.name).finish()
    }
}
