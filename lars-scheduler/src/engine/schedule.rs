//! The calling side: how a filled entry reaches a wheel.
//!
//! ```text
//!   the thread has a wheel, and its gate is open:   place the entry there
//!                           and its gate is shut:   push it into the lane's intake
//!   it has none:                                    push it into the thread's channel
//! ```
//!
//! None of the three waits for another thread to do something. But a call whose thread has used up
//! its share of a timer thread that is late waits before it begins
//! ([`share`](crate::engine::share)), and one that finds the gate shut yields. A thread's timers
//! with equal deadlines keep their order: an owner behind the gate drains the lane's intake first,
//! and the driver serves its own wheel, which has a thread's first timers, before those of the
//! lanes.

use std::ptr::{self, NonNull};

use crate::base::backpressure::Backpressure;
use crate::base::deadline::Deadline;
use crate::base::error::Refusal;
use crate::engine::entry::state::Flags;
use crate::engine::entry::{Entry, Whereabouts};
use crate::engine::lane::{For, LaneWheel, OwnLane};
use crate::engine::lanes::Channel;
use crate::engine::place::{Drained, place, retire};
use crate::engine::shared::Core;
use crate::engine::sleep_word::AfterPush;
use crate::engine::wheel::Wheel;
use crate::sync::{CHECKED, relax, yield_now};

/// After this many calls of one thread that leave work for the driver, a sleeping timer thread is
/// woken to do it.
///
/// A wake-up costs the caller about 15 µs: 1 ns for each of these calls. The entries that wait for
/// it take at most 1 MiB, and it takes less than a millisecond to take them in.
pub(crate) const BACKLOG: u64 = 16_384;

/// How many cancelled entries an owner collects at once: more than there were calls since it last
/// looked.
const COLLECT: usize = if CHECKED { 2 } else { 128 };

/// How many entries of a batch an owner places at a time: fewer than the driver takes out of an
/// intake in one visit, so that a piece on that way does not hold it up.
const PIECE: usize = if CHECKED { 1 } else { 64 };

/// How often an owner with a batch looks at its shut gate before it pushes the next piece into the
/// intake: for longer than the driver takes to take a piece out. If the owner pushed faster than
/// that, the driver would never be done with the lane, and all pieces would go that way. (With 64
/// looks all pieces of two million timers did: the thread's other timers came 6 ms late, and the
/// batch took 300 ms. With 512 it is one piece in a hundred, and 230 ms.)
const LOOKS: u32 = if CHECKED { 1 } else { 512 };

/// How many entries an owner takes over from its intake at once, so that a call stays short.
const TAKE_OVER: usize = if CHECKED { 2 } else { 64 };

impl Core {
    /// Reads the clock, and finds a free entry, as [`find`](Self::find) does, if the thread has a
    /// share left. It may wait for that before it reads the clock.
    ///
    /// This and [`enqueue`](Self::enqueue) are calls, and what is between them, the writing of the
    /// task, is inlined into the code that schedules. So the task is written straight from the
    /// caller's registers into the entry. As one inlined piece, or as one call, the task and the
    /// result went through the stack, and each copy waited for the stores before it: 7 ns.
    #[inline(never)]
    pub(crate) fn begin(&self) -> (u64, Option<NonNull<Entry>>) {
        let own = self.arena.lanes.of_this_thread();
        // The clock is read when all that comes before it is done, so a load would be waited for.
        own.prefetch();
        if !self.has_share(own, 1) {
            return (0, None);
        }
        let now = self.clock.now();
        (now, self.find(own, true))
    }

    /// Finds a free entry in the calling thread's lane, and counts it as given out. `None` if
    /// nothing is accepted any more, or if it needs a place and there is none.
    #[inline]
    pub(crate) fn find(&self, own: OwnLane<'_>, place: bool) -> Option<NonNull<Entry>> {
        self.admit(1, place).ok()?;
        let entry = self.arena.find(own, For::Task);
        own.count_accepted(1);
        NonNull::new(entry)
    }

    /// Why [`begin`](Self::begin) or [`find`](Self::find) found nothing.
    #[cold]
    pub(crate) fn refusal(&self) -> Refusal {
        match &self.limit {
            _ if self.stop.is_requested() => Refusal::Stopped,
            // (Otherwise the thread got credit first, or goes on without.)
            _ if self.pace.mode == Backpressure::Refuse
                && self.arena.lanes.of_this_thread().is_out_of_credit() =>
            {
                Refusal::Overloaded
            }
            Some(limit) => Refusal::Full { limit: limit.max() },
            None => Refusal::Stopped,
        }
    }

