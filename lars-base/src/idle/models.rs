//! Workers that fall asleep beside submitters.

use loom::thread;

use super::{Idle, Sleeper};
use crate::sync::{Arc, AtomicU64, Ordering};

/// Explores with at most `preemptions` involuntary switches per execution.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = builder.max_branches.max(10_000);
    builder.check(model);
}

/// Takes `enough` pieces of work, one by one.
fn work(idle: &Idle, sleeper: &Sleeper, queue: &AtomicU64, enough: usize) {
    let mut done = 0;
    idle.begin_search();
    loop {
        let one = |left: u64| left.checked_sub(1);
        let found = queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, one).is_ok();
        idle.end_search(found, || queue.load(Ordering::Acquire) > 0);
        done += usize::from(found);
        if done == enough {
            return;
        }
        if found {
            idle.begin_search();
        } else {
            idle.sleep(sleeper, || queue.load(Ordering::Acquire) > 0);
        }
    }
}

/// A lost wake-up makes the model hang, and loom reports it.
#[test]
fn work_that_is_pushed_while_the_only_worker_falls_asleep_is_found() {
    check(3, || {
        let (idle, mut sleepers) = Idle::new(1);
        let (idle, queue) = (Arc::new(idle), Arc::new(AtomicU64::new(0)));
        let submitter = {
            let (idle, queue) = (Arc::clone(&idle), Arc::clone(&queue));
            thread::spawn(move || {
                for _ in 0..2 {
                    queue.fetch_add(1, Ordering::Release);
                    idle.notify();
                }
            })
        };
        work(&idle, &sleepers.remove(0), &queue, 2);
        submitter.join().unwrap();
    });
}

/// The last searcher that finds something wakes the next worker. So the work of a burst does not
/// wait for the one worker that is busy with its first piece.
#[test]
fn a_burst_that_wakes_one_worker_reaches_the_other() {
    check(2, || {
        let (idle, mut sleepers) = Idle::new(2);
        let (idle, queue) = (Arc::new(idle), Arc::new(AtomicU64::new(0)));
        let other = {
            let (idle, queue) = (Arc::clone(&idle), Arc::clone(&queue));
            let sleeper = sleepers.remove(1);
            thread::spawn(move || work(&idle, &sleeper, &queue, 1))
        };
        // A burst of two, and one notification. Each worker takes one of them and is gone.
        queue.fetch_add(2, Ordering::Release);
        idle.notify();
        work(&idle, &sleepers.remove(0), &queue, 1);
        other.join().unwrap();
    });
}
