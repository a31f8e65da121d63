//! A process with very many schedulers is warned, once. (In a file of its own: tests of one file
//! share the process, and with it the number of schedulers.)
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "common/log.rs"]
mod log;

use std::sync::atomic::{AtomicUsize, Ordering};

use lars_scheduler::LightArrayRevolverScheduler;
use log::Log;

static WARNINGS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn the_sixty_fifth_scheduler_of_a_process_is_warned_of_and_no_other() {
    let count = |event: &tracing::Event<'_>| {
        assert_eq!(*event.metadata().level(), tracing::Level::WARN);
        WARNINGS.fetch_add(1, Ordering::SeqCst);
    };
    tracing::subscriber::set_global_default(Log(count)).unwrap();
    let start = |_| LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let mut alive: Vec<_> = (0..64).map(start).collect();
    assert_eq!(WARNINGS.load(Ordering::SeqCst), 0);
    alive.extend((0..4).map(start));
    assert_eq!(WARNINGS.load(Ordering::SeqCst), 1);
    alive.truncate(10);
    alive.extend((0..60).map(start));
    assert_eq!(WARNINGS.load(Ordering::SeqCst), 1, "not again");
}