    /// Hands a filled entry over. If this says `Stopped`, the driver may have taken it before that,
    /// or never will.
    ///
    /// # Safety
    ///
    /// [`find`](Self::find) found the entry on this thread, and the caller has filled it with this
    /// deadline. No other thread has seen it. This publishes it: after that the caller has the
    /// handle bit, and the engine has the rest.
    #[inline(never)]
    pub(crate) unsafe fn enqueue(
        &self,
        entry: *mut Entry,
        now: u64,
        at: u64,
        flags: Flags,
    ) -> AfterPush {
        Entry::assert_address(entry);
        // SAFETY: the caller found the entry, and no other thread has seen it.
        let is_mine = || unsafe { (*entry).state.is_free() && (*entry).deadline() == at };
        debug_assert!(
            CHECKED || is_mine(),
            "the entry has been published already, or has another deadline"
        );
        let due = Deadline { at, immediate: flags.is_immediate() };
        let own = self.arena.lanes.of_this_thread();
        let Some(wheel) = self.arena.lanes.wheel_of(own, now) else {
            own.begin_to_earn(now);
            // SAFETY: the caller hands it over.
            return unsafe { self.enqueue_in_channel(own, entry, flags, due) };
        };
        let (number, flags) = (own.lane.number(), flags.local(true));
        if own.lane.gate().enter() {
            // SAFETY: the owner, the calling thread, has entered the gate. No other thread has seen
            // the entry, so it is in no list.
            let visit = unsafe {
                wheel.with(|inner| {
                    if wheel.is_time_to_look() {
                        self.collect(own, wheel, inner);
                    }
                    self.take_over(own, wheel, inner, now).then(|| {
                        (*entry).state.publish_armed(number, flags);
                        inner.catch_up(now);
                        inner.place_at(entry, due)
                    })
                })
            };
            let asks = visit.filter(|&tick| !own.lane.expects_visit_by(tick));
            own.lane.gate().leave();
            if let Some(tick) = asks {
                own.lane.ask_for_visit(tick);
                // (If the driver has stopped, it shut the gate after we had passed, and has the
                // entry.)
                let _ = self.sleep.after_push(self.visit_by(tick));
            }
            if visit.is_some() {
                return AfterPush::Seen;
            }
        }
        // SAFETY: no other thread has seen the entry before the push. It was not published above:
        // the gate was shut, or the intake could not be emptied.
        unsafe {
            (*entry).state.publish(number, flags);
            wheel.intake.push(entry);
        }
        let seen = self.pushed_local(own, wheel, 1, due);
        // The driver may have been interrupted inside, and need this very processor.
        yield_now();
        seen
    }

    /// Hands a filled entry over, for a thread without a wheel.
    ///
    /// # Safety
    ///
    /// Same as [`enqueue`](Self::enqueue).
    #[inline]
    unsafe fn enqueue_in_channel(
        &self,
        own: OwnLane<'_>,
        entry: *mut Entry,
        flags: Flags,
        due: Deadline,
    ) -> AfterPush {
        let lanes = &self.arena.lanes;
        // SAFETY: no other thread has seen the entry before the push. An entry with a handle or in
        // an intake stays alive.
        unsafe {
            (*entry).state.publish(own.lane.number(), flags);
            lanes.channel_of(own).intake.push(entry);
        }
        let seen = self.pushed(own, 1, self.pop_by(due));
        lanes.seek_wheel(own);
        seen
    }

    /// After a push into the intake of a lane: asks for a visit.
    pub(crate) fn pushed_local(
        &self,
        own: OwnLane<'_>,
        wheel: &LaneWheel,
        entries: u64,
        due: Deadline,
    ) -> AfterPush {
        wheel.lane().ask_for_visit(self.tick_of(due));
        self.pushed(own, entries, self.pop_by(due))
    }

    /// After a push: checks whether the driver will pop the entry in time.
    pub(crate) fn pushed(&self, own: OwnLane<'_>, entries: u64, pop_by: u64) -> AfterPush {
        let seen = self.sleep.after_push(pop_by);
        if seen == AfterPush::Seen {
            self.count_backlog(own, entries);
        }
        seen
    }

    /// Counts entries that wait for the driver. It is woken now and then to collect them;
    /// otherwise, after an hour's sleep, it would find an hour's worth of them.
    pub(crate) fn count_backlog(&self, own: OwnLane<'_>, entries: u64) {
        if own.add_backlog(entries, BACKLOG) {
            self.have_collected();
            self.sleep.wake();
        }
    }

    /// Asks the driver to collect what is cancelled in lanes whose owners do not come, and to see
    /// whether the owners that come are fast enough.
    #[cold]
    pub(crate) fn have_collected(&self) {
        let lanes = &self.arena.lanes;
        let mut next = lanes.newest_wheel();
        // SAFETY: wheels live as long as the lanes, and so as long as `self`.
        while let Some(wheel) = unsafe { next.as_ref() } {
            if wheel.have_collected() {
                lanes.watch_owners();
            }
            next = wheel.older;
        }
    }

