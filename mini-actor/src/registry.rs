//! What the actors of a system share: threads, dead letters, and the tree of who is alive.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lars_scheduler::{Handle, PendingTask};

use crate::dead_letters::DeadLetters;
use crate::dispatcher::{Dispatcher, Inside};
use crate::error::SpawnError;
use crate::panics::{contain, quietly};
use crate::signal::Resident;
use crate::stop_reason::StopReason;
use crate::supervision::{Directive, Panic};
use crate::sync::plain::AtomicU64;
use crate::sync::{Arc, Condvar, Mutex, Ordering, real_now};

pub(crate) type PanicHook = Box<dyn Fn(&Panic, Directive) + Send + Sync>;

/// The settings of a system that its actors need.
pub(crate) struct Rules {
    /// Messages that an activation works off before another actor gets its turn.
    pub(crate) throughput: u32,
    /// And how long it may take for them.
    pub(crate) time_slice: Option<Duration>,
    pub(crate) on_panic: Option<PanicHook>,
}

pub(crate) struct Registry {
    pub(crate) name: String,
    pub(crate) timers: Handle,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) rules: Rules,
    pub(crate) dead_letters: Arc<DeadLetters>,
    pub(crate) panics: AtomicU64,
    pub(crate) restarts: AtomicU64,
    stopped: AtomicU64,
    /// Messages received by actors that have stopped.
    retired: AtomicU64,
    tree: Mutex<Tree>,
    /// Signalled when the last actor goes.
    all_gone: Condvar,
    /// What the scheduler gave back when the system was closed, and nobody runs: time-outs of questions, timers.
    /// `None` when nothing is kept any more.
    unsent: Mutex<Option<Vec<PendingTask>>>,
}

struct Tree {
    /// By path.
    actors: HashMap<Arc<str>, Arc<dyn Resident>>,
    closing: bool,
}

/// Counts of a system.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
///
/// let kit = TestKit::new("test")?;
/// let (first, second) = (kit.probe::<u32>("first"), kit.probe::<u32>("second"));
/// first.actor().tell(7)?;
/// second.actor().tell(8)?;
/// second.actor().kill(); // before it receives that
/// kit.settle();
/// let metrics = kit.metrics();
/// assert_eq!((metrics.alive, metrics.stopped), (1, 1));
/// assert_eq!((metrics.processed, metrics.dead_letters), (1, 1));
/// assert_eq!((metrics.panicked, metrics.restarts), (0, 0));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SystemMetrics {
    /// Actors that were spawned and have not stopped.
    pub alive: usize,
    /// Actors that have stopped.
    pub stopped: u64,
    /// Messages received, those of actors' own timers included. Of an actor that is just running, up to date after its
    /// activation.
    pub processed: u64,
    /// Panics of actors contained.
    pub panicked: u64,
    /// Actors restarted.
    pub restarts: u64,
    /// Messages that reached nobody.
    pub dead_letters: u64,
}

impl Registry {
    pub(crate) fn new(name: String, timers: Handle, dispatcher: Dispatcher, rules: Rules) -> Self {
        Self {
            name,
            timers,
            dispatcher,
            rules,
            dead_letters: Arc::new(DeadLetters::new()),
            panics: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            tree: Mutex::new(Tree { actors: HashMap::new(), closing: false }),
            all_gone: Condvar::default(),
            unsent: Mutex::new(Some(Vec::new())),
        }
    }

    /// What tells this system from others.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// What the timer thread is called.
    pub(crate) fn timer_thread(name: &str) -> String {
        format!("{name}-scheduler")
    }

    /// Whether the calling thread runs an actor of this system, or is one of its own.
    pub(crate) fn is_inside(&self) -> bool {
        Inside::system(self.key()) || self.dispatcher.is_current() || self.is_timer_thread()
    }

    /// Whether the calling thread fires the system's timers, now.
    pub(crate) fn is_timer_thread(&self) -> bool {
        self.timers.is_timer_thread()
    }

    pub(crate) fn enter(&self, actor: Arc<dyn Resident>) -> Result<(), SpawnError> {
        let mut tree = self.tree.lock();
        if tree.closing {
            return Err(SpawnError::Closed { system: self.name.clone() });
        }
        let path = actor.path();
        if tree.actors.contains_key(path) {
            return Err(SpawnError::NameTaken { path: path.to_string() });
        }
        tree.actors.insert(Arc::clone(path), actor);
        Ok(())
    }

