//! The default executor: a small work-stealing pool whose threads start when first needed.
//!
//! Tasks from outside go into a shared queue, tasks from a pool thread into that thread's own; a
//! thread that runs dry takes from the shared queue, then from the others (crossbeam-deque, after
//! Chase and Lev, *Dynamic Circular Work-Stealing Deque*, SPAA 2005).
//!
//! Tasks that are due together come as one [chunk](super::chunk). The worker that takes the chunk
//! keeps it to itself as long as the tasks are fast. When they are slow, the worker puts the chunk
//! into its own queue, to offer it to the others. Each worker that takes it from there does the
//! same, as long as the chunk has unclaimed tasks.
//!
//! [`idle`](lars_base::idle) says how workers sleep and are woken.

mod builder;
mod room;

use std::cell::RefCell;
use std::ptr;
use std::sync::Arc;

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;

pub use self::builder::PoolBuilder;
pub(crate) use self::builder::STACKS;
use self::room::{ForRoom, QueueLimit};
use super::chunk::SharedChunk;
use super::{Executor, Rejected, Runnable};
use crate::base::error::ConfigError;
use crate::base::run_clock::RunClock;
use crate::base::runs::{PoolThread, RunsByThread};
use crate::base::threads::ThreadKind;
use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, CHECKED, Mutex, Ordering, Unparker, fence, relax, thread,
    thread_local,
};
use lars_base::debug_fields;
use lars_base::idle::{Idle, Sleeper};
use lars_base::panics::quietly;
use lars_base::time::Instant;
use lars_base::waiting::{park_until, with_parker};

/// How many tasks a worker runs before it looks elsewhere first. It looks in the shared queue, so
/// that tasks that submit each other do not starve the rest; and every other time in the queues of
/// other workers, so that a burst does not starve the tasks behind one that blocks.
const LOCAL_RUN: u32 = 61;

/// If a worker has been busy with a chunk for longer than this, in nanoseconds, others are to help.
/// Waking one costs about as much.
const SLOW: u64 = 20_000;

/// A worker has no task.
const FREE: u64 = 0;
/// It has a task that does not belong to a scheduler.
const OTHER: u64 = 1;
/// Where instants begin.
const SINCE: u64 = 2;

/// How often a worker looks for a task before it sleeps.
const SEARCHES: u32 = if CHECKED { 1 } else { 8 };

/// A pool of threads that run tasks.
///
/// Every scheduler has one of its own, unless it is given another executor. A pool made by
/// [`new`](Self::new) can be shared, and run other work as well ([`Runnable::new`]). The threads
/// start with the first task: its submitter starts one, which starts the next.
///
/// A pool of one thread runs the tasks that one thread submits in that order. With several threads
/// tasks run in parallel, and one may begin before another that was submitted earlier.
///
/// [`builder`](Self::builder) makes a pool whose queue has a limit, and sets the stack size of its
/// threads.
///
/// When the last clone is dropped, the threads finish what was submitted, and end.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::executor::Runnable;
/// use lars_scheduler::{Executor, LightArrayRevolverScheduler, Pool};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let pool = Pool::new("work", 4)?;
/// assert_eq!(pool.threads(), 4);
/// let scheduler = LightArrayRevolverScheduler::builder().executor(pool.clone()).build()?;
/// let (sender, receiver) = mpsc::channel();
/// let here = pool.clone();
/// let _ = scheduler.schedule_once(Duration::ZERO, move || drop(sender.send(here.is_current())))?;
/// assert!(receiver.recv()?);
///
/// pool.execute(Runnable::new(|| println!("other work")))?;
/// pool.wait();
/// assert_eq!(pool.unfinished(), 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Pool {
    guard: Arc<Guard>,
}

/// Ends the threads when the last clone of the pool goes. The threads hold `Shared`, not this.
struct Guard {
    shared: Arc<Shared>,
}

/// What lies in the queues.
enum Job {
    One(Runnable),
    Many(SharedChunk),
}

