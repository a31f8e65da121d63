//! An actor's home: its mailbox, its system lane, its watchers, and its life, which only
//! activations touch.

use std::any::{Any, type_name};
use std::borrow::Borrow;
use std::panic::resume_unwind;

use crate::base::error::Unsendable;
use crate::base::late::Timed;
use crate::base::lineage::Lineage;
use crate::base::panics::guard;
use crate::base::stop_reason::{StopReason, Terminated};
use crate::cell::askers::Askers;
use crate::cell::dead_letters::Undelivered;
use crate::cell::extras::Extras;
use crate::cell::registry::Registry;
use crate::cell::signal::{Due, Lane, Resident, Signal, Watchers};
use crate::dispatcher::Dispatcher;
use crate::dispatcher::marks::{Inside, Mapping};
use crate::dispatcher::tally::Tally;
use crate::dispatcher::task::{Activate, Task};
use crate::dispatcher::watch::{Note, Reports};
use crate::dispatcher::worker::{is_shared_thread, with_watch};
use crate::mailbox::asides::{Aside, told_here};
use crate::mailbox::block::Parcel;
use crate::mailbox::overflow::{Capacity, Overflow};
use crate::mailbox::queue::{Mailbox, Refused, Sent, Unsent};
use crate::sync::plain::{AtomicU64, StaticU64};
use crate::sync::{Arc, Ordering, UnsafeCell, Weak, real_now, relax};
use lars_base::time::Instant;

/// Messages of more bytes than this are passed on by value as seldom as possible.
pub(crate) const LARGE: usize = 4096;

/// Whether a sender waits for room, where the policy says that it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    /// As long as the policy says, but not beyond this instant, if there is one.
    Until(Option<Instant>),
}

/// The message that was evicted last. Buried at the end.
struct Evicted<'a, M: Send + 'static> {
    cell: &'a Cell<M>,
    message: Option<Box<M>>,
}

impl<M: Send + 'static> Evicted<'_, M> {
    fn bury(&mut self) {
        if let Some(oldest) = self.message.take() {
            self.cell.bury(Undelivered::Full, oldest);
        }
    }

    /// Evicts the oldest message, if it is written. Whether to try again: not if it may be the one
    /// that this thread is making.
    fn evict(&mut self, spins: &mut u32) -> bool {
        self.bury();
        self.message = self.cell.mailbox.evict();
        if self.message.is_some() {
            return true;
        }
        if Mapping::is_running() {
            return false;
        }
        // Its sender is about to write it, or others were faster.
        relax(spins);
        true
    }
}

impl<M: Send + 'static> Drop for Evicted<'_, M> {
    fn drop(&mut self) {
        self.bury();
    }
}

/// What running an actor for a while led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing is left to do up to this position, which the activation read before it looked.
    Done(u64),
    /// It has more to do.
    More,
    /// It has stopped.
    Gone,
}

/// An actor without its type.
pub(crate) trait Life<M>: Send {
    fn run(&mut self, turn: &Turn<'_, M>) -> Progress;
}

/// After how many calls a turn looks at the clock if nobody watches it.
pub(crate) const NEVER: u32 = u32::MAX;

/// The right of the one activation to read the mailbox.
pub(crate) struct Turn<'a, M> {
    cell: &'a Arc<Cell<M>>,
    tally: &'a Tally,
}

impl<'a, M> Turn<'a, M> {
    /// # Safety
    ///
    /// The caller is the cell's one activation, as long as this exists.
    unsafe fn new(cell: &'a Arc<Cell<M>>) -> Self {
        cell.mailbox.assert_activation();
        Self { cell, tally: cell.dispatcher().tally() }
    }

