//! The entry's one atomic word: who owns the task, and who still refers to the entry.
//!
//! ```text
//!  31          16 15          9    8      7      6      5      4      3    2..0
//! +--------------+-------------+------+------+------+------+------+------+------+
//! | lane         |  0          |repeat|close |inline| now  |orphan|handle| phase|
//! +--------------+-------------+------+------+------+------+------+------+------+
//! ```
//!
//! | phase | the task belongs to | the entry is in | leaves by |
//! |---|---|---|---|
//! | `FREE` | nobody: there is none | a stash, or a stack of returned entries | `publish` (its finder) |
//! | `QUEUED` | whoever leaves the phase | an intake queue, or on its way there | `arm` (driver), `cancel` (handle), `refuse` (scheduling thread) |
//! | `ARMED` | whoever leaves the phase | the wheel or the due list | `take` (driver), `cancel` (handle) |
//! | `TAKEN` | the driver, which runs it or hands it back | the limbo list, if the handle is alive | `free` (driver) |
//! | `CANCELLED` | the canceller, which drops it | where it was; if it was armed, the cancel stack too | `free` (driver) |
//!
//! Each arrow out of `QUEUED` and `ARMED` is one compare-and-swap, so exactly one party gets the
//! task. The handle bit is set for as long as a [`Cancellable`](crate::Cancellable) refers to the
//! entry; only the driver frees entries, and only when it sees the bit clear. Clearing it is the
//! last thing a handle does, unless the orphan bit tells it that the scheduler is gone and is
//! waiting for it.
//!
//! All transitions are `AcqRel`: whoever wins one sees all that the earlier owners of the entry
//! did to it, and what it did itself is seen by the next. On x86 they cost the same as relaxed
//! ones.

use crate::sync::{AtomicU32, Ordering};

const PHASE: u32 = 0b111;
const FREE: u32 = 0;
const QUEUED: u32 = 1;
const ARMED: u32 = 2;
const TAKEN: u32 = 3;
const CANCELLED: u32 = 4;

const HANDLE: u32 = 1 << 3;
const ORPHAN: u32 = 1 << 4;
const IMMEDIATE: u32 = 1 << 5;
const INLINE: u32 = 1 << 6;
const RUN_ON_CLOSE: u32 = 1 << 7;
const REPEAT: u32 = 1 << 8;
const LANE_SHIFT: u32 = 16;

