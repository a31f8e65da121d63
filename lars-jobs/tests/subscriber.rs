//! Log subscribers that panic, beside systems.
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../../lars-scheduler/tests/common/mod.rs"]
mod common;
#[path = "../../lars-scheduler/tests/common/log.rs"]
mod log;

use std::sync::atomic::Ordering;

use common::secs;
use lars_jobs::supervised::Supervision;
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::{Executor, LightArrayRevolverScheduler};
use log::{PANICS, arm};

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
