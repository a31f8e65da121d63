//! The entry's one atomic word: who owns the task, and who still refers to the entry.
//!
//! | bits | name | |
//! |---|---|---|
//! | 0–2 | the phase | see below |
//! | 3 | `HANDLE` | a [`Cancellable`](crate::Cancellable) refers to the entry |
//! | 4 | `ORPHAN` | the scheduler is gone, and waits for the handle |
//! | 5 | `IMMEDIATE` | the task does not wait for a tick |
//! | 6 | `INLINE` | it runs on the timer thread |
//! | 7 | `RUN_ON_CLOSE` | `close` runs it where it drops others |
//! | 8 | `REPEAT` | it is a run of a repeat |
//! | 9 | `LOCKED` | a handle is changing the deadline |
//! | 10 | `CARRIER_SENT` | a carrier is on its way that will look at this entry |
//! | 11 | `CARRIER` | the entry is one itself: it has no task |
//! | 12 | `LEFT` | the engine is done with the entry, and leaves it to the handle or the carrier |
//! | 13 | `LOCAL` | it waits in the wheel of its lane, or is on the way there (if clear: of the driver) |
//! | 16–31 | the lane | whose threads use the entry |
//! | 32–63 | resets | how often the deadline was moved |
//!
//! | phase | the task belongs to | the entry is in | leaves by |
//! |---|---|---|---|
//! | `FREE` | nobody: there is none | a supply, or a stack of returned entries | `publish`, `publish_armed` (its finder) |
//! | `QUEUED` | the party that ends the phase | an intake queue, or on its way there | `arm` (the consumer of the intake), `cancel` (handle), also to refuse it (scheduling thread) |
//! | `ARMED` | the party that ends the phase | a wheel or the due list | `take` (driver), `cancel` (handle) |
//! | `TAKEN` | the driver, which runs it or hands it back | no list; at last the stack of dropped ones, if the handle went last | `set_free` |
//! | `CANCELLED` | the canceller, which drops it | where it was, or nowhere (`cancel_linked`); if it was armed and stayed there, a cancel stack too; at last no list, or the stack of dropped ones | `set_free` |
//!
//! Each arrow out of `QUEUED` and `ARMED` is one compare-and-swap, so exactly one party gets the
//! task. The handle bit is set for at least as long as a [`Cancellable`](crate::Cancellable) refers
//! to the entry. While it is clear, only the engine refers to the entry, and it moves on with plain
//! stores: a timer whose cancellable was dropped costs no compare-and-swap.
//!
//! # Letting go
//!
//! Up to three parties refer to an entry: the engine (the driver, or the owner of its lane behind
//! the lane's gate), until it is done with it; the handle; and a carrier on its way (see below). If
//! the engine is done while another party remains, it sets `LEFT` and forgets the entry. (When it
//! takes a task and a handle remains, it sets `LEFT` in the same step, and the task is moved out
//! after that. Meanwhile the entry is *in hand*, and is not used again: see
//! [`in_hand`](crate::engine::in_hand).) The last party makes sure that the entry is freed:
//!
//! - the engine frees it itself, even if it is last only because the carrier arrives;
//! - a handle clears its bit, and touches the entry no more. But if it finds `LEFT`, and no carrier
//!   on its way, the entry is its own, and it *keeps* its bit while it gives the entry back: to the
//!   supply of its own lane, behind the gate, or with a push onto the stack of dropped entries of
//!   the lane that the entry belongs to. Leaving the gate, or the push, is the release: until then
//!   the bit, or the gate, keeps the scheduler's memory alive, and after it the handle touches
//!   nothing;
//! - when the scheduler is gone, the orphan bit tells a handle that it is counted, and that its
//!   report is awaited ([`arena`](crate::engine::arena)).
//!
//! # Moving a deadline
//!
//! A handle may change the deadline of an entry that waits. It sets `LOCKED`, against other
//! handles' calls only. The move holds from the compare-and-swap that adds one to the resets, which
//! succeeds only if the entry still waits. The driver ignores the lock: it loads the word, then the
//! deadline, and fires only if its own compare-and-swap finds the word unchanged. (The count could
//! only wrap around between its two looks if this one deadline were moved 2^32 times in between.)
//!
//! ```text
//!   further out                              nearer
//!   set LOCKED                               set LOCKED
//!   write the deadline                       add one to the resets: it holds
//!   add one to the resets, clear LOCKED      write the deadline
//!                                            re-place the entry, or send a carrier; clear LOCKED
//! ```
//!
//! - *Further out*: either the driver fires first, by the old deadline, and the move fails; or it
//!   sees the new one. The entry stays where it is in the wheel; when it comes up, it is not due
//!   and is placed again.
//! - *Nearer*: nothing runs by a deadline that does not hold yet. A driver that fires by the old
//!   deadline meanwhile is late, not early. Then the owner of the lane places the entry again. Any
//!   other thread sends a *carrier*: an entry without a task that goes through the intake and
//!   brings the consumer of the intake to the other one. Until the carrier has arrived,
//!   `CARRIER_SENT` keeps the other entry from being freed. A handle that moves the deadline nearer
//!   once more meanwhile needs no second carrier.
//!
//! All transitions are `AcqRel`: the winner of one sees all that earlier owners did to the entry,
//! and the next owner sees what the winner did. On x86 they cost as much as relaxed ones.

