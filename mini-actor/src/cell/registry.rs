//! What the actors of a system share: threads, dead letters, and the tree of living actors.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::panic::Location;
use std::time::{Duration, Instant};

use hashbrown::HashTable;
use lars_scheduler::panics::quietly;
use lars_scheduler::{Cancellable, Handle, PendingTask, Refusal, Task, TaskBody};

use crate::base::error::SpawnError;
use crate::base::panics::guard;
use crate::base::slow_receive::{SlowHook, SlowReceive};
use crate::base::stop_reason::{StopReason, Terminated};
use crate::base::supervision::{Directive, Panic};
use crate::base::threads::OnThreadStart;
use crate::cell::dead_letters::DeadLetters;
use crate::cell::signal::Resident;
use crate::dispatcher::watch::{Note, Reports};
use crate::dispatcher::workers::{Dispatcher, Inside, Mapping};
use crate::sync::plain::AtomicU64;
use crate::sync::{Arc, CHECKED, Condvar, Mutex, Ordering, real_now};

pub(crate) type PanicHook = Arc<dyn Fn(&Panic, Directive) + Send + Sync>;

/// Where a call is in the source.
pub(crate) type Place = &'static Location<'static>;

pub(crate) type StopHook = Box<dyn Fn(Terminated) + Send + Sync>;

/// The settings of a system that its actors need.
pub(crate) struct Rules {
    /// Messages that an activation works off before another actor gets its turn.
    pub(crate) throughput: u32,
    /// How long it may take for these messages, if there is a limit.
    pub(crate) time_slice: Option<Duration>,
    /// From when on a message is slow, if there is a limit.
    pub(crate) slow_receive: Option<Duration>,
    /// Until the system is over.
    pub(crate) on_thread_start: Mutex<OnThreadStart>,
    /// Whether messages are received in the spans in which they were told.
    pub(crate) capture_spans: bool,
    /// Called with the end of each actor. Must not panic.
    pub(crate) on_stop: Option<StopHook>,
}

/// An actor and its depth, ordered with the deepest first, and equal ones by path.
type Ranked = (Reverse<u64>, Arc<str>);

/// A walk over the places of a table, in steps between which others get the lock.
#[derive(Default)]
struct Walk {
    /// Where the next step begins.
    next: usize,
    /// How many places the table had at the last step.
    places: usize,
    /// How often the walk has begun.
    begun: usize,
}

impl Walk {
    /// How many places are looked at in a step.
    const STEP: usize = if CHECKED { 2 } else { 512 };
    /// How often a walk begins again because the table has grown.
    const AGAIN: usize = 3;

    /// The next places of a table that has this many now; none if that was all. In a table of
    /// another size the actors have other places, so the walk begins again, at zero.
    fn step(&mut self, places: usize) -> Range<usize> {
        if places != self.places && self.begun <= Self::AGAIN {
            *self = Self { next: 0, places, begun: self.begun + 1 };
        }
        let begin = self.next.min(places);
        self.next = places.min(begin + Self::STEP);
        begin..self.next
    }
}

pub(crate) struct Registry {
    pub(crate) name: String,
    pub(crate) timers: Handle,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) rules: Rules,
    pub(crate) dead_letters: Arc<DeadLetters>,
    /// Until the system is over.
    on_panic: Mutex<Option<PanicHook>>,
    /// Until the system is over.
    on_slow: Mutex<Option<SlowHook>>,
    pub(crate) panics: AtomicU64,
    slow_receives: AtomicU64,
    pub(crate) restarts: AtomicU64,
    /// How many anonymous actors there have been.
    pub(crate) anonymous: AtomicU64,
    tree: Mutex<Tree>,
    /// Signalled when the last actor goes.
    all_gone: Condvar,
    /// What the scheduler handed back when the system was closed, and will not run: timeouts of
    /// questions, timers. `None` when nothing is kept any more.
    unsent: Mutex<Option<Vec<PendingTask>>>,
}

