//! The tree of living actors, behind one lock.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use hashbrown::HashTable;
use lars_base::time::Instant;

use crate::base::error::SpawnError;
use crate::base::lineage::Lineage;
use crate::base::name::Name;
use crate::cell::signal::Resident;
use crate::sync::{Arc, CHECKED, Condvar, Mutex, real_now};

/// How many tables the actors of a system are in.
const TABLES: usize = 64;

pub(crate) struct Tree {
    /// The system's name.
    pub(crate) system: String,
    living: Mutex<Living>,
    /// Signalled when the last actor goes.
    all_gone: Condvar,
}

struct Living {
    /// By the number of the parent and the name, in tables by some bits of the hash. The hash is
    /// beside the actor, so a table grows without looking at each. Only one table grows at a time:
    /// a single table of a million would hold up all threads for milliseconds.
    actors: [HashTable<(u64, Arc<dyn Resident>)>; TABLES],
    alive: usize,
    hasher: RandomState,
    /// Where actors stand that are about to enter: they have threads, so there are few.
    reserved: Vec<(u64, Name<Box<str>>)>,
    /// The pinned actors, by number.
    pinned: BTreeMap<u64, Arc<dyn Resident>>,
    /// Messages received by pinned actors that have stopped.
    retired: u64,
    /// How many actors have stopped.
    stopped: u64,
    /// The highest number of an actor so far.
    newest: u64,
    /// Those that were alive when closing began, once it has.
    before_close: Option<BeforeClose>,
    closing: bool,
    /// The owner has gone.
    disowned: bool,
}

/// Spreads numbers over all bits, consecutive ones as well as those that lie a power of two apart,
/// such as the numbers of the few that stay: by the golden ratio, once for the table, and once more
/// for the place in it.
const fn spread(number: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let spread = number.wrapping_mul(GOLDEN);
    (spread ^ spread >> 32).wrapping_mul(GOLDEN)
}

impl Living {
    fn new() -> Self {
        Self {
            actors: [const { HashTable::new() }; TABLES],
            alive: 0,
            hasher: RandomState::new(),
            reserved: Vec::new(),
            pinned: BTreeMap::new(),
            retired: 0,
            stopped: 0,
            newest: 0,
            before_close: None,
            closing: false,
            disowned: false,
        }
    }

    /// The number of the table for a hash: by bits that the table itself does not use.
    const fn table(hash: u64) -> usize {
        (hash >> 40) as usize % TABLES
    }

    /// The hash of a [key](Lineage::key). The names of anonymous actors are consecutive numbers,
    /// which nobody chooses: it need not be a hash that is hard to foresee, nor one of the parent.
    fn hash(&self, key: (u64, Name<&str>)) -> u64 {
        let Name::Anonymous(number) = key.1 else { return self.hasher.hash_one(key) };
        spread(number)
    }

    /// An actor by its [key](Lineage::key) and the hash of that.
    fn find(&self, hash: u64, key: (u64, Name<&str>)) -> Option<&Arc<dyn Resident>> {
        let found = self.actors[Self::table(hash)].find(hash, |(_, it)| it.lineage().key() == key);
        found.map(|(_, actor)| actor)
    }

    /// The hash of the key, if an actor may enter there.
    fn check(&self, system: &str, lineage: &Lineage) -> Result<u64, SpawnError> {
        if self.closing {
            return Err(SpawnError::Closed { system: system.to_owned() });
        }
        let key = lineage.key();
        let hash = self.hash(key);
        let is_reserved =
            || self.reserved.iter().any(|(above, name)| (*above, name.borrow()) == key);
        // No other actor of the system has the number of an anonymous one.
        let may_be_taken = matches!(key.1, Name::Given(_));
        if may_be_taken && (self.find(hash, key).is_some() || is_reserved()) {
            return Err(SpawnError::NameTaken { path: (*lineage.to_path()).to_owned() });
        }
        Ok(hash)
    }

    /// Ends a reservation.
    fn give_up(&mut self, lineage: &Lineage) {
        let key = lineage.key();
        self.reserved.retain(|(above, name)| (*above, name.borrow()) != key);
    }

    fn insert(&mut self, hash: u64, actor: Arc<dyn Resident>) {
        self.alive += 1;
        self.newest = self.newest.max(actor.id());
        let table = &mut self.actors[Self::table(hash)];
        table.insert_unique(hash, (hash, actor), |&(hash, _)| hash);
    }

    fn remove(&mut self, gone: &dyn Resident) -> Option<Arc<dyn Resident>> {
        let hash = self.hash(gone.lineage().key());
        let table = &mut self.actors[Self::table(hash)];
        let entry = table.find_entry(hash, |(_, actor)| actor.id() == gone.id()).ok()?;
        self.alive -= 1;
        if let Some(before) = self.before_close.as_mut().filter(|it| gone.id() <= it.newest) {
            before.stopped += 1;
        }
        Some(entry.remove().0.1)
    }

    fn actors(&self) -> impl Iterator<Item = &Arc<dyn Resident>> {
        self.actors.iter().flatten().map(|(_, actor)| actor)
    }
}

