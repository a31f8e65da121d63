//! What the actors of a system share: threads, dead letters, and the list of who is alive.

use std::collections::HashMap;
use std::time::Instant;

use lars_scheduler::{Executor, Handle, Inline, Pool, Runnable};

use crate::dead_letters::DeadLetters;
use crate::error::SpawnError;
use crate::sync::plain::{AtomicU64, AtomicUsize};
use crate::sync::{Arc, Condvar, Mutex, Ordering, real_now};

/// An actor, as the system knows it.
pub(crate) trait Resident: Send + Sync {
    /// Asks it to stop because the system closes, after what is queued.
    fn system_closes(self: Arc<Self>);
}

pub(crate) struct Registry {
    pub(crate) name: String,
    pub(crate) timers: Handle,
    pub(crate) pool: Pool,
    /// Messages that an activation works off before another actor gets its turn.
    pub(crate) throughput: u64,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) panics: AtomicU64,
    pub(crate) stopped: AtomicUsize,
    alive: Mutex<Alive>,
    /// Signalled when the last of `alive` goes.
    all_gone: Condvar,
}

struct Alive {
    actors: HashMap<Arc<str>, Arc<dyn Resident>>,
    closing: bool,
}

impl Registry {
    pub(crate) fn new(
        name: String,
        timers: Handle,
        pool: Pool,
        throughput: u64,
        dead_letters: DeadLetters,
    ) -> Self {
        Self {
            name,
            timers,
            pool,
            throughput,
            dead_letters,
            panics: AtomicU64::new(0),
            stopped: AtomicUsize::new(0),
            alive: Mutex::new(Alive { actors: HashMap::new(), closing: false }),
            all_gone: Condvar::new(),
        }
    }

    /// Runs `work` on a thread of the system.
    pub(crate) fn dispatch(&self, work: impl FnOnce() + Send + 'static) {
        // The pool has threads, or the system would not have been built. Should it refuse all the same,
        // the message must not be lost: the sender's thread has to do.
        if let Err(rejected) = self.pool.execute(Runnable::new(work)) {
            tracing::error!(target: "mini_actor", reason = rejected.reason(), "the pool refused an actor");
            let _ = Inline.execute(rejected.into_task());
        }
    }

    pub(crate) fn enter(
        &self,
        name: &Arc<str>,
        actor: Arc<dyn Resident>,
    ) -> Result<(), SpawnError> {
        let mut alive = self.alive.lock();
        if alive.closing {
            return Err(SpawnError::Closed { system: self.name.clone() });
        }
        if alive.actors.contains_key(name) {
            return Err(SpawnError::NameTaken { name: name.to_string() });
        }
        alive.actors.insert(Arc::clone(name), actor);
        Ok(())
    }

    pub(crate) fn leave(&self, name: &str) {
        // Relaxed: a statistic.
        self.stopped.fetch_add(1, Ordering::Relaxed);
        let mut alive = self.alive.lock();
        let gone = alive.actors.remove(name);
        let last = alive.actors.is_empty();
        drop(alive);
        // Outside the lock: it may be the last reference.
        drop(gone);
        if last {
            self.all_gone.notify_all();
        }
    }

    pub(crate) fn alive(&self) -> usize {
        self.alive.lock().actors.len()
    }

    /// Accepts no more actors, and asks those that are alive to stop.
    pub(crate) fn close(&self) {
        let actors: Vec<_> = {
            let mut alive = self.alive.lock();
            alive.closing = true;
            alive.actors.values().cloned().collect()
        };
        for actor in actors {
            actor.system_closes();
        }
    }

    /// Waits until nobody is alive, at most until `deadline`; returns how many are.
    pub(crate) fn wait_until_empty(&self, deadline: Option<Instant>) -> usize {
        let mut alive = self.alive.lock();
        while !alive.actors.is_empty() {
            match deadline {
                None => self.all_gone.wait(&mut alive),
                Some(deadline) if real_now() >= deadline => break,
                Some(deadline) => {
                    self.all_gone.wait_until(&mut alive, deadline);
                }
            }
        }
        alive.actors.len()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("name", &self.name)
            .field("alive", &self.alive())
            .finish_non_exhaustive()
    }
}
