//! Ending a supervised task.

use super::*;

#[test]
fn cancel_is_true_once_and_drops_the_task_and_all_of_its_timers() {
    let notes = Notes::new();
    let captive = Captive::new(&notes, "dropped");
    let time = virtual_time();
    let run = move |_: &CancelToken| {
        let _ = &captive;
    };
    let task = every_ten().build().unwrap().start(&time, ByHand::default(), run).unwrap();
    task.run_now().unwrap();
    assert!(!task.is_ended());
    assert!(task.cancel());
    assert_eq!(notes.take(), ["dropped"]);
    assert_eq!(time.pending(), 0);
    assert!(task.is_ended());
    assert!(!task.cancel() && !task.clone().cancel());
    assert_eq!(task.run_now(), Err(RunNowError::Ended));
    assert_eq!(time.advance(secs(1000)), 0);
    assert_eq!(task.counts().next_run, None);
}

#[test]
fn dropping_the_owners_handle_ends_nothing() {
    let time = virtual_time();
    let (task, executor) = by_hand(&time, every_ten());
    drop(task);
    for _ in 0..3 {
        time.advance(secs(10));
        assert!(executor.run_next());
    }
}

#[test]
fn a_cancel_while_a_run_waits_in_its_executor_withdraws_it() {
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
    assert!(task.cancel());
    assert!(executor.run_next());
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let counts = task.counts();
    assert_eq!((counts.runs, counts.withdrawn, counts.late_ends), (1, 1, 0));
    assert_eq!(time.advance(secs(1000)), 0);
}

#[test]
fn a_cancel_from_inside_the_run_lets_it_finish_counts_it_and_ends_the_task() {
    let time = virtual_time();
    let executor = ByHand::default();
    let slot = Arc::new(OnceLock::<Supervised>::new());
    let (inner, notes) = (Arc::clone(&slot), Notes::new());
    let seen = notes.clone();
    let captive = Captive::new(&notes, "dropped");
    let task = every_ten()
        .build()
        .unwrap()
        .start(&time, executor.clone(), move |token| {
            let _ = &captive;
            assert!(inner.get().unwrap().cancel());
            seen.add(if token.is_cancelled() { "told" } else { "not told" });
        })
        .unwrap();
    slot.set(task.clone()).unwrap();
    time.advance(secs(10));
    assert!(executor.run_next());
    assert_eq!(notes.take(), ["told", "dropped"]);
    assert_eq!((task.counts().successes, time.pending()), (1, 0));
    assert!(add_up(&task.counts()));
}

#[test]
fn a_cancel_gives_up_a_future_and_drops_it_on_its_executor() {
    let time = virtual_time();
    let executor = ByHand::default();
    let task = every_ten()
        .build()
        .unwrap()
        .start_future(&time, executor.clone(), |_| pending::<()>())
        .unwrap();
    time.advance(secs(10));
    run_all(&executor);
    assert!(task.cancel());
    assert_eq!(task.counts().running, 1);
    assert_eq!(run_all(&executor), 1);
    let counts = task.counts();
    assert_eq!((counts.running, counts.withdrawn, counts.runs), (0, 1, 1));
}

#[test]
fn the_hook_may_cancel_and_a_panic_in_it_is_contained() {
    let time = virtual_time();
    let slot = Arc::new(OnceLock::<Supervised>::new());
    let inner = Arc::clone(&slot);
    let (task, executor) = by_hand(
        &time,
        every_ten().on_settled(move |report| {
            if report.number == 2 {
                assert!(inner.get().unwrap().cancel());
            }
            panic!("in the hook");
        }),
    );
    slot.set(task.clone()).unwrap();
    time.advance(secs(10));
    time.advance(secs(4)); // on the timer thread
    executor.abandon();
    time.advance(secs(20));
    executor.run_next(); // on the executor's
    time.advance(ns(0));
    assert_eq!(time.metrics().panicked, 2);
    assert!(task.is_ended());
    assert_eq!((task.counts().timeouts, task.counts().successes), (1, 1));
}

#[test]
fn a_hook_that_has_the_owners_handle_is_dropped_when_the_task_has_ended() {
    for (under_way, begun) in [(false, false), (true, false), (true, true)] {
        let time = virtual_time();
        let notes = Notes::new();
        let captive = Captive::new(&notes, "hook dropped");
        let told = notes.clone();
        let slot = Arc::new(OnceLock::<Supervised>::new());
        let own = Arc::clone(&slot);
        let executor = ByHand::default();
        let task = every_ten()
            .on_settled(move |_| {
                let _ = (&captive, own.get());
                told.add("told");
            })
            .build()
            .unwrap()
            .start_future(&time, executor.clone(), |token| async move { token.cancelled().await })
            .unwrap();
        slot.set(task).unwrap();
        if under_way {
            time.advance(secs(10));
        }
        if begun {
            executor.run_next();
        }
        assert!(slot.get().unwrap().cancel());
        let expected: &[&str] = if begun {
            assert!(notes.take().is_empty());
            assert!(executor.run_next());
            &["told", "hook dropped"]
        } else {
            &["hook dropped"]
        };
        assert_eq!(notes.take(), expected, "under way: {under_way}, begun: {begun}");
    }
}