struct Shared {
    injector: Injector<Job>,
    stealers: Vec<Stealer<Job>>,
    idle: Idle,
    /// How many tasks have been submitted.
    submitted: CachePadded<AtomicUsize>,
    /// How many of them each worker has finished. (One count for all would be contended.)
    finished: Vec<CachePadded<AtomicUsize>>,
    /// What each worker is at: [`FREE`], [`OTHER`], or since when it has been at the task of a
    /// scheduler, on the scheduler's clock, plus [`SINCE`].
    busy_since: Vec<CachePadded<AtomicU64>>,
    /// How many threads wait for tasks to finish, to be looked at without the lock.
    waiting: CachePadded<AtomicUsize>,
    waiters: Mutex<Waiters>,
    limit: QueueLimit,
    /// How many wait for room, or have been told that there is some and have not come yet.
    wishes: AtomicUsize,
    ending: AtomicBool,
    started: AtomicBool,
    /// What the threads need that have not been started, the next one last.
    unstarted: Mutex<Vec<Seat>>,
    /// With the name of the threads, and what else they are started with.
    settings: PoolBuilder,
}

/// Threads that wait until tasks have finished.
#[derive(Default)]
struct Waiters {
    /// With a number for each wait.
    parked: Vec<(u64, Unparker)>,
    waits: u64,
    /// How many of them are threads of this pool, whose tasks nobody waits for.
    inside: usize,
    for_room: Vec<ForRoom>,
}

/// What one worker needs to run.
struct Seat {
    sleeper: Sleeper,
    queue: Worker<Job>,
}

struct Local {
    shared: Arc<Shared>,
    queue: Worker<Job>,
}

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

impl Pool {
    /// The most threads that a pool can have.
    pub const MAX_THREADS: usize = 1024;

    /// A pool of `threads` threads named `name-0`, `name-1` and so on.
    ///
    /// # Errors
    ///
    /// [`ConfigError::PoolThreads`] if `threads` is zero or more than
    /// [`MAX_THREADS`](Self::MAX_THREADS); [`ConfigError::ThreadName`] if the name has a NUL byte.
    pub fn new(name: &str, threads: usize) -> Result<Self, ConfigError> {
        Self::builder(name).threads(threads).build()
    }

    /// A pool with these settings, which the builder has checked.
    fn with(settings: PoolBuilder, threads: usize) -> Self {
        let (idle, sleepers) = Idle::new(threads);
        let seat = |sleeper| Seat { sleeper, queue: Worker::new_fifo() };
        let mut seats: Vec<Seat> = sleepers.into_iter().map(seat).collect();
        let stealers = seats.iter().map(|seat| seat.queue.stealer()).collect();
        seats.reverse();
        let none = |_| CachePadded::new(AtomicUsize::new(0));
        let shared = Shared {
            injector: Injector::new(),
            stealers,
            idle,
            submitted: none(0),
            finished: (0..threads).map(none).collect(),
            busy_since: (0..threads).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            waiting: none(0),
            waiters: Mutex::new(Waiters::default()),
            limit: QueueLimit::new(settings.queue, threads),
            wishes: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
            started: AtomicBool::new(false),
            unstarted: Mutex::new(seats),
            settings,
        };
        Self { guard: Arc::new(Guard { shared: Arc::new(shared) }) }
    }

    /// How many threads the pool has, or will have once it is used.
    pub fn threads(&self) -> usize {
        self.guard.shared.stealers.len()
    }

    /// Whether the calling thread is one of this pool's.
    pub fn is_current(&self) -> bool {
        self.guard.shared.with_local(|_| ()).is_some()
    }

    /// How many tasks have been submitted and not finished.
    pub fn unfinished(&self) -> usize {
        self.guard.shared.unfinished()
    }

    /// Blocks until no task is unfinished.
    ///
    /// A task of the pool that calls this waits neither for itself nor for others that do the same.
    /// It occupies its thread: if there is no other and tasks are queued, it waits for ever.
    pub fn wait(&self) {
        self.wait_until(None);
    }

