//! Runs that are asked for.

use super::*;

#[test]
fn run_now_brings_the_next_run_forward_and_the_interval_counts_from_it() {
    let time = virtual_time();
    let (task, executor) = by_hand(&time, every_ten());
    time.advance(secs(3));
    task.run_now().unwrap();
    task.run_now().unwrap();
    assert_eq!(executor.waiting(), 0, "it ran on the caller's stack");
    time.advance(ns(0));
    assert_eq!(executor.waiting(), 1);
    executor.run_next();
    time.advance(secs(10) - ns(1));
    assert_eq!(executor.waiting(), 0, "the old plan is still followed");
    time.advance(ns(1));
    assert_eq!(executor.waiting(), 1);
}

#[test]
fn run_now_during_a_run_makes_one_other_follow_however_often_it_is_called() {
    // `InstanceInfoReplicator` has to cancel and resubmit; JRaft's `runOnceNow` forks chains.
    let time = virtual_time();
    let executor = ByHand::default();
    let slot = Arc::new(OnceLock::<Supervised>::new());
    let inner = Arc::clone(&slot);
    let runs = AtomicU32::new(0);
    let task = every_ten()
        .build()
        .unwrap()
        .start(&time, executor.clone(), move |_| {
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                for _ in 0..5 {
                    inner.get().unwrap().run_now().unwrap();
                }
            }
        })
        .unwrap();
    slot.set(task.clone()).unwrap();
    time.advance(secs(10));
    assert!(executor.run_next());
    time.advance(ns(0));
    assert_eq!(run_all(&executor), 1);
    time.advance(secs(10) - ns(1));
    assert_eq!(task.counts().runs, 2);
    time.advance(ns(1));
    assert_eq!(task.counts().runs, 3);
}

#[test]
fn a_task_with_the_longest_interval_runs_only_when_it_is_asked_to() {
    let time = virtual_time();
    let builder = Supervision::every(Duration::MAX).jitter(1.0);
    let (task, executor) = by_hand(&time, builder);
    assert_eq!(time.advance(secs(1_000_000_000)), 0);
    for _ in 0..3 {
        task.run_now().unwrap();
        time.advance(ns(0));
        assert_eq!(run_all(&executor), 1);
    }
    let (task, executor) = by_hand(&time, Supervision::every(Duration::MAX));
    task.run_now().unwrap();
    time.advance(ns(0));
    time.advance(secs(1_000_000_000));
    assert_eq!((task.counts().timeouts, executor.waiting()), (0, 1));
}
