//! The timer side: a value that is turned. It has no thread of its own and reads no clock.
//!
//! A turn takes in what came through the channels, visits the lanes in which something is due,
//! gathers what is due from all wheels by tick into one list, and fires from that.

mod held;
mod stall;
pub(crate) mod walk;

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr;

use self::held::Held;
use self::walk::Walk;
use crate::base::deadline::Deadline;
use crate::base::panics::PanicIn;
use crate::base::raw_task::{RawTask, Row};
use crate::base::run_clock::RunClock;
use crate::base::tick::{LAST_INSTANT, NEVER};
use crate::engine::counts::DriverCounts;
use crate::engine::dispatch::{Batch, Way, hand_over, way_of};
use crate::engine::due::DueList;
use crate::engine::entry::state::{Flags, Take, Taken};
use crate::engine::entry::{Entry, Whereabouts};
use crate::engine::lane::Lane;
use crate::engine::lanes::Channel;
use crate::engine::pace::Meter;
use crate::engine::place::{Drained, KeptMark, drain, meet_cancelled, unlink_cancelled};
use crate::engine::shared::{Core, Live};
use crate::engine::stack::{CancelLink, StackLink};
use crate::engine::stop_word::Pending;
use crate::engine::visit::{TAKE_OVER, Visits, next_tick};
use crate::engine::wheel::{Advance, Wheel};
use crate::sync::{Arc, CHECKED, relax};

/// How many tasks are fired before the clock is read and the lanes are looked at again.
const FIRE: usize = 512;
/// How many due entries are taken out of the wheels at most before they are fired. For that time,
/// 6 ns for each in a burst, the owner of a lane finds its gate shut. With 256, in a burst on a
/// pool, a third of the timer thread's time went into the heavy fences, which interrupt the pool.
const GATHER: usize = 1024;
/// How many entries are taken out of the channels at most before tasks are fired again: 0.2 ms of
/// work.
const TAKE_IN: usize = 4096;
/// How many entries are cascaded in a turn: 0.1 ms of work.
const CASCADE: usize = 4096;
/// How many entries are cascaded in a turn while tasks wait to be fired.
const CASCADE_BUSY: usize = 512;
/// How many cancelled entries are collected before tasks are fired again: 0.3 ms of work, if each
/// is a cache miss.
const COLLECT: usize = if CHECKED { 2 } else { 256 };

/// How often the driver looks for lanes whose owners do not come to collect what others cancel, or
/// come too rarely, in nanoseconds.
const LOOK_AGAIN: u64 = 1_000_000_000;

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
    /// As soon as a thread that was interrupted while it scheduled something has continued.
    Soon,
    /// At this instant, or when something earlier is scheduled.
    At(u64),
    /// When something is scheduled.
    Idle,
}

/// What [`take_in`](Driver::take_in) left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Intaken {
    /// Everything that had been pushed into the channels before the call is in the wheel.
    All,
    /// There was more than is taken in at once. The rest comes later.
    More,
    /// A producer is in the middle of a push. Its entry, and those pushed after it, come later.
    Gap,
}

/// What [`gather`](Driver::gather) left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gathered {
    /// All that is due is in the list, except in lanes that could not be entered.
    All,
    /// There is more.
    More,
}

/// Fires what is due. There is one for each scheduler.
#[derive(Debug)]
pub(crate) struct Driver {
    live: Arc<Live>,
    /// For the timers of threads that have no wheel, and in virtual time for all.
    wheel: Wheel,
    /// How far each channel has been drained.
    kept: Box<[KeptMark]>,
    /// An instant: what was pushed into the channels before it is in the wheel. [`NEVER`] if that
    /// is all there was.
    ready: u64,
    visits: Visits,
    due: DueList,
    held: Held,
    /// The latest instant that the driver was turned to.
    now: u64,
    /// What is left of the cancel stack that was taken last.
    cancelled: *mut Entry,
    /// When the driver looks next for lanes whose owners do not come.
    look_at: u64,
    /// The number of the cancel stack that is looked at next.
    next_stack: usize,
    /// Cancelled entries in the wheels of lanes that have to be visited first.
    to_unlink: Vec<*mut Entry>,
    more_to_collect: bool,
    /// Lanes that get entries back at the end of the step, and their numbers.
    going_back: Vec<(usize, *const Lane)>,
    /// Whether due entries are sorted by deadline inside a tick: in virtual time.
    exact_order: bool,
    /// Tasks that have been fired and run together. Empty between turns.
    row: Row,
    /// Tasks that have been fired and are handed over together. Empty between turns.
    batch: Batch,
    runs: RunClock,
    meter: Meter,
    /// When to look whether tasks wait for a pool that does not get on; see `stall`.
    look_at_pool: Option<u64>,
    /// When to look whether a chunk is stuck with one worker.
    look_at_chunks: Option<u64>,
    /// The listings under way.
    walks: VecDeque<Walk>,
    /// Since when a thread has been in the middle of handing something over, if it is noted.
    gap_from: Option<u64>,
    /// Since when the event loop that turns the driver has been doing something else.
    away_from: Option<u64>,
    /// Set once everything was handed back.
    finished: bool,
}

