//! A default scheduler that the program sets, in a process of its own.
#![allow(missing_docs)]

use std::thread;

use lars_scheduler::LightArrayRevolverScheduler;
use lars_scheduler::time::error::SetDefaultError;
use lars_scheduler::time::{Duration, Instant, default_scheduler, set_default, sleep, timeout};

#[test]
fn a_scheduler_is_made_the_default_once_and_serves_every_thread_from_then_on() {
    let tick = Duration::from_micros(500);
    let build = || LightArrayRevolverScheduler::builder().tick_duration(tick).build().unwrap();
    let (mine, other) = (build(), build());
    // This does not start one.
    let begin = Instant::now();
    set_default(&mine).unwrap();
    for late in [&mine, &other] {
        let refused = set_default(late).unwrap_err();
        assert_eq!(refused, SetDefaultError::AlreadySet);
        assert!(refused.to_string().contains("before"), "{refused}");
    }
    let sleeping = || {
        thread::spawn(move || {
            futures::executor::block_on(sleep(3 * tick));
            (default_scheduler().tick_duration(), begin.elapsed())
        })
    };
    for thread in [sleeping(), sleeping()] {
        let (of, elapsed) = thread.join().unwrap();
        assert_eq!(of, tick);
        assert!(elapsed >= 3 * tick);
    }
    // It is the program's: it can be closed, and then nothing waits in vain.
    let never = timeout(Duration::from_secs(3600), std::future::pending::<()>());
    mine.close().unwrap();
    assert!(futures::executor::block_on(never).is_err());
    assert!(default_scheduler().is_stopped());
}
