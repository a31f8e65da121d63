//! How a node is set up.

use std::time::Duration;

use lars_scheduler::backoff::BackoffPolicy;

use crate::sync::Arc;

/// How long a timer without a handler is put off: as long as it has waited, within these bounds. So
/// it doubles.
pub(super) const PUT_OFF: (i64, i64) = (15_000_000, 600_000_000);

/// Attempts after which a timer is parked, unless it is set.
const MAX_ATTEMPTS: u32 = 25;

/// The settings that a node is made with. Times are in microseconds.
#[derive(Debug, Clone)]
pub(crate) struct NodeSettings {
    pub(crate) handlers: Vec<HandlerSettings>,
    /// How far ahead timers are loaded.
    pub(crate) window: i64,
    /// How long a node may be silent before others take its buckets.
    pub(crate) lease: i64,
    /// How long before its deadline a start is recorded.
    pub(crate) lead: i64,
    /// How many timers a node holds in memory.
    pub(crate) max_resident: usize,
    /// How many runs may be in flight.
    pub(crate) max_in_flight: usize,
    /// How many of them in the first second after buckets were taken; doubles each second.
    pub(crate) ramp: usize,
    /// How many timers a transaction starts, finishes or schedules at most.
    pub(crate) batch: usize,
    /// How long a call is repeated while the store cannot be used.
    pub(crate) call_timeout: i64,
    /// How often overdue timers are looked for.
    pub(crate) sweep: i64,
    /// After this many deaths of the process during a timer's run, the timer is parked.
    pub(crate) max_deaths: u32,
}

/// What a node knows of a handler.
#[derive(Debug, Clone)]
pub(crate) struct HandlerSettings {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) max_attempts: u32,
    pub(crate) backoff: BackoffPolicy,
    pub(crate) at_most_once: bool,
}

impl HandlerSettings {
    /// The settings that a handler has unless others are set.
    pub(crate) fn new(name: &str, concurrency: usize) -> Self {
        let backoff = BackoffPolicy::builder()
            .initial(Duration::from_secs(1))
            .cap(Duration::from_secs(600))
            .build()
            .expect("the default settings are in range");
        let at_most_once = false;
        Self { name: name.into(), concurrency, max_attempts: MAX_ATTEMPTS, backoff, at_most_once }
    }

    /// How long after its `attempt` failed a timer is tried again. The same for the same timer, so
    /// that a run can be told again from its seed.
    pub(crate) fn delay(&self, seed: u64, attempt: u32) -> Duration {
        let mut backoff = self.backoff.start_with_seed(seed);
        let delays = backoff.by_ref().take(usize::try_from(attempt).unwrap_or(usize::MAX));
        delays.last().unwrap_or(self.backoff.cap())
    }
}

impl NodeSettings {
    /// Whether the node runs timers, or only makes them.
    pub(crate) fn serves(&self) -> bool {
        !self.handlers.is_empty()
    }
}