struct Tree {
    /// By path, in tables by some bits of its hash. The path is in the actor, and its hash beside
    /// it, so a table grows without looking at each actor. Only one table grows at a time: a single
    /// table of a million would hold up all threads for milliseconds.
    actors: [HashTable<(u64, Arc<dyn Resident>)>; TABLES],
    alive: usize,
    hasher: RandomState,
    /// Names of actors that are about to enter.
    reserved: HashSet<Arc<str>>,
    /// The pinned actors, by number.
    pinned: BTreeMap<u64, Arc<dyn Resident>>,
    /// Messages received by pinned actors that have stopped.
    retired: u64,
    /// How many actors have stopped.
    stopped: u64,
    closing: bool,
    /// The owner has gone.
    disowned: bool,
}

/// How many tables the actors of a system are in.
const TABLES: usize = 64;

impl Tree {
    fn new() -> Self {
        Self {
            actors: [const { HashTable::new() }; TABLES],
            alive: 0,
            hasher: RandomState::new(),
            reserved: HashSet::new(),
            pinned: BTreeMap::new(),
            retired: 0,
            stopped: 0,
            closing: false,
            disowned: false,
        }
    }

    /// The number of the table for a hash: by bits that the table itself does not use.
    const fn table(hash: u64) -> usize {
        (hash >> 40) as usize % TABLES
    }

    /// An actor by its path and the hash of that.
    fn find(&self, hash: u64, path: &str) -> Option<&Arc<dyn Resident>> {
        let found = self.actors[Self::table(hash)].find(hash, |(_, it)| **it.path() == *path);
        found.map(|(_, actor)| actor)
    }

    /// The hash of the path, if an actor of this path may enter.
    fn check(&self, system: &str, path: &str) -> Result<u64, SpawnError> {
        if self.closing {
            return Err(SpawnError::Closed { system: system.to_owned() });
        }
        let hash = self.hasher.hash_one(path);
        if self.find(hash, path).is_some() || self.reserved.contains(path) {
            return Err(SpawnError::NameTaken { path: path.to_owned() });
        }
        Ok(hash)
    }

    fn insert(&mut self, hash: u64, actor: Arc<dyn Resident>) {
        self.alive += 1;
        let table = &mut self.actors[Self::table(hash)];
        table.insert_unique(hash, (hash, actor), |&(hash, _)| hash);
    }

    fn remove(&mut self, path: &str) -> Option<Arc<dyn Resident>> {
        let hash = self.hasher.hash_one(path);
        let table = &mut self.actors[Self::table(hash)];
        let entry = table.find_entry(hash, |(_, actor)| **actor.path() == *path).ok()?;
        self.alive -= 1;
        Some(entry.remove().0.1)
    }

    fn actors(&self) -> impl Iterator<Item = &Arc<dyn Resident>> {
        self.actors.iter().flatten().map(|(_, actor)| actor)
    }
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
    /// Messages received, or being received, those of actors' own timers included. A message that
    /// was stashed counts once.
    pub processed: u64,
    /// Panics of actors that were contained. An escalated one counts once.
    pub panicked: u64,
    /// Actors restarted.
    pub restarts: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Messages whose handler ran for longer than
    /// [`Builder::slow_receive`](crate::Builder::slow_receive). If several ran between two readings
    /// of the clock, they count once.
    pub slow_receives: u64,
}

impl Registry {
    pub(crate) fn new(
        name: String,
        timers: Handle,
        dispatcher: Dispatcher,
        rules: Rules,
        on_panic: Option<PanicHook>,
        on_slow: Option<SlowHook>,
    ) -> Self {
        Self {
            name,
            timers,
            dispatcher,
            rules,
            dead_letters: Arc::new(DeadLetters::new()),
            on_panic: Mutex::new(on_panic),
            on_slow: Mutex::new(on_slow),
            panics: AtomicU64::new(0),
            slow_receives: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            anonymous: AtomicU64::new(0),
            tree: Mutex::new(Tree::new()),
            all_gone: Condvar::default(),
            unsent: Mutex::new(Some(Vec::new())),
        }
    }