    /// Blocks until no task is unfinished, for at most `limit`. Says whether all have finished.
    /// Otherwise like [`wait`](Self::wait).
    #[cfg(not(lars_loom))] // no model has a clock
    pub fn wait_timeout(&self, limit: std::time::Duration) -> bool {
        // Beyond what the clock can express means without a limit.
        self.wait_until(crate::sync::real_now().checked_add(limit))
    }

    /// Says whether all have finished by `deadline`.
    pub(crate) fn wait_until(&self, deadline: Option<Instant>) -> bool {
        with_parker(|parker| {
            let wait = Wait::begin(&self.guard.shared, parker.unparker(), self.is_current());
            while !wait.is_over() {
                if !park_until(parker, deadline) {
                    return false;
                }
            }
            true
        })
    }

    /// Whether it is this very pool.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.guard, &other.guard)
    }

    /// Since when all threads have been busy with a scheduler's tasks, each with the one that it is
    /// at, on the scheduler's clock; `None` if one of them is not.
    pub(crate) fn all_busy_since(&self) -> Option<u64> {
        // Relaxed: a hint.
        let since = self.guard.shared.busy_since.iter().map(|since| since.load(Ordering::Relaxed));
        since
            .map(|since| since.checked_sub(SINCE))
            .try_fold(0, |last, since| Some(since?.max(last)))
    }

    /// How many threads are busy, with a task each.
    pub(crate) fn running(&self) -> usize {
        // Relaxed: a hint.
        let at = self.guard.shared.busy_since.iter().map(|at| at.load(Ordering::Relaxed));
        at.filter(|&at| at != FREE).count()
    }

    /// Places for what is recorded about one scheduler's tasks.
    pub(crate) fn runs(&self) -> RunsByThread {
        RunsByThread::new(self.guard.shared.address(), self.threads())
    }

    /// Takes a task that was accepted elsewhere, whether there is room or not.
    pub(crate) fn admit(&self, task: Runnable) -> Result<(), Rejected> {
        match self.guard.shared.make_ready() {
            Ok(()) => self.guard.shared.submit(Job::One(task), 1),
            Err(reason) => return Err(Rejected::new(task, reason)),
        }
        Ok(())
    }

    /// Takes all tasks of a chunk, whether there is room or not, or says why it does not.
    pub(crate) fn execute_all(&self, chunk: &SharedChunk) -> Result<(), String> {
        let shared = &self.guard.shared;
        shared.make_ready()?;
        shared.submit(Job::Many(SharedChunk::clone(chunk)), chunk.len());
        Ok(())
    }

    /// Lets several workers work on a chunk that was [handed over](Self::execute_all) before.
    pub(crate) fn share(&self, chunk: &SharedChunk) {
        chunk.share();
        self.guard.shared.push(Job::Many(SharedChunk::clone(chunk)));
    }
}

impl Executor for Pool {
    /// # Errors
    ///
    /// [`Rejected`] if the queue is [full](PoolBuilder::queue), or if no thread can be started.
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        let shared = &self.guard.shared;
        if let Err(reason) = shared.make_ready() {
            return Err(Rejected::new(task, reason));
        }
        if let Err(reason) = shared.count_if_room() {
            return Err(Rejected::new(task, reason));
        }
        shared.push(Job::One(task));
        Ok(())
    }

    fn as_pool(&self) -> Option<&Pool> {
        Some(self)
    }
}

/// One call that waits for all tasks.
struct Wait<'a> {
    shared: &'a Shared,
    number: u64,
    inside: bool,
}

