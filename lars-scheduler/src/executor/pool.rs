//! The default executor: a small work-stealing pool whose threads start when first needed.
//!
//! Tasks from outside go into a shared queue, tasks from a pool thread into that thread's own; a
//! thread that runs dry takes from the shared queue, then from the others (crossbeam-deque, after
//! Chase and Lev, *Dynamic Circular Work-Stealing Deque*, SPAA 2005).
//!
//! # Sleeping without losing a task
//!
//! A submitter pushes, fences, and looks for searchers and sleepers. A worker that found nothing
//! leaves the searchers, registers as a sleeper, fences, and looks at all queues once more before
//! it parks. Either the submitter sees the sleeper and wakes it, or the worker sees the task. While
//! somebody is searching nobody else is woken; the last searcher that finds a task wakes the next.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;

use super::{Executor, Rejected, Runnable};
use crate::error::ConfigError;
use crate::sync::{
    AtomicBool, AtomicUsize, Mutex, Ordering, Parker, Unparker, fence, mpsc, thread, thread_local,
};

/// How many tasks of its own a worker runs before it looks at the shared queue, so that a chain of
/// tasks that submit each other does not keep out the rest.
const LOCAL_RUN: u32 = 61;

/// A pool of threads that run tasks.
///
/// Every scheduler has one of its own, unless it is given another executor; one that is made here
/// can be shared, and serve other work beside ([`Runnable::new`]). The threads start with the first
/// task. Tasks that one thread submits are started in that order, but run side by side.
///
/// Dropping the last clone lets the threads finish what was submitted, and end.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{Executor, LightArrayRevolverScheduler, Pool, Runnable};
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
/// assert!(pool.wait_idle(None));
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

struct Shared {
    injector: Injector<Runnable>,
    stealers: Vec<Stealer<Runnable>>,
    unparkers: Vec<Unparker>,
    /// Woken workers that have not found a task yet.
    searching: CachePadded<AtomicUsize>,
    /// How many are in `sleepers`, to be looked at without the lock.
    sleeping: CachePadded<AtomicUsize>,
    sleepers: Mutex<Vec<usize>>,
    /// Tasks submitted and not finished.
    unfinished: CachePadded<AtomicUsize>,
    /// Who waits for `unfinished` to become zero.
    waiters: Mutex<Vec<Unparker>>,
    ending: AtomicBool,
    started: AtomicBool,
    /// What the threads need, until they are started.
    unstarted: Mutex<Vec<Seat>>,
    name: String,
}

/// What one worker needs to run.
struct Seat {
    number: usize,
    queue: Worker<Runnable>,
    parker: Parker,
}

struct Local {
    shared: Arc<Shared>,
    queue: Worker<Runnable>,
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
        if threads == 0 || threads > Self::MAX_THREADS {
            return Err(ConfigError::PoolThreads { given: threads, max: Self::MAX_THREADS });
        }
        if name.contains('\0') {
            return Err(ConfigError::ThreadName { given: name.to_owned() });
        }
        let seats: Vec<Seat> = (0..threads)
            .map(|number| Seat { number, queue: Worker::new_fifo(), parker: Parker::new() })
            .collect();
        let shared = Shared {
            injector: Injector::new(),
            stealers: seats.iter().map(|seat| seat.queue.stealer()).collect(),
            unparkers: seats.iter().map(|seat| seat.parker.unparker().clone()).collect(),
            searching: CachePadded::new(AtomicUsize::new(0)),
            sleeping: CachePadded::new(AtomicUsize::new(0)),
            sleepers: Mutex::new(Vec::with_capacity(threads)),
            unfinished: CachePadded::new(AtomicUsize::new(0)),
            waiters: Mutex::new(Vec::new()),
            ending: AtomicBool::new(false),
            started: AtomicBool::new(false),
            unstarted: Mutex::new(seats),
            name: name.to_owned(),
        };
        Ok(Self { guard: Arc::new(Guard { shared: Arc::new(shared) }) })
    }

    /// How many threads the pool has, or will have once it is used.
    pub fn threads(&self) -> usize {
        self.guard.shared.stealers.len()
    }

    /// Lets the threads finish what was submitted, and end, although the pool is still referred to. Nothing may
    /// be submitted any more.
    pub(crate) fn end(&self) {
        self.guard.shared.end();
    }

    /// Whether the calling thread is one of this pool's.
    pub fn is_current(&self) -> bool {
        self.guard.shared.with_local(|_| ()).is_some()
    }

    /// How many tasks have been submitted and not finished.
    pub fn unfinished(&self) -> usize {
        // Acquire: zero means that the effects of all tasks are seen.
        self.guard.shared.unfinished.load(Ordering::Acquire)
    }

    /// Blocks until no task is unfinished, or `deadline` has passed (`None`: for ever). Says whether
    /// all were finished. On a thread of the pool it says so at once, without waiting for itself.
    pub fn wait_idle(&self, deadline: Option<Instant>) -> bool {
        let shared = &self.guard.shared;
        if self.is_current() {
            return self.unfinished() == 0;
        }
        let parker = Parker::new();
        loop {
            if self.unfinished() == 0 {
                return true;
            }
            shared.waiters.lock().push(parker.unparker().clone());
            // SeqCst fence: with the one in `Shared::finished`; either that one sees us waiting, or
            // we see the count that it left.
            fence(Ordering::SeqCst);
            if self.unfinished() == 0 {
                return true;
            }
            match deadline {
                None => parker.park(),
                Some(deadline) if crate::clock::real_now() >= deadline => return false,
                Some(deadline) => parker.park_deadline(deadline),
            }
        }
    }
}

