//! Log subscribers that panic, beside systems.
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../../lars-scheduler/tests/common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use common::secs;
use lars_jobs::supervised::Supervision;
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::{Executor, LightArrayRevolverScheduler};
use tracing::span;

/// How many of the next errors and warnings that this process logs make the subscriber panic.
static PANICS: AtomicUsize = AtomicUsize::new(0);

struct Subscriber;

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        if *event.metadata().level() > tracing::Level::WARN {
            return;
        }
        let take_one = |left: usize| left.checked_sub(1);
        if PANICS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok() {
            panic!("the subscriber");
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Makes the subscriber panic the next `times`. The tests of this file share it, so they run
/// one after the other.
fn arm(times: usize) -> MutexGuard<'static, ()> {
    static SERIAL: Mutex<()> = Mutex::new(());
    static INSTALL: Once = Once::new();
    let guard = SERIAL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    INSTALL.call_once(|| tracing::subscriber::set_global_default(Subscriber).unwrap());
    PANICS.store(times, Ordering::SeqCst);
    guard
}

#[test]
fn a_supervised_task_whose_run_is_rejected_and_logged_goes_on_and_counts_no_panic() {
    struct Full;
    impl Executor for Full {
        fn execute(&self, task: Runnable) -> Result<(), Rejected> {
            Err(Rejected::new(task, "expected by this test"))
        }
    }
    // The executor's refusal is logged, and the run's outcome.
    let _serial = arm(2);
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let refresh = Supervision::every(secs(1)).build().unwrap().start(&time, Full, |_| ()).unwrap();
    time.advance(secs(1));
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
    time.advance(secs(9));
    assert!(refresh.counts().rejections > 1, "{:?}", refresh.counts());
    assert_eq!(time.metrics().panicked, 0);
}