use crate::sync::{AtomicU64, Ordering, relax};

const PHASE: u64 = 0b111;
const FREE: u64 = 0;
const QUEUED: u64 = 1;
const ARMED: u64 = 2;
const TAKEN: u64 = 3;
const CANCELLED: u64 = 4;

const HANDLE: u64 = 1 << 3;
const ORPHAN: u64 = 1 << 4;
const IMMEDIATE: u64 = 1 << 5;
const INLINE: u64 = 1 << 6;
const RUN_ON_CLOSE: u64 = 1 << 7;
const REPEAT: u64 = 1 << 8;
const LOCKED: u64 = 1 << 9;
const CARRIER_SENT: u64 = 1 << 10;
const CARRIER: u64 = 1 << 11;
const LEFT: u64 = 1 << 12;
const LOCAL: u64 = 1 << 13;
const LANE_SHIFT: u32 = 16;
const LANE: u64 = 0xffff << LANE_SHIFT;
const ONE_RESET: u64 = 1 << 32;

/// The largest number that a lane may have.
pub(crate) const LAST_LANE: usize = 0xffff;

/// Facts about a task that the driver needs, carried in the state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u64);

impl Flags {
    #[inline]
    pub(crate) fn immediate(self, on: bool) -> Self {
        self.with(IMMEDIATE, on)
    }
    #[inline]
    pub(crate) fn inline(self, on: bool) -> Self {
        self.with(INLINE, on)
    }
    #[inline]
    pub(crate) fn run_on_close(self, on: bool) -> Self {
        self.with(RUN_ON_CLOSE, on)
    }
    #[inline]
    pub(crate) fn repeat(self, on: bool) -> Self {
        self.with(REPEAT, on)
    }
    #[inline]
    pub(crate) fn local(self, on: bool) -> Self {
        self.with(LOCAL, on)
    }
    #[inline]
    fn with(self, bit: u64, on: bool) -> Self {
        Self(if on { self.0 | bit } else { self.0 & !bit })
    }
    #[inline]
    pub(crate) fn is_immediate(self) -> bool {
        self.0 & IMMEDIATE != 0
    }
    #[inline]
    pub(crate) fn is_inline(self) -> bool {
        self.0 & INLINE != 0
    }
    pub(crate) fn runs_on_close(self) -> bool {
        self.0 & RUN_ON_CLOSE != 0
    }
    #[inline]
    pub(crate) fn is_repeat(self) -> bool {
        self.0 & REPEAT != 0
    }
    /// Whether the entry is a carrier: it has no task, and tells the consumer of the intake to look
    /// at another entry.
    pub(crate) fn is_carrier(self) -> bool {
        self.0 & CARRIER != 0
    }
    /// Whether the entry waits in the wheel of its lane.
    #[inline]
    pub(crate) fn is_local(self) -> bool {
        self.0 & LOCAL != 0
    }
    /// The lane whose threads use the entry.
    pub(crate) fn lane(self) -> usize {
        ((self.0 & LANE) >> LANE_SHIFT) as usize
    }
    /// Whether the driver took the task.
    #[inline]
    pub(crate) fn is_taken(self) -> bool {
        self.0 & PHASE == TAKEN
    }
    /// Whether a handle or a carrier refers to the entry.
    #[inline]
    fn is_held(self) -> bool {
        self.0 & (HANDLE | CARRIER_SENT) != 0
    }
}

