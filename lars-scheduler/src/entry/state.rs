//! The entry's one atomic word: who owns the task, and who still refers to the entry.
//!
//! ```text
//!  63    32 31  16 15 13 12   11     10     9     8      7      6      5      4      3    2..0
//! +--------+------+-----+----+-----+------+------+------+------+------+------+------+------+------+
//! | resets | lane |  0  |left|move |moving|locked|repeat|close |inline| now  |orphan|handle| phase|
//! +--------+------+-----+----+-----+------+------+------+------+------+------+------+------+------+
//! ```
//!
//! | phase | the task belongs to | the entry is in | leaves by |
//! |---|---|---|---|
//! | `FREE` | nobody: there is none | a stash, or a stack of returned entries | `publish` (its finder) |
//! | `QUEUED` | whoever leaves the phase | an intake queue, or on its way there | `arm` (driver), `cancel` (handle), `refuse` (scheduling thread) |
//! | `ARMED` | whoever leaves the phase | the wheel or the due list | `take` (driver), `cancel` (handle) |
//! | `TAKEN` | the driver, which runs it or hands it back | no list; at last the stack of dropped ones, if the handle went last | `free` (driver, or who ends the scheduler) |
//! | `CANCELLED` | the canceller, which drops it | where it was; if it was armed, the cancel stack too; at last as above | as above |
//!
//! Each arrow out of `QUEUED` and `ARMED` is one compare-and-swap, so exactly one party gets the
//! task. The handle bit is set for at least as long as a [`Cancellable`](crate::Cancellable) refers to the
//! entry. While it is clear the driver is alone with the entry, and needs no compare-and-swap to move on: a timer
//! whose cancellable was dropped costs it none.
//!
//! # Letting go
//!
//! Up to three parties refer to an entry: the driver, until it has no more to do with it; the handle; and a carrier on
//! its way, of which more below. The driver sets the `left` bit when it goes and another is still there, and then forgets
//! the entry: nothing is looked through for those that are free by now. The last one sees to it that the entry is
//! freed:
//!
//! - the driver frees it itself, also when it goes last because the carrier arrives;
//! - a handle clears its bit, and that is the last that it does. But if it finds `left`, and no carrier on its way, it
//!   *keeps* its bit and pushes the entry onto the stack of dropped ones of its lane, from where the driver frees it.
//!   The push is what lets go: up to there the bit keeps the scheduler's memory alive, and after it the handle touches
//!   nothing;
//! - when the scheduler is gone there is no driver. The orphan bit tells a handle that it is counted, and waited
//!   for ([`arena`](crate::arena)).
//!
//! # Moving a deadline
//!
//! A handle may change the deadline of an entry that waits. It takes the `locked` bit, against other
//! handles' calls only, and compares. The move holds from the compare-and-swap that adds one to `resets`,
//! which succeeds only if the entry still waits. The driver ignores the lock. It loads the word, then the
//! deadline, and fires only if its own compare-and-swap finds the word unchanged. (For the count to wrap
//! around between its two looks, it would have to be held up there while this one deadline is moved 2^32 times.)
//!
//! - *Further out*: the deadline is written before the compare-and-swap. Either the driver fires first, by the
//!   old deadline, and the move fails; or it sees the new one. The entry stays where it is in the wheel; when it
//!   comes up, the driver finds it not due and places it anew.
//! - *Nearer*: the deadline is written after the compare-and-swap, so that nothing runs by a deadline that does
//!   not hold yet. Who fires by the old deadline meanwhile is late, not early. Then a *carrier* is sent: an entry
//!   without a task, with the `move` flag, that goes through the intake and brings the driver to the other one.
//!   Until it has come, the `moving` bit keeps the other from being freed; whoever moves the deadline nearer once
//!   more meanwhile needs no second carrier.
//!
//! All transitions are `AcqRel`: whoever wins one sees all that the earlier owners of the entry
//! did to it, and what it did itself is seen by the next. On x86 they cost the same as relaxed
//! ones.

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
const MOVING: u64 = 1 << 10;
const MOVE: u64 = 1 << 11;
const LEFT: u64 = 1 << 12;
const LANE_SHIFT: u32 = 16;
const LANE: u64 = 0xffff << LANE_SHIFT;
const ONE_RESET: u64 = 1 << 32;

/// Facts about a task that the driver needs, carried in the state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u64);