    pub(crate) fn cell(&self) -> &'a Arc<Cell<M>> {
        self.cell
    }

    /// Takes the next message out, of a mailbox that keeps nothing beside it.
    #[inline]
    pub(crate) fn pop(&self) -> Option<M> {
        // SAFETY: a turn exists inside the one activation only.
        unsafe { self.cell.mailbox.pop() }
    }

    /// Takes the next message out, and what is kept beside it.
    pub(crate) fn pop_with_aside(&self, aside: &mut Aside) -> Option<M> {
        // SAFETY: a turn exists inside the one activation only.
        unsafe { self.cell.mailbox.pop_with_aside(aside) }
    }

    /// Counts a message as received.
    #[inline]
    pub(crate) fn count_one(&self) {
        let received = &self.cell.processed;
        // Relaxed: a statistic, written by one activation at a time.
        received.store(received.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.tally.add_one();
    }

    /// The turn begins. Returns after how many calls it has to [look](Self::look) at the clock:
    /// [`NEVER`] if nobody watches it.
    #[inline]
    pub(crate) fn begin_watch(&self) -> u32 {
        let registry = &self.cell.registry;
        let Some(limit) = registry.rules.slow_receive.filter(|_| self.cell.pinned.is_none()) else {
            return NEVER;
        };
        let note = Note { actor: self.cell.id, message_type: type_name::<M>, calls: 0 };
        let reports = || (limit, Arc::downgrade(registry) as Weak<dyn Reports>);
        with_watch(|watch| watch.begin(note, reports)).unwrap_or(NEVER)
    }

    /// It is `now`, `calls` calls after the last that the turn counts. Returns what
    /// [`begin_watch`](Self::begin_watch) does.
    pub(crate) fn look(&self, now: Instant, calls: u32) -> u32 {
        with_watch(|watch| watch.look(now, calls, &self.cell.lineage)).unwrap_or(NEVER)
    }

    /// The turn, which is watched, ends: `calls` calls after the last that it counts, and `left`
    /// calls before the clock was to be read.
    #[inline]
    pub(crate) fn end_watch(&self, calls: u32, left: u32) {
        with_watch(|watch| watch.end(calls, left));
    }

    /// How many messages have been taken out.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        // SAFETY: a turn exists inside the one activation only.
        unsafe { self.cell.mailbox.position() }
    }
}

pub(crate) struct Cell<M> {
    pub(crate) id: u64,
    pub(crate) lineage: Lineage,
    pub(crate) registry: Arc<Registry>,
    pub(crate) processed: AtomicU64,
    pub(crate) mailbox: Mailbox<M>,
    pub(crate) lane: Lane,
    watchers: Watchers,
    pub(crate) extras: Extras,
    /// The dispatcher of a pinned actor.
    pinned: Option<Box<Dispatcher>>,
    /// Touched by the one activation only.
    life: UnsafeCell<Option<Box<dyn Life<M>>>>,
}

// SAFETY: the life is `Send`, and touched only inside `activate`, of which the mailbox's run word
// allows one at a time, each after the other, and before that by the one thread that makes the
// cell. Everything else is `Sync` by itself.
unsafe impl<M: Send> Sync for Cell<M> {}

/// What a new cell is made from.
pub(crate) struct Origin {
    pub(crate) lineage: Lineage,
    pub(crate) registry: Arc<Registry>,
    pub(crate) capacity: Capacity,
    /// A dispatcher of its own.
    pub(crate) pinned: Option<Dispatcher>,
}

impl<M> Cell<M> {
    #[inline]
    fn dispatcher(&self) -> &Dispatcher {
        self.pinned.as_deref().unwrap_or(&self.registry.dispatcher)
    }

    /// How often the actor has been restarted.
    pub(crate) fn restarted(&self) -> u64 {
        // Relaxed: a statistic, but for the actor itself, whose activations write it.
        self.extras.get().map_or(0, |extras| extras.restarts.load(Ordering::Relaxed))
    }
}

