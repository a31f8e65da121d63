//! The settings of a system that its actors need.

use std::time::Duration;

use crate::base::stop_reason::Terminated;
use crate::base::threads::OnThreadStart;
use crate::sync::Mutex;

pub(crate) type StopHook = Box<dyn Fn(Terminated) + Send + Sync>;

pub(crate) struct Rules {
    /// Messages that an activation works off before another actor gets its turn.
    pub(crate) throughput: u32,
    /// How long it may take for these messages, if there is a limit.
    pub(crate) time_slice: Option<Duration>,
    /// From when on a message is slow, if there is a limit.
    pub(crate) slow_receive: Option<Duration>,
    /// Until the system is over.
    pub(crate) on_thread_start: Mutex<OnThreadStart>,
    /// Whether messages are received in the spans in which they were told.
    pub(crate) capture_spans: bool,
    /// Called with the end of each actor. Must not panic.
    pub(crate) on_stop: Option<StopHook>,
}
