//! Where actors run: a work-stealing pool, or the thread of a test.
//!
//! A worker has a queue that others steal from, and a slot for the actor that its current actor
//! scheduled last, which runs next on the same core: two actors that talk to each other stay where
//! their messages are in the cache, and no thread is woken for them. An actor in the slot cannot be
//! stolen. So a second one moves the first to the queue, and after a number of turns from the slot
//! the other actors have theirs. A worker that is about to block ([`about_to_block`]) gives
//! everything that waits for it to the others, and does the same with what it schedules until its
//! current turn is over. One cost remains: an actor in the slot waits until the turn of the one
//! that scheduled it is over, even if other threads are idle. To offer it to them at once would
//! wake one for each step of a conversation.
//!
//! What other threads schedule goes to the shared queue. A worker takes from that once a round. A
//! round has as many turns as the worker's own queue was long when it began. What it takes goes to
//! the end of its own queue. So an actor that is woken from outside waits for the rest of a round
//! and for the next one, however busy the other actors are.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::ptr;
use std::time::Instant;

use crossbeam_deque::{Injector, Steal, Stealer, Worker as Queue};
use lars_scheduler::idle::{Idle, Sleeper};

use crate::base::panics::guard;
use crate::base::threads::{OnThreadStart, ThreadKind};
use crate::dispatcher::watch::Watch;
use crate::sync::plain::{AtomicBool, AtomicU64};
use crate::sync::{
    Arc, Condvar, LocalKey, Mutex, Ordering, fence, real_now, round_again, thread, thread_local,
    yield_now,
};

/// What can be scheduled.
pub(crate) trait Activate: Send + Sync {
    /// Runs it for a while. True if it has to be scheduled again.
    fn activate(self: Arc<Self>) -> bool;
}

pub(crate) type Task = Arc<dyn Activate>;

/// This many activations in a row come from the slot, if others wait.
const SLOT_TURNS: u32 = 16;
/// A worker looks this often, and lets other threads run, before it sleeps: waking it costs as much
/// as some hundred messages.
const SEARCHES: u32 = 4;

/// The stack size of a thread; only the part that is used costs memory. Actors receive messages by
/// value, and an unoptimised build keeps several copies of a large one.
const STACK: usize = 16 << 20;

#[derive(Clone)]
pub(crate) enum Dispatcher {
    Pool(Arc<Pool>),
    Manual(Arc<Manual>),
}

impl Dispatcher {
    #[inline]
    pub(crate) fn schedule(&self, task: Task) {
        match self {
            Self::Pool(pool) => pool.shared.schedule(task),
            Self::Manual(manual) => manual.queue.lock().push_back(task),
        }
    }

    /// Whether the calling thread is one of the pool's.
    pub(crate) fn is_current(&self) -> bool {
        match self {
            Self::Pool(pool) => pool.shared.is_current(),
            Self::Manual(manual) => *manual.running.lock() == Some(thread::current().id()),
        }
    }

    pub(crate) fn as_manual(&self) -> Option<&Manual> {
        if let Self::Manual(manual) = self { Some(manual) } else { None }
    }

    fn shared(&self) -> Option<&Arc<Shared>> {
        if let Self::Pool(pool) = self { Some(&pool.shared) } else { None }
    }

    /// Where the calling thread, which runs an actor, counts the messages received.
    pub(crate) fn tally(&self) -> &Tally {
        match self {
            Self::Pool(pool) => {
                debug_assert!(pool.shared.is_current());
                &pool.shared.tallies[with_current(|worker| worker.number).unwrap_or(0)]
            }
            Self::Manual(manual) => &manual.tally,
        }
    }

    /// How many messages have been received here.
    pub(crate) fn received(&self) -> u64 {
        let count = |tally: &Tally| tally.count.load(Ordering::Relaxed);
        match self {
            Self::Pool(pool) => pool.shared.tallies.iter().map(count).sum(),
            Self::Manual(manual) => count(&manual.tally),
        }
    }

    /// Whether the threads end, or have ended.
    pub(crate) fn is_ending(&self) -> bool {
        // Acquire: as in `work`.
        self.shared().is_some_and(|shared| shared.ending.load(Ordering::Acquire))
    }