    pub(crate) fn leave(&self, actor: &dyn Resident) {
        let mut tree = self.tree.lock();
        // Relaxed: statistics. Under the lock, so that it counts in one place at each time.
        self.stopped.fetch_add(1, Ordering::Relaxed);
        self.retired.fetch_add(actor.processed(), Ordering::Relaxed);
        let gone = tree.actors.remove(actor.path());
        let last = tree.actors.is_empty();
        let end = last && tree.closing;
        drop(tree);
        // Outside the lock: it may be the last reference.
        drop(gone);
        if last {
            self.all_gone.notify_all();
        }
        if end {
            self.end();
        }
    }

    /// Nobody is alive, and nobody will be: whoever asked hears of it, and the threads end.
    fn end(&self) {
        self.drop_unsent();
        self.dispatcher.end();
    }

    /// Keeps what is not to be sent until the last actor has stopped: answers may come until then.
    pub(crate) fn keep_unsent(&self, tasks: Vec<PendingTask>) {
        if let Some(unsent) = &mut *self.unsent.lock() {
            unsent.extend(tasks);
        }
    }

    pub(crate) fn drop_unsent(&self) {
        let unsent = self.unsent.lock().take();
        // Outside the lock: it wakes those who asked, and drops closures.
        drop(unsent);
    }

    pub(crate) fn find(&self, path: &str) -> Option<Arc<dyn Resident>> {
        self.tree.lock().actors.get(path).cloned()
    }

    pub(crate) fn alive(&self) -> usize {
        self.tree.lock().actors.len()
    }

    /// The paths of the living, sorted.
    pub(crate) fn paths(&self) -> Vec<Arc<str>> {
        let mut paths: Vec<_> = self.tree.lock().actors.keys().cloned().collect();
        paths.sort_unstable();
        paths
    }

    /// Accepts no more actors, and asks those without a parent to stop, in the order in which they were spawned.
    pub(crate) fn close(&self) {
        let mut roots: Vec<_> = {
            let mut tree = self.tree.lock();
            tree.closing = true;
            tree.actors.values().filter(|actor| is_root(actor.path())).cloned().collect()
        };
        roots.sort_unstable_by_key(|actor| actor.id());
        for actor in roots {
            actor.stop_for(StopReason::SystemClosed);
        }
        if self.alive() == 0 {
            self.end();
        }
    }

    /// In virtual time: what the random numbers of an actor begin with, for each another and always the same.
    pub(crate) fn seed(&self, path: &str) -> Option<u64> {
        self.dispatcher.as_manual()?;
        // FNV-1a, which is the same everywhere.
        let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Some(path.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// Waits until nobody is alive, until `deadline` at the most. Says whether nobody is.
    pub(crate) fn wait_until_empty(&self, deadline: Option<Instant>) -> bool {
        let mut tree = self.tree.lock();
        while !tree.actors.is_empty() {
            if deadline.is_some_and(|deadline| real_now() >= deadline) {
                return false;
            }
            tree = self.all_gone.wait(tree, deadline);
        }
        true
    }

    /// Counts, logs and tells of a panic.
    pub(crate) fn panicked(&self, panic: &Panic, directive: Directive) {
        // Relaxed: a statistic.
        self.panics.fetch_add(1, Ordering::Relaxed);
        let Panic { path, message } = panic;
        quietly(|| {
            tracing::error!(target: "mini_actor", actor = &**path, message, ?directive, "an actor panicked");
        });
        if let Some(hook) = &self.rules.on_panic
            && let Err(error) = contain(|| hook(panic, directive))
        {
            quietly(
                || tracing::error!(target: "mini_actor", error, "the panic hook panicked itself"),
            );
        }
    }

    pub(crate) fn metrics(&self) -> SystemMetrics {
        // Relaxed, here and below: statistics.
        let (alive, stopped, processed) = {
            let tree = self.tree.lock();
            let running: u64 = tree.actors.values().map(|actor| actor.processed()).sum();
            // Under the lock as well: an actor that leaves is counted here or there.
            let retired = self.retired.load(Ordering::Relaxed);
            (tree.actors.len(), self.stopped.load(Ordering::Relaxed), running + retired)
        };
        SystemMetrics {
            alive,
            stopped,
            processed,
            panicked: self.panics.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed),
            dead_letters: self.dead_letters.count(),
        }
    }
}

fn is_root(path: &str) -> bool {
    path.rfind('/') == Some(0)
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("name", &self.name)
            .field("alive", &self.alive())
            .finish_non_exhaustive()
    }
}
