//! A run, as its handler sees it.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::model::Row;
use crate::runtime::Shared;
use crate::sync::Arc;
use crate::time::Timestamp;

/// A run of a timer that is due.
///
/// A handler may see the same timer again: after a failure, and when the process died before the
/// end of the run was recorded. [`fence`](Self::fence) tells the runs apart, and grows with each.
pub struct Fired<P> {
    payload: P,
    row: Arc<Row>,
    fence: u64,
    began: Timestamp,
    limit: Option<Duration>,
    shared: Arc<Shared>,
}

impl<P> Fired<P> {
    pub(super) fn new(
        payload: P,
        row: Arc<Row>,
        fence: u64,
        limit: Option<Duration>,
        shared: Arc<Shared>,
    ) -> Self {
        let began = shared.gate.store_now().unwrap_or(row.deadline);
        Self { payload, row, fence, began, limit, shared }
    }

    /// What the timer carries.
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// The timer's key.
    pub fn key(&self) -> Option<&str> {
        self.row.key.as_deref()
    }

    /// The timer's identity: the same for all its runs, and never used again.
    pub fn id(&self) -> u64 {
        self.row.id.unsigned_abs()
    }

    /// When the run was planned for, by the store's clock. The same for each attempt; later runs of
    /// a repeat count from it.
    pub fn due(&self) -> SystemTime {
        self.row.planned.to_system().unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// How long after its deadline the run began. (The deadline of a later attempt is the end of
    /// its pause.)
    pub fn lateness(&self) -> Duration {
        self.began.since(self.row.deadline)
    }

    /// The number of this attempt, from 1. An attempt that a crash interrupted counts.
    pub fn attempt(&self) -> u32 {
        self.row.attempt
    }

    /// The fencing token of this run: greater than that of every earlier run of this timer, in this
    /// process and in earlier ones. If your store refuses a token smaller than one it has seen, the
    /// handler's writes happen effectively once.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Whether this node may still run timers, as far as this process knows. `false` means that
    /// another run of this timer may have begun; its fence is greater.
    pub fn is_current(&self) -> bool {
        self.shared.gate.is_valid()
    }

    /// What is left of the handler's time limit; `None` without one. A closure is not interrupted
    /// when nothing is left; a future is dropped.
    pub fn remaining(&self) -> Option<Duration> {
        let ran = self.shared.gate.store_now().map_or(Duration::ZERO, |now| now.since(self.began));
        self.limit.map(|limit| limit.saturating_sub(ran))
    }
}

impl<P: fmt::Debug> fmt::Debug for Fired<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fired")
            .field("id", &self.id())
            .field("key", &self.key())
            .field("attempt", &self.attempt())
            .field("fence", &self.fence)
            .field("payload", &self.payload)
            .finish_non_exhaustive()
    }
}