    /// How many threads have not ended.
    pub(crate) fn running(&self) -> usize {
        self.shared().map_or(0, |shared| *shared.running.lock())
    }

    /// Waits until the threads have ended, until `deadline` at most.
    pub(crate) fn wait_ended(&self, deadline: Option<Instant>) {
        if let Some(shared) = self.shared() {
            let mut running = shared.running.lock();
            while *running > 0 && deadline.is_none_or(|deadline| real_now() < deadline) {
                running = shared.ended.wait(running, deadline);
            }
        }
    }

    /// Lets the threads finish what is scheduled, and end.
    pub(crate) fn end(&self) {
        if let Some(shared) = self.shared() {
            shared.end();
        }
    }
}

/// How many messages have been received on one thread, or in virtual time by any.
#[repr(align(64))]
pub(crate) struct Tally {
    count: AtomicU64,
    /// Whether one thread writes it.
    alone: bool,
}

impl Tally {
    fn new(alone: bool) -> Self {
        Self { count: AtomicU64::new(0), alone }
    }

    #[inline]
    pub(crate) fn add_one(&self) {
        // Relaxed, here and where it is read: a statistic.
        if self.alone {
            self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The most activations that a system in virtual time has to close, to be dropped, or to answer: an
/// actor or a future that wakes itself forever must not keep the caller.
pub(crate) const LAST_TURNS: usize = 1 << 20;

/// Runs actors in the order in which they were scheduled, on the thread that asks for it.
pub(crate) struct Manual {
    queue: Mutex<VecDeque<Task>>,
    running: Mutex<Option<thread::ThreadId>>,
    tally: Tally,
}

impl Manual {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::new(VecDeque::new()),
            running: Mutex::new(None),
            tally: Tally::new(false),
        }
    }

    /// Runs until nothing is scheduled, or `limit` activations are over. Returns how many there
    /// were.
    pub(crate) fn run(&self, limit: usize) -> usize {
        let before = self.running.lock().replace(thread::current().id());
        let mut turns = 0;
        while turns < limit {
            let Some(task) = self.queue.lock().pop_front() else {
                break;
            };
            turns += 1;
            if Arc::clone(&task).activate() {
                self.queue.lock().push_back(task);
            }
        }
        *self.running.lock() = before;
        turns
    }
}

/// Ends the threads when the last reference goes. The threads hold `Shared`, not this.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    /// The thread of one actor, which may block it.
    own: bool,
    injector: Injector<Task>,
    stealers: Vec<Stealer<Task>>,
    /// One of each thread.
    tallies: Vec<Tally>,
    idle: Idle,
    ending: AtomicBool,
    /// Threads that have not ended.
    running: Mutex<usize>,
    ended: Condvar,
}

/// A worker, in its thread's frame.
struct Worker {
    shared: Arc<Shared>,
    /// Among the workers of its pool.
    number: usize,
    queue: Queue<Task>,
    /// The thread's own, and never borrowed while foreign code runs.
    slot: UnsafeCell<Option<Task>>,
    /// The actor that runs blocks, or takes long: until its turn is over nothing must wait for this
    /// thread.
    blocks: Cell<bool>,
    watch: Watch,
}