/// The actors that were alive when closing began.
struct BeforeClose {
    /// The highest number of one: those that are spawned later have higher ones.
    newest: u64,
    /// How many of them have stopped.
    stopped: usize,
}

/// What follows from it that an actor has left.
#[must_use]
pub(super) struct Left {
    /// No actor is alive, and none will be.
    pub(super) ends: bool,
    /// No actor is alive, and the owner has gone.
    pub(super) over: bool,
}

/// How many actors there are, and were.
pub(super) struct Counts {
    pub(super) alive: usize,
    pub(super) stopped: u64,
    /// Messages received by pinned actors.
    pub(super) pinned_received: u64,
}

impl Tree {
    pub(super) fn new(system: String) -> Self {
        Self { system, living: Mutex::new(Living::new()), all_gone: Condvar::default() }
    }

    /// Enters an actor into the tree. The name of a `pinned` one has been reserved.
    pub(crate) fn enter(&self, actor: Arc<dyn Resident>, pinned: bool) -> Result<(), SpawnError> {
        let mut living = self.living.lock();
        if pinned {
            living.give_up(actor.lineage());
        }
        let hash = living.check(&self.system, actor.lineage())?;
        if pinned {
            living.pinned.insert(actor.id(), Arc::clone(&actor));
        }
        living.insert(hash, actor);
        Ok(())
    }

    /// Reserves the name of an actor that costs something before it enters, until it enters or
    /// [`give_up`](Self::give_up) is called.
    pub(crate) fn reserve(&self, lineage: &Lineage) -> Result<(), SpawnError> {
        let mut living = self.living.lock();
        living.check(&self.system, lineage)?;
        let (parent, name) = lineage.key();
        living.reserved.push((parent, name.keep()));
        Ok(())
    }

    pub(crate) fn give_up(&self, lineage: &Lineage) {
        self.living.lock().give_up(lineage);
    }

    pub(super) fn leave(&self, actor: &dyn Resident) -> Left {
        let mut living = self.living.lock();
        living.stopped += 1;
        living.retired += living.pinned.remove(&actor.id()).map_or(0, |pinned| pinned.processed());
        let gone = living.remove(actor);
        let last = living.alive == 0;
        let left = Left { ends: last && living.closing, over: last && living.disowned };
        drop(living);
        // Outside the lock: it may be the last reference.
        drop(gone);
        if last {
            self.all_gone.notify_all();
        }
        left
    }

    /// The owner has gone. True if no actor is alive.
    pub(super) fn disown(&self) -> bool {
        let mut living = self.living.lock();
        living.disowned = true;
        living.alive == 0
    }

    /// Closing begins: those that are alive now are counted when they stop.
    pub(super) fn begin_close(&self) {
        let mut living = self.living.lock();
        let newest = living.newest;
        living.before_close.get_or_insert(BeforeClose { newest, stopped: 0 });
    }

    /// How many of those that were alive when closing began have stopped.
    pub(crate) fn stopped_since_close(&self) -> usize {
        self.living.lock().before_close.as_ref().map_or(0, |before| before.stopped)
    }

    /// Accepts no more actors. Returns those without a parent, in the order in which they were
    /// spawned.
    pub(super) fn close(&self) -> Vec<Arc<dyn Resident>> {
        let mut roots: Vec<_> = {
            let mut living = self.living.lock();
            living.closing = true;
            living.actors().filter(|actor| is_root(&***actor)).cloned().collect()
        };
        // Each is looked at once: they lie anywhere in memory.
        roots.sort_by_cached_key(|actor| actor.id());
        roots
    }

    /// Waits until no actor is alive, until `deadline` at most. True if none is.
    pub(crate) fn wait_until_empty(&self, deadline: Option<Instant>) -> bool {
        let mut living = self.living.lock();
        while living.alive > 0 {
            if deadline.is_some_and(|deadline| real_now() >= deadline) {
                return false;
            }
            living = self.all_gone.wait(living, deadline);
        }
        true
    }