/// What [`State::arm`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Arm {
    /// The entry is armed: place it.
    Armed(Flags),
    /// It was cancelled while it was queued: retire it.
    Cancelled,
}

/// What [`State::take`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Take {
    /// The task is the driver's now.
    Taken { flags: Flags, entry: Taken },
    /// It was cancelled; the entry is, or will be, on the cancel stack.
    Cancelled,
    /// Its deadline was moved: it is not due.
    NotDue(Flags),
}

/// Whose the entry is out of which the driver takes the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The driver's alone.
    Alone,
    /// It is left to its handle already, but is not used again while the driver has it
    /// [in hand](crate::engine::in_hand).
    Left,
    /// A carrier is on its way to it: the driver has to [`leave`](State::leave) it when it has
    /// taken the task out.
    Held,
}

/// What [`State::carrier_arrived`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Arrived {
    /// The entry is armed: it has to be placed again, by the deadline that is read after this.
    Armed(Flags),
    /// It is in an intake, or does not wait any more: the party that has it deals with it.
    Late,
    /// It does not wait any more, and nobody else refers to it: free it.
    Last,
}

/// What [`State::cancel`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Cancel {
    /// The run was prevented; the consumer of the intake will come to the entry.
    WhileQueued,
    /// The run was prevented; the entry has to be unlinked.
    WhileArmed,
    /// Somebody else was first: it runs, ran, was cancelled or was handed back.
    TooLate,
}

impl Cancel {
    #[inline]
    fn of(cancelled: Result<u64, u64>) -> Self {
        match cancelled {
            Ok(before) if before & PHASE == QUEUED => Self::WhileQueued,
            Ok(_) => Self::WhileArmed,
            Err(_) => Self::TooLate,
        }
    }
}

#[inline]
fn in_lane(lane: usize) -> u64 {
    debug_assert!(lane <= LAST_LANE, "lane {lane} has too large a number");
    (lane as u64) << LANE_SHIFT
}

#[inline]
fn is_waiting(word: u64) -> bool {
    matches!(word & PHASE, QUEUED | ARMED)
}

/// What [`State::release_handle`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Released {
    /// The engine has the entry, or a carrier that is on its way to it.
    ToEngine,
    /// The engine has left the entry: the handle bit is still set, and the caller has to give the
    /// entry back.
    Left,
    /// The scheduler is gone and waits for this handle.
    Orphan,
}

