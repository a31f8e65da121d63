//! How long tasks ran, by whose they are.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use common::{ByHand, eventually, ms};
use lars_scheduler::executor::TaskBody;
use lars_scheduler::metrics::RunTime;
use lars_scheduler::{Handle, Inline, IntoTask, LightArrayRevolverScheduler, Task};

fn recording() -> LightArrayRevolverScheduler {
    let builder = LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(2));
    builder.record_run_times(true).build().unwrap()
}

/// The run times of a name, once there are so many runs.
fn after(timers: &Handle, name: &str, runs: u64) -> RunTime {
    let of_name = || timers.run_times().into_iter().find(|it| it.identity.name() == Some(name));
    eventually("they have run", || of_name().is_some_and(|it| it.runs >= runs));
    of_name().unwrap()
}

fn schedule<T: IntoTask>(timers: &Handle, times: usize, task: impl Fn() -> T) {
    for _ in 0..times {
        assert!(timers.schedule_once(Duration::ZERO, task()).is_ok());
    }
}

fn takes(time: Duration, name: &'static str) -> Task<impl FnOnce() + Send + 'static> {
    Task::new(move || sleep(time)).named(name)
}

#[test]
fn runs_are_added_up_by_name_inline_on_the_pool_and_on_other_executors() {
    let scheduler = recording();
    schedule(&scheduler, 3, || takes(ms(2), "inline").inline());
    schedule(&scheduler, 5, || takes(ms(4), "pool"));
    let other = ByHand::default();
    schedule(&scheduler, 2, || takes(ms(1), "other").executor(Arc::new(other.clone())));
    let in_line = after(&scheduler, "inline", 3);
    let pool = after(&scheduler, "pool", 5);
    let mut run = 0;
    eventually("those on the executor have run", || {
        run += usize::from(other.run_next());
        run == 2
    });
    let other = after(&scheduler, "other", 2);
    for (ran, runs, each) in [(in_line, 3, ms(2)), (pool, 5, ms(4)), (other, 2, ms(1))] {
        assert_eq!(ran.runs, runs, "{ran:?}");
        assert!(ran.longest >= each && ran.total >= runs as u32 * each, "{ran:?}");
        assert!(ran.total <= runs as u32 * ran.longest, "{ran:?}");
        assert!(ran.identity.place().is_some_and(|place| place.file() == file!()));
    }
    let times = scheduler.run_times();
    assert!(times.is_sorted_by(|one, next| one.total >= next.total), "{times:?}");
}

#[test]
fn what_the_executor_of_the_scheduler_runs_counts_once() {
    let by_hand = ByHand::default();
    let builder = LightArrayRevolverScheduler::builder().executor(by_hand.clone());
    let scheduler = builder.record_run_times(true).build().unwrap();
    schedule(&scheduler, 2, || takes(ms(1), "task"));
    schedule(&scheduler, 1, || takes(ms(1), "inline").inline());
    let inline = after(&scheduler, "inline", 1);
    while by_hand.run_next() {}
    assert_eq!((inline.runs, after(&scheduler, "task", 2).runs), (1, 2));
}

#[test]
fn a_fast_task_does_not_answer_for_a_slow_one_beside_it() {
    let scheduler = recording();
    for _ in 0..20 {
        schedule(&scheduler, 1, || Task::new(|| ()).named("fast").inline());
        schedule(&scheduler, 1, || takes(ms(5), "slow").inline());
    }
    let slow = after(&scheduler, "slow", 20);
    let fast = after(&scheduler, "fast", 20);
    assert_eq!((slow.runs, fast.runs), (20, 20));
    assert!(slow.total >= 20 * ms(5), "{slow:?}");
}

#[test]
fn tasks_that_run_together_and_tasks_that_panic_are_counted() {
    struct Together;
    impl TaskBody for Together {
        const TOGETHER: bool = true;
        fn run(self) {}
    }
    let scheduler = recording();
    let batch: Vec<_> =
        (0..100).map(|_| (ms(5), Task::new(Together).named("together").inline())).collect();
    assert!(scheduler.schedule_batch(batch).is_ok());
    schedule(&scheduler, 2, || Task::new(|| panic!("expected by this test")).named("panics"));
    assert_eq!(after(&scheduler, "together", 100).runs, 100);
    assert_eq!(after(&scheduler, "panics", 2).runs, 2);
}

#[test]
fn unless_asked_for_and_in_virtual_time_nothing_is_recorded() {
    let scheduler = LightArrayRevolverScheduler::builder().executor(Inline).build().unwrap();
    schedule(&scheduler, 1, || takes(ms(1), "task"));
    eventually("it has run", || scheduler.metrics().fired == 1);
    assert!(scheduler.run_times().is_empty());
    let builder = LightArrayRevolverScheduler::builder().record_run_times(true);
    let time = builder.build_virtual().unwrap();
    schedule(&time, 1, || Task::new(|| ()));
    time.advance(ms(1));
    assert!(time.run_times().is_empty());
}