impl<M: Send + 'static> Cell<M> {
    /// A cell whose actor counts as scheduled, and is in no queue yet.
    pub(crate) fn new(
        origin: Origin,
        life: impl FnOnce(&Arc<Self>) -> Box<dyn Life<M>>,
    ) -> Arc<Self> {
        static NEXT: StaticU64 = StaticU64::new(1);
        let Origin { lineage, registry, capacity, pinned } = origin;
        let cell = Arc::new(Self {
            // Relaxed: only has to be unique.
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            lineage,
            processed: AtomicU64::new(0),
            mailbox: Mailbox::new(capacity)
                .with_asides(registry.rules.capture_spans, registry.incidents.late().is_some()),
            lane: Lane::new(),
            watchers: Watchers::new(),
            extras: Extras::default(),
            pinned: pinned.map(Box::new),
            registry,
            life: UnsafeCell::new(None),
        });
        let life = life(&cell);
        // SAFETY: nobody runs it before it is scheduled, which is up to our caller.
        cell.life.with_mut(|place| unsafe { *place = Some(life) });
        cell
    }

    /// Drops the life of a new cell that is not used after all. The life refers to the cell, and
    /// would keep it alive.
    pub(crate) fn discard(&self) {
        // SAFETY: nobody runs it before it is scheduled, which it is not going to be.
        let life = self.life.with_mut(|place| unsafe { (*place).take() });
        drop(life);
    }

    #[cold]
    pub(crate) fn bury(&self, reason: Undelivered, message: impl Borrow<M>) {
        self.registry.dead_letters.bury::<M>(&self.lineage, reason, message);
    }

    /// Sends a message, by the policy of the mailbox, which may give it back.
    #[inline]
    pub(crate) fn send(self: &Arc<Self>, message: M, wait: Wait) -> Result<(), (Unsendable, M)> {
        if self.mailbox.has_spans() {
            return self.offer_one(message, wait);
        }
        match self.mailbox.send(message) {
            Ok(sent) => {
                self.see_to(sent);
                Ok(())
            }
            Err((Refused::Closed, message)) => Err((Unsendable::Stopped, message)),
            Err((Refused::Full, message)) => self.offer_one(message, wait),
        }
    }

    #[cold]
    #[inline(never)]
    fn offer_one(self: &Arc<Self>, message: M, wait: Wait) -> Result<(), (Unsendable, M)> {
        if size_of::<M>() > LARGE {
            // Moved to the heap at once, rather than from frame to frame.
            let offered = self.offer(Box::new(message), |message| message, wait);
            return offered.map_err(|(reason, message)| (reason, *message));
        }
        self.offer(message, |message| message, wait)
    }

    /// Sends what `make` makes of `given`, by the policy of the mailbox, which may give `given`
    /// back.
    ///
    /// What is evicted is buried when the message has its place. Burying calls foreign code, which
    /// might take that place by a message of its own, and so without end. Of two that are evicted
    /// in a row, because others were faster, the first is buried before there is a place again.
    pub(crate) fn offer<P, B: Parcel<M>>(
        self: &Arc<Self>,
        given: P,
        make: impl Fn(P) -> B,
        wait: Wait,
    ) -> Result<(), (Unsendable, P)> {
        self.offer_timed(given, make, wait, None)
    }

    /// Like [`offer`](Self::offer), for a message that may be a timer's, and late.
    fn offer_timed<P, B: Parcel<M>>(
        self: &Arc<Self>,
        mut given: P,
        make: impl Fn(P) -> B,
        wait: Wait,
        timed: Option<Timed>,
    ) -> Result<(), (Unsendable, P)> {
        let mut evicted = Evicted { cell: self, message: None };
        let (mut deadline, mut place) = (None, None);
        let mut spins = 0;
        // Before a slot is taken: it calls the log subscriber.
        let told = self.mailbox.has_spans().then(told_here).flatten();
        let mut aside = Aside { told, timed };
        loop {
            let made = self.mailbox.send_with(given, &mut aside, |given| {
                let _mapping = Mapping::enter();
                make(given)
            });
            given = match made {
                Ok(sent) => {
                    self.see_to(sent);
                    return Ok(());
                }
                Err(Unsent::Panicked(sent, payload)) => {
                    self.see_to(sent);
                    drop(evicted);
                    resume_unwind(payload);
                }
                Err(Unsent::Refused(Refused::Closed, given)) => {
                    return Err((Unsendable::Stopped, given));
                }
                Err(Unsent::Refused(Refused::Full, given)) => given,
            };
            match (self.mailbox.overflow(), wait) {
                (Overflow::Block(limit), Wait::Until(latest)) if self.may_wait_here() => {
                    let deadline = *deadline.get_or_insert_with(|| {
                        let own = real_now().checked_add(limit);
                        own.into_iter().chain(latest).min()
                    });
                    if !self.mailbox.wait_for_room(&mut place, deadline, Inside::any_actor()) {
                        return Err((Unsendable::Full, given));
                    }
                }
                (Overflow::Fail | Overflow::Block(_), _) => {
                    return Err((Unsendable::Full, given));
                }
                (Overflow::DropNewest, _) => {
                    self.bury(Undelivered::Full, make(given));
                    return Ok(());
                }
                (Overflow::DropOldest, _) => {
                    if !evicted.evict(&mut spins) {
                        return Err((Unsendable::Full, given));
                    }
                }
            }
        }
    }

    /// Whether waiting for room can end. On a thread that actors share it might not: as many
    /// senders as there are threads would keep them all from the receiver.
    fn may_wait_here(&self) -> bool {
        self.dispatcher().as_manual().is_none()
            && !is_shared_thread()
            && !Inside::actor(self.id)
            && !Mapping::is_running()
            && !self.registry.is_timer_thread()
    }

    /// Delivers a message that has no sender to give it back to: if it is not accepted, it becomes
    /// a dead letter. True if the actor still accepts messages.
    pub(crate) fn deliver(self: &Arc<Self>, message: M) -> bool {
        self.delivered(self.send(message, Wait::Never))
    }

    /// Like [`deliver`](Self::deliver), for a large message.
    pub(crate) fn deliver_boxed(self: &Arc<Self>, message: Box<M>) -> bool {
        self.delivered(self.offer(message, |message| message, Wait::Never))
    }

    /// Like [`deliver`](Self::deliver), for a timer's message that was promised by then.
    pub(crate) fn deliver_timed(
        self: &Arc<Self>,
        message: impl Parcel<M>,
        promised: Instant,
    ) -> bool {
        let timed = Timed { promised, put_in: real_now() };
        self.delivered(self.offer_timed(message, |it| it, Wait::Never, Some(timed)))
    }

    fn delivered(&self, sent: Result<(), (Unsendable, impl Borrow<M>)>) -> bool {
        match sent {
            Ok(()) => true,
            Err((reason, message)) => {
                let (reason, there) = match reason {
                    Unsendable::Stopped => (Undelivered::Stopped, false),
                    Unsendable::Full => (Undelivered::Full, true),
                };
                self.bury(reason, message);
                there
            }
        }
    }

    /// Delivers the next `left` messages, as [`deliver`](Self::deliver) would one after the other;
    /// with one compare-and-swap for as many as lie in a block, if there is room. `messages` yields
    /// that many, and does not panic.
    pub(crate) fn deliver_all(
        self: &Arc<Self>,
        mut left: usize,
        mut messages: impl Iterator<Item = M>,
    ) {
        if self.mailbox.has_spans() {
            // Each message has a span of its own.
            for message in messages.take(left) {
                self.deliver(message);
            }
            return;
        }
        while left > 0 {
            match self.mailbox.send_some(left, &mut messages) {
                Ok((sent, what)) => {
                    left -= sent;
                    // Once is enough: after the first message the actor counts as scheduled.
                    self.see_to(what);
                }
                // One by one, by the policy of the mailbox.
                Err(Refused::Closed | Refused::Full) => {
                    let Some(message) = messages.next() else { return };
                    left -= 1;
                    self.deliver(message);
                }
            }
        }
    }

    #[inline]
    fn see_to(self: &Arc<Self>, sent: Sent) {
        if sent == Sent::Schedule {
            self.schedule();
        }
    }

    pub(crate) fn schedule(self: &Arc<Self>) {
        self.dispatcher().schedule(Arc::clone(self) as Task);
    }

    pub(crate) fn send_signal(self: &Arc<Self>, signal: Signal) {
        self.send_signal_with(|| signal);
    }

    /// Sends a signal that takes its place behind the messages that have been accepted.
    pub(crate) fn send_signal_at(self: &Arc<Self>, make: impl FnOnce(u64) -> Signal) {
        self.send_signal_with(|| make(self.mailbox.accepted()));
    }

    fn send_signal_with(self: &Arc<Self>, make: impl FnOnce() -> Signal) {
        // The lane of an actor that has stopped is not looked at again.
        if self.watchers.reason().is_none() {
            self.lane.push(make);
            self.see_to(self.mailbox.signal());
        }
    }

    /// Allows actors to wait for this one, for room or for an answer; or forbids it, which ends the
    /// waits that there are.
    pub(crate) fn let_actors_wait(&self, wait: bool) {
        self.mailbox.let_actors_wait(wait);
        // Nobody has been forbidden to wait if nobody has made a place for that.
        let extras = if wait { self.extras.get() } else { Some(self.extras.make()) };
        if let Some(extras) = extras {
            extras.askers.let_wait(wait);
        }
    }

    /// Takes the signals out.
    pub(crate) fn take_signals(&self) -> Vec<Signal> {
        take_signals(&self.mailbox, &self.lane)
    }
}