    /// Unlinks what other threads have cancelled in the lane's wheel, up to a limit.
    ///
    /// What is not in the wheel any more is due, or in the intake on its way back from there. The
    /// driver may be touching it just now, so it is passed on.
    ///
    /// # Safety
    ///
    /// The caller owns the lane and is behind its gate; `inner` is the wheel.
    #[inline(never)]
    unsafe fn collect(&self, own: OwnLane<'_>, wheel: &LaneWheel, inner: &mut Wheel) {
        assert_inside(own, wheel);
        for _ in 0..COLLECT {
            // SAFETY: the caller is behind the gate.
            let Some(entry) = (unsafe { wheel.next_cancelled() }) else { return };
            // SAFETY: its canceller is done with the entry, which is alive until it is retired. If
            // it is linked, then into this wheel, which the caller holds; and the driver does not
            // touch it. After `unlink` it is in no list and on no stack.
            unsafe {
                if (*entry).whereabouts() == Whereabouts::Linked {
                    inner.unlink(entry);
                    retire(entry, &mut |entry| self.free_here(own, entry));
                } else {
                    wheel.passed_on.push_chain(entry, entry);
                }
            }
        }
    }

    /// Places what is in the lane's intake, up to a limit. True if the intake is empty then.
    ///
    /// # Safety
    ///
    /// The caller owns the lane and is behind its gate; `inner` is the wheel.
    #[inline]
    pub(crate) unsafe fn take_over(
        &self,
        own: OwnLane<'_>,
        wheel: &LaneWheel,
        inner: &mut Wheel,
        now: u64,
    ) -> bool {
        assert_inside(own, wheel);
        // SAFETY: the caller is behind the gate, and so the only consumer of the lane's intake.
        if unsafe { wheel.intake.is_empty() } {
            return true;
        }
        // SAFETY: the caller is behind the gate, so it holds the wheel. It owns the lane, and
        // `drain` frees only entries that nobody else refers to.
        let came =
            unsafe { wheel.take_in(inner, now, TAKE_OVER, |entry| self.free_here(own, entry)) };
        came.drained == Drained::All
    }

    /// Gives a free entry back to its lane.
    ///
    /// # Safety
    ///
    /// The calling thread owns the lane `own`, and nobody else refers to the entry.
    unsafe fn free_here(&self, own: OwnLane<'_>, entry: *mut Entry) {
        Entry::assert_address(entry);
        debug_assert!(own.is_owner(), "a guest has no wheel to free entries from");
        // SAFETY: nobody else refers to the entry, which is free from `set_free` on. It goes into
        // the caller's supply only if it belongs to that lane.
        unsafe {
            let home = (*entry).state.set_free();
            match own.open() {
                Some(mut supply) if home == own.lane.number() => supply.put(entry),
                _ => self.arena.lanes.lane(home).give_back(entry),
            }
        }
    }

    /// Places a batch piece by piece, as single calls do: the driver, which may come in between,
    /// finds the lane ready. If this says `Stopped`, the driver has nothing of it and never will.
    /// If not, it has, or will have, all of it.
    ///
    /// # Safety
    ///
    /// The calling thread owns the lane `own`, whose wheel this is. `chain` is a list of published
    /// entries with handles, linked by their links, which no other thread has seen. This takes them
    /// over.
    pub(crate) unsafe fn place_batch(
        &self,
        own: OwnLane<'_>,
        wheel: &LaneWheel,
        mut chain: *mut Entry,
    ) -> AfterPush {
        let _under_way = wheel.begin_batch();
        if self.sleep.is_stopped() {
            return AfterPush::Stopped;
        }
        let mut looks = 0;
        while !chain.is_null() {
            self.wait_for_share(own);
            if own.lane.gate().enter() {
                looks = 0;
                // SAFETY: the owner, the calling thread, has entered the gate. No other thread has
                // seen the entries.
                chain = unsafe {
                    let rest = self.place_piece(own, wheel, chain);
                    // What was pushed before could not be taken in to its end: a producer was
                    // interrupted, or others push faster. The piece comes behind it.
                    if rest == chain { self.push_piece(own, wheel, chain) } else { rest }
                };
            } else if looks < LOOKS {
                // Only spins: if the driver was interrupted, the piece is better pushed.
                relax(0);
                looks += 1;
            } else {
                looks = 0;
                // SAFETY: no other thread has seen the entries.
                chain = unsafe { self.push_piece(own, wheel, chain) };
            }
        }
        AfterPush::Seen
    }