// SAFETY: the driver holds its wheel, its due list and the stacks that it has taken, on whatever
// thread it is. The lanes live as long as the core, of which it has a share.
unsafe impl Send for Driver {}

impl Driver {
    pub(crate) fn new(live: Arc<Live>, wheel_size: usize, exact_order: bool) -> Self {
        let now = live.clock.now();
        let wheel = Wheel::new(live.tick, wheel_size, now);
        let held = Held::new(&live, exact_order);
        let kept = live.arena.lanes.channels().iter().map(|_| KeptMark::new()).collect();
        Self {
            live,
            wheel,
            kept,
            ready: NEVER,
            visits: Visits::new(),
            due: DueList::new(),
            held,
            now,
            cancelled: ptr::null_mut(),
            look_at: now.saturating_add(LOOK_AGAIN),
            next_stack: 0,
            to_unlink: Vec::new(),
            more_to_collect: false,
            going_back: Vec::new(),
            exact_order,
            row: Row::default(),
            batch: Batch::new(),
            runs: RunClock::new(),
            meter: Meter::new(),
            look_at_pool: None,
            look_at_chunks: None,
            walks: VecDeque::new(),
            gap_from: None,
            away_from: None,
            finished: false,
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.live
    }

    /// The caller promises to turn the driver from now on whenever [`Next`] says so, without much
    /// delay.
    pub(crate) fn is_turned_in_time(&mut self) {
        // (A wake-up may be later by `coalesce`, up to an hour.)
        if self.live.coalesce == 0 {
            self.batch.begin_to_look();
        }
        self.explain_here();
        // So producers can wait for it.
        self.meter.begin_to_tell();
    }

    /// Takes in what was pushed into the channels before this call, up to a limit. Ticks of which
    /// something may be missing are not fired before the rest is in, or they would be fired out of
    /// order. It is rarely much: threads that schedule much have wheels of their own.
    pub(crate) fn take_in(&mut self) -> Intaken {
        // What is pushed after the end was refused, and its producer takes it back.
        if self.finished {
            return Intaken::All;
        }
        self.drain_channels(if self.exact_order { usize::MAX } else { TAKE_IN })
    }

    fn drain_channels(&mut self, most: usize) -> Intaken {
        let Self { live, wheel, kept, ready, going_back, .. } = self;
        let (mut left, mut gap) = (most as u64, false);
        *ready = NEVER;
        for (channel, kept) in live.arena.lanes.channels().iter().zip(kept) {
            // SAFETY: this driver, the only one of the scheduler, is the only consumer.
            if unsafe { channel.intake.is_empty() } {
                continue;
            }
            let bounds = (live.clock.now(), left as usize);
            // SAFETY: the channels lead to the driver's wheel, which this driver holds.
            let came = unsafe {
                drain(&channel.intake, kept, wheel, bounds, |entry| free(live, going_back, entry))
            };
            left -= came.entries;
            match came.drained {
                Drained::All => {}
                Drained::Gap => gap = true,
                Drained::More => *ready = (*ready).min(came.ready),
            }
        }
        self.meter.taken_in += most as u64 - left;
        self.give_back();
        match self.ready {
            NEVER if gap => Intaken::Gap,
            NEVER => Intaken::All,
            _ => Intaken::More,
        }
    }

    /// Collects entries that were cancelled while they were armed: those in the driver's own wheel,
    /// and those that the owners of lanes passed on, which are put aside for the visits.
    fn collect(&mut self) {
        // (Virtual time collects everything, so that no cancelled timer is ever the next deadline.)
        let most = if self.exact_order { usize::MAX } else { COLLECT };
        let mut collected = 0;
        while collected < most
            && let Some(entry) = self.next_cancelled()
        {
            collected += 1;
            let Self { live, wheel, visits, to_unlink, going_back, .. } = self;
            // SAFETY: a cancelled entry is alive until it is retired. Its canceller has pushed it,
            // and is done with it. If it is not local it belongs to the driver's wheel.
            unsafe {
                let flags = (*entry).state.flags();
                if flags.is_local() {
                    visits.want(live.arena.lanes.lane((*entry).state.lane()));
                    to_unlink.push(entry);
                } else {
                    unlink_cancelled(entry, wheel, |entry| free(live, going_back, entry));
                }
            }
        }
        self.more_to_collect = collected == most;
    }

    /// The next entry of the cancel stacks. Goes round at most once.
    fn next_cancelled(&mut self) -> Option<*mut Entry> {
        let channels = self.live.arena.lanes.channels();
        let stacks = channels.len() + self.visits.len();
        let mut looks = 0;
        while self.cancelled.is_null() {
            if looks == stacks {
                return None;
            }
            looks += 1;
            let number = self.next_stack % stacks;
            self.next_stack = number + 1;
            self.cancelled = match channels.get(number) {
                Some(channel) => channel.cancelled.take_all(),
                None => self.visits.wheel(number - channels.len()).passed_on.take_all(),
            };
        }
        let entry = self.cancelled;
        // SAFETY: the stack gave up the chain, so nobody else touches its links.
        self.cancelled = unsafe { CancelLink::get(entry) };
        Some(entry)
    }

    /// Fires what is due at `now`, a bounded number of tasks. Time does not go back: if `now` is
    /// before that of an earlier turn, the earlier one counts.
    ///
    /// Read the clock *before* [`take_in`](Self::take_in), and call this after it: then a timer
    /// that is due at `now` and is not among those that are fired was still being scheduled when
    /// the clock was read.
    pub(crate) fn turn(&mut self, now: u64) -> Turn {
        self.turn_within(now, FIRE)
    }

    /// A [`turn`](Self::turn) that fires at most `most` tasks.
    pub(crate) fn turn_within(&mut self, now: u64, most: usize) -> Turn {
        if self.finished {
            return Turn { fired: 0, next: Next::Idle };
        }
        self.now = self.now.max(now.min(LAST_INSTANT));
        // Read anew: the caller's instant may be an event loop's, an earlier step's, or from before
        // much was taken in, and that time is not to be blamed on a task.
        let begins = if self.exact_order { now } else { self.live.clock.now() };
        self.runs.begin_turn(begins, &self.live.reporter);
        // Due entries go to the end of the due list first. So tasks that schedule each other
        // without a delay cannot starve a timer whose time has come.
        let gathered = self.gather(self.live.tick.reached_by(self.now));
        let late = self.late();
        self.meter.beat(begins, late, &self.live.pace);
        self.grant_room();
        if self.meter.tells() && !self.due.is_empty() {
            // A task may take long. Meanwhile producers must not think that the thread sleeps.
            self.live.sleep.put_off_sleep();
        }
        let mut seen = 0;
        let mut fired = 0;
        while seen < most.min(FIRE)
            && let Some(entry) = self.due.pop()
        {
            fired += usize::from(self.fire(entry));
            seen += 1;
        }
        self.run_row();
        self.batch.flush(&self.live, &mut self.runs);
        self.look_at_chunks = self.batch.look(&self.live, self.now);
        self.give_back();
        if self.exact_order {
            self.runs.forget();
        } else {
            self.watch_pool();
        }
        let more = gathered == Gathered::More
            || !self.due.is_empty()
            || self.more_to_collect
            || self.ready != NEVER;
        let next = if more { Next::Now } else { self.next() };
        Turn { fired, next }
    }

    /// How long the turn that begins is late, in nanoseconds: since what comes first could have
    /// been fired, or since a lane or a channel has been waiting to be drained.
    fn late(&mut self) -> u64 {
        let first = self.due.first().map_or(NEVER, |first| {
            // SAFETY: an entry in the due list is alive.
            let (at, flags) = unsafe { ((*first).deadline(), (*first).state.flags()) };
            self.live.fires_at(Deadline { at, immediate: flags.is_immediate() })
        });
        let waits = self.visits.waiting_since(self.now).min(self.ready);
        let late = self.now.saturating_sub(first.min(waits));
        // What is in a lane that could not be entered has not been seen.
        let unseen = self.due.is_empty() && self.visits.is_waiting();
        if unseen { late.max(self.meter.late()) } else { late }
    }

    /// When to turn next, if there is nothing to do now.
    fn next(&mut self) -> Next {
        if self.has_room_for_held() {
            return Next::Now;
        }
        if self.visits.have_more() {
            return Next::Now;
        }
        if self.visits.is_waiting() {
            return Next::Soon;
        }
        let own = if self.exact_order {
            self.wheel.next_entry_tick().unwrap_or(NEVER)
        } else {
            self.wheel.next_visit()
        };
        self.visits.update(&self.live.arena.lanes);
        let due = match own.min(self.visits.earliest()) {
            NEVER => None,
            0 => return Next::Now,
            tick => Some(self.live.tick.start_of(tick)),
        };
        let look = self.watches_owners().then_some(self.look_at);
        let all = due.into_iter().chain(self.look_at_pool).chain(self.look_at_chunks).chain(look);
        all.min().map_or(Next::Idle, Next::At)
    }

    /// Whether an owner has entries to collect that others cancelled, so that the driver has to
    /// check whether it does.
    fn watches_owners(&self) -> bool {
        let lanes = &self.live.arena.lanes;
        // First the request is taken: one that is made after we have looked stays.
        let watched = lanes.take_watch_request() && self.visits.have_uncollected();
        if watched {
            lanes.watch_owners();
        }
        watched
    }

    /// What is late from now on is explained, if somebody wants to know. To be called on the thread
    /// that turns the driver, before the turns; again does nothing.
    pub(crate) fn explain_here(&mut self) {
        if !self.exact_order {
            let Self { live, runs, .. } = self;
            runs.explain(&live.clock, &live.reporter);
        }
    }

    /// What was found in the intake `now`: behind a gap, nothing can be reached.
    pub(crate) fn note_gap(&mut self, intaken: Intaken, now: u64) {
        match (intaken, self.gap_from) {
            (Intaken::Gap, None) if self.live.reporter.late.is_some() => self.gap_from = Some(now),
            (Intaken::Gap, _) | (_, None) => {}
            (_, Some(from)) => {
                self.gap_from = None;
                self.runs.was_shut_out(from, now, None);
            }
        }
    }

    /// The event loop that turns the driver is about to do something else.
    pub(crate) fn leaves(&mut self) {
        if self.live.reporter.late.is_some() {
            self.away_from = Some(self.live.clock.now());
        }
    }

    /// The event loop turns the driver again.
    pub(crate) fn begins_again(&mut self) {
        self.explain_here();
        if let Some(from) = self.away_from.take() {
            self.runs.was_away(from, self.live.clock.now());
        }
    }

    /// The timer thread has slept since `from`, and had asked to be woken at `asked`.
    pub(crate) fn slept(&mut self, from: u64, asked: u64) {
        if self.live.reporter.late.is_some() {
            self.runs.slept(from, asked, self.live.clock.now());
        }
    }

    /// The timer thread is about to sleep.
    #[inline]
    pub(crate) fn pause(&mut self) {
        self.meter.pause(&self.live.pace);
        self.runs.pause(&self.live.clock, &self.live.reporter);
    }

    /// Moves what is due up to the tick `target` to the due list: from all wheels, in the order of
    /// the ticks.
    fn gather(&mut self, target: u64) -> Gathered {
        // Gates are shut once for many entries, not for a few at each turn.
        if self.due.len() >= FIRE {
            return Gathered::More;
        }
        // Of later ticks something may still be in a channel.
        let target = match self.ready {
            NEVER => target,
            ready => target.min(self.live.tick.reached_by(ready)),
        };
        self.enter_lanes(target);
        let moves = if self.due.is_empty() { CASCADE } else { CASCADE_BUSY };
        self.detach_at_once();
        let gathered = self.merge(target, moves);
        self.visits.leave();
        self.give_back();
        gathered
    }

    /// Enters the lanes that have something due up to `target`, or something else for the driver,
    /// and takes in what is in their intakes.
    fn enter_lanes(&mut self, target: u64) {
        self.visits.update(&self.live.arena.lanes);
        self.collect();
        if self.now >= self.look_at {
            self.look_at = self.now.saturating_add(LOOK_AGAIN);
            self.look_after_owners();
        }
        self.visits.want_those_due_by(target);
        self.visits.enter();
        let Self { live, visits, going_back, .. } = self;
        let bounds = (TAKE_OVER, COLLECT);
        visits.begin((self.now, live.tick), bounds, |entry| free(live, going_back, entry));
        self.meter.taken_in += std::mem::take(&mut visits.taken_in);
        if !visits.opened.is_empty() {
            self.note_opened();
        }
        self.unlink_in_lanes();
    }

    /// Lanes were entered that could not be entered before.
    #[cold]
    fn note_opened(&mut self) {
        let mut opened = std::mem::take(&mut self.visits.opened);
        if self.live.reporter.late.is_some() {
            let now = self.live.clock.now();
            for &(since, number) in &opened {
                self.runs.was_shut_out(since, now, self.visits.wheel(number).thread());
            }
        }
        opened.clear();
        self.visits.opened = opened;
    }

    /// First come entries that do not wait for a tick, but at most half of what is gathered:
    /// otherwise tasks that schedule each other at once would starve the rest. (In virtual time the
    /// rest of the tick that has been reached comes before them.)
    fn detach_at_once(&mut self) {
        let due = &mut self.due;
        let most = if self.exact_order { usize::MAX } else { GATHER / 2 };
        let mut at_once = |wheel: &mut Wheel| {
            wheel.detach_at_once(due, most.saturating_sub(due.len()));
        };
        if !(self.exact_order && self.wheel.has_due()) {
            at_once(&mut self.wheel);
        }
        self.visits.each(|wheel, _| at_once(wheel));
    }

    /// Moves what is due up to `target` to the due list, tick by tick over the wheels that the
    /// driver holds, with at most this many moves between levels.
    fn merge(&mut self, target: u64, mut moves: usize) -> Gathered {
        // (With a tick of 1 ns there is only one deadline in it.)
        let sorted = self.exact_order && self.live.tick.nanos() > 1;
        loop {
            // In virtual time a tick is reached only when all before it has been fired, because
            // what that scheduled may come before it.
            if self.due.len() >= GATHER || self.exact_order && !self.due.is_empty() {
                return Gathered::More;
            }
            // The rest of an earlier tick comes first, in whichever wheel it is.
            let own = next_tick(&mut self.wheel);
            let tick = own.min(self.visits.first());
            if tick > target {
                return self.reach(target, &mut moves);
            }
            // The driver's own wheel first, where the first timers of a thread are. While it is not
            // ready, the lanes wait.
            let moves = &mut moves;
            let go_on = (own > tick || advance(&mut self.wheel, tick, moves, sorted))
                && self.visits.advance(tick, |wheel| advance(wheel, tick, moves, false));
            self.wheel.detach_due(&mut self.due, GATHER);
            self.visits.detach_due(&mut self.due, GATHER);
            if !go_on {
                return Gathered::More;
            }
        }
    }

    /// Looks for lanes whose owners do not come to collect what others cancel, or come too rarely.
    pub(crate) fn look_after_owners(&mut self) {
        self.live.have_collected();
        self.visits.update(&self.live.arena.lanes);
        self.visits.relieve_owners();
    }

    /// Nothing is due up to `target` any more: moves all wheels there.
    fn reach(&mut self, target: u64, moves: &mut usize) -> Gathered {
        let mut all = |wheel: &mut Wheel, target| {
            wheel.advance(target, moves) == Advance::Reached && !wheel.has_any_due()
        };
        let mut reached = all(&mut self.wheel, target);
        self.visits.each(|wheel, ready_to| reached &= all(wheel, target.min(ready_to)));
        if reached { Gathered::All } else { Gathered::More }
    }

    /// Unlinks what was cancelled, in those lanes that are being visited.
    fn unlink_in_lanes(&mut self) {
        let Self { live, to_unlink, visits, going_back, .. } = self;
        to_unlink.retain(|&entry| {
            // SAFETY: a cancelled entry is alive until the driver, which has it, retires it.
            let number = unsafe { (*entry).state.lane() };
            let unlinked = visits.inside(live.arena.lanes.lane(number), |wheel| {
                // SAFETY: its canceller has pushed the entry, and is done with it. The entry
                // belongs to this lane, and the driver is behind the lane's gate.
                unsafe { unlink_cancelled(entry, wheel, |entry| free(live, going_back, entry)) };
            });
            !unlinked
        });
    }

    /// Fires one entry that has left the due list, unless it was cancelled or has to wait for room.
    fn fire(&mut self, entry: *mut Entry) -> bool {
        if self.held.has_limit() && self.must_wait(entry) {
            return false;
        }
        self.meter.met += 1;
        // The task stays at this place, which drops nothing, until it runs or is handed over.
        let mut place = MaybeUninit::uninit();
        // SAFETY: the entry has just left the due list.
        let taken = unsafe { self.take_task(entry, &mut place) };
        let Some((flags, deadline)) = taken else { return false };
        if !flags.is_repeat() {
            self.live.release_places(1);
        }
        // Foreign code runs from here on. Its panics are contained.
        // SAFETY: the task has been moved to the place, which is not used after this.
        unsafe { self.start(&place, flags, deadline) };
        true
    }

    /// Moves the task of an entry to `place`, and frees the entry if nobody refers to it. `None` if
    /// it was cancelled, or is not due any more.
    ///
    /// # Safety
    ///
    /// The entry has just left the due list.
    #[inline]
    unsafe fn take_task(
        &mut self,
        entry: *mut Entry,
        place: &mut MaybeUninit<RawTask>,
    ) -> Option<(Flags, u64)> {
        // SAFETY: the entry has just left the due list, so it is alive, and only the driver touches
        // its links. The task is taken only where `take` gave it to the driver. An entry is freed
        // only where nobody else refers to it. It is not used again while it is in hand.
        unsafe {
            let in_hand = &self.live.arena.lanes.in_hand;
            let is_due = || (*entry).deadline() <= self.now;
            match (*entry).state.take(is_due, || in_hand.begin(entry)) {
                Take::Cancelled => {
                    in_hand.end();
                    let (live, back) = (&self.live, &mut self.going_back);
                    meet_cancelled(entry, &mut |entry| free(live, back, entry));
                    None
                }
                Take::NotDue(flags) => {
                    in_hand.end();
                    if flags.is_local() {
                        self.send_back(entry);
                    } else {
                        (*entry).set_whereabouts(Whereabouts::Nowhere);
                        self.wheel.insert(entry);
                    }
                    None
                }
                Take::Taken { flags, entry: whose } => {
                    (*entry).take_task_to(place);
                    let deadline = (*entry).deadline();
                    (*entry).set_whereabouts(Whereabouts::Nowhere);
                    // (Its handle or its carrier may use it again at once if it is not freed here.
                    // So this is last. The note may have been made in any case.)
                    in_hand.end();
                    if whose == Taken::Alone || whose == Taken::Held && (*entry).state.leave() {
                        free(&self.live, &mut self.going_back, entry);
                    }
                    Some((flags, deadline))
                }
            }
        }
    }

    /// Runs a task that was due at `deadline`, or hands it over.
    ///
    /// # Safety
    ///
    /// The task is at `place`, which is not used after this.
    #[inline]
    unsafe fn start(&mut self, place: &MaybeUninit<RawTask>, flags: Flags, deadline: u64) {
        let live = &self.live;
        // SAFETY: the task is there.
        let task: &RawTask = unsafe { place.assume_init_ref() };
        // SAFETY: called once, and the place is not used after that.
        let moved_out = || unsafe { place.assume_init_read() };
        let way = way_of(live, flags.is_inline());
        let together = matches!(way, Way::Here) && task.is_together();
        let stays = together && self.row.takes(task);
        if !(stays || self.row.is_empty()) {
            run_whole_row(live, &mut self.row, &mut self.batch, &mut self.runs);
        }
        DriverCounts::add(&live.counts.fired, 1);
        let immediate = flags.is_immediate();
        match way {
            Way::Here => {
                let late = self.runs.begin(task, deadline, &live.clock, &live.reporter);
                if self.meter.has_passed(self.runs.now()) {
                    let due = live.fires_at(Deadline { at: deadline, immediate });
                    let late = self.runs.now().saturating_sub(due);
                    self.meter.beat(self.runs.now(), late, &live.pace);
                }
                // (The thread that runs the real task records how late that is.)
                if !task.hands_over() {
                    live.counts.lateness.record(late, 1);
                }
                if together {
                    self.row.add(moved_out());
                } else {
                    // SAFETY: the place is not used after this.
                    unsafe { self.batch.run(live, &mut self.runs, task) };
                }
            }
            Way::Pool(pool) => {
                // (This takes no time that would be worth a note of the run clock: 3 ns a task.)
                if self.batch.add((live, pool), &mut self.runs, moved_out(), deadline) {
                    self.runs.many_ran();
                }
            }
            Way::Other(executor) => {
                // First: what it notes ends here, and the hand-over is to be noted by itself.
                let before = match &live.reporter.late {
                    Some(_) => {
                        let now = live.clock.now();
                        self.runs.history((deadline, now), None, &live.reporter)
                    }
                    None => None,
                };
                self.runs.begin_hand_over(task, deadline, &live.clock, &live.reporter);
                hand_over(live, executor, moved_out(), deadline, (self.runs.now(), before));
            }
        }
    }

    /// Runs the tasks that wait to be run together, before any other.
    #[inline]
    fn run_row(&mut self) {
        if !self.row.is_empty() {
            let Self { live, row, batch, runs, .. } = self;
            run_whole_row(live, row, batch, runs);
        }
    }

    /// An entry of a lane has come up whose deadline was moved further out at the last moment.
    ///
    /// # Safety
    ///
    /// The entry is local and armed, and the driver has popped it from the due list.
    unsafe fn send_back(&self, entry: *mut Entry) {
        Entry::assert_address(entry);
        // SAFETY: only the driver touches the links of an entry that it has popped from the due
        // list. An armed entry stays alive. It says that it is queued until it is popped again.
        unsafe {
            debug_assert!(CHECKED || (*entry).state.flags().is_local(), "the entry is not local");
            let lane = self.live.arena.lanes.lane((*entry).state.lane());
            let wheel = lane.wheel().expect("a local entry's lane has a wheel");
            let tick = self.live.tick.at_or_after((*entry).deadline());
            wheel.intake.push(entry);
            lane.ask_for_visit(tick);
        }
    }

    fn give_back(&mut self) {
        for (_, lane) in self.going_back.drain(..) {
            // SAFETY: lanes live as long as the core, of which the driver, the caller, has a share.
            unsafe { (*lane).flush() };
        }
    }

    /// Whether nothing has been pushed into the channels that was not taken in.
    pub(crate) fn nothing_to_take_in(&self) -> bool {
        // SAFETY: there is one driver, the caller, and it is the only consumer of the channels.
        self.live.arena.lanes.channels().iter().all(|channel| unsafe { channel.intake.is_empty() })
    }

    /// Ends the scheduling and keeps the promise of `stop`: everything that was accepted and has
    /// neither started nor been cancelled is handed back. Later calls do nothing.
    pub(crate) fn finish(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        let live = Arc::clone(&self.live);
        self.batch.leave(&live, &mut self.runs);
        self.take_in_the_rest(&live);
        // In the order in which `gather` would come to them. The gates stay shut.
        let mut pending = Vec::new();
        self.held.give_up();
        while let Some(entry) =
            self.held.pop().or_else(|| self.due.pop()).or_else(|| self.wheel.pop_any())
        {
            // SAFETY: it was in a list, or in the wheel, of this driver.
            unsafe { hand_back(&live, entry, &mut pending) };
        }
        self.visits.each(|wheel, _| {
            while let Some(entry) = wheel.pop_any() {
                // SAFETY: it was in a wheel whose gate the driver has shut.
                unsafe { hand_back(&live, entry, &mut pending) };
            }
        });
        self.give_back();
        self.end_walks();
        DriverCounts::add(&live.counts.handed_back, pending.len() as u64);
        pending.sort_by_key(|&(deadline, _)| deadline);
        live.stop.resolve(pending.into_iter().map(|(_, task)| task).collect());
    }

    /// Refuses what comes from now on, and takes in all that was accepted before. The gates of all
    /// lanes are shut after that.
    fn take_in_the_rest(&mut self, live: &Live) {
        // From here on a producer that pushes takes its task back, unless the driver has it
        // already.
        live.sleep.announce_stopped();
        live.arena.lanes.close_wheels();
        self.visits.update(&live.arena.lanes);
        self.visits.want_all();
        let mut spins = 0;
        // A thread may be in the middle of a batch, or have been interrupted behind its gate or in
        // the middle of a push. Only that thread can go on, so wait for it: its task may have been
        // accepted.
        loop {
            let back = &mut self.going_back;
            // Asked before the drain, which then finds all that has come in before.
            let pushes = live.arena.lanes.channels().iter().any(Channel::has_batch);
            let batch = pushes || self.visits.have_batch();
            self.visits.enter();
            // All that is there: others may go on to move deadlines, and push for each move.
            let bounds = (usize::MAX, 0);
            self.visits.begin((self.now, live.tick), bounds, |entry| free(live, back, entry));
            if !batch
                && !self.visits.is_waiting()
                && self.drain_channels(usize::MAX) == Intaken::All
            {
                break;
            }
            relax(spins);
            spins = spins.saturating_add(1);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Nobody will turn it again, so producers have to learn that.
        self.finish();
    }
}

#[inline(never)]
fn run_whole_row(live: &Live, row: &mut Row, batch: &mut Batch, runs: &mut RunClock) {
    // Tasks fired before them must not wait until they are done.
    batch.leave(live, runs);
    while !row.is_empty() {
        // A task that has run is out of the row, even if it panicked.
        let first = row.first();
        runs.run_now(first);
        live.reporter.contain_of(first, PanicIn::Task, || row.run());
        runs.many_ran();
    }
}

/// Adds the task of an entry that will not be fired to what is handed back, with its deadline,
/// unless it was cancelled.
///
/// # Safety
///
/// The driver, which calls this, has just taken the entry out of its due list, out of what it held
/// back, or out of a wheel that it holds.
unsafe fn hand_back(live: &Live, entry: *mut Entry, pending: &mut Vec<(u64, Pending)>) {
    // SAFETY: the entry was in a list or a wheel, so it is alive. The task is taken only where
    // `take` gave it to the driver. After `leave` the entry is not touched.
    unsafe {
        let in_hand = &live.arena.lanes.in_hand;
        let taken = (*entry).state.take(|| true, || in_hand.begin(entry));
        if let Take::Taken { flags, entry: whose } = taken {
            let deadline = (*entry).deadline();
            let due = live.clock.instant(deadline);
            let task = (*entry).take_task();
            let reporter = Arc::clone(&live.reporter);
            // (If nobody refers to the entry, the arena frees it at its own end.)
            if whose == Taken::Held {
                let _ = (*entry).state.leave();
            }
            pending.push((deadline, Pending::new(task, flags, due, reporter)));
            if !flags.is_repeat() {
                live.release_places(1);
            }
        }
        in_hand.end();
    }
}

/// Advances one wheel towards `tick`, unless entries of an earlier tick are left. False if the
/// budget `moves` does not suffice.
fn advance(wheel: &mut Wheel, tick: u64, moves: &mut usize, sorted: bool) -> bool {
    if !wheel.has_due() {
        match wheel.advance(tick, moves) {
            Advance::Due if sorted => wheel.sort_due(),
            Advance::Due | Advance::Reached => {}
            Advance::Working => return false,
        }
    }
    true
}

/// Sends an entry that nobody refers to back to its lane, at the end of the step.
fn free(live: &Live, going_back: &mut Vec<(usize, *const Lane)>, entry: *mut Entry) {
    // SAFETY: only the driver calls this, and it has found that nobody else refers to the entry.
    // Lanes live as long as the core, of which the driver has a share.
    unsafe {
        let number = (*entry).state.set_free();
        match going_back.last() {
            // In a burst nearly all are of one lane, which need not be looked up.
            Some(&(last, lane)) if last == number => {
                let _ = (*lane).take_back(entry);
            }
            _ => {
                let lane = live.arena.lanes.lane(number);
                if lane.take_back(entry) {
                    going_back.push((number, lane));
                }
            }
        }
    }
}