/// Clears the bit first: a signal that comes after that sets it again. So no signal stays in the
/// lane unannounced. The bit may be set for an empty lane; the next activation finds that out.
fn take_signals<M>(mailbox: &Mailbox<M>, lane: &Lane) -> Vec<Signal> {
    mailbox.signals_seen();
    lane.take()
}

impl<M: Send + 'static> Activate for Cell<M> {
    fn activate(self: Arc<Self>) -> bool {
        let _inside = Inside::enter(self.registry.key(), self.id);
        let run = self.life.with_mut(|life| {
            // SAFETY: this is the one activation, and foreign code that runs in it has no way here.
            let life = unsafe { &mut *life };
            // SAFETY: this is the one activation, and the turn ends before it does.
            let turn = unsafe { Turn::new(&self) };
            let run = life.as_mut().map_or(Progress::Gone, |life| life.run(&turn));
            if run == Progress::Gone {
                // The destructors of what the supervision's closure holds are foreign code.
                let life = life.take();
                guard("what an actor left", || drop(life));
            }
            run
        });
        match run {
            // It stays counted as scheduled, so that nobody schedules it ever again.
            Progress::Gone => {
                // SAFETY: this is the one activation and the last, which ends when the mailbox has
                // been closed and all that it accepted has been taken out.
                unsafe { self.mailbox.free_blocks() };
                if let Some(own) = &self.pinned {
                    own.end();
                }
                false
            }
            // SAFETY: this is the one activation.
            Progress::Done(seen) => unsafe { self.mailbox.finish(Some(seen)) },
            // SAFETY: this is the one activation.
            Progress::More => unsafe { self.mailbox.finish(None) },
        }
    }
}

