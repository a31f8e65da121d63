//! The walk that lists what is pending, step by step between turns.
//!
//! It goes through the memory of the entries, block by block, and not through the wheels. So it
//! needs no position in a list that changes meanwhile: a timer stays in its entry from the call
//! that schedules it until it is fired or cancelled, whatever wheel and level it is in. Each entry
//! is looked at once, and so is each timer that is pending from the first step to the last.
//!
//! # What a step may read
//!
//! An entry that is armed belongs to the holder of its wheel: it cannot become free, or be filled
//! with another task, but by that holder. For an entry of the driver's own wheel that is the
//! driver, which does nothing else meanwhile. For one of a lane's wheel it is the party behind that
//! lane's gate. So a step first visits the lanes that the entries of the step belong to. Then what
//! it finds armed, in the driver's wheel or in a lane that it has entered, stays as it is until the
//! step ends, but for two things that handles may do: move the deadline, which is atomic, and take
//! the task out to cancel it, which leaves the identity where it is ([`Entry::identity`]).
//!
//! Entries that are still in an intake, or belong to a lane whose owner is inside just now, are put
//! aside and looked at again after the first pass. The state word must be read as armed *behind the
//! gate*: outside it says nothing.

use std::ptr::NonNull;

use super::Driver;
use crate::engine::block::Block;
use crate::engine::entry::Entry;
use crate::engine::listing::{Found, Levels, Request};
use crate::engine::visit::TAKE_OVER;
use crate::sync::{Arc, CHECKED};

/// How many entries a step looks at: some 50 µs of work, if each is a cache miss.
const STEP: usize = if CHECKED { 4 } else { 512 };
/// How many it looks at while tasks wait to be fired.
const STEP_BUSY: usize = if CHECKED { 1 } else { 64 };
/// How many entries may be put aside, to be looked at again.
const ASIDE: usize = if CHECKED { 8 } else { 1 << 16 };
/// A level with more than 2 to the power of this many slots has neighbours counted together.
const COUNTS: u32 = 6;
/// How often in a row another look at them may find nothing new. With the pauses of the timer
/// thread that takes about 100 ms.
const IN_VAIN: u32 = if CHECKED { 1 } else { 2_048 };

/// What a [`walk`](Driver::walk) left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Walked {
    /// Nobody asks for a listing.
    Idle,
    /// There is more to look at.
    More,
    /// What is left belongs to threads that are in the middle of a call.
    Waiting,
}

/// A listing under way.
#[derive(Debug)]
pub(super) struct Walk {
    request: Request,
    /// Those that there were when it began. What comes later is in blocks or entries that need not
    /// be looked at.
    blocks: Vec<NonNull<Block>>,
    /// The first entry that has not been looked at: its block and its number in that.
    next: (usize, usize),
    aside: Vec<NonNull<Entry>>,
    /// When it was begun: what was pushed into the channels before is to be in the wheel.
    since: u64,
    /// How often in a row everything that was looked at again had to be put aside once more.
    in_vain: u32,
}

impl Driver {
    /// Goes on with a listing that somebody asked for. To be called between turns, and after
    /// [`take_in`](Self::take_in): what was pushed into a channel before the request is in the
    /// wheel.
    ///
    /// `busy` says that tasks wait to be fired.
    #[inline]
    pub(crate) fn walk(&mut self, busy: bool) -> Walked {
        if self.walks.is_empty() && !self.live.requests.is_asked() {
            return Walked::Idle;
        }
        self.walk_on(if busy { STEP_BUSY } else { STEP })
    }