/// Facts about a task that the driver needs, carried in the state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u32);

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
    fn with(self, bit: u32, on: bool) -> Self {
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
    pub(crate) fn is_repeat(self) -> bool {
        self.0 & REPEAT != 0
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
    Taken(Flags),
    /// It was cancelled; the entry is, or will be, on the cancel stack.
    Cancelled,
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
    /// The scheduler lives and will free the entry.
    ToScheduler,
    /// The scheduler is gone and waits for this handle.
    Orphan,
}

#[derive(Debug)]
pub(crate) struct State(AtomicU32);

impl State {
    pub(crate) fn free() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// A new life: queued, with a handle. Only the finder of a free entry calls this, before it
    /// lets anybody see the entry.
    pub(crate) fn publish(&self, flags: Flags) {
        // Relaxed: the entry is the caller's alone; the push into the intake publishes it. The
        // lane stays what it was.
        let lane = self.0.load(Ordering::Relaxed) >> LANE_SHIFT << LANE_SHIFT;
        self.0.store(lane | QUEUED | HANDLE | flags.0, Ordering::Relaxed);
    }

    /// The lane whose threads use this entry.
    pub(crate) fn lane(&self) -> usize {
        // Relaxed: set once, when the entry is made, by the thread that shares it afterwards.
        (self.0.load(Ordering::Relaxed) >> LANE_SHIFT) as usize
    }

    /// Assigns a fresh entry to a lane.
    pub(crate) fn set_lane(&self, lane: usize) {
        debug_assert!(lane < 1 << 16);
        // Relaxed: the entry has not been shared yet.
        self.0.store(FREE | (lane as u32) << LANE_SHIFT, Ordering::Relaxed);
    }

    /// `QUEUED` to `ARMED`, by the driver that popped the entry from the intake.
    pub(crate) fn arm(&self) -> Arm {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            match seen & PHASE {
                QUEUED => match self.swap(seen, (seen & !PHASE) | ARMED) {
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

    /// `ARMED` to `TAKEN`, by the driver: from here the task runs or is handed back.
    pub(crate) fn take(&self) -> Take {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            match seen & PHASE {
                ARMED => match self.swap(seen, (seen & !PHASE) | TAKEN) {
                    Ok(_) => return Take::Taken(Flags(seen)),
                    Err(now) => seen = now,
                },
                phase => {
                    debug_assert_eq!(phase, CANCELLED);
                    return Take::Cancelled;
                }
            }
        }
    }

    /// Out of `QUEUED` or `ARMED` to `CANCELLED`, by a handle on any thread.
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

    fn swap(&self, from: u32, to: u32) -> Result<u32, u32> {
        // Strong: the loops above run once unless there is a real race.
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// The handle is dropped. Unless this says `Orphan`, the entry must not be touched again.
    pub(crate) fn release_handle(&self) -> Released {
        let before = self.0.fetch_and(!HANDLE, Ordering::AcqRel);
        debug_assert!(before & HANDLE != 0);
        if before & ORPHAN == 0 { Released::ToScheduler } else { Released::Orphan }
    }

    /// The scheduler is going away. Says whether a handle still refers to the entry.
    pub(crate) fn orphan(&self) -> bool {
        self.0.fetch_or(ORPHAN, Ordering::AcqRel) & HANDLE != 0
    }

    /// Whether no handle refers to the entry, so that the driver may free it.
    pub(crate) fn is_released(&self) -> bool {
        // Acquire: pairs with `release_handle`, so all that the handle did is over.
        self.0.load(Ordering::Acquire) & HANDLE == 0
    }

    /// `TAKEN` or `CANCELLED` to `FREE`, by the driver, once the entry is released.
    pub(crate) fn set_free(&self) {
        // Relaxed: nobody else refers to the entry; the push onto the returned stack publishes it.
        let lane = self.0.load(Ordering::Relaxed) >> LANE_SHIFT << LANE_SHIFT;
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
        let state = State::free();
        state.set_lane(3);
        state.publish(Flags::default().repeat(true));
        state
    }

    #[test]
    fn exactly_one_of_cancel_and_take_wins() {
        let state = queued();
        assert!(matches!(state.arm(), Arm::Armed(flags) if flags.is_repeat()));
        assert!(matches!(state.take(), Take::Taken(_)));
        assert_eq!(state.cancel(), Cancel::TooLate);
        assert!(!state.is_cancelled());

        let state = queued();
        assert_eq!(state.cancel(), Cancel::WhileQueued);
        assert_eq!(state.cancel(), Cancel::TooLate);
        assert_eq!(state.arm(), Arm::Cancelled);
        assert!(state.is_cancelled());

        let state = queued();
        assert!(matches!(state.arm(), Arm::Armed(_)));
        assert_eq!(state.cancel(), Cancel::WhileArmed);
        assert_eq!(state.take(), Take::Cancelled);
    }

    #[test]
    fn flags_and_lane_survive_every_transition() {
        let state = queued();
        let Arm::Armed(_) = state.arm() else { panic!("nobody cancelled") };
        let Take::Taken(flags) = state.take() else { panic!("nobody cancelled") };
        assert!(flags.is_repeat() && !flags.is_inline() && !flags.is_immediate());
        assert_eq!(state.lane(), 3);
        assert_eq!(state.release_handle(), Released::ToScheduler);
        assert!(state.is_released());
        state.set_free();
        assert_eq!(state.lane(), 3);
    }

    #[test]
    fn a_handle_that_outlives_the_scheduler_is_told() {
        let held = queued();
        assert!(held.orphan());
        assert_eq!(held.release_handle(), Released::Orphan);
        let dropped = queued();
        assert_eq!(dropped.release_handle(), Released::ToScheduler);
        assert!(!dropped.orphan());
    }
}
