//! The timer side: a value that is turned. It has no thread and reads no clock.

use std::ptr;

use crate::body::{RawTask, Row};
use crate::dispatch::{dispatch, runs_here};
use crate::entry::Entry;
use crate::entry::state::{Arm, Arrived, Flags, Take};
use crate::intake::Pop;
use crate::metrics::DriverCounts;
use crate::report::PanicIn;
use crate::sent::Sent;
use crate::shared::{Core, Live};
use crate::shutdown::PendingTask;
use crate::stack::{CancelLink, FreeLink, StackLink};
use crate::sync::{Arc, CHECKED, relax};
use crate::tick::{LAST_INSTANT, NEVER};
use crate::wheel::{Advance, Wheel, is_linked};

/// How many tasks are fired before the clock is read and the intake looked at again.
const FIRE: usize = 512;
/// How many entries are cascaded, likewise: 0.1 ms of work.
const CASCADE: usize = 4096;
/// How many while tasks wait to be fired.
const CASCADE_BUSY: usize = 512;
/// How many entries that were cancelled, and how many that were let go, are collected before tasks are fired again: 0.3 ms
/// of work each, if each is a cache miss. (Without a limit, two million cancellables of fired timers that were dropped during a long task
/// made the next timer 400 to 700 ms late.)
const COLLECT: usize = if CHECKED { 2 } else { 1024 };

/// What a [`turn`](Driver::turn) left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Turn {
    /// How many tasks were fired.
    pub(crate) fired: usize,
    /// What to do next.
    pub(crate) next: Next,
}

/// When the driver should be turned again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// At once: there is more to do.
    Now,
    /// At this instant, or when something earlier is scheduled.
    At(u64),
    /// When something is scheduled.
    Idle,
}

/// What [`take_in`](Driver::take_in) left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Intaken {
    /// Everything that had been pushed before the call is in the wheel.
    All,
    /// A producer is in the middle of a push; what it and those behind it push comes later.
    Gap,
}

/// Owns the wheel. There is one for each scheduler.
#[derive(Debug)]
pub(crate) struct Driver {
    live: Arc<Live>,
    wheel: Wheel,
    /// The latest instant that the driver was turned to.
    now: u64,
    cancelled: Sent<CancelLink>,
    dropped: Sent<FreeLink>,
    more_to_collect: bool,
    /// Entries on their way back, a chain for each lane, given away at the end of each step.
    going_back: Vec<Chain>,
    /// The earliest deadline among the timers found cancelled since the last sleep; see
    /// [`sleep_until`](Self::sleep_until).
    cancelled_first: u64,
    /// Whether due entries are sorted by deadline inside a tick: in virtual time.
    exact_order: bool,
    /// Tasks that have been fired and run together. Empty between turns.
    row: Row,
    /// Runs when those have, and whether inline.
    behind: Option<(RawTask, bool)>,
    /// Set once everything was handed back.
    finished: bool,
}

/// Free entries linked by their free links.
#[derive(Debug, Clone, Copy)]
struct Chain {
    first: *mut Entry,
    last: *mut Entry,
}

// SAFETY: the entries in the chains, and in the wheel, are the driver's wherever it goes.
unsafe impl Send for Driver {}

