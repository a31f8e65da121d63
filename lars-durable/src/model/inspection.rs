//! What an inspection of a store shows.

use super::{BucketNo, NodeId};
use crate::sync::Arc;
use crate::time::Timestamp;

/// The most nodes that a look shows.
pub(crate) const MAX_NODES: usize = 1_000;

/// What a store shows of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) clock: Timestamp,
    /// What the clock showed when the counts were made.
    pub(crate) counted: Timestamp,
    /// Those that joined first come first.
    pub(crate) nodes: Vec<LookedNode>,
    pub(crate) buckets: Vec<(BucketNo, Option<NodeId>, u32)>,
    pub(crate) paused: Vec<Arc<str>>,
    /// `None` if counting took too long.
    pub(crate) timers: Option<Counted<LookedHandler>>,
    /// Timers that were given up, by handler.
    pub(crate) parked: Option<Counted<u64>>,
    pub(crate) database: Option<LookedDatabase>,
}

/// Counts by handler, in the order of the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted<T> {
    pub(crate) by_handler: Vec<(Arc<str>, T)>,
    /// There are more than were counted.
    pub(crate) more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LookedNode {
    pub(crate) id: NodeId,
    pub(crate) serves: bool,
    pub(crate) joined: Timestamp,
    pub(crate) renewed: Timestamp,
    /// What it says of itself, as JSON.
    pub(crate) report: Option<Arc<str>>,
}

/// The timers of a handler that were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LookedHandler {
    /// Not started.
    pub(crate) pending: u64,
    /// Of those, how many should have started.
    pub(crate) overdue: u64,
    /// Of the pending ones, how many have been tried before.
    pub(crate) retrying: u64,
    pub(crate) running: u64,
    /// The first deadline of a pending one.
    pub(crate) next: Option<Timestamp>,
}

/// What a database server reports about the timers' table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LookedDatabase {
    pub(crate) rows: u64,
    pub(crate) dead_rows: u64,
    pub(crate) vacuumed: Option<Timestamp>,
    pub(crate) oldest: Option<LookedSnapshot>,
}

/// A transaction that keeps dead rows from being removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LookedSnapshot {
    pub(crate) pid: i32,
    pub(crate) micros: i64,
    pub(crate) state: String,
    pub(crate) application: String,
}
