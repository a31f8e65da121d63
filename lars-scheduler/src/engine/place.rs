//! From an intake into a wheel: the steps that the owner of a lane and the driver share.

use crate::engine::entry::state::{Arm, Arrived};
use crate::engine::entry::{Entry, Whereabouts};
use crate::engine::intake::{Intake, Mark, Pop};
use crate::engine::wheel::Wheel;
use crate::sync::CHECKED;

/// What [`drain`] left in the intake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Drained {
    /// Nothing that was there when it began.
    All,
    /// A producer is in the middle of a push. Its entry, and those pushed after it, come later.
    Gap,
    /// There was more than was asked for.
    More,
}

/// What [`drain`] did.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(crate) struct TakenIn {
    pub(crate) drained: Drained,
    /// An instant: what was pushed before it is in the wheel.
    pub(crate) ready: u64,
    /// How many entries came in.
    pub(crate) entries: u64,
}

/// A mark in an intake that a drain has not come to yet, kept for the next. Whoever pops does so
/// with it. So however much is pushed meanwhile, a bounded number of entries is before it.
#[derive(Debug)]
pub(crate) struct KeptMark {
    mark: Option<Mark>,
    /// An instant before which the mark was not taken.
    taken: u64,
    /// An instant: what was pushed before it is in the wheel.
    ready: u64,
}

impl KeptMark {
    pub(crate) fn new() -> Self {
        Self { mark: None, taken: 0, ready: 0 }
    }

    /// Where a drain that has `left` of `most` entries to go has ended.
    fn ended(&self, drained: Drained, most: usize, left: usize) -> TakenIn {
        TakenIn { drained, ready: self.ready, entries: (most - left) as u64 }
    }
}

/// Places what was pushed into an intake, at most `most` entries: goes on to a mark that an earlier
/// call has kept, and then to the end as it is now. The clock showed `now` before this call.
/// Entries that nobody refers to any more go to `free`, which has to set their state free.
///
/// # Safety
///
/// The intake leads to this wheel. The caller holds the wheel, and so is the intake's only
/// consumer. The mark is of this intake, and everybody pops with it.
pub(crate) unsafe fn drain(
    intake: &Intake,
    kept: &mut KeptMark,
    wheel: &mut Wheel,
    (now, most): (u64, usize),
    mut free: impl FnMut(*mut Entry),
) -> TakenIn {
    let mut was_kept = kept.mark.is_some();
    let mut left = most;
    while left > 0 {
        let mark = kept.mark.get_or_insert_with(|| {
            kept.taken = now;
            intake.mark()
        });
        // SAFETY: the holder of the wheel is the only consumer of its intake. Whoever held it
        // since the mark was taken has popped with it.
        match unsafe { intake.pop_up_to(mark) } {
            // SAFETY: the holder of the wheel has popped the entry from the wheel's intake.
            Pop::Entry(entry) => unsafe { place(wheel, entry, &mut free) },
            Pop::Empty => {
                kept.ready = kept.ready.max(kept.taken);
                kept.mark = None;
                if !was_kept {
                    return kept.ended(Drained::All, most, left);
                }
                was_kept = false;
                continue;
            }
            Pop::Inconsistent => return kept.ended(Drained::Gap, most, left),
        }
        left -= 1;
    }
    kept.ended(Drained::More, most, left)
}

/// Places an entry that was published.
///
/// # Safety
///
/// The caller holds the wheel. It has popped the entry from the wheel's intake, or it is the owner
/// of the lane and has not pushed it.
pub(crate) unsafe fn place(
    wheel: &mut Wheel,
    entry: *mut Entry,
    free: &mut impl FnMut(*mut Entry),
) {
    Entry::assert_address(entry);
    // SAFETY: an entry that was popped, or is to be pushed, is alive, and the holder of the wheel
    // that has it has its links.
    unsafe {
        match (*entry).state.arm() {
            Arm::Armed(flags) if flags.is_carrier() => arrive(wheel, entry, free),
            Arm::Armed(flags) => drop(wheel.place(entry, flags.is_immediate())),
            Arm::Cancelled => meet_cancelled(entry, free),
        }
    }
}