impl Executor for Pool {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        let shared = &self.guard.shared;
        // Acquire: the threads' start happens before.
        if !shared.started.load(Ordering::Acquire)
            && let Err(error) = start(shared)
        {
            return Err(Rejected::new(task, format!("no pool thread could be started: {error}")));
        }
        // Relaxed: the queue's push publishes the task; the count only has to be up before the
        // task can finish, which the same push ensures.
        shared.unfinished.fetch_add(1, Ordering::Relaxed);
        let mut task = Some(task);
        shared.with_local(|local| local.queue.push(task.take().expect("taken once")));
        if let Some(task) = task {
            shared.injector.push(task);
        }
        // See "Sleeping without losing a task".
        fence(Ordering::SeqCst);
        shared.wake_one_if_none_searches();
        Ok(())
    }
}

/// Starts the threads. An error means that there is not a single one.
#[cold]
fn start(shared: &Arc<Shared>) -> std::io::Result<()> {
    let mut unstarted = shared.unstarted.lock();
    let mut running = shared.stealers.len() - unstarted.len();
    let mut refused = None;
    while let Some(seat) = unstarted.pop() {
        let worker = Arc::clone(shared);
        let name = format!("{}-{}", shared.name, seat.number);
        // The seat is given back if the thread cannot be made: its queue has a stealer already.
        let (sender, receiver) = mpsc::sync_channel(1);
        let spawned = thread::Builder::new().name(name).spawn(move || {
            if let Ok(seat) = receiver.recv() {
                work(&worker, seat);
            }
        });
        match spawned {
            Ok(_detached) => {
                sender.send(seat).expect("the thread waits for its seat");
                running += 1;
            }
            Err(error) => {
                unstarted.push(seat);
                if running == 0 {
                    return Err(error);
                }
                refused = Some(error);
                break;
            }
        }
    }
    // Release: pairs with the load in `execute`.
    shared.started.store(true, Ordering::Release);
    drop(unstarted);
    if let Some(error) = refused {
        tracing::warn!(target: "lars_scheduler", %error, running, "a pool runs with fewer threads");
    }
    Ok(())
}

impl Shared {
    /// Calls `f` if this thread is a worker of this pool.
    fn with_local<R>(self: &Arc<Self>, f: impl FnOnce(&Local) -> R) -> Option<R> {
        LOCAL
            .try_with(|local| match local.try_borrow() {
                Ok(local) => match &*local {
                    Some(local) if Arc::ptr_eq(&local.shared, self) => Some(f(local)),
                    _ => None,
                },
                Err(_) => None,
            })
            .ok()
            .flatten()
    }

