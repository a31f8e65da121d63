//! Log subscribers: one that calls a function for each event, and one that panics.
#![allow(dead_code)] // each file uses a part of it

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use tracing::{Event, Level, Metadata, Subscriber, span};

/// Calls this for each event.
pub(crate) struct Log(pub(crate) fn(&Event<'_>));

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        (self.0)(event);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// How many of the next errors and warnings that this process logs make the subscriber panic.
pub(crate) static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Makes the subscriber panic the next `times`. The tests of a file share it, so they run one after
/// the other.
pub(crate) fn arm(times: usize) -> MutexGuard<'static, ()> {
    static SERIAL: Mutex<()> = Mutex::new(());
    static INSTALL: Once = Once::new();
    let guard = SERIAL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    INSTALL.call_once(|| tracing::subscriber::set_global_default(Log(fail)).unwrap());
    PANICS.store(times, Ordering::SeqCst);
    guard
}

fn fail(event: &Event<'_>) {
    if *event.metadata().level() > Level::WARN {
        return;
    }
    let take_one = |left: usize| left.checked_sub(1);
    if PANICS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok() {
        panic!("the subscriber");
    }
}