/// An intake or the due list has given up a cancelled entry. If a cancel stack has the entry too,
/// or will have it, the second of the two to give it up retires it.
///
/// # Safety
///
/// The caller has popped the entry, and is the driver or holds its wheel.
pub(crate) unsafe fn meet_cancelled(entry: *mut Entry, free: &mut impl FnMut(*mut Entry)) {
    Entry::assert_address(entry);
    // SAFETY: a popped entry is alive, and the driver or the holder of its wheel may read and write
    // its whereabouts. `retire` is called by the second party to give the entry up: it is in no
    // list and on no stack then.
    unsafe {
        debug_assert!(CHECKED || (*entry).state.is_cancelled(), "the entry is not cancelled");
        match (*entry).whereabouts() {
            Whereabouts::Queued => (*entry).set_whereabouts(Whereabouts::Nowhere),
            Whereabouts::GivenUp => {
                (*entry).set_whereabouts(Whereabouts::Nowhere);
                retire(entry, free);
            }
            // Cancelled before it was ever armed: no stack has it.
            Whereabouts::Nowhere => retire(entry, free),
            Whereabouts::Linked => unreachable!("what is in a wheel is in no queue"),
        }
    }
}

/// Frees a cancelled entry, unless a handle or a carrier still refers to it: then the last of them
/// does.
///
/// # Safety
///
/// The entry is cancelled, in no list and on no stack, and the caller is the engine's last user of
/// it.
pub(crate) unsafe fn retire(entry: *mut Entry, free: &mut impl FnMut(*mut Entry)) {
    Entry::assert_address(entry);
    // SAFETY: the entry is alive until the engine leaves it. After that this touches it only if
    // nobody else refers to it.
    unsafe {
        debug_assert!(CHECKED || (*entry).state.is_cancelled(), "the entry is not cancelled");
        debug_assert!(
            CHECKED || (*entry).whereabouts() == Whereabouts::Nowhere,
            "a retired entry is still in a list"
        );
        if (*entry).state.leave() {
            free(entry);
        }
    }
}

/// An entry has come from a cancel stack.
///
/// # Safety
///
/// The canceller is done with the entry. The entry belongs to this wheel. The caller is the driver,
/// and holds the wheel.
pub(crate) unsafe fn unlink_cancelled(
    entry: *mut Entry,
    wheel: &mut Wheel,
    mut free: impl FnMut(*mut Entry),
) {
    Entry::assert_address(entry);
    // SAFETY: a cancelled entry is alive until it is retired. The driver holds its wheel, so it may
    // touch the links. `retire` is called when the entry is in no list and on no stack any more.
    unsafe {
        debug_assert!(CHECKED || (*entry).state.is_cancelled(), "the entry is not cancelled");
        match (*entry).whereabouts() {
            Whereabouts::Linked => wheel.unlink(entry),
            Whereabouts::Nowhere => {}
            // The party that pops it retires it.
            Whereabouts::Queued => return (*entry).set_whereabouts(Whereabouts::GivenUp),
            Whereabouts::GivenUp => unreachable!("it is on one stack, once"),
        }
        retire(entry, &mut free);
    }
}

/// A carrier has come: the deadline of the entry that it is about was moved nearer.
///
/// # Safety
///
/// The holder of the wheel has popped the carrier from the wheel's intake. The entry that the
/// carrier is about belongs to this wheel as well.
unsafe fn arrive(wheel: &mut Wheel, carrier: *mut Entry, free: &mut impl FnMut(*mut Entry)) {
    Entry::assert_address(carrier);
    // SAFETY: nobody else refers to a popped carrier. `CARRIER_SENT` keeps the entry that it is
    // about from being freed before `carrier_arrived`. After that it is touched only if it is still
    // armed, and then the holder of its wheel may place it again, or if nobody else refers to it.
    unsafe {
        debug_assert!(CHECKED || (*carrier).state.flags().is_carrier(), "the entry is no carrier");
        let about = (*carrier).link();
        match (*about).state.carrier_arrived() {
            Arrived::Armed(flags) => {
                // (One that is queued is due, or will be placed by its new deadline.)
                if (*about).whereabouts() == Whereabouts::Linked {
                    wheel.unlink(about);
                    wheel.place(about, flags.is_immediate());
                }
            }
            Arrived::Last => free(about),
            Arrived::Late => {}
        }
        free(carrier);
    }
}