    /// What distinguishes this system from others.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether something of the system may wait for the calling thread: this thread runs an actor,
    /// is one of the system's own, or makes a message that an actor waits for.
    pub(crate) fn is_inside(&self) -> bool {
        Inside::system(self.key())
            || self.dispatcher.is_current()
            || self.is_timer_thread()
            || self.rules.on_thread_start.lock().is_running()
            || Mapping::is_running()
    }

    /// Whether the calling thread fires the system's timers, now.
    pub(crate) fn is_timer_thread(&self) -> bool {
        self.timers.is_timer_thread()
    }

    /// Runs `task` on the timer thread, after `delay`, for a call at this place.
    pub(crate) fn arm(
        &self,
        delay: Duration,
        task: Task<impl TaskBody>,
        place: Place,
    ) -> Result<Cancellable, Refusal> {
        let armed = self.timers.schedule_once(delay, task.inline().placed_at(place));
        armed.map_err(|error| error.refusal().clone())
    }

    /// Like [`arm`](Self::arm), for an actor that relies on it and has no caller to return an error
    /// to. A refusal is logged, unless the system is being closed.
    pub(crate) fn arm_for(
        &self,
        actor: &str,
        delay: Duration,
        task: Task<impl TaskBody>,
        place: Place,
    ) -> Option<Cancellable> {
        let report = |refusal: Refusal| {
            if refusal != Refusal::Stopped {
                quietly(|| {
                    tracing::error!(target: "mini_actor", actor, %refusal, "a timer has ended");
                });
            }
        };
        self.arm(delay, task, place).map_err(report).ok()
    }

    /// Enters an actor into the tree. The name of a `pinned` one has been reserved.
    pub(crate) fn enter(&self, actor: Arc<dyn Resident>, pinned: bool) -> Result<(), SpawnError> {
        let mut tree = self.tree.lock();
        if pinned {
            tree.reserved.remove(actor.path());
        }
        let hash = tree.check(&self.name, actor.path())?;
        if pinned {
            tree.pinned.insert(actor.id(), Arc::clone(&actor));
        }
        tree.insert(hash, actor);
        Ok(())
    }

    /// Reserves the name of an actor that costs something before it enters, until it enters or
    /// [`give_up`](Self::give_up) is called.
    pub(crate) fn reserve(&self, path: &Arc<str>) -> Result<(), SpawnError> {
        let mut tree = self.tree.lock();
        tree.check(&self.name, path)?;
        tree.reserved.insert(Arc::clone(path));
        Ok(())
    }

    pub(crate) fn give_up(&self, path: &Arc<str>) {
        self.tree.lock().reserved.remove(path);
    }

    pub(crate) fn leave(&self, actor: &dyn Resident, reason: StopReason) {
        if let Some(hook) = &self.rules.on_stop {
            let path = Arc::clone(actor.path());
            hook(Terminated { id: actor.id(), path, reason });
        }
        let mut tree = self.tree.lock();
        tree.stopped += 1;
        tree.retired += tree.pinned.remove(&actor.id()).map_or(0, |pinned| pinned.processed());
        let gone = tree.remove(actor.path());
        let last = tree.alive == 0;
        let end = last && tree.closing;
        let over = last && tree.disowned;
        drop(tree);
        // Outside the lock: it may be the last reference.
        drop(gone);
        if last {
            self.all_gone.notify_all();
        }
        if end {
            self.end();
        }
        if over {
            self.release();
        }
    }

    /// The owner has gone. When the last actor has gone as well, the system is over.
    pub(crate) fn disown(&self) {
        let over = {
            let mut tree = self.tree.lock();
            tree.disowned = true;
            tree.alive == 0
        };
        if over {
            self.release();
        }
    }

    /// Drops the hooks. They may refer to actors, and actors to the system, which would then keep
    /// itself alive.
    fn release(&self) {
        self.dead_letters.release();
        let on_panic = self.on_panic.lock().take();
        // Outside the lock: its destructor is foreign code.
        guard("the destructor of the panic hook", || drop(on_panic));
        let on_slow = self.on_slow.lock().take();
        guard("the destructor of the hook for slow messages", || drop(on_slow));
        let on_start = std::mem::take(&mut *self.rules.on_thread_start.lock());
        guard("the destructor of the hook on the start of a thread", || drop(on_start));
    }