impl Flags {
    pub(crate) fn immediate(self, on: bool) -> Self {
        self.with(IMMEDIATE, on)
    }
    pub(crate) fn inline(self, on: bool) -> Self {
        self.with(INLINE, on)
    }
    pub(crate) fn run_on_close(self, on: bool) -> Self {
        self.with(RUN_ON_CLOSE, on)
    }
    pub(crate) fn repeat(self, on: bool) -> Self {
        self.with(REPEAT, on)
    }
    fn with(self, bit: u64, on: bool) -> Self {
        Self(if on { self.0 | bit } else { self.0 & !bit })
    }
    pub(crate) fn is_immediate(self) -> bool {
        self.0 & IMMEDIATE != 0
    }
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
    /// Whether the entry is a carrier: it has no task, and tells the driver to look at another entry.
    pub(crate) fn is_move(self) -> bool {
        self.0 & MOVE != 0
    }
    /// Whether a handle or a carrier refers to the entry.
    #[inline]
    fn is_held(self) -> bool {
        self.0 & (HANDLE | MOVING) != 0
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
    /// The task is the driver's now. The entry is as well if nobody else refers to it; otherwise it is left to them.
    /// Even then deadline and task may still be read: who lets the entry go touches neither, and the driver itself
    /// is who will free it.
    Taken { flags: Flags, released: bool },
    /// It was cancelled; the entry is, or will be, on the cancel stack.
    Cancelled,
    /// Its deadline was moved: it is not due.
    NotDue,
}

/// What [`State::carrier_arrived`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Arrived {
    /// The entry is armed: it has to be placed anew, by the deadline that is read after this.
    Armed(Flags),
    /// It is in an intake, or does not wait any more: whoever has it sees to it.
    Late,
    /// It does not wait any more, and nobody else refers to it: free it.
    Last,
}

/// What [`State::cancel`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Cancel {
    /// The run was prevented; the driver will meet the entry in the intake.
    WhileQueued,
    /// The run was prevented; the driver has to be told to unlink the entry.
    WhileArmed,
    /// Somebody else was first: it runs, ran, was cancelled or was handed back.
    TooLate,
}

/// What [`State::release_handle`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Released {
    /// The driver has the entry, or a carrier that is on its way to it.
    ToDriver,
    /// The driver has left the entry: the handle is as it was, and has to send it to the driver.
    Left,
    /// The scheduler is gone and waits for this handle.
    Orphan,
}

