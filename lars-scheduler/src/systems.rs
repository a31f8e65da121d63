//! The field's timer systems (executors, queues, workers, futures), each built on the handle.
//!
//! Systems use the folders above only through public items and through `facade`.

// Pure arithmetic, which the models use as well.
pub mod backoff;

#[cfg(not(lars_loom))]
mod facade;

#[cfg(not(lars_loom))]
mod when_due;

#[cfg(not(lars_loom))]
mod wake_timer;

#[cfg(not(lars_loom))]
pub mod call;
#[cfg(not(lars_loom))]
pub mod debounce;
#[cfg(not(lars_loom))]
pub mod delay_queue;
#[cfg(not(lars_loom))]
pub mod future;
#[cfg(not(lars_loom))]
pub mod repeated_timer;
#[cfg(not(lars_loom))]
pub mod retry;
#[cfg(not(lars_loom))]
pub mod scheduled_executor;
#[cfg(not(lars_loom))]
pub mod supervised;
#[cfg(not(lars_loom))]
pub mod wall_clock;
#[cfg(not(lars_loom))]
pub mod worker;