    /// No actor is alive, and none will be: ends open questions and the threads.
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
        // Outside the lock: it wakes askers, and drops closures.
        drop(unsent);
    }

    pub(crate) fn find(&self, path: &str) -> Option<Arc<dyn Resident>> {
        let tree = self.tree.lock();
        tree.find(tree.hasher.hash_one(path), path).cloned()
    }

    pub(crate) fn alive(&self) -> usize {
        self.tree.lock().alive
    }

    /// The paths of the living, sorted.
    pub(crate) fn paths(&self) -> Vec<Arc<str>> {
        let mut paths: Vec<_> =
            self.tree.lock().actors().map(|actor| Arc::clone(actor.path())).collect();
        paths.sort_unstable();
        paths
    }

    /// The actors with the most messages waiting, the deepest first. The lock is never held for
    /// long, whatever the number of actors.
    pub(crate) fn deepest(&self, limit: usize) -> Vec<Arc<dyn Resident>> {
        let mut deepest: Vec<_> =
            (0..TABLES).flat_map(|table| self.deepest_of(table, limit)).collect();
        deepest.sort_unstable();
        deepest.truncate(limit);
        deepest.into_iter().filter_map(|(_, path)| self.find(&path)).collect()
    }

    /// The deepest actors of one table, in any order.
    fn deepest_of(&self, table: usize, limit: usize) -> impl Iterator<Item = Ranked> {
        let mut deepest = BinaryHeap::new();
        let mut walk = Walk::default();
        loop {
            let tree = self.tree.lock();
            let actors = &tree.actors[table];
            let step = walk.step(actors.num_buckets());
            if step.is_empty() {
                break;
            }
            if step.start == 0 {
                deepest.clear(); // the walk begins, perhaps anew
            }
            for (_, actor) in step.filter_map(|place| actors.get_bucket(place)) {
                let ranked: Ranked = (Reverse(actor.depth()), Arc::clone(actor.path()));
                if deepest.len() < limit {
                    deepest.push(ranked);
                } else if deepest.peek().is_some_and(|last| ranked < *last) {
                    deepest.pop();
                    deepest.push(ranked);
                }
            }
        }
        // If the table never stopped growing, some were looked at twice.
        let mut seen = HashSet::new();
        deepest.into_iter().filter(move |(_, path)| seen.insert(Arc::clone(path)))
    }

    /// The paths of those among these actors that are alive. The lock is never held for long,
    /// whatever the number of actors.
    fn paths_of(&self, wanted: &HashSet<u64>) -> HashMap<u64, Arc<str>> {
        let mut found = HashMap::new();
        for table in 0..TABLES {
            let mut walk = Walk::default();
            loop {
                let tree = self.tree.lock();
                let actors = &tree.actors[table];
                let step = walk.step(actors.num_buckets());
                if step.is_empty() {
                    break;
                }
                for (_, actor) in step.filter_map(|place| actors.get_bucket(place)) {
                    if wanted.contains(&actor.id()) {
                        found.insert(actor.id(), Arc::clone(actor.path()));
                    }
                }
                if found.len() == wanted.len() {
                    return found;
                }
            }
        }
        found
    }

    /// Accepts no more actors, and asks those without a parent to stop, in the order in which they
    /// were spawned.
    pub(crate) fn close(&self) {
        let mut roots: Vec<_> = {
            let mut tree = self.tree.lock();
            tree.closing = true;
            tree.actors().filter(|actor| is_root(actor.path())).cloned().collect()
        };
        // Each is looked at once: they lie anywhere in memory.
        roots.sort_by_cached_key(|actor| actor.id());
        for actor in roots {
            actor.stop_for(StopReason::SystemClosed);
        }
        if self.alive() == 0 {
            self.end();
        }
    }

    /// In virtual time: the seed of an actor's random numbers, different for each path and always
    /// the same.
    pub(crate) fn seed(&self, path: &str) -> Option<u64> {
        self.dispatcher.as_manual()?;
        // FNV-1a, which is the same everywhere.
        let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Some(path.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// Waits until no actor is alive, until `deadline` at most. True if none is.
    pub(crate) fn wait_until_empty(&self, deadline: Option<Instant>) -> bool {
        let mut tree = self.tree.lock();
        while tree.alive > 0 {
            if deadline.is_some_and(|deadline| real_now() >= deadline) {
                return false;
            }
            tree = self.all_gone.wait(tree, deadline);
        }
        true
    }

    /// Counts, logs and reports a panic.
    pub(crate) fn panicked(&self, panic: &Panic, directive: Directive) {
        // Relaxed: a statistic.
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.tell_panic(panic, directive);
    }

    /// Logs and reports a panic.
    pub(crate) fn tell_panic(&self, panic: &Panic, directive: Directive) {
        let Panic { path, message } = panic;
        quietly(|| {
            tracing::error!(
                target: "mini_actor",
                actor = &**path,
                message,
                ?directive,
                "an actor panicked"
            );
        });
        // Called outside the lock: it is foreign code.
        let hook = self.on_panic.lock().clone();
        if let Some(hook) = hook {
            guard("the panic hook", || hook(panic, directive));
        }
    }

    pub(crate) fn metrics(&self) -> SystemMetrics {
        let (alive, stopped, pinned) = {
            let tree = self.tree.lock();
            // There are few of these, because each has a thread. Actors that share threads are
            // counted by the thread: a sum over all of them would hold up spawns and stops.
            let pinned: u64 = tree.pinned.values().map(|actor| actor.processed()).sum();
            (tree.alive, tree.stopped, pinned + tree.retired)
        };
        // Relaxed: statistics.
        SystemMetrics {
            alive,
            stopped,
            processed: pinned + self.dispatcher.received(),
            panicked: self.panics.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed),
            dead_letters: self.dead_letters.count(),
            slow_receives: self.slow_receives.load(Ordering::Relaxed),
        }
    }
}