#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    /// A free entry of the given lane.
    pub(crate) fn free(lane: usize) -> Self {
        debug_assert!(lane < 1 << 16);
        Self(AtomicU64::new(FREE | (lane as u64) << LANE_SHIFT))
    }

    /// A new life: queued, with a handle. Only the finder of a free entry calls this, before it
    /// lets anybody see the entry.
    #[inline]
    pub(crate) fn publish(&self, flags: Flags) {
        // Relaxed: the entry is the caller's alone; the push into the intake publishes it. The
        // lane stays what it was.
        let lane = self.0.load(Ordering::Relaxed) & LANE;
        self.0.store(lane | QUEUED | HANDLE | flags.0, Ordering::Relaxed);
    }

    /// A carrier: queued, and nobody's but the driver's.
    pub(crate) fn publish_move(&self) {
        // Relaxed: as in `publish`.
        let lane = self.0.load(Ordering::Relaxed) & LANE;
        self.0.store(lane | QUEUED | MOVE | IMMEDIATE, Ordering::Relaxed);
    }

    /// The lane whose threads use this entry.
    pub(crate) fn lane(&self) -> usize {
        // Relaxed: set once, when the entry is made, by the thread that shares it afterwards.
        ((self.0.load(Ordering::Relaxed) & LANE) >> LANE_SHIFT) as usize
    }

    /// `QUEUED` to `ARMED`, by the driver that popped the entry from the intake.
    pub(crate) fn arm(&self) -> Arm {
        // Acquire: pairs with `move_deadline` and `release_handle`.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            match seen & PHASE {
                QUEUED => match self.step(seen, (seen & !PHASE) | ARMED) {
                    Ok(_) => return Arm::Armed(Flags(seen)),
                    Err(now) => seen = now,
                },
                phase => {
                    debug_assert_eq!(phase, CANCELLED);
                    return Arm::Cancelled;
                }
            }
        }
    }

    /// `ARMED` to `TAKEN`, by the driver: from here the task runs or is handed back. Unless `is_due` says that
    /// its time has not come.
    #[inline]
    pub(crate) fn take(&self, is_due: impl Fn() -> bool) -> Take {
        // Acquire: pairs with `move_deadline`: who sees its count sees its deadline.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            match seen & PHASE {
                ARMED if !is_due() => return Take::NotDue,
                ARMED => {
                    let flags = Flags(seen);
                    let released = !flags.is_held();
                    let taken = (seen & !PHASE) | TAKEN | if released { 0 } else { LEFT };
                    match self.step(seen, taken) {
                        Ok(_) => return Take::Taken { flags, released },
                        Err(now) => seen = now,
                    }
                }
                phase => {
                    debug_assert_eq!(phase, CANCELLED);
                    return Take::Cancelled;
                }
            }
        }
    }

    /// A step of the driver's. Nobody else changes the word if there is no handle.
    #[inline]
    fn step(&self, from: u64, to: u64) -> Result<u64, u64> {
        if from & (HANDLE | ORPHAN) == 0 {
            // Relaxed: the driver tells itself.
            self.0.store(to, Ordering::Relaxed);
            Ok(from)
        } else {
            self.swap(from, to)
        }
    }

    /// Out of `QUEUED` or `ARMED` to `CANCELLED`, by a handle on any thread.
    #[inline]
    pub(crate) fn cancel(&self) -> Cancel {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let outcome = match seen & PHASE {
                QUEUED => Cancel::WhileQueued,
                ARMED => Cancel::WhileArmed,
                _ => return Cancel::TooLate,
            };
            match self.swap(seen, (seen & !PHASE) | CANCELLED) {
                Ok(_) => return outcome,
                Err(now) => seen = now,
            }
        }
    }

    #[inline]
    fn swap(&self, from: u64, to: u64) -> Result<u64, u64> {
        // Strong: the loops above run once unless there is a real race.
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Takes the lock of the deadline, unless the entry does not wait any more. By a handle on any thread; the
    /// driver and cancellers go on regardless.
    pub(crate) fn lock_deadline(&self) -> bool {
        let mut spins = 0;
        // Relaxed: what is read here is only compared.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if !matches!(seen & PHASE, QUEUED | ARMED) {
                return false;
            }
            if seen & LOCKED != 0 {
                relax(spins);
                spins = spins.saturating_add(1);
                seen = self.0.load(Ordering::Relaxed);
                continue;
            }
            match self.swap(seen, seen | LOCKED) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Makes the move of a deadline hold. Says whether the entry still waits; if it does not, there is no lock
    /// any more, as nobody will ask for it in this life of the entry.
    pub(crate) fn move_deadline(&self, immediate: bool, unlock: bool) -> bool {
        // Relaxed: what is read here is only compared.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if !matches!(seen & PHASE, QUEUED | ARMED) {
                return false;
            }
            let kept = seen & !IMMEDIATE & if unlock { !LOCKED } else { !0 };
            let to = (kept | if immediate { IMMEDIATE } else { 0 }).wrapping_add(ONE_RESET);
            match self.swap(seen, to) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// After the deadline was written that holds since [`move_deadline`](Self::move_deadline). Says whether the
    /// caller has to send a carrier and give the lock back after that; otherwise this has given it back.
    pub(crate) fn call_carrier(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if !matches!(seen & PHASE, QUEUED | ARMED) {
                return false;
            }
            // A carrier that has not arrived yet reads the deadline after this, which is a release of what we wrote.
            let on_its_way = seen & MOVING != 0;
            match self.swap(seen, if on_its_way { seen & !LOCKED } else { seen | MOVING }) {
                Ok(_) => return !on_its_way,
                Err(now) => seen = now,
            }
        }
    }

    /// Gives the lock back after the carrier was sent.
    pub(crate) fn unlock_deadline(&self) {
        // AcqRel: the next to lock comes after the push of the carrier.
        self.0.fetch_and(!LOCKED, Ordering::AcqRel);
    }

    /// The carrier has come.
    pub(crate) fn carrier_arrived(&self) -> Arrived {
        let before = self.0.fetch_and(!MOVING, Ordering::AcqRel);
        debug_assert!(before & MOVING != 0, "it is not freed before its carrier has come");
        match before & PHASE {
            ARMED => Arrived::Armed(Flags(before)),
            _ if before & (LEFT | HANDLE) == LEFT => Arrived::Last,
            _ => Arrived::Late,
        }
    }

    /// The handle is dropped. If this says `ToDriver`, the entry must not be touched again.
    #[inline]
    pub(crate) fn release_handle(&self) -> Released {
        // Acquire: pairs with the steps of the driver that left the entry.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            debug_assert!(seen & HANDLE != 0);
            if seen & (LEFT | MOVING) == LEFT {
                return Released::Left;
            }
            match self.swap(seen, seen & !HANDLE) {
                Ok(_) if seen & ORPHAN == 0 => return Released::ToDriver,
                Ok(_) => return Released::Orphan,
                Err(now) => seen = now,
            }
        }
    }

    /// The same, if there is no driver any more to send the entry to.
    #[cold]
    pub(crate) fn release_handle_at_the_end(&self) -> Released {
        let before = self.0.fetch_and(!HANDLE, Ordering::AcqRel);
        debug_assert!(before & HANDLE != 0);
        if before & ORPHAN == 0 { Released::ToDriver } else { Released::Orphan }
    }

    /// The scheduler is going away. Says whether a handle still refers to the entry.
    pub(crate) fn orphan(&self) -> bool {
        self.0.fetch_or(ORPHAN, Ordering::AcqRel) & HANDLE != 0
    }

    /// The driver has nothing more to do with a cancelled entry. Says whether nobody else refers to it, so that it may
    /// be freed; otherwise it is left to them.
    pub(crate) fn leave(&self) -> bool {
        // Acquire: pairs with `release_handle`, so all that the handle did is over.
        let seen = Flags(self.0.load(Ordering::Acquire));
        !seen.is_held() || !Flags(self.0.fetch_or(LEFT, Ordering::AcqRel)).is_held()
    }

    /// `TAKEN` or `CANCELLED` to `FREE`, by the driver, once nobody else refers to the entry; or by whoever ends the
    /// scheduler.
    pub(crate) fn set_free(&self) {
        // Relaxed: nobody else refers to the entry; the push onto the returned stack publishes it. (At the end of the
        // scheduler nobody uses it again.)
        let lane = self.0.load(Ordering::Relaxed) & LANE;
        self.0.store(lane | FREE, Ordering::Relaxed);
    }

    /// Whether the task is a run of a repeat.
    pub(crate) fn is_repeat(&self) -> bool {
        // Relaxed: set once, before the entry is published.
        self.0.load(Ordering::Relaxed) & REPEAT != 0
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire: who sees the cancellation sees what the canceller did before it.
        self.0.load(Ordering::Acquire) & PHASE == CANCELLED
    }

    /// Whether the task is still waiting.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire) & PHASE, QUEUED | ARMED)
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;

    fn queued() -> State {
        let state = State::free(3);
        state.publish(Flags::default().repeat(true));
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
        assert!(matches!(state.take(|| true), Take::Taken { released: false, .. }));
        assert_eq!(state.cancel(), Cancel::TooLate);
        assert!(!state.is_cancelled());

        let state = queued();
        assert_eq!(state.cancel(), Cancel::WhileQueued);
        assert_eq!(state.cancel(), Cancel::TooLate);
        assert_eq!(state.arm(), Arm::Cancelled);
        assert!(state.is_cancelled());

        let state = armed();
        assert_eq!(state.cancel(), Cancel::WhileArmed);
        assert_eq!(state.take(|| true), Take::Cancelled);
    }

    #[test]
    fn flags_and_lane_survive_every_transition() {
        let state = armed();
        assert_eq!(state.release_handle(), Released::ToDriver);
        let Take::Taken { flags, released } = state.take(|| true) else { panic!("not cancelled") };
        assert!(flags.is_repeat() && !flags.is_inline() && !flags.is_immediate());
        assert_eq!(state.lane(), 3);
        assert!(released);
        state.set_free();
        assert_eq!(state.lane(), 3);
    }

    #[test]
    fn of_driver_and_handle_the_last_to_go_is_told() {
        let fired = armed();
        assert!(matches!(fired.take(|| true), Take::Taken { released: false, .. }));
        assert_eq!(fired.release_handle(), Released::Left);

        let cancelled = queued();
        assert_eq!(cancelled.cancel(), Cancel::WhileQueued);
        assert!(!cancelled.leave());
        assert_eq!(cancelled.release_handle(), Released::Left);

        let dropped = queued();
        assert_eq!(dropped.cancel(), Cancel::WhileQueued);
        assert_eq!(dropped.release_handle(), Released::ToDriver);
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
                assert_eq!(state.release_handle(), Released::ToDriver);
            }
            assert!(matches!(state.take(|| true), Take::Taken { released: false, .. }));
            if !handle_goes_first {
                assert_eq!(state.release_handle(), Released::ToDriver);
            }
            assert_eq!(state.carrier_arrived(), Arrived::Last);
        }
        let kept = armed();
        assert!(kept.lock_deadline() && kept.move_deadline(false, false));
        assert!(kept.call_carrier());
        kept.unlock_deadline();
        assert!(matches!(kept.take(|| true), Take::Taken { released: false, .. }));
        assert_eq!(kept.carrier_arrived(), Arrived::Late);
        assert_eq!(kept.release_handle(), Released::Left);
    }

    #[test]
    fn a_handle_that_outlives_the_scheduler_is_told() {
        let held = queued();
        assert!(held.orphan());
        assert_eq!(held.release_handle(), Released::Orphan);
        let left = armed();
        assert!(matches!(left.take(|| true), Take::Taken { .. }));
        assert_eq!(left.release_handle(), Released::Left);
        assert!(left.orphan());
        assert_eq!(left.release_handle_at_the_end(), Released::Orphan);
        let dropped = queued();
        assert_eq!(dropped.release_handle(), Released::ToDriver);
        assert!(!dropped.orphan());
    }
}
