//! A durable message, as its actor sees it.

use std::time::{Duration, SystemTime};

use crate::model::{Fence, Row};
use crate::time::Timestamp;

/// What is known of the durable message that an actor is receiving: from
/// [`DurableContext::delivery`](super::DurableContext::delivery).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The identity of the message: the same for each redelivery, and for no other message,
    /// whatever its store.
    pub idempotency_key: String,
    /// The number of its timer in its store.
    pub id: u64,
    /// The key of its timer; for that of a reminder see [`Reminders`](super::Reminders).
    pub key: Option<String>,
    /// The fencing token: greater than that of every earlier delivery to this actor, wherever it
    /// lived then. If the store that the actor writes to refuses a smaller token than it has seen,
    /// a copy that was believed dead changes nothing.
    pub fence: u64,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// When the message was due, by the store's clock.
    pub due: SystemTime,
    /// How long after its deadline the actor began to receive it.
    pub lateness: Duration,
}

impl Delivery {
    pub(super) fn new(row: &Row, fence: Fence, now: Timestamp) -> Self {
        Self {
            idempotency_key: row.idempotency_key(),
            id: row.id.unsigned_abs(),
            key: row.key.clone(),
            fence: fence.0.unsigned_abs(),
            attempt: row.attempt,
            due: row.planned.to_system().unwrap_or(SystemTime::UNIX_EPOCH),
            lateness: now.since(row.deadline),
        }
    }
}