impl<M: Send + 'static> Resident for Cell<M> {
    fn id(&self) -> u64 {
        self.id
    }

    fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    fn askers(&self) -> &Askers {
        &self.extras.make().askers
    }

    fn is_stopped(&self) -> bool {
        self.mailbox.is_closed()
    }

    fn signal(self: Arc<Self>, signal: Signal) {
        self.send_signal(signal);
    }

    fn stop_for(self: Arc<Self>, reason: StopReason) {
        self.send_signal_at(|at| Signal::Stop { at, reason });
    }

    fn tell_end(self: Arc<Self>, gone: Terminated) {
        self.send_signal_at(|at| Signal::Due(at, Due::Gone(gone)));
    }

    fn processed(&self) -> u64 {
        // Relaxed: a statistic.
        self.processed.load(Ordering::Relaxed)
    }

    fn depth(&self) -> u64 {
        self.mailbox.depth()
    }

    fn at_work(&self) -> Option<u64> {
        // The pipes first: one that ends has sent its message before, which is then seen. And once
        // more: one may have come from a turn that has ended meanwhile.
        let at_work = self.has_pipes() || self.mailbox.is_scheduled() || self.has_pipes();
        at_work.then(|| self.mailbox.accepted())
    }

    fn has_received(&self, accepted: u64) -> bool {
        !self.mailbox.is_scheduled() || accepted <= self.mailbox.received()
    }

    fn has_passed(&self, accepted: u64) -> bool {
        !self.mailbox.is_scheduled() || accepted < self.mailbox.received()
    }

    fn has_pipes(&self) -> bool {
        // Acquire: see `at_work`.
        self.extras.get().is_some_and(|extras| extras.pipes.load(Ordering::Acquire) > 0)
    }

    fn restarts(&self) -> u64 {
        self.restarted()
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

#[cfg(all(test, lars_loom))]
mod models {
    use super::*;

    /// What an activation does about signals.
    fn activate(mailbox: &Mailbox<u32>, lane: &Lane, taken: &mut usize) -> bool {
        if mailbox.is_signalled() || lane.hint() {
            *taken += take_signals(mailbox, lane).len();
        }
        // SAFETY: activations follow each other (that is what the run word is for).
        unsafe { mailbox.finish(Some(mailbox.position())) }
    }

    #[test]
    fn signals_are_taken_and_the_actor_comes_to_rest() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(3);
        builder.check(|| {
            let mailbox = std::sync::Arc::new(Mailbox::<u32>::new(Capacity::Unbounded));
            let lane = std::sync::Arc::new(Lane::new());
            let signalling = {
                let (mailbox, lane) =
                    (std::sync::Arc::clone(&mailbox), std::sync::Arc::clone(&lane));
                loom::thread::spawn(move || {
                    let mut schedule = false;
                    for number in 0..2 {
                        lane.push(|| Signal::ChildGone(number));
                        schedule |= mailbox.signal() == Sent::Schedule;
                    }
                    schedule
                })
            };
            let mut taken = 0;
            let mut again = activate(&mailbox, &lane, &mut taken);
            if again {
                again = activate(&mailbox, &lane, &mut taken);
            }
            // Somebody has been asked to see to what is left, and has done so after a few more
            // activations.
            again |= signalling.join().unwrap();
            for _ in 0..3 {
                again = again && activate(&mailbox, &lane, &mut taken);
            }
            assert!(!again, "it does not come to rest");
            assert_eq!(taken, 2);
        });
    }
}