impl<'a> Wait<'a> {
    fn begin(shared: &'a Shared, unparker: &Unparker, inside: bool) -> Self {
        let mut waiters = shared.waiters.lock();
        let number = waiters.waits;
        waiters.waits += 1;
        waiters.parked.push((number, unparker.clone()));
        // Relaxed, and a SeqCst fence before we look at the counts: see `Shared::tell_waiters`.
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if inside {
            waiters.inside += 1;
            // Perhaps the others inside have only been waiting for our task.
            shared.wake_waiters(&waiters);
        }
        Self { shared, number, inside }
    }

    fn is_over(&self) -> bool {
        let waiting = if self.inside { self.shared.waiters.lock().inside } else { 0 };
        self.shared.unfinished() <= waiting
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut waiters = self.shared.waiters.lock();
        waiters.parked.retain(|&(number, _)| number != self.number);
        waiters.inside -= usize::from(self.inside);
        // Relaxed: a worker that still sees us finds nobody to wake.
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
thread_local! {
    /// How many threads of pools the calling thread has started.
    static STARTED_FROM_HERE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Starts the thread of the next seat, which starts the one after it.
fn start_next(shared: &Arc<Shared>, unstarted: &[Seat]) -> std::io::Result<()> {
    let running = shared.stealers.len() - unstarted.len();
    // A pool that ends while its threads are being started needs no more of them.
    if unstarted.is_empty() || shared.ending.load(Ordering::Relaxed) {
        return Ok(());
    }
    let shared = Arc::clone(shared);
    let name = format!("{}-{running}", shared.settings.name);
    #[cfg(test)]
    STARTED_FROM_HERE.with(|started| started.set(started.get() + 1));
    let mut thread = thread::Builder::new().name(name.clone());
    if let Some(bytes) = shared.settings.stack_size {
        thread = thread.stack_size(bytes);
    }
    thread.spawn(move || {
        let mut unstarted = shared.unstarted.lock();
        let seat = unstarted.pop().expect("a thread is started for each seat");
        let next = start_next(&shared, &unstarted);
        drop(unstarted);
        if let Err(error) = next {
            let running = running + 1;
            quietly(|| {
                tracing::warn!(
                    target: "lars_scheduler",
                    %error,
                    running,
                    "a pool runs with fewer threads"
                );
            });
        }
        // After the next thread was started, which need not wait for the hook.
        shared.settings.on_start.call(ThreadKind::Pool { number: running }, &name);
        Work::new(&shared, running).run(seat);
    })?;
    Ok(())
}

impl Shared {
    /// Starts the first thread, unless it was started before. The reason if it cannot be.
    #[inline]
    fn make_ready(self: &Arc<Self>) -> Result<(), String> {
        // Acquire: the threads' start happens before.
        if self.started.load(Ordering::Acquire) { Ok(()) } else { self.start() }
    }

    #[cold]
    fn start(self: &Arc<Self>) -> Result<(), String> {
        let unstarted = self.unstarted.lock();
        // Relaxed: written under the lock.
        if !self.started.load(Ordering::Relaxed) {
            start_next(self, &unstarted)
                .map_err(|error| format!("no pool thread could be started: {error}"))?;
            // Release: pairs with the load in `make_ready`.
            self.started.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn submit(self: &Arc<Self>, job: Job, tasks: usize) {
        // Relaxed: the push publishes it to the worker, whose count publishes it to waiters.
        self.submitted.fetch_add(tasks, Ordering::Relaxed);
        self.push(job);
    }

    /// Queues a job whose tasks have been counted.
    fn push(&self, job: Job) {
        let mut job = Some(job);
        self.with_local(|local| local.queue.push(job.take().expect("taken once")));
        if let Some(job) = job {
            self.injector.push(job);
        }
        self.idle.notify();
    }

    /// An address that no other pool has while this one exists.
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Calls `f` if this thread is a worker of this pool.
    fn with_local<R>(&self, f: impl FnOnce(&Local) -> R) -> Option<R> {
        LOCAL
            .try_with(|local| match local.try_borrow() {
                Ok(local) => match &*local {
                    Some(local) if std::ptr::eq(&raw const *local.shared, self) => Some(f(local)),
                    _ => None,
                },
                Err(_) => None,
            })
            .ok()
            .flatten()
    }

    /// Lets the threads finish what was submitted, and end.
    fn end(&self) {
        // Release: tasks submitted before are seen by a worker that sees this.
        self.ending.store(true, Ordering::Release);
        self.idle.wake_all();
    }

    fn has_tasks(&self) -> bool {
        !self.injector.is_empty() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    fn unfinished(&self) -> usize {
        // First what has finished, then what was submitted: so the difference is never too small.
        let finished = self.finished_in_all();
        self.submitted.load(Ordering::Relaxed).wrapping_sub(finished)
    }

    fn finished_in_all(&self) -> usize {
        // Acquire: if all have finished, their effects are seen, and their submissions are counted
        // by a load after this.
        let load = |count: &CachePadded<AtomicUsize>| count.load(Ordering::Acquire);
        self.finished.iter().map(load).fold(0, usize::wrapping_add)
    }

    /// Called when a worker has counted the tasks that it finished, before it begins one that may
    /// take long.
    fn tell_waiters(&self) {
        // SeqCst: with the fence in `Wait::begin`. Either we see the waiter, or it sees our count.
        fence(Ordering::SeqCst);
        // Relaxed: after the fence.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            let mut waiters = self.waiters.lock();
            self.wake_waiters(&waiters);
            let for_room = self.take_those_for_room(&mut waiters);
            drop(waiters);
            // Without the lock: it may call a hook of an event loop.
            for_room.into_iter().for_each(ForRoom::wake);
        }
    }

    /// Wakes the waiters, if nothing is left but the tasks that wait themselves.
    fn wake_waiters(&self, waiters: &Waiters) {
        if self.unfinished() <= waiters.inside {
            waiters.parked.iter().for_each(|(_, unparker)| unparker.unpark());
        }
    }

    /// Takes a job from another worker. One at a time, here and from the shared queue: several in
    /// the hands of one worker would wait behind the first.
    fn steal_from_others(&self, own: usize) -> Steal<Job> {
        let others = self.stealers[own + 1..].iter().chain(&self.stealers[..own]);
        others.map(Stealer::steal).collect()
    }
}

/// A worker, in its thread's frame.
struct Work<'a> {
    shared: &'a Arc<Shared>,
    thread: PoolThread,
    searching: bool,
    /// How many tasks it has run since it last looked elsewhere first, and how often it has.
    ran: u32,
    looks: u32,
    runs: RunClock,
}

impl<'a> Work<'a> {
    fn new(shared: &'a Arc<Shared>, number: usize) -> Self {
        shared.idle.begin_search();
        let thread = PoolThread { pool: shared.address(), number };
        let runs = RunClock::on_pool(thread);
        Self { shared, thread, searching: true, ran: 0, looks: 0, runs }
    }

    fn run(mut self, seat: Seat) {
        let Seat { sleeper, queue } = seat;
        let local = Local { shared: Arc::clone(self.shared), queue };
        LOCAL.with(|slot| *slot.borrow_mut() = Some(local));
        while let Some(job) = self.next(&sleeper) {
            match job {
                Job::One(mut task) => {
                    self.end_search();
                    match task.begin(&mut self.runs, self.thread) {
                        Some(since) => self.say_busy(since.saturating_add(SINCE)),
                        None => {
                            self.runs.interrupt();
                            self.say_busy(OTHER);
                        }
                    }
                    task.run_on(&mut self.runs);
                    self.say_busy(FREE);
                    self.count_finished();
                    self.shared.tell_waiters();
                }
                Job::Many(chunk) => self.run_chunk(&chunk),
            }
        }
        LOCAL.with(|slot| *slot.borrow_mut() = None);
    }

    /// The next job, when there is one; `None` when the pool has ended.
    fn next(&mut self, sleeper: &Sleeper) -> Option<Job> {
        let shared = self.shared;
        loop {
            if let Some(job) = self.find_patiently() {
                return Some(job);
            }
            self.runs.idle();
            if self.searching {
                shared.idle.end_search(false, || false);
            }
            // Acquire: the flag is set after the last task was submitted.
            if shared.ending.load(Ordering::Acquire) && !shared.has_tasks() {
                return None;
            }
            let something = || shared.has_tasks() || shared.ending.load(Ordering::Relaxed);
            shared.idle.sleep(sleeper, something);
            self.searching = true;
        }
    }

    /// Looks a few times: more of a burst may be on its way, and sleeping and being woken costs
    /// more than most tasks.
    fn find_patiently(&mut self) -> Option<Job> {
        for spins in 0..SEARCHES {
            let job = self.find();
            if job.is_some() {
                return job;
            }
            if !self.searching {
                self.searching = true;
                self.runs.idle();
                self.shared.idle.begin_search();
            }
            relax(spins);
        }
        self.find()
    }

    fn find(&mut self) -> Option<Job> {
        let (shared, number) = (self.shared, self.thread.number);
        if self.ran < LOCAL_RUN {
            return with_own_queue(Worker::pop).or_else(|| {
                settle(|| shared.injector.steal().or_else(|| shared.steal_from_others(number)))
            });
        }
        self.ran = 0;
        self.looks = self.looks.wrapping_add(1);
        let elsewhere = || {
            if self.looks.is_multiple_of(2) {
                shared.steal_from_others(number).or_else(|| shared.injector.steal())
            } else {
                shared.injector.steal().or_else(|| shared.steal_from_others(number))
            }
        };
        settle(elsewhere).or_else(|| with_own_queue(Worker::pop))
    }

    /// Something was found. The last searcher lets the next one search for what else there is.
    fn end_search(&mut self) {
        if std::mem::take(&mut self.searching) {
            self.shared.idle.end_search(true, || self.shared.has_tasks());
        }
    }

    /// Runs the tasks of a chunk, as long as there are any that no other worker has claimed.
    fn run_chunk(&mut self, chunk: &SharedChunk) {
        let Some(first) = chunk.claim() else { return };
        let mut offered = self.shared.stealers.len() == 1;
        if chunk.is_shared() && !offered {
            self.offer(chunk);
            offered = true;
            // A worker that woke for this chunk may have found no queue that had it, and sleep.
            if !self.searching {
                self.shared.idle.notify();
            }
        }
        self.end_search();
        let mut next = Some(first);
        chunk.begin(&mut self.runs);
        let began = self.runs.now();
        let at = chunk.reporter().runs.at(self.thread);
        // Without a limit nobody waits for a part of the chunk.
        let limited = self.shared.limit.is_set();
        while let Some(task) = next {
            task.begin(&mut self.runs, at);
            if !offered && self.runs.now().saturating_sub(began) > SLOW {
                chunk.share();
                self.offer(chunk);
                self.shared.idle.notify();
                offered = true;
            }
            self.say_busy(self.runs.now().saturating_add(SINCE));
            task.run();
            self.count_finished();
            next = chunk.claim();
            if limited && next.is_some() {
                self.shared.tell_waiters();
            }
        }
        self.runs.end(chunk.reporter());
        self.say_busy(FREE);
        self.shared.tell_waiters();
    }

    /// Offers the rest of a chunk to other workers.
    fn offer(&self, chunk: &SharedChunk) {
        if chunk.has_more() {
            with_own_queue(|queue| queue.push(Job::Many(SharedChunk::clone(chunk))));
        }
    }

    /// For [`Pool::all_busy_since`] and [`Pool::running`].
    fn say_busy(&self, at: u64) {
        // Relaxed: a hint.
        self.shared.busy_since[self.thread.number].store(at, Ordering::Relaxed);
    }

    fn count_finished(&mut self) {
        self.ran += 1;
        let count = &self.shared.finished[self.thread.number];
        // No read-modify-write: there is one writer. Release: a thread that sees the count
        // sees what the task did.
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

fn with_own_queue<R>(f: impl FnOnce(&Worker<Job>) -> R) -> R {
    LOCAL.with(|local| f(&local.borrow().as_ref().expect("set when the worker started").queue))
}

/// Retries until no other thread interferes.
fn settle(attempt: impl Fn() -> Steal<Job>) -> Option<Job> {
    loop {
        let stolen = attempt();
        if !stolen.is_retry() {
            return stolen.success();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.end();
    }
}

debug_fields!(|it: Pool|
    name: it.guard.shared.settings.name,
    threads: it.threads(),
    queue_limit: it.queue_limit(),
    unfinished: it.unfinished(),
);

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn every_task_submitted_is_run_also_when_the_pool_is_dropped_at_once() {
        let count = Arc::new(AtomicUsize::new(0));
        let tasks = if cfg!(miri) { 50 } else { 10_000 };
        let (done, wait) = mpsc::channel::<()>();
        {
            let pool = Pool::new("test", 3).unwrap();
            for _ in 0..tasks {
                let (count, done) = (Arc::clone(&count), done.clone());
                let task = Runnable::new(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                    drop(done);
                });
                pool.execute(task).unwrap();
            }
        }
        drop(done);
        assert!(wait.recv().is_err()); // all senders are gone: all tasks have run
        assert_eq!(count.load(Ordering::SeqCst), tasks);
    }

    #[test]
    fn tasks_that_submit_tasks_all_run_and_waiting_sees_the_end() {
        let pool = Pool::new("test", 2).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let (inner, count) = (pool.clone(), Arc::clone(&count));
            let outer = Runnable::new(move || {
                for _ in 0..10 {
                    let count = Arc::clone(&count);
                    let task = Runnable::new(move || {
                        count.fetch_add(1, Ordering::SeqCst);
                    });
                    inner.execute(task).unwrap();
                }
            });
            pool.execute(outer).unwrap();
        }
        pool.wait();
        assert_eq!(count.load(Ordering::SeqCst), 100);
    }

    #[test]
    fn a_task_that_panics_ends_neither_its_thread_nor_the_count() {
        let pool = Pool::new("test", 1).unwrap();
        pool.execute(Runnable::new(|| panic!("expected by this test"))).unwrap();
        let (sender, receiver) = mpsc::channel();
        pool.execute(Runnable::new(move || sender.send(7).unwrap())).unwrap();
        assert_eq!(receiver.recv().unwrap(), 7);
        pool.wait();
    }

    #[test]
    fn waiting_for_a_busy_pool_gives_up_at_its_deadline_and_leaves_nothing_behind() {
        let pool = Pool::new("test", 1).unwrap();
        let (release, hold) = mpsc::channel::<()>();
        pool.execute(Runnable::new(move || {
            let _ = hold.recv();
        }))
        .unwrap();
        assert!(!pool.wait_timeout(Duration::from_millis(5)));
        for _ in 0..10 {
            assert!(!pool.wait_timeout(Duration::ZERO));
        }
        assert!(pool.guard.shared.waiters.lock().parked.is_empty());
        drop(release);
        pool.wait();
    }

    #[test]
    fn the_first_task_starts_one_thread_from_here_and_all_others_are_started() {
        let (told, started) = mpsc::channel();
        let pool = Pool::builder("test")
            .threads(8)
            .on_thread_start(move |_| told.send(()).unwrap())
            .build()
            .unwrap();
        for _ in 0..3 {
            pool.execute(Runnable::new(|| ())).unwrap();
        }
        assert_eq!(STARTED_FROM_HERE.with(std::cell::Cell::get), 1);
        (0..8).for_each(|_| started.recv().unwrap());
    }

    #[test]
    fn a_pool_of_no_threads_is_refused() {
        let error = Pool::new("test", 0).unwrap_err().to_string();
        assert_eq!(error, "pool_threads is 0, but it must be between 1 and 1024");
    }
}