    #[cold]
    fn walk_on(&mut self, most: usize) -> Walked {
        for mut request in self.live.requests.take() {
            if request.filter.levels {
                let levels = self.wheel.levels().map(|(shift, slots)| {
                    let together = slots.trailing_zeros().saturating_sub(COUNTS);
                    (shift + together, slots >> together)
                });
                request.findings.levels = Some(Levels::new(self.live.tick, levels));
            }
            let blocks = self.live.arena.blocks();
            let (next, aside, since) = ((0, 0), Vec::new(), self.live.clock.now());
            self.walks.push_back(Walk { request, blocks, next, aside, since, in_vain: 0 });
        }
        let Some(mut walk) = self.walks.pop_front() else { return Walked::Idle };
        if walk.request.is_abandoned() {
            return Walked::More;
        }
        if self.ready < walk.since {
            self.walks.push_front(walk);
            return Walked::More;
        }
        if walk.is_in_first_pass() {
            let step = walk.take_step(most);
            self.look_at(&step, &mut walk);
        } else {
            let before = walk.aside.len();
            let step = walk.take_aside(most);
            self.look_at(&step, &mut walk);
            walk.in_vain = if walk.aside.len() < before { 0 } else { walk.in_vain + 1 };
            if walk.in_vain > IN_VAIN {
                walk.request.findings.unseen += walk.aside.len() as u64;
                walk.aside.clear();
            }
        }
        if !walk.is_in_first_pass() && walk.aside.is_empty() {
            walk.request.findings.taken_at = Some(self.live.clock.now());
            walk.request.resolve();
            return Walked::More;
        }
        let waiting = walk.in_vain > 0;
        self.walks.push_front(walk);
        if waiting { Walked::Waiting } else { Walked::More }
    }

    /// Looks at the entries of a step: adds those that wait to the findings, and puts aside those
    /// that it may not look at now.
    fn look_at(&mut self, step: &[NonNull<Entry>], walk: &mut Walk) {
        let live = Arc::clone(&self.live);
        let lanes = &live.arena.lanes;
        self.visits.update(lanes);
        for entry in step {
            // SAFETY: an entry that has been written stays until the scheduler is gone.
            let state = unsafe { &entry.as_ref().state };
            let flags = state.flags();
            if state.is_waiting() && flags.is_local() {
                self.visits.want(lanes.lane(state.lane()));
            }
        }
        self.visits.enter();
        let back = &mut self.going_back;
        let bounds = (TAKE_OVER, 0);
        self.visits.begin((self.now, live.tick), bounds, |entry| super::free(&live, back, entry));
        let now = live.clock.now();
        for pointer in step {
            // SAFETY: an entry that has been written stays until the scheduler is gone.
            let entry = unsafe { pointer.as_ref() };
            let state = &entry.state;
            let Some((flags, armed)) = state.waiting() else { continue };
            if flags.is_carrier() {
                continue;
            }
            let held = !flags.is_local() || self.visits.inside(lanes.lane(flags.lane()), |_| ());
            if armed && held {
                // SAFETY: the entry is armed, and we hold its wheel: it was filled with a task, and
                // cannot become free before this step ends.
                let identity = unsafe { entry.identity() };
                let found = Found {
                    identity,
                    due: entry.deadline(),
                    repeat: flags.is_repeat(),
                    inline: flags.is_inline(),
                };
                walk.request.findings.add(found, &walk.request.filter, now);
            } else if walk.aside.len() < ASIDE {
                walk.aside.push(*pointer);
            } else {
                walk.request.findings.unseen += 1;
            }
        }
        self.visits.leave();
        self.give_back();
    }

    /// The scheduler has stopped: nothing is pending.
    pub(super) fn end_walks(&mut self) {
        for walk in self.walks.drain(..) {
            walk.request.resolve_empty();
        }
        self.live.requests.close();
    }
}

impl Walk {
    fn is_in_first_pass(&self) -> bool {
        self.next.0 < self.blocks.len()
    }

    /// The next entries, at most `most`.
    fn take_step(&mut self, most: usize) -> Vec<NonNull<Entry>> {
        let mut step = Vec::with_capacity(most);
        while step.len() < most
            && let Some(block) = self.blocks.get(self.next.0)
        {
            // SAFETY: blocks live as long as the arena, and that as long as the driver.
            let entries = unsafe { block.as_ref() }.entries();
            let rest = entries.get(self.next.1..).unwrap_or_default();
            let taken = rest.len().min(most - step.len());
            step.extend(rest[..taken].iter().map(NonNull::from));
            self.next.1 += taken;
            if taken == rest.len() {
                self.next = (self.next.0 + 1, 0);
            }
        }
        step
    }

    /// Entries that were put aside, at most `most`.
    fn take_aside(&mut self, most: usize) -> Vec<NonNull<Entry>> {
        let taken = self.aside.len().min(most);
        self.aside.drain(..taken).collect()
    }
}