    fn wake_one_if_none_searches(&self) {
        // Relaxed: both are after a SeqCst fence of the caller's.
        if self.searching.load(Ordering::Relaxed) == 0 && self.sleeping.load(Ordering::Relaxed) > 0
        {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        let woken = {
            let mut sleepers = self.sleepers.lock();
            let woken = sleepers.pop();
            // Relaxed: the lock orders it for those who hold it; the others only look for a hint
            // after a fence.
            self.sleeping.store(sleepers.len(), Ordering::Relaxed);
            if woken.is_some() {
                // Counted for it, before it runs, so that the next submitter does not wake another.
                self.searching.fetch_add(1, Ordering::Relaxed);
            }
            woken
        };
        if let Some(number) = woken {
            self.unparkers[number].unpark();
        }
    }

    /// Lets the threads finish what was submitted, and end.
    fn end(&self) {
        // Release: tasks submitted before are seen by a worker that sees this.
        self.ending.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        for unparker in &self.unparkers {
            unparker.unpark();
        }
    }

    fn has_tasks(&self) -> bool {
        !self.injector.is_empty() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    fn finished(&self) {
        // AcqRel: whoever sees zero sees what all tasks did.
        if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            fence(Ordering::SeqCst);
            let waiters = std::mem::take(&mut *self.waiters.lock());
            waiters.iter().for_each(Unparker::unpark);
        }
    }

    /// Takes a task from anywhere but the worker's own queue. One at a time: a batch in the hands of one worker
    /// would wait behind its first task, and be started out of order.
    fn steal(&self, own: usize) -> Option<Runnable> {
        loop {
            let mut contended = false;
            match self.injector.steal() {
                Steal::Success(task) => return Some(task),
                Steal::Retry => contended = true,
                Steal::Empty => {}
            }
            for distance in 1..self.stealers.len() {
                let victim = (own + distance) % self.stealers.len();
                match self.stealers[victim].steal() {
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

    /// Registers as a sleeper and parks, unless there is something to do after all.
    fn sleep(&self, own: usize, parker: &Parker) {
        {
            let mut sleepers = self.sleepers.lock();
            sleepers.push(own);
            // Relaxed: the fence below orders it.
            self.sleeping.store(sleepers.len(), Ordering::Relaxed);
        }
        // See "Sleeping without losing a task".
        fence(Ordering::SeqCst);
        if !self.has_tasks() && !self.ending.load(Ordering::Relaxed) {
            parker.park();
        }
        let mut sleepers = self.sleepers.lock();
        // Not woken by a submitter: leave the list, and search on our own account. (A submitter that wakes
        // a worker takes it from the list and counts it as searching.)
        if let Some(place) = sleepers.iter().position(|&number| number == own) {
            sleepers.swap_remove(place);
            self.sleeping.store(sleepers.len(), Ordering::Relaxed);
            self.searching.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn with_own_queue<R>(f: impl FnOnce(&Worker<Runnable>) -> R) -> R {
    LOCAL.with(|local| f(&local.borrow().as_ref().expect("set when the worker started").queue))
}

fn work(shared: &Arc<Shared>, seat: Seat) {
    let Seat { number, queue, parker } = seat;
    LOCAL.with(|local| *local.borrow_mut() = Some(Local { shared: Arc::clone(shared), queue }));
    // SeqCst, here and below: see `wake_one_if_none_searches`.
    shared.searching.fetch_add(1, Ordering::SeqCst);
    let mut searching = true;
    let mut run = 0_u32;
    loop {
        run = run.wrapping_add(1);
        let task = if run.is_multiple_of(LOCAL_RUN) {
            shared.steal(number).or_else(|| with_own_queue(Worker::pop))
        } else {
            with_own_queue(Worker::pop).or_else(|| shared.steal(number))
        };
        if let Some(task) = task {
            if searching {
                searching = false;
                // The last searcher lets the next one search for what else there is.
                if shared.searching.fetch_sub(1, Ordering::SeqCst) == 1 && shared.has_tasks() {
                    fence(Ordering::SeqCst);
                    shared.wake_one_if_none_searches();
                }
            }
            // The task's panics are contained inside; this is for a log subscriber that panics when one is
            // reported. The thread goes on, and the count stays right.
            let _ = catch_unwind(AssertUnwindSafe(|| task.run()));
            shared.finished();
            continue;
        }
        if searching {
            shared.searching.fetch_sub(1, Ordering::SeqCst);
        }
        // Acquire: the flag is set after the last task was submitted.
        if shared.ending.load(Ordering::Acquire) && !shared.has_tasks() {
            break;
        }
        shared.sleep(number, &parker);
        searching = true;
    }
    LOCAL.with(|local| *local.borrow_mut() = None);
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.guard.shared.name)
            .field("threads", &self.threads())
            .field("unfinished", &self.unfinished())
            .finish_non_exhaustive()
    }
}

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
        assert!(pool.wait_idle(None));
        assert_eq!(count.load(Ordering::SeqCst), 100);
    }

    #[test]
    fn a_task_that_panics_ends_neither_its_thread_nor_the_count() {
        let pool = Pool::new("test", 1).unwrap();
        pool.execute(Runnable::new(|| panic!("expected by this test"))).unwrap();
        let (sender, receiver) = mpsc::channel();
        pool.execute(Runnable::new(move || sender.send(7).unwrap())).unwrap();
        assert_eq!(receiver.recv().unwrap(), 7);
        assert!(pool.wait_idle(None));
    }

    #[test]
    fn waiting_for_an_idle_pool_gives_up_at_its_deadline() {
        let pool = Pool::new("test", 1).unwrap();
        let (release, hold) = mpsc::channel::<()>();
        pool.execute(Runnable::new(move || {
            let _ = hold.recv();
        }))
        .unwrap();
        assert!(!pool.wait_idle(Some(crate::clock::real_now() + Duration::from_millis(5))));
        drop(release);
        assert!(pool.wait_idle(None));
    }

    #[test]
    fn a_pool_of_no_threads_is_refused() {
        let error = Pool::new("test", 0).unwrap_err().to_string();
        assert_eq!(error, "pool_threads is 0, but it must be between 1 and 1024");
    }
}
