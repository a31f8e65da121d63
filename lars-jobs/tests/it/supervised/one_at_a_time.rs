//! Runs that ignore their token, and how many may be under way.

use super::*;

#[test]
fn a_run_that_ignores_its_token_holds_the_next_one_back_until_it_ends() {
    let time = Arc::new(virtual_time());
    let executor = ByHand::default();
    let slot = Arc::new(OnceLock::<Supervised>::new());
    let (inner, task_in) = (Arc::clone(&time), Arc::clone(&slot));
    let hand = executor.clone();
    let runs = AtomicU32::new(0);
    let task = every_ten()
        .build()
        .unwrap()
        .start(&time, executor.clone(), move |_| {
            if runs.fetch_add(1, Ordering::SeqCst) > 0 {
                return;
            }
            inner.advance(secs(100)); // deaf: the deadline is at 4 s, the next run due at 24 s
            assert_eq!(hand.waiting(), 0);
            let counts = task_in.get().unwrap().counts();
            assert_eq!((counts.running, counts.stragglers), (1, 1));
            assert_eq!((counts.held_back, counts.timeouts, counts.runs), (1, 1, 1));
        })
        .unwrap();
    slot.set(task.clone()).unwrap();
    time.advance(secs(10));
    assert!(executor.run_next());
    assert_eq!(task.counts().failures, 0, "an assertion in the run failed");
    assert_eq!(time.metrics().panicked, 0, "an assertion in the run failed");
    assert_eq!(task.counts().late_ends, 1);
    time.advance(ns(0));
    assert_eq!(executor.waiting(), 1, "the held-back run does not follow at once");
    assert!(executor.run_next());
    let counts = task.counts();
    assert_eq!((counts.runs, counts.successes, counts.stragglers), (2, 1, 0));
    assert_eq!(counts.interval, secs(10));
}

#[test]
fn as_many_runs_as_asked_for_may_be_under_way_and_no_more() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let inside = Arc::new(Concurrency::default());
    let gate = Arc::new(AtomicBool::new(false));
    let (enter, open) = (Arc::clone(&inside), Arc::clone(&gate));
    let task = Supervision::every(ms(1))
        .timeout(ms(20))
        .max_interval(ms(2))
        .max_concurrent(3)
        .build()
        .unwrap()
        .start(&scheduler, Pool::new("deaf", 5).unwrap(), move |_| {
            let _inside = enter.enter();
            while !open.load(Ordering::SeqCst) {
                thread::sleep(ms(1));
            }
        })
        .unwrap();
    eventually("a run to be held back", || task.counts().held_back > 0);
    let counts = task.counts();
    assert!(counts.running <= 3 && counts.stragglers <= 3);
    gate.store(true, Ordering::SeqCst);
    eventually("runs to go on", || task.counts().successes > 3);
    task.cancel();
    assert!(inside.most() <= 3, "{}", inside.most());
}

#[test]
fn a_run_that_was_given_up_in_the_queue_of_its_executor_never_begins() {
    let time = virtual_time();
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let executor = ByHand::default();
    let task = every_ten()
        .build()
        .unwrap()
        .start(&time, executor.clone(), move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    time.advance(secs(10));
    time.advance(secs(4)); // timed out
    time.advance(secs(20)); // the next one is due, and not held back by one that cannot begin
    assert_eq!(executor.waiting(), 2);
    assert!(executor.run_next());
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(executor.run_next());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let counts = task.counts();
    assert_eq!((counts.timeouts, counts.successes, counts.late_ends), (1, 1, 0));
    assert!(add_up(&counts));
}

#[test]
fn a_result_that_comes_after_the_timeout_changes_nothing() {
    let time = Arc::new(virtual_time());
    let executor = ByHand::default();
    let inner = Arc::clone(&time);
    let task = every_ten()
        .build()
        .unwrap()
        .start(&time, executor.clone(), move |_| {
            inner.advance(secs(5));
        })
        .unwrap();
    time.advance(secs(10));
    executor.run_next();
    let counts = task.counts();
    assert_eq!((counts.successes, counts.timeouts, counts.late_ends), (0, 1, 1));
    assert_eq!(counts.interval, secs(20));
    // Counted from the timeout, not from the late end.
    assert_eq!(counts.next_run, Some(time.now() + secs(19)));
}
