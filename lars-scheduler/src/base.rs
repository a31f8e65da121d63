//! What everything else is made of: values, time, a task without its type, and containing panics.

pub(crate) mod backpressure;
pub(crate) mod exclusive;

pub(crate) mod runs;

pub(crate) mod error;

pub(crate) mod tick;

pub(crate) mod deadline;

pub(crate) mod clock;
pub(crate) mod identity;

pub(crate) mod slow;

pub(crate) mod raw_task;

pub(crate) mod late;
pub(crate) mod run_times;
pub(crate) mod waits;

pub(crate) mod panics;

pub(crate) mod in_span;
pub(crate) mod run_clock;
pub(crate) mod threads;