thread_local! {
    /// This thread's worker, while it runs.
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// Calls `f` with this thread's worker, if it is one.
#[inline]
fn with_current<R>(f: impl FnOnce(&Worker) -> R) -> Option<R> {
    let worker = CURRENT.with(Cell::get);
    // SAFETY: set by `work`, whose guard resets it before the worker goes.
    unsafe { worker.as_ref() }.map(f)
}

/// The calling thread is about to wait for something. Gives away what waits for its worker; until
/// the current turn is over, what it schedules goes to the others as well.
pub(crate) fn about_to_block() {
    with_current(|worker| {
        worker.blocks.set(true);
        let mut waiting = false;
        // From the queue as well: the others look there only when they have nothing to do.
        while let Some(task) = worker.take_slot().or_else(|| worker.queue.pop()) {
            waiting = true;
            worker.shared.injector.push(task);
        }
        if waiting {
            worker.shared.idle.notify();
        }
    });
}

/// Calls `look` with what the calling thread knows of the time, if it is a worker.
#[inline]
pub(crate) fn with_watch<R>(look: impl FnOnce(&Watch) -> R) -> Option<R> {
    with_current(|worker| look(&worker.watch))
}

/// The calling thread begins something that is no turn of an actor.
pub(crate) fn is_no_turn() {
    with_watch(Watch::pause);
}

/// Until this is dropped, time does not count for the message that is being received.
pub(crate) struct Forgiven {
    since: Instant,
}

impl Forgiven {
    pub(crate) fn enter() -> Self {
        Self { since: real_now() }
    }
}

impl Drop for Forgiven {
    fn drop(&mut self) {
        let time = real_now().saturating_duration_since(self.since);
        with_watch(|watch| watch.forgive(time));
    }
}

/// A future of this crate was polled and is not ready. In an actor's turn this means that the actor
/// waits for it there, with an executor of its own: the thread is about to block.
pub(crate) fn polled_and_pending() {
    if Inside::any_actor() {
        about_to_block();
    }
}

/// Whether actors, of any system, share the calling thread. An actor that waits there for another
/// might keep that one from the thread that it needs.
pub(crate) fn is_shared_thread() -> bool {
    with_current(|worker| !worker.shared.own).unwrap_or(false)
}

#[cfg(test)]
thread_local! {
    /// How many pools the calling thread has started.
    pub(crate) static STARTED_FROM_HERE: Cell<u32> = const { Cell::new(0) };
}

impl Pool {
    /// Starts `threads` threads for many actors, named `name-0` and so on.
    pub(crate) fn start(
        name: &str,
        threads: usize,
        on_start: &OnThreadStart,
    ) -> std::io::Result<Arc<Self>> {
        Self::launch(name, threads, false, on_start)
    }

    /// Starts the thread of one actor.
    pub(crate) fn start_own(name: &str, on_start: &OnThreadStart) -> std::io::Result<Arc<Self>> {
        Self::launch(name, 1, true, on_start)
    }

    fn launch(
        name: &str,
        threads: usize,
        own: bool,
        on_start: &OnThreadStart,
    ) -> std::io::Result<Arc<Self>> {
        #[cfg(test)]
        STARTED_FROM_HERE.with(|started| started.set(started.get() + 1));
        let queues: Vec<Queue<Task>> = (0..threads).map(|_| Queue::new_fifo()).collect();
        let (idle, sleepers) = Idle::new(threads);
        let shared = Arc::new(Shared {
            own,
            injector: Injector::new(),
            stealers: queues.iter().map(Queue::stealer).collect(),
            tallies: (0..threads).map(|_| Tally::new(true)).collect(),
            idle,
            ending: AtomicBool::new(false),
            running: Mutex::new(0),
            ended: Condvar::default(),
        });
        // If a thread cannot be started, dropping this ends those that were.
        let pool = Arc::new(Self { shared });
        for (number, (queue, sleeper)) in queues.into_iter().zip(sleepers).enumerate() {
            let running = Running::new(&pool.shared);
            let (name, on_start) = (format!("{name}-{number}"), on_start.clone());
            let kind = if own { ThreadKind::Pinned } else { ThreadKind::Actors { number } };
            let thread = thread::Builder::new().name(name.clone()).stack_size(STACK);
            thread.spawn(move || {
                on_start.call(kind, &name);
                drop((on_start, name));
                let shared = Arc::clone(&running.0);
                let (slot, blocks) = (UnsafeCell::new(None), Cell::new(false));
                let watch = Watch::new();
                work(Worker { shared, number, queue, slot, blocks, watch }, &sleeper);
                drop(running);
            })?;
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// Counts a thread as running until this is dropped, which it also is if the thread cannot be
/// started.
struct Running(Arc<Shared>);

impl Running {
    fn new(shared: &Arc<Shared>) -> Self {
        *shared.running.lock() += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
        self.0.ended.notify_all();
        self.0.drop_if_over();
    }
}

impl Shared {
    #[inline]
    fn schedule(self: &Arc<Self>, task: Task) {
        let mut task = Some(task);
        with_current(|worker| {
            if Arc::ptr_eq(&worker.shared, self)
                && !worker.blocks.get()
                && let Some(before) = worker.replace_slot(task.take())
            {
                worker.queue.push(before);
                self.idle.notify();
            }
        });
        if let Some(task) = task {
            self.injector.push(task);
            self.idle.notify();
            // Acquire: as in `work`.
            if self.ending.load(Ordering::Acquire) {
                self.drop_if_over();
            }
        }
    }

    /// Drops what is scheduled if no thread is left to run it. Called when a thread has ended, and
    /// after something was scheduled while they end: the later call finds it.
    #[cold]
    fn drop_if_over(&self) {
        if *self.running.lock() > 0 {
            return;
        }
        // SeqCst fence, pairs with the one in `Idle::notify`: either this thread sees what was
        // pushed before that, or the thread that pushed sees that the threads end, and comes here.
        fence(Ordering::SeqCst);
        loop {
            match self.injector.steal() {
                // Its destructors are foreign code.
                Steal::Success(task) => drop(guard("what was scheduled last", || drop(task))),
                Steal::Retry => {}
                Steal::Empty => break,
            }
        }
    }

    fn is_current(self: &Arc<Self>) -> bool {
        with_current(|worker| Arc::ptr_eq(&worker.shared, self)).unwrap_or(false)
    }

    fn has_tasks(&self) -> bool {
        !self.injector.is_empty() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    fn end(&self) {
        // Release: what was scheduled before is seen by a worker that sees this.
        self.ending.store(true, Ordering::Release);
        self.idle.wake_all();
    }

    fn steal(&self, own: usize, queue: &Queue<Task>) -> Option<Task> {
        loop {
            let mut contended = false;
            let others = (1..self.stealers.len())
                .map(|step| &self.stealers[(own + step) % self.stealers.len()]);
            let from_others = others.map(|stealer| stealer.steal_batch_and_pop(queue));
            for stolen in
                std::iter::once(self.injector.steal_batch_and_pop(queue)).chain(from_others)
            {
                match stolen {
                    Steal::Success(task) => return Some(task),
                    Steal::Retry => contended = true,
                    Steal::Empty => {}
                }
            }
            if !contended {
                return None;
            }
        }
    }
}

impl Worker {
    fn take_slot(&self) -> Option<Task> {
        self.replace_slot(None)
    }

    #[inline]
    fn replace_slot(&self, task: Option<Task>) -> Option<Task> {
        // SAFETY: only this thread comes here, and nothing runs during the exchange.
        unsafe { ptr::replace(self.slot.get(), task) }
    }

    /// A round is over: takes a batch from the shared queue. Returns how many turns the next round
    /// has.
    fn begin_round(&self) -> usize {
        if !self.shared.injector.is_empty() {
            // If it fails because other workers take at this moment, they have the tasks.
            let _ = self.shared.injector.steal_batch(&self.queue);
        }
        self.queue.len()
    }

    /// The next of this worker's own tasks.
    fn next(&self, slot_turns: &mut u32) -> Option<Task> {
        if let Some(task) = self.take_slot() {
            *slot_turns += 1;
            if *slot_turns <= SLOT_TURNS || self.queue.is_empty() {
                return Some(task);
            }
            self.queue.push(task);
        }
        *slot_turns = 0;
        self.queue.pop()
    }
}

fn work(worker: Worker, sleeper: &Sleeper) {
    let shared = &*worker.shared;
    // Dropped before the worker is.
    let _current = Set::enter(&CURRENT, &raw const worker);
    shared.idle.begin_search();
    let mut searching = true;
    let (mut round, mut slot_turns, mut searches) = (0, 0, 0);
    loop {
        round = if round > 1 { round - 1 } else { worker.begin_round() };
        let task = worker.next(&mut slot_turns);
        if let Some(task) = task.or_else(|| shared.steal(worker.number, &worker.queue)) {
            searches = 0;
            if searching {
                searching = false;
                shared.idle.end_search(true, || shared.has_tasks());
            }
            // Foreign code in an activation is contained inside; this is for a log subscriber that
            // panics.
            let again = guard("an activation", || Arc::clone(&task).activate());
            worker.blocks.set(false);
            if again.unwrap_or(true) {
                // SAFETY: looked at by this thread alone.
                let alone = worker.queue.is_empty() && unsafe { (*worker.slot.get()).is_none() };
                worker.queue.push(task);
                if !alone {
                    shared.idle.notify();
                }
                round_again();
            } else {
                // It may be the last reference, and its destructors are foreign code.
                guard("what an actor left", || drop(task));
            }
            continue;
        }
        if !searching {
            // Before the search, which then finds what a hook schedules here.
            worker.watch.pause();
            searching = true;
            shared.idle.begin_search();
        }
        if searches < SEARCHES {
            searches += 1;
            yield_now();
            continue;
        }
        searches = 0;
        shared.idle.end_search(false, || false);
        // Acquire: what was scheduled before it was set is seen.
        if shared.ending.load(Ordering::Acquire) && !shared.has_tasks() {
            break;
        }
        shared.idle.sleep(sleeper, || shared.has_tasks() || shared.ending.load(Ordering::Acquire));
    }
}

/// Sets a value of the calling thread until this is dropped, also in a panic.
pub(crate) struct Set<T: Copy + 'static> {
    place: &'static LocalKey<Cell<T>>,
    before: T,
}

impl<T: Copy + 'static> Set<T> {
    #[inline]
    pub(crate) fn enter(place: &'static LocalKey<Cell<T>>, value: T) -> Self {
        Self { place, before: place.with(|place| place.replace(value)) }
    }
}

impl<T: Copy + 'static> Drop for Set<T> {
    fn drop(&mut self) {
        self.place.with(|place| place.set(self.before));
    }
}

thread_local! {
    /// The system and the actor whose activation runs on this thread.
    static RUNNING: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// Marks the calling thread as running an actor, until it is dropped.
pub(crate) struct Inside {
    _set: Set<(usize, u64)>,
}

impl Inside {
    #[inline]
    pub(crate) fn enter(system: usize, actor: u64) -> Self {
        Self { _set: Set::enter(&RUNNING, (system, actor)) }
    }

    /// Whether the calling thread runs an actor of this system.
    pub(crate) fn system(system: usize) -> bool {
        RUNNING.with(Cell::get).0 == system
    }

    /// Whether the calling thread runs an actor, of whatever system.
    pub(crate) fn any_actor() -> bool {
        RUNNING.with(Cell::get).1 != 0
    }

    /// Whether the calling thread runs this actor.
    pub(crate) fn actor(actor: u64) -> bool {
        RUNNING.with(Cell::get).1 == actor
    }
}

thread_local! {
    /// Whether this thread makes a message, in a slot of a mailbox that stays empty until that is
    /// done.
    static MAPPING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread as making a message, until it is dropped.
pub(crate) struct Mapping {
    _set: Set<bool>,
}

impl Mapping {
    pub(crate) fn enter() -> Self {
        Self { _set: Set::enter(&MAPPING, true) }
    }

    /// Whether the calling thread does, so that a mailbox might wait for it.
    pub(crate) fn is_running() -> bool {
        MAPPING.with(Cell::get)
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests {
    use super::*;

    /// Drops what it holds with itself.
    struct Holding {
        _held: Arc<()>,
    }

    impl Activate for Holding {
        fn activate(self: Arc<Self>) -> bool {
            false
        }
    }

    #[test]
    fn what_is_scheduled_after_the_last_thread_has_ended_is_dropped() {
        let dispatcher =
            Dispatcher::Pool(Pool::start("test", 2, &OnThreadStart::default()).unwrap());
        let held = Arc::new(());
        dispatcher.end();
        dispatcher.wait_ended(None);
        assert_eq!((dispatcher.running(), dispatcher.is_ending()), (0, true));
        dispatcher.schedule(Arc::new(Holding { _held: Arc::clone(&held) }) as Task);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    /// Panics when it is dropped.
    struct Bomb;

    impl Activate for Bomb {
        fn activate(self: Arc<Self>) -> bool {
            false
        }
    }

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("expected by this test");
        }
    }

    #[test]
    fn what_panics_when_it_is_dropped_after_the_last_thread_has_ended_harms_nobody() {
        let dispatcher =
            Dispatcher::Pool(Pool::start("test", 1, &OnThreadStart::default()).unwrap());
        dispatcher.end();
        dispatcher.wait_ended(None);
        dispatcher.schedule(Arc::new(Bomb) as Task);
    }
}
