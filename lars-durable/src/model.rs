//! The data that store and engine share: identities, timers, series.

mod glance;
mod history;
mod inspection;
mod recipient;
mod series;
#[cfg(feature = "actors")]
pub(crate) mod tenancy;
mod timer;

mod select;

pub(crate) use self::glance::Glance;
pub use self::history::RunOutcome;
pub(crate) use self::history::{Old, Ran, RunPlace, RunsSelect};
pub(crate) use self::inspection::{Counted, Look, LookedHandler, LookedNode, MAX_NODES};
#[cfg(feature = "postgres")]
pub(crate) use self::inspection::{LookedDatabase, LookedSnapshot};
pub(crate) use self::recipient::Recipient;
pub(crate) use self::select::{Act, Candidate, Cursor, Select, States, Way};
pub(crate) use self::series::{End, MissedTick, Next, Series, cron as cron_series, words};
pub use self::timer::{CancelReason, OnConflict};
pub(crate) use self::timer::{
    Change, Finish, Finished, Kept, LETTER, Listed, Loaded, NewTimer, Row, Start, Then, There,
    When, Which,
};

/// The identity of a timer in the store: unique, never used again.
pub(crate) type TimerId = i64;

/// A part of a group's timers that one node owns at a time.
pub(crate) type BucketNo = u16;

/// One life of a node: random, never used again.
pub(crate) type NodeId = u128;

/// The token of one run: `epoch << 32 | n`. The epoch grows with every owner of a bucket, and `n`
/// with every start of an owner, so that fences of a bucket strictly increase over rows, retries
/// and owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fence(pub(crate) i64);

impl Fence {
    pub(crate) fn new(epoch: u32, n: u32) -> Self {
        Self(i64::from(epoch) << 32 | i64::from(n))
    }

    pub(crate) fn epoch(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or(u32::MAX)
    }
}

/// A hash that is the same in every process and every release: it decides where keys live.
pub(crate) fn stable_hash(text: &str) -> u64 {
    // FNV-1a, and a finisher (SplitMix64's), because the low bits of short keys are weak.
    let fnv = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (fnv ^ fnv >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