    /// The living actor at this path. It looks from the root downwards, one generation at a time:
    /// an actor is alive as long as its children are.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<dyn Resident>> {
        let mut names = path.strip_prefix('/')?.split('/');
        let root = self.find_child(NOBODY, names.next()?)?;
        names.try_fold(root, |above, name| self.find_child(above.id(), name))
    }

    /// The living child with this name of the actor with this number.
    pub(crate) fn find_child(&self, parent: u64, name: &str) -> Option<Arc<dyn Resident>> {
        let key = (parent, Name::parse(name));
        let living = self.living.lock();
        living.find(living.hash(key), key).cloned()
    }

    pub(crate) fn alive(&self) -> usize {
        self.living.lock().alive
    }

    /// The paths of the living, sorted.
    pub(crate) fn paths(&self) -> Vec<Arc<str>> {
        let living = self.living.lock();
        let actors: Vec<_> = living.actors().cloned().collect();
        // Outside the lock: a path takes time, and each may be the last reference to its actor.
        drop(living);
        let mut paths: Vec<_> = actors.iter().map(|actor| actor.lineage().to_path()).collect();
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
        let alive = |ranked: &Ranked| ranked.actor.watchers().reason().is_none();
        deepest.into_iter().filter(alive).map(|ranked| ranked.actor).collect()
    }

    /// The deepest actors of one table, in any order.
    fn deepest_of(&self, table: usize, limit: usize) -> impl Iterator<Item = Ranked> {
        let mut deepest = BinaryHeap::new();
        let mut walk = Walk::default();
        loop {
            // Dropped outside the lock: each may be the last reference to its actor.
            let mut passed = Vec::new();
            let living = self.living.lock();
            let actors = &living.actors[table];
            let step = walk.step(actors.num_buckets());
            if step.is_empty() {
                break;
            }
            if step.start == 0 {
                passed.extend(deepest.drain()); // the walk begins, perhaps anew
            }
            for (_, actor) in step.filter_map(|place| actors.get_bucket(place)) {
                let rank = (Reverse(actor.depth()), actor.id());
                if deepest.len() < limit {
                    deepest.push(Ranked { rank, actor: Arc::clone(actor) });
                } else if deepest.peek().is_some_and(|last: &Ranked| rank < last.rank) {
                    passed.extend(deepest.pop());
                    deepest.push(Ranked { rank, actor: Arc::clone(actor) });
                }
            }
        }
        // If the table never stopped growing, some were looked at twice.
        let mut seen = HashSet::new();
        deepest.into_iter().filter(move |ranked| seen.insert(ranked.actor.id()))
    }

    /// The paths of those among these actors that are alive. The lock is never held for long,
    /// whatever the number of actors.
    pub(super) fn paths_of(&self, wanted: &HashSet<u64>) -> HashMap<u64, Arc<str>> {
        let mut found = HashMap::new();
        'all: for table in 0..TABLES {
            let mut walk = Walk::default();
            loop {
                let living = self.living.lock();
                let actors = &living.actors[table];
                let step = walk.step(actors.num_buckets());
                if step.is_empty() {
                    break;
                }
                for (_, actor) in step.filter_map(|place| actors.get_bucket(place)) {
                    if wanted.contains(&actor.id()) {
                        found.insert(actor.id(), Arc::clone(actor));
                    }
                }
                if found.len() == wanted.len() {
                    break 'all;
                }
            }
        }
        // Outside the lock: a path takes time, and each may be the last reference to its actor.
        found.into_iter().map(|(number, actor)| (number, actor.lineage().to_path())).collect()
    }

    /// The actors that have something to do, each with how many messages it has accepted. The lock
    /// is never held for long. An actor that comes or goes meanwhile may be left out, or be there
    /// twice.
    pub(crate) fn at_work(&self) -> Vec<(Arc<dyn Resident>, u64)> {
        let mut found = Vec::new();
        for table in 0..TABLES {
            let mut walk = Walk::default();
            loop {
                let living = self.living.lock();
                let actors = &living.actors[table];
                let step = walk.step(actors.num_buckets());
                if step.is_empty() {
                    break;
                }
                let step = step.filter_map(|place| actors.get_bucket(place));
                found.extend(step.filter_map(|(_, it)| Some((Arc::clone(it), it.at_work()?))));
            }
        }
        found
    }

    pub(super) fn counts(&self) -> Counts {
        let living = self.living.lock();
        // There are few of these, because each has a thread. Actors that share threads are counted
        // by the thread: a sum over all of them would hold up spawns and stops.
        let pinned: u64 = living.pinned.values().map(|actor| actor.processed()).sum();
        Counts {
            alive: living.alive,
            stopped: living.stopped,
            pinned_received: pinned + living.retired,
        }
    }
}

/// An actor, ordered by the depth of its mailbox, the deepest first, and equal ones by number.
struct Ranked {
    rank: (Reverse<u64>, u64),
    actor: Arc<dyn Resident>,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

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

/// The number of no actor, which those without a parent have as that of their parent.
const NOBODY: u64 = 0;

fn is_root(actor: &dyn Resident) -> bool {
    actor.lineage().key().0 == NOBODY
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    #[cfg_attr(miri, ignore = "there is nothing unsafe in it, and it takes minutes")]
    #[test]
    fn numbers_are_spread_over_the_tables_and_in_each_of_them_whatever_their_distance() {
        const PLACES: u64 = 1024;
        let distances = [1, 2, 10, 84, 100, 1 << 10, 1 << 11, 1 << 16, 1 << 20, 1 << 32];
        for distance in distances {
            let mut tables = [0_u64; TABLES];
            let mut places = HashSet::new();
            for number in 0..TABLES as u64 * PLACES {
                let hash = spread(number * distance);
                tables[Living::table(hash)] += 1;
                places.insert((Living::table(hash), hash % PLACES));
            }
            // At random, 63 of a hundred places are taken by as many numbers as there are places.
            let taken = places.len() as u64 * 100 / (TABLES as u64 * PLACES);
            assert!(taken > 55, "every {distance}: {taken} of a hundred places");
            let (least, most) = (tables.iter().min().unwrap(), tables.iter().max().unwrap());
            assert!(*least > PLACES * 3 / 4 && *most < PLACES * 5 / 4, "{distance}: {tables:?}");
        }
    }
}