impl Driver {
    pub(crate) fn new(live: Arc<Live>, wheel_size: usize, exact_order: bool) -> Self {
        let now = live.clock.now();
        let wheel = Wheel::new(live.tick, wheel_size, now);
        let none = Chain { first: ptr::null_mut(), last: ptr::null_mut() };
        let going_back = vec![none; live.lanes.len()];
        Self {
            live,
            wheel,
            now,
            cancelled: Sent::new(|lane| &lane.to_driver.cancelled),
            dropped: Sent::new(|lane| &lane.to_driver.dropped),
            more_to_collect: false,
            going_back,
            cancelled_first: NEVER,
            exact_order,
            row: Row::default(),
            behind: None,
            finished: false,
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.live
    }

    /// Takes in what was scheduled before this call: all of it, or ticks that are overdue would be fired out of
    /// order. It is rarely much, because producers wake the thread for every few thousand timers
    /// (`cancel::BACKLOG`). And some of what was cancelled or let go, which may be a million at once.
    ///
    /// Read the clock *after* this and before [`turn`](Self::turn): then whatever was taken in was stamped
    /// before the instant that it is fired against.
    pub(crate) fn take_in(&mut self) -> Intaken {
        // What comes after the end was refused, and is its producer's.
        if self.finished { Intaken::All } else { self.drain() }
    }

    fn drain(&mut self) -> Intaken {
        let live = Arc::clone(&self.live);
        let mut outcome = Intaken::All;
        for lane in live.lanes.iter() {
            let mut mark = lane.intake.mark();
            loop {
                // SAFETY: there is one driver, so one consumer, and it pops only here.
                match unsafe { lane.intake.pop_up_to(&mut mark) } {
                    Pop::Entry(entry) => self.place(entry),
                    Pop::Empty => break,
                    Pop::Inconsistent => {
                        outcome = Intaken::Gap;
                        break;
                    }
                }
            }
        }
        self.collect();
        self.give_back();
        outcome
    }

    /// Collects entries that were cancelled while they were armed, and those that were let go.
    fn collect(&mut self) {
        let live = Arc::clone(&self.live);
        // (In virtual time nothing is late, and nobody shall find a cancelled timer's deadline.)
        let most = if self.exact_order { usize::MAX } else { COLLECT };
        let mut looks = live.lanes.len();
        let mut cancelled = 0;
        while cancelled < most
            && let Some(entry) = self.cancelled.next(&live.lanes, &mut looks)
        {
            // SAFETY: the canceller is done with the entry, and its link has been followed.
            unsafe {
                // It is not linked if we met it when it was due.
                if is_linked(entry) {
                    self.wheel.unlink(entry);
                }
                self.retire_cancelled(entry);
            }
            cancelled += 1;
        }
        // (So many of each: one kind must not wait for the other to come to an end.)
        let mut looks = live.lanes.len();
        let mut dropped = 0;
        while dropped < most
            && let Some(entry) = self.dropped.next(&live.lanes, &mut looks)
        {
            // SAFETY: we had left it to its handle, which has let it go with the push; its link has been followed.
            unsafe { self.free(entry) };
            dropped += 1;
        }
        self.more_to_collect = cancelled == most || dropped == most;
    }

    fn place(&mut self, entry: *mut Entry) {
        // SAFETY: popped from the intake, so alive and ours.
        unsafe {
            match (*entry).state.arm() {
                Arm::Armed(flags) if flags.is_move() => self.arrive(entry),
                Arm::Armed(flags) => self.place_armed(entry, flags),
                Arm::Cancelled => self.retire_cancelled(entry),
            }
        }
    }

    /// # Safety
    ///
    /// The entry is ours, armed, and in no list.
    unsafe fn place_armed(&mut self, entry: *mut Entry, flags: Flags) {
        // SAFETY: the caller's promise.
        unsafe {
            if flags.is_immediate() {
                self.wheel.push_due(entry);
            } else {
                self.wheel.insert(entry);
            }
        }
    }

    /// A carrier has come: the deadline of the entry that it is about was moved nearer.
    ///
    /// # Safety
    ///
    /// The carrier was popped from the intake.
    unsafe fn arrive(&mut self, carrier: *mut Entry) {
        // SAFETY: the carrier is ours; what it is about is not freed before it has arrived.
        unsafe {
            let about = (*carrier).link();
            match (*about).state.carrier_arrived() {
                Arrived::Armed(flags) => {
                    self.wheel.unlink(about);
                    self.place_armed(about, flags);
                }
                Arrived::Last => self.free(about),
                Arrived::Late => {}
            }
            self.free(carrier);
        }
    }

    /// Fires what is due at `now`, a bounded number of tasks. An instant before an earlier one counts
    /// as that.
    pub(crate) fn turn(&mut self, now: u64) -> Turn {
        self.turn_within(now, FIRE)
    }

    /// The same, and not more than `most` tasks.
    pub(crate) fn turn_within(&mut self, now: u64, most: usize) -> Turn {
        if self.finished {
            return Turn { fired: 0, next: Next::Idle };
        }
        // Should a panic have got past the containment.
        self.run_row();
        self.now = self.now.max(now.min(LAST_INSTANT));
        let target = self.live.tick.reached_by(self.now);
        let mut moves = if self.wheel.has_due() { CASCADE_BUSY } else { CASCADE };
        let mut seen = 0;
        let mut fired = 0;
        // First everything that is due goes to the due list, behind what is there: so nothing that has its
        // time can be kept out by tasks that schedule each other at once. In virtual time a tick is reached
        // only when all before it has been fired, because what that scheduled may come before it.
        let reached = loop {
            if self.exact_order && self.wheel.has_due() {
                break false;
            }
            match self.wheel.advance(target, &mut moves) {
                // (With a tick of 1 ns there is only one deadline in it.)
                Advance::Due if self.exact_order && self.live.tick.nanos() > 1 => {
                    self.wheel.sort_due();
                }
                Advance::Due => {}
                Advance::Working => break false,
                Advance::Reached => break true,
            }
        };
        while seen < most.min(FIRE)
            && let Some(entry) = self.wheel.pop_due()
        {
            fired += usize::from(self.fire(entry));
            seen += 1;
        }
        self.run_row();
        let next = if !reached || self.wheel.has_due() || self.more_to_collect {
            Next::Now
        } else {
            let tick = if self.exact_order {
                self.wheel.next_entry_tick()
            } else {
                self.wheel.next_tick()
            };
            tick.map_or(Next::Idle, |tick| Next::At(self.live.tick.start_of(tick)))
        };
        self.give_back();
        Turn { fired, next }
    }

    /// Fires one entry that has left the due list, unless it was cancelled.
    fn fire(&mut self, entry: *mut Entry) -> bool {
        // SAFETY: the entry was in our list, so it is alive and ours.
        let (task, flags) = unsafe {
            match (*entry).state.take(|| (*entry).deadline() <= self.now) {
                // It is, or will be, on the cancel stack, and is retired when it comes from there.
                Take::Cancelled => return false,
                Take::NotDue => {
                    self.wheel.insert(entry);
                    return false;
                }
                Take::Taken { flags, released } => {
                    let late = self.now.saturating_sub((*entry).deadline());
                    let task = (*entry).take_task();
                    self.live.counts.record_fired(late);
                    // (Otherwise it comes back from its handle, or with its carrier.)
                    if released {
                        self.free(entry);
                    }
                    (task, flags)
                }
            }
        };
        if !flags.is_repeat() {
            self.live.release_places(1);
        }
        // From here on foreign code runs. The entry is free, or left, the counts are up to date, the rest of the due list
        // is in the wheel, and what waits for the row to be run lies beside it: a panic that got past the
        // containment would lose nothing but its own task.
        let inline = flags.is_inline();
        if task.is_together() && runs_here(&self.live, inline) {
            if let Err(task) = self.row.add(task) {
                self.run_row_and(task, inline);
            }
        } else if self.row.is_empty() {
            dispatch(&self.live, task, inline);
        } else {
            self.run_row_and(task, inline);
        }
        true
    }

    fn run_row_and(&mut self, task: RawTask, inline: bool) {
        self.behind = Some((task, inline));
        self.run_row();
    }

    /// Runs the tasks that wait to be run together, before anything else of the scheduler's runs, and the one behind
    /// them.
    #[inline]
    fn run_row(&mut self) {
        while !self.row.is_empty() {
            // What has been run is out of the row, whatever panics.
            let row = &mut self.row;
            self.live.reporter.contain(PanicIn::Task, || row.run());
        }
        if let Some((task, inline)) = self.behind.take() {
            dispatch(&self.live, task, inline);
        }
    }

    /// How long to sleep when the next turn is due at `next`: not longer than to the first deadline of
    /// the timers that were cancelled meanwhile.
    ///
    /// Those that schedule and cancel time-outs go on doing so. Their next time-out is later than the
    /// cancelled one, so with this it need not wake the thread, which would cost them 15 µs each time;
    /// the price is one wake-up for nothing, when that deadline comes. (A million pairs of schedule and
    /// cancel in a loop, 30 s ahead, wake the thread 230 times with this and 6,000 times without.)
    pub(crate) fn sleep_until(&mut self, next: u64) -> u64 {
        match std::mem::replace(&mut self.cancelled_first, NEVER) {
            first if first > self.now => next.min(first),
            _ => next,
        }
    }

    /// A cancelled entry: free, as soon as nobody else refers to it.
    ///
    /// # Safety
    ///
    /// The entry is ours and in no list.
    unsafe fn retire_cancelled(&mut self, entry: *mut Entry) {
        // SAFETY: the caller's promise; once the entry is left it is not touched.
        unsafe {
            self.cancelled_first = self.cancelled_first.min((*entry).deadline());
            if (*entry).state.leave() {
                self.free(entry);
            }
        }
    }

    /// # Safety
    ///
    /// The entry is ours, in no list, without a task, and nobody else refers to it.
    unsafe fn free(&mut self, entry: *mut Entry) {
        // SAFETY: the caller's promise: nobody else refers to the entry.
        unsafe {
            (*entry).state.set_free();
            let chain = &mut self.going_back[(*entry).state.lane()];
            FreeLink::set(entry, chain.first);
            if chain.first.is_null() {
                chain.last = entry;
            }
            chain.first = entry;
        }
    }

    fn give_back(&mut self) {
        for (number, chain) in self.going_back.iter_mut().enumerate() {
            if !chain.first.is_null() {
                // SAFETY: the entries are free and ours, and linked from first to last.
                unsafe { self.live.lanes[number].give_back(chain.first, chain.last) };
                *chain = Chain { first: ptr::null_mut(), last: ptr::null_mut() };
            }
        }
    }

    /// Whether nothing has been pushed that was not taken in. To be asked after the sleep was
    /// announced, and before it begins.
    pub(crate) fn nothing_to_take_in(&self) -> bool {
        // SAFETY: there is one driver, so one consumer.
        self.live.lanes.iter().all(|lane| unsafe { lane.intake.is_empty() })
    }

    /// Ends the scheduling and keeps the promise of `stop`: everything that was accepted and has
    /// neither started nor been cancelled is handed back. Later calls do nothing.
    pub(crate) fn finish(&mut self) {
        if self.finished {
            return;
        }
        // Should a panic have got past the containment. (And before anything else, should one do so again.)
        self.run_row();
        self.finished = true;
        self.run_row();
        let live = Arc::clone(&self.live);
        // From here on a producer that pushes takes its task back, unless we are faster.
        live.sleep.announce_stopped();
        let mut spins = 0;
        loop {
            match self.drain() {
                Intaken::All => break,
                // A producer that was interrupted in the middle of its push. Its task was accepted,
                // or would be if we were not stopping; only it can link it.
                Intaken::Gap => {
                    relax(spins);
                    spins = spins.saturating_add(1);
                }
            }
        }
        let mut pending = Vec::new();
        while let Some(entry) = self.wheel.pop_any() {
            // SAFETY: the entry was in our wheel, so it is alive and ours.
            unsafe {
                if let Take::Taken { flags, .. } = (*entry).state.take(|| true) {
                    let deadline = (*entry).deadline();
                    let due = live.clock.instant(deadline);
                    let task = (*entry).take_task();
                    let reporter = Arc::clone(&live.reporter);
                    pending.push((deadline, PendingTask::new(task, flags, due, reporter)));
                    if !flags.is_repeat() {
                        live.release_places(1);
                    }
                }
            }
        }
        DriverCounts::add(&live.counts.handed_back, pending.len() as u64);
        pending.sort_by_key(|&(deadline, _)| deadline);
        live.stop.resolve(pending.into_iter().map(|(_, task)| task).collect());
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Nobody turns it any more: whoever schedules has to be told.
        self.finish();
        // What we have taken from a stack is nobody's who would let it go at the end.
        while let Some(entry) = self.dropped.next(&self.live.lanes, &mut 0) {
            // SAFETY: as in `collect`.
            unsafe { (*entry).state.set_free() };
        }
    }
}