#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    /// A free entry of the given lane.
    pub(crate) fn free(lane: usize) -> Self {
        Self(AtomicU64::new(FREE | in_lane(lane)))
    }

    /// Changes the word to what `f` makes of it, unless `f` says that there is nothing to change:
    /// the one compare-and-swap loop of this file. Returns what the word was: `Ok` if it was
    /// changed.
    #[inline]
    fn update(&self, mut f: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        // Acquire: a thread that sees a step sees what came before it.
        let mut seen = self.0.load(Ordering::Acquire);
        while let Some(next) = f(seen) {
            // Strong: the loop runs once unless there is a real race.
            match self.0.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(seen),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }

    /// A new life: queued, with a handle. Only the finder of a free entry calls this, before it
    /// lets anybody see the entry.
    #[inline]
    pub(crate) fn publish(&self, lane: usize, flags: Flags) {
        // Relaxed: the entry is the caller's alone; the push into the intake publishes it.
        self.0.store(in_lane(lane) | QUEUED | HANDLE | flags.0, Ordering::Relaxed);
    }

    /// A new life: in a wheel, with a handle. Only the finder of a free entry calls this, before it
    /// lets anybody see the entry, and behind the gate of the lane that the wheel belongs to.
    #[inline]
    pub(crate) fn publish_armed(&self, lane: usize, flags: Flags) {
        debug_assert!(flags.is_local(), "the entry is not local");
        // Relaxed: the entry is the caller's alone; leaving the gate publishes it.
        self.0.store(in_lane(lane) | ARMED | HANDLE | flags.0, Ordering::Relaxed);
    }

    /// A carrier: queued, and without a handle.
    pub(crate) fn publish_carrier(&self, lane: usize) {
        // Relaxed: only the finder has the entry; the push into the intake publishes it.
        self.0.store(in_lane(lane) | QUEUED | CARRIER | IMMEDIATE, Ordering::Relaxed);
    }

    /// The lane whose threads use this entry.
    #[inline]
    pub(crate) fn lane(&self) -> usize {
        // Relaxed: set before the entry is published, for the whole life that the caller is
        // concerned with.
        ((self.0.load(Ordering::Relaxed) & LANE) >> LANE_SHIFT) as usize
    }

    /// The lane whose threads use this entry, and whether it waits in the wheel of that lane.
    #[inline]
    pub(crate) fn home(&self) -> (usize, bool) {
        // Relaxed: set before the entry is published, for the whole life that the caller is
        // concerned with.
        let word = self.0.load(Ordering::Relaxed);
        (((word & LANE) >> LANE_SHIFT) as usize, word & LOCAL != 0)
    }

    /// `QUEUED` to `ARMED`, by the party that popped the entry from the intake. (An entry that was
    /// armed before and turned out not to be due comes through an intake as well.)
    pub(crate) fn arm(&self) -> Arm {
        // Acquire: pairs with `move_deadline` and `release_handle`.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            match seen & PHASE {
                ARMED => return Arm::Armed(Flags(seen)),
                QUEUED => match self.step(seen, (seen & !PHASE) | ARMED) {
                    Ok(_) => return Arm::Armed(Flags(seen)),
                    Err(now) => seen = now,
                },
                phase => {
                    debug_assert_eq!(phase, CANCELLED, "the entry neither waits nor was cancelled");
                    return Arm::Cancelled;
                }
            }
        }
    }

    /// `ARMED` to `TAKEN`, by the driver: from here the task runs or is handed back. Unless
    /// `is_due` says that its time has not come; a task that does not wait for a tick is not asked.
    /// Before the entry may be left, this calls `in_hand`, to note it.
    #[inline]
    pub(crate) fn take(&self, is_due: impl Fn() -> bool, in_hand: impl Fn()) -> Take {
        // Acquire: pairs with `move_deadline`: a driver that sees its count sees its deadline.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            match seen & PHASE {
                ARMED if seen & IMMEDIATE == 0 && !is_due() => return Take::NotDue(Flags(seen)),
                ARMED => {
                    let taken = (seen & !PHASE) | TAKEN;
                    let (to, entry) = match seen & (HANDLE | CARRIER_SENT) {
                        0 => (taken, Taken::Alone),
                        HANDLE => {
                            in_hand();
                            (taken | LEFT, Taken::Left)
                        }
                        // Its carrier frees it if it comes last, and does not look whether it is
                        // in hand.
                        _ => (taken, Taken::Held),
                    };
                    match self.step(seen, to) {
                        Ok(_) => return Take::Taken { flags: Flags(seen), entry },
                        Err(now) => seen = now,
                    }
                }
                phase => {
                    debug_assert_eq!(phase, CANCELLED, "the entry neither waits nor was cancelled");
                    return Take::Cancelled;
                }
            }
        }
    }

    /// A step of the engine's. Nobody else changes the word if there is no handle; but when the
    /// driver fires, the owner of the lane may be the one to whom a carrier comes.
    #[inline]
    fn step(&self, from: u64, to: u64) -> Result<u64, u64> {
        if from & (HANDLE | ORPHAN | CARRIER_SENT) == 0 {
            // Relaxed: the engine tells itself.
            self.0.store(to, Ordering::Relaxed);
            Ok(from)
        } else {
            self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
        }
    }

    /// What the entry is, if it waits, and whether it is armed. For a party that holds the wheel of
    /// its lane, or, if it is not local, the driver's: then an armed entry stays filled.
    pub(crate) fn waiting(&self) -> Option<(Flags, bool)> {
        // Acquire: pairs with the steps of handles. (What was written before the entry was armed is
        // ordered by the gate or the intake.)
        let seen = self.0.load(Ordering::Acquire);
        is_waiting(seen).then_some((Flags(seen), seen & PHASE == ARMED))
    }

    /// What the entry is. Changes nothing.
    #[inline]
    pub(crate) fn flags(&self) -> Flags {
        // Relaxed: what the flags say of a life of the entry is set before it is published.
        Flags(self.0.load(Ordering::Relaxed))
    }

    /// Out of `QUEUED` or `ARMED` to `CANCELLED`, by a handle on any thread.
    #[inline]
    pub(crate) fn cancel(&self) -> Cancel {
        Cancel::of(self.update(|seen| {
            matches!(seen & PHASE, QUEUED | ARMED).then_some((seen & !PHASE) | CANCELLED)
        }))
    }

    /// Out of `QUEUED` or `ARMED` to `CANCELLED`, by the owner of the entry's lane behind its gate.
    /// The owner has found the entry linked into the lane's wheel, and will unlink it. If this
    /// returns `WhileArmed`, the engine has left the entry.
    #[inline]
    pub(crate) fn cancel_linked(&self) -> Cancel {
        Cancel::of(self.update(|seen| match seen & PHASE {
            QUEUED => Some((seen & !PHASE) | CANCELLED),
            ARMED => Some((seen & !PHASE) | CANCELLED | LEFT),
            _ => None,
        }))
    }

    /// Takes the lock of the deadline, unless the entry does not wait any more. By a handle on any
    /// thread; the driver and cancellers go on regardless.
    pub(crate) fn lock_deadline(&self) -> bool {
        let mut spins = 0;
        loop {
            let locked = self
                .update(|seen| (is_waiting(seen) && seen & LOCKED == 0).then_some(seen | LOCKED));
            match locked {
                Ok(_) => return true,
                Err(seen) if !is_waiting(seen) => return false,
                Err(_) => {
                    relax(spins);
                    spins = spins.saturating_add(1);
                }
            }
        }
    }

    /// Makes the move of a deadline hold. True if the entry still waits; if not, the lock need not
    /// be released, because nobody will ask for it in this life of the entry.
    pub(crate) fn move_deadline(&self, immediate: bool, unlock: bool) -> bool {
        let moved = self.update(|seen| {
            let kept = seen & !IMMEDIATE & if unlock { !LOCKED } else { !0 };
            let to = (kept | if immediate { IMMEDIATE } else { 0 }).wrapping_add(ONE_RESET);
            is_waiting(seen).then_some(to)
        });
        moved.is_ok()
    }

    /// To be called when the deadline has been written that holds since
    /// [`move_deadline`](Self::move_deadline). True if the caller has to send a carrier and release
    /// the lock after that; otherwise this has released it.
    pub(crate) fn call_carrier(&self) -> bool {
        let called = self.update(|seen| {
            // A carrier that has not arrived yet reads the deadline after this, which is a release
            // of what we wrote.
            let on_its_way = seen & CARRIER_SENT != 0;
            is_waiting(seen).then_some(if on_its_way {
                seen & !LOCKED
            } else {
                seen | CARRIER_SENT
            })
        });
        called.is_ok_and(|before| before & CARRIER_SENT == 0)
    }

    /// Releases the lock after the carrier was sent.
    pub(crate) fn unlock_deadline(&self) {
        // AcqRel: the next to lock comes after the push of the carrier.
        self.0.fetch_and(!LOCKED, Ordering::AcqRel);
    }

    /// The carrier has come.
    pub(crate) fn carrier_arrived(&self) -> Arrived {
        let before = self.0.fetch_and(!CARRIER_SENT, Ordering::AcqRel);
        debug_assert!(before & CARRIER_SENT != 0, "it is not freed before its carrier has come");
        match before & PHASE {
            ARMED => Arrived::Armed(Flags(before)),
            _ if before & (LEFT | HANDLE) == LEFT => Arrived::Last,
            _ => Arrived::Late,
        }
    }

    /// The handle is dropped. If this says `ToEngine`, the entry must not be touched again.
    #[inline]
    pub(crate) fn release_handle(&self) -> Released {
        let released = self.update(|seen| {
            debug_assert!(seen & HANDLE != 0, "the handle is dropped twice");
            (seen & (LEFT | CARRIER_SENT) != LEFT).then_some(seen & !HANDLE)
        });
        match released {
            Ok(before) if before & ORPHAN == 0 => Released::ToEngine,
            Ok(_) => Released::Orphan,
            Err(_) => Released::Left,
        }
    }

    /// Clears the handle bit of an entry that was left to its handle, where the stack of dropped
    /// entries is closed.
    #[cold]
    pub(crate) fn release_handle_at_the_end(&self) -> Released {
        let before = self.0.fetch_and(!HANDLE, Ordering::AcqRel);
        debug_assert!(before & HANDLE != 0, "the handle is dropped twice");
        if before & ORPHAN == 0 { Released::ToEngine } else { Released::Orphan }
    }

    /// The scheduler is going away. Says whether a handle still refers to the entry.
    pub(crate) fn orphan(&self) -> bool {
        self.0.fetch_or(ORPHAN, Ordering::AcqRel) & HANDLE != 0
    }

    /// The engine has nothing more to do with an entry that was taken or cancelled, and has read
    /// what it needs of it. Says whether nobody else refers to it, so that it may be freed;
    /// otherwise it is left to them, and used again by them at once.
    pub(crate) fn leave(&self) -> bool {
        // Acquire: pairs with `release_handle`, so all that the handle did is over.
        let seen = Flags(self.0.load(Ordering::Acquire));
        !seen.is_held() || !Flags(self.0.fetch_or(LEFT, Ordering::AcqRel)).is_held()
    }

    /// `TAKEN` or `CANCELLED` to `FREE`: by the engine, once nobody else refers to the entry; by
    /// the handle behind the gate, if that went last; or by the thread that ends the scheduler.
    /// Returns the number of the entry's lane.
    #[inline]
    pub(crate) fn set_free(&self) -> usize {
        // Relaxed: nobody else refers to the entry; the push onto the returned stack publishes it.
        // (At the end of the scheduler nobody uses it again.)
        let lane = self.0.load(Ordering::Relaxed) & LANE;
        self.0.store(lane | FREE, Ordering::Relaxed);
        (lane >> LANE_SHIFT) as usize
    }

    /// For assertions: whether the entry has no task and no handle.
    pub(crate) fn is_free(&self) -> bool {
        // Relaxed: the callers know that nobody else changes the phase meanwhile.
        self.0.load(Ordering::Relaxed) & PHASE == FREE
    }

    /// For assertions: whether a handle refers to the entry.
    pub(crate) fn has_handle(&self) -> bool {
        // Relaxed: the bit is the caller's own.
        self.0.load(Ordering::Relaxed) & HANDLE != 0
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire: a thread that sees the cancellation sees what the canceller did before it.
        self.0.load(Ordering::Acquire) & PHASE == CANCELLED
    }

    /// Whether the task is still waiting.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        is_waiting(self.0.load(Ordering::Acquire))
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;

    fn queued() -> State {
        let state = State::free(3);
        state.publish(3, Flags::default().repeat(true));
        state
    }

    fn armed() -> State {
        let state = queued();
        assert!(matches!(state.arm(), Arm::Armed(flags) if flags.is_repeat()));
        state
    }

    #[test]
    fn exactly_one_of_cancel_and_take_wins() {
        let state = armed();
        assert!(matches!(state.take(|| true, || ()), Take::Taken { entry: Taken::Left, .. }));
        assert_eq!(state.cancel(), Cancel::TooLate);
        assert!(!state.is_cancelled());

        let state = queued();
        assert_eq!(state.cancel(), Cancel::WhileQueued);
        assert_eq!(state.cancel(), Cancel::TooLate);
        assert_eq!(state.arm(), Arm::Cancelled);
        assert!(state.is_cancelled());

        let state = armed();
        assert_eq!(state.cancel(), Cancel::WhileArmed);
        assert_eq!(state.take(|| true, || ()), Take::Cancelled);
    }

    #[test]
    fn flags_and_lane_survive_every_transition() {
        let state = armed();
        assert_eq!(state.release_handle(), Released::ToEngine);
        let Take::Taken { flags, entry } = state.take(|| true, || ()) else {
            panic!("not cancelled")
        };
        assert!(flags.is_repeat() && !flags.is_inline() && !flags.is_immediate());
        assert_eq!(state.lane(), 3);
        assert_eq!(entry, Taken::Alone);
        state.set_free();
        assert_eq!(state.lane(), 3);
    }

    #[test]
    fn of_driver_and_handle_the_last_to_go_is_told() {
        let fired = armed();
        assert!(matches!(fired.take(|| true, || ()), Take::Taken { entry: Taken::Left, .. }));
        assert!(!fired.leave());
        assert_eq!(fired.release_handle(), Released::Left);

        let cancelled = queued();
        assert_eq!(cancelled.cancel(), Cancel::WhileQueued);
        assert!(!cancelled.leave());
        assert_eq!(cancelled.release_handle(), Released::Left);

        let dropped = queued();
        assert_eq!(dropped.cancel(), Cancel::WhileQueued);
        assert_eq!(dropped.release_handle(), Released::ToEngine);
        assert!(dropped.leave());
    }

    #[test]
    fn an_entry_whose_carrier_is_on_its_way_is_freed_when_that_arrives() {
        for handle_goes_first in [true, false] {
            let state = armed();
            assert!(state.lock_deadline() && state.move_deadline(false, false));
            assert!(state.call_carrier());
            state.unlock_deadline();
            if handle_goes_first {
                assert_eq!(state.release_handle(), Released::ToEngine);
            }
            assert!(matches!(state.take(|| true, || ()), Take::Taken { entry: Taken::Held, .. }));
            assert!(!state.leave());
            if !handle_goes_first {
                assert_eq!(state.release_handle(), Released::ToEngine);
            }
            assert_eq!(state.carrier_arrived(), Arrived::Last);
        }
        let kept = armed();
        assert!(kept.lock_deadline() && kept.move_deadline(false, false));
        assert!(kept.call_carrier());
        kept.unlock_deadline();
        assert!(matches!(kept.take(|| true, || ()), Take::Taken { entry: Taken::Held, .. }));
        assert!(!kept.leave());
        assert_eq!(kept.carrier_arrived(), Arrived::Late);
        assert_eq!(kept.release_handle(), Released::Left);
    }

    #[test]
    fn a_handle_that_outlives_the_scheduler_is_told() {
        let held = queued();
        assert!(held.orphan());
        assert_eq!(held.release_handle(), Released::Orphan);
        let left = armed();
        assert!(matches!(left.take(|| true, || ()), Take::Taken { .. }));
        assert!(!left.leave());
        assert_eq!(left.release_handle(), Released::Left);
        assert!(left.orphan());
        assert_eq!(left.release_handle_at_the_end(), Released::Orphan);
        let dropped = queued();
        assert_eq!(dropped.release_handle(), Released::ToEngine);
        assert!(!dropped.orphan());
    }
}