    /// Places the first entries of a chain, and leaves the gate. Returns the rest.
    ///
    /// # Safety
    ///
    /// Same as [`place_batch`](Self::place_batch), and the caller is behind the gate.
    unsafe fn place_piece(
        &self,
        own: OwnLane<'_>,
        wheel: &LaneWheel,
        chain: *mut Entry,
    ) -> *mut Entry {
        assert_inside(own, wheel);
        // Read for each piece: what `take_over` finds in the intake counts as complete up to this
        // instant, and until then the lane's other timers wait.
        let now = self.clock.now();
        let (mut rest, mut placed) = (chain, 0);
        // SAFETY: the caller is behind the gate, where it holds the wheel. The entries of the chain
        // are alive because they have handles, and until it is placed nobody else touches one.
        let visit = unsafe {
            wheel.with(|inner| {
                self.collect(own, wheel, inner);
                self.take_over(own, wheel, inner, now).then(|| {
                    inner.catch_up(now);
                    while placed < PIECE && !rest.is_null() {
                        let entry = rest;
                        placed += 1;
                        rest = next_in_chain(entry);
                        place(inner, entry, &mut |entry| self.free_here(own, entry));
                    }
                    inner.next_visit()
                })
            })
        };
        let asks = visit.filter(|&tick| !own.lane.expects_visit_by(tick));
        own.lane.gate().leave();
        own.charge(placed as u64);
        if let Some(tick) = asks {
            own.lane.ask_for_visit(tick);
            let _ = self.sleep.after_push(self.visit_by(tick));
        }
        rest
    }

    /// Pushes the first entries of a chain into the lane's intake. Returns the rest.
    ///
    /// # Safety
    ///
    /// Same as [`place_batch`](Self::place_batch).
    unsafe fn push_piece(
        &self,
        own: OwnLane<'_>,
        wheel: &LaneWheel,
        chain: *mut Entry,
    ) -> *mut Entry {
        // SAFETY: the entries are alive because they have handles, and nobody else touches their
        // links before the push.
        unsafe {
            let (last, rest, entries) = cut(chain);
            wheel.intake.push_chain(chain, last);
            own.charge(entries);
            // Whoever is behind the gate next takes it in, and then sees what is due when.
            let due = Deadline { at: 0, immediate: true };
            let _ = self.pushed_local(own, wheel, entries, due);
            rest
        }
    }

    /// Like [`place_batch`](Self::place_batch), for a thread without a wheel. `earliest` is the
    /// earliest deadline.
    ///
    /// # Safety
    ///
    /// Same as [`place_batch`](Self::place_batch), but for the wheel.
    pub(crate) unsafe fn push_batch(
        &self,
        own: OwnLane<'_>,
        channel: &Channel,
        mut chain: *mut Entry,
        earliest: Deadline,
    ) -> AfterPush {
        let _under_way = channel.begin_batch();
        if self.sleep.is_stopped() {
            return AfterPush::Stopped;
        }
        while !chain.is_null() {
            self.wait_for_share(own);
            // SAFETY: the entries are alive because they have handles, and nobody else touches
            // their links before the push.
            unsafe {
                let (last, rest, entries) = cut(chain);
                channel.intake.push_chain(chain, last);
                own.charge(entries);
                // (If the driver stops meanwhile, it waits for the rest.)
                let _ = self.pushed(own, entries, self.pop_by(earliest));
                chain = rest;
            }
        }
        AfterPush::Seen
    }
}

/// Finds the end of the first piece of a chain: its last entry, the rest, and how many there are.
///
/// # Safety
///
/// Nobody else touches the links of the chain. Its entries are alive, and there is one.
unsafe fn cut(chain: *mut Entry) -> (*mut Entry, *mut Entry, u64) {
    // SAFETY: the entries are alive, and nobody else touches their links.
    unsafe {
        let (mut last, mut rest, mut entries) = (chain, next_in_chain(chain), 1);
        while entries < PIECE && !rest.is_null() {
            (last, rest) = (rest, next_in_chain(rest));
            entries += 1;
        }
        (last, rest, entries as u64)
    }
}

/// The entry after this one in a chain that was not pushed, or null.
///
/// # Safety
///
/// The entry is alive, and nobody else touches its links.
unsafe fn next_in_chain(entry: *mut Entry) -> *mut Entry {
    // SAFETY: the entry is alive. The links of a chain are null or those of entries.
    unsafe {
        let next = (*Entry::links(entry)).next();
        if next.is_null() { ptr::null_mut() } else { Entry::of_links(next) }
    }
}

/// In debug builds, panics unless the calling thread owns the lane of this wheel and is behind its
/// gate. (Models do not look at the gate, because each look is one more step.)
#[inline]
fn assert_inside(own: OwnLane<'_>, wheel: &LaneWheel) {
    debug_assert!(std::ptr::eq(own.lane, wheel.lane()), "the wheel is another lane's");
    debug_assert!(own.is_owner(), "guests have no wheel");
    debug_assert!(CHECKED || own.lane.gate().has_owner(), "the owner is outside the gate");
}