impl Reports for Registry {
    fn slow(&self, run_time: Duration, turns: &[Note], last: Option<&Arc<str>>) {
        // Relaxed: a statistic.
        self.slow_receives.fetch_add(1, Ordering::Relaxed);
        let at_hand = turns.last().map(|turn| turn.actor).zip(last.cloned());
        let calls: u64 = turns.iter().map(|turn| u64::from(turn.calls)).sum();
        // The actors in question: those that were called. If none was, all of them.
        let called = |turn: &&Note| calls == 0 || turn.calls > 0;
        let mut wanted: HashSet<u64> = turns.iter().filter(called).map(|turn| turn.actor).collect();
        let mut paths = HashMap::new();
        if let Some((actor, path)) = at_hand
            && wanted.remove(&actor)
        {
            paths.insert(actor, path);
        }
        if !wanted.is_empty() {
            paths.extend(self.paths_of(&wanted));
        }
        // In the order in which they ran, each once.
        let mut named = Vec::new();
        for turn in turns {
            if let Some(path) = paths.remove(&turn.actor) {
                named.push((path, turn.message_type));
            }
        }
        let unknown = || turns.first().map_or("", |turn| (turn.message_type)());
        let (actor, message_type) = match named.first() {
            Some((path, message_type)) => (&**path, message_type()),
            None => ("", unknown()),
        };
        let others: Vec<_> = named.iter().skip(1).map(|(path, _)| Arc::clone(path)).collect();
        let calls = calls.max(1);
        quietly(|| {
            let or = (!others.is_empty()).then(|| tracing::field::debug(&others));
            tracing::warn!(
                target: "mini_actor",
                actor, message_type, ?run_time, calls, or_one_of = or, "a slow message"
            );
        });
        // Called outside the lock: it is foreign code.
        let hook = self.on_slow.lock().clone();
        if let Some(hook) = hook {
            let slow = SlowReceive { actor, message_type, run_time, calls, others: &others };
            guard("the hook for slow messages", || hook(&slow));
        }
    }
}

fn is_root(path: &str) -> bool {
    path.rfind('/') == Some(0)
}
