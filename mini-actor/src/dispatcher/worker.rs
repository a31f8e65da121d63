//! A worker: what one thread of a pool runs next, and when it sleeps.
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
//! What other threads schedule goes to the shared queue. A worker takes from that once a round: a
//! batch, or only what it runs at once while something is there that waited for one that blocks. A
//! round has as many turns as the worker's own queue was long when it began. What it takes goes to
//! the end of its own queue. So an actor that is woken from outside waits for the rest of a round
//! and for the next one, however busy the other actors are.

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests;

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::time::Duration;

use crossbeam_deque::Worker as Queue;
use lars_base::idle::Sleeper;
use lars_base::time::Instant;

use crate::base::late::Whose;
use crate::base::panics::guard;
use crate::dispatcher::journal::Journal;
use crate::dispatcher::marks::{Inside, Set};
use crate::dispatcher::shared::Shared;
use crate::dispatcher::task::Task;
use crate::dispatcher::watch::Watch;
use crate::sync::{Arc, real_now, round_again, thread_local, yield_now};

/// This many activations in a row come from the slot, if others wait.
const SLOT_TURNS: u32 = 16;
/// A worker looks this often, and lets other threads run, before it sleeps: waking it costs as much
/// as some hundred messages.
const SEARCHES: u32 = 4;

/// A worker, in its thread's frame.
pub(super) struct Worker {
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
    journal: Journal,
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

/// Schedules something on the pool to which `shared` belongs.
#[inline]
pub(super) fn schedule(shared: &Arc<Shared>, task: Task) {
    let mut task = Some(task);
    with_current(|worker| {
        if Arc::ptr_eq(&worker.shared, shared)
            && !worker.blocks.get()
            && let Some(before) = worker.replace_slot(task.take())
        {
            worker.queue.push(before);
            shared.idle.notify();
        }
    });
    if let Some(task) = task {
        shared.push(task);
    }
}

/// The number of the calling thread among those of this pool, if it is one of them.
#[inline]
pub(super) fn number_in(shared: &Arc<Shared>) -> Option<usize> {
    with_current(|worker| Arc::ptr_eq(&worker.shared, shared).then_some(worker.number)).flatten()
}

/// The calling thread is about to wait for something. Gives away what waits for its worker; until
/// the current turn is over, what it schedules goes to the others as well.
pub(crate) fn about_to_block() {
    with_current(|worker| {
        worker.blocks.set(true);
        // From the queue as well: the others look there only when they have nothing to do.
        let next = || worker.take_slot().or_else(|| worker.queue.pop());
        worker.shared.give_back(std::iter::from_fn(next));
    });
}

/// Calls `look` with what the calling thread knows of the time, if it is a worker.
#[inline]
pub(crate) fn with_watch<R>(look: impl FnOnce(&Watch) -> R) -> Option<R> {
    with_current(|worker| look(&worker.watch))
}

/// Calls `look` with what the calling thread has run lately, if it is a worker.
#[inline]
pub(crate) fn with_journal<R>(look: impl FnOnce(&Journal) -> R) -> Option<R> {
    with_current(|worker| look(&worker.journal))
}

/// Until this is dropped, the calling thread runs something that is no turn of an actor.
pub(crate) struct NoTurn {
    noted: bool,
}

impl NoTurn {
    /// With what it runs, and how late something has to be, if what is late is explained.
    pub(crate) fn enter(noted: Option<(Whose, Duration)>) -> Self {
        with_watch(Watch::pause);
        with_journal(|journal| match noted {
            Some((whose, bound)) => _ = journal.begin(whose, bound),
            None => journal.pause(),
        });
        Self { noted: noted.is_some() }
    }
}

impl Drop for NoTurn {
    fn drop(&mut self) {
        if self.noted {
            with_journal(Journal::end);
        }
    }
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

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, number: usize, queue: Queue<Task>) -> Self {
        let (slot, blocks) = (UnsafeCell::new(None), Cell::new(false));
        let (watch, journal) = (Watch::new(), Journal::default());
        Self { shared, number, queue, slot, blocks, watch, journal }
    }

    fn take_slot(&self) -> Option<Task> {
        self.replace_slot(None)
    }

    #[inline]
    fn replace_slot(&self, task: Option<Task>) -> Option<Task> {
        // SAFETY: only this thread comes here, and nothing runs during the exchange.
        unsafe { ptr::replace(self.slot.get(), task) }
    }

    /// A round is over: takes a batch from the shared queue, or what is to run first. Returns that,
    /// and how many turns the next round has.
    fn begin_round(&self) -> (Option<Task>, usize) {
        let first = self.shared.take_some(&self.queue);
        let turns = self.queue.len() + usize::from(first.is_some());
        (first, turns)
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

    /// Gives an actor its turn. If it is to have another one, it waits for that behind others.
    #[inline]
    fn run(&self, task: Task) {
        let shared = &*self.shared;
        // Foreign code in an activation is contained inside; this is for a log subscriber that
        // panics.
        let again = guard("an activation", || Arc::clone(&task).activate());
        let blocked = self.blocks.replace(false);
        if !again.unwrap_or(true) {
            // It may be the last reference, and its destructors are foreign code.
            guard("what an actor left", || drop(task));
            return;
        }
        if blocked {
            // Behind all others. In front of what this worker fetches next it would give that
            // away again, not run.
            shared.push(task);
        } else {
            // SAFETY: looked at by this thread alone.
            let alone = self.queue.is_empty() && unsafe { (*self.slot.get()).is_none() };
            self.queue.push(task);
            if !alone {
                shared.idle.notify();
            }
        }
        round_again();
    }
}

pub(super) fn work(worker: Worker, sleeper: &Sleeper) {
    let shared = &*worker.shared;
    // Dropped before the worker is.
    let _current = Set::enter(&CURRENT, &raw const worker);
    shared.idle.begin_search();
    let mut searching = true;
    let (mut round, mut slot_turns, mut searches) = (0, 0, 0);
    loop {
        let first;
        (first, round) = if round > 1 { (None, round - 1) } else { worker.begin_round() };
        let task = first.or_else(|| worker.next(&mut slot_turns));
        if let Some(task) = task.or_else(|| shared.steal(worker.number, &worker.queue)) {
            searches = 0;
            if searching {
                searching = false;
                shared.idle.end_search(true, || shared.has_tasks());
            }
            worker.run(task);
            continue;
        }
        if !searching {
            // Before the search, which then finds what a hook schedules here.
            worker.watch.pause();
            worker.journal.pause();
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
        if shared.is_ending() && !shared.has_tasks() {
            break;
        }
        shared.idle.sleep(sleeper, || shared.has_tasks() || shared.is_ending());
    }
}
