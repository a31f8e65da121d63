//! Runs that are futures.

use super::*;

#[test]
fn a_future_is_polled_by_the_executor_only_and_woken_through_it() {
    let time = virtual_time();
    let executor = ByHand::default();
    let timers = time.handle();
    let task = every_ten()
        .build()
        .unwrap()
        .start_future(&time, executor.clone(), move |_| sleep(timers.clone(), secs(1)))
        .unwrap();
    for _ in 0..3 {
        time.advance(secs(10));
        assert_eq!(task.counts().running, 0);
        assert_eq!(run_all(&executor), 1); // polled once
        assert_eq!(task.counts().running, 1);
        time.advance(secs(1)); // woken
        assert_eq!(task.counts().running, 1);
        assert_eq!(run_all(&executor), 1);
    }
    let counts = task.counts();
    assert_eq!((counts.runs, counts.successes, counts.running), (3, 3, 0));
}

#[test]
fn errors_and_panics_of_futures_are_failures_wherever_they_happen() {
    let time = virtual_time();
    let timers = time.handle();
    let runs = AtomicU32::new(0);
    let task = every_ten()
        .build()
        .unwrap()
        .start_future(&time, Inline, move |_| {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            assert!(run != 0, "before the future is made");
            let timers = timers.clone();
            async move {
                assert!(run != 1, "in the first poll");
                sleep(timers, secs(1)).await;
                assert!(run != 2, "in the second poll");
                if run == 3 { Err("an error") } else { Ok(()) }
            }
        })
        .unwrap();
    time.advance(secs(53));
    let counts = task.counts();
    assert_eq!((counts.failures, counts.successes, counts.runs), (4, 1, 5));
    assert_eq!((counts.interval, counts.running), (secs(10), 0));
    assert_eq!(time.metrics().panicked, 3);
}

#[test]
fn a_future_that_is_given_up_is_polled_once_more_and_then_dropped_on_its_executor() {
    let time = virtual_time();
    let executor = ByHand::default();
    let notes = Notes::new();
    let kept = notes.clone();
    let task = every_ten()
        .build()
        .unwrap()
        .start_future(&time, executor.clone(), move |token| {
            let notes = kept.clone();
            let captive = Captive::new(&notes, "dropped");
            poll_fn(move |_| {
                let _ = &captive;
                notes.add(if token.is_cancelled() { "polled, given up" } else { "polled" });
                Poll::<()>::Pending
            })
        })
        .unwrap();
    time.advance(secs(10));
    run_all(&executor);
    assert_eq!(notes.take(), ["polled"]);
    time.advance(secs(4));
    assert_eq!(task.counts().timeouts, 1);
    assert!(notes.take().is_empty(), "something happened on the timer thread");
    assert_eq!(task.counts().stragglers, 1);
    assert_eq!(run_all(&executor), 1);
    assert_eq!(notes.take(), ["polled, given up", "dropped"]);
    let counts = task.counts();
    assert_eq!((counts.late_ends, counts.stragglers, counts.running), (1, 0, 0));
    time.advance(secs(20));
    assert_eq!(run_all(&executor), 1, "the next run");
}

#[test]
fn a_future_that_awaits_its_token_ends_by_itself_when_it_is_given_up() {
    let time = virtual_time();
    let notes = Notes::new();
    let kept = notes.clone();
    let task = every_ten()
        .build()
        .unwrap()
        .start_future(&time, Inline, move |token| {
            let notes = kept.clone();
            async move {
                token.cancelled().await;
                notes.add("said goodbye");
            }
        })
        .unwrap();
    time.advance(secs(14));
    assert_eq!(notes.take(), ["said goodbye"]);
    let counts = task.counts();
    assert_eq!((counts.timeouts, counts.successes, counts.late_ends), (1, 0, 1));
}

#[test]
fn a_future_that_is_left_goes_on_and_holds_the_next_run_back() {
    let time = virtual_time();
    let timers = time.handle();
    let task = every_ten()
        .given_up(GivenUp::Leave)
        .build()
        .unwrap()
        .start_future(&time, Inline, move |_| sleep(timers.clone(), secs(100)))
        .unwrap();
    time.advance(secs(10 + 4 + 20));
    let counts = task.counts();
    assert_eq!((counts.stragglers, counts.held_back, counts.runs), (1, 1, 1));
    time.advance(secs(100 - 24) - ns(1));
    assert_eq!(task.counts().runs, 1);
    time.advance(ns(1));
    let counts = task.counts();
    assert_eq!((counts.late_ends, counts.runs, counts.running), (1, 2, 1));
}

#[test]
fn a_future_that_wakes_itself_in_every_poll_needs_no_stack_and_one_poll_at_a_time() {
    let time = virtual_time();
    let polls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&polls);
    let yields = scaled(200_000, 500) as u64;
    let task = every_ten()
        .build()
        .unwrap()
        .start_future(&time, Inline, move |_| {
            let count = Arc::clone(&count);
            poll_fn(move |context| {
                if count.fetch_add(1, Ordering::SeqCst) == yields {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                context.waker().wake_by_ref();
                Poll::Pending
            })
        })
        .unwrap();
    time.advance(secs(10));
    assert_eq!(polls.load(Ordering::SeqCst), yields + 1);
    assert_eq!(task.counts().successes, 1);
}

#[test]
fn a_waker_that_outlives_its_run_does_nothing() {
    let time = virtual_time();
    let kept = Arc::new(Mutex::new(Vec::<Waker>::new()));
    let wakers = Arc::clone(&kept);
    let executor = ByHand::default();
    let task = every_ten()
        .build()
        .unwrap()
        .start_future(&time, executor.clone(), move |_| {
            let wakers = Arc::clone(&wakers);
            poll_fn(move |context| {
                wakers.lock().unwrap().push(context.waker().clone());
                Poll::Ready(())
            })
        })
        .unwrap();
    time.advance(secs(10));
    run_all(&executor);
    kept.lock().unwrap().drain(..).for_each(Waker::wake);
    assert_eq!(executor.waiting(), 0);
    assert_eq!(task.counts().successes, 1);
}

#[test]
fn a_future_whose_wake_up_the_executor_does_not_take_is_dropped_and_rejected() {
    let time = virtual_time();
    let timers = time.handle();
    let executor = Refusing::default();
    let notes = Notes::new();
    let kept = notes.clone();
    let task = every_ten()
        .build()
        .unwrap()
        .start_future(&time, executor.clone(), move |_| {
            let captive = Captive::new(&kept, "dropped");
            let timers = timers.clone();
            async move {
                let _captive = captive;
                sleep(timers, secs(1)).await;
            }
        })
        .unwrap();
    for how in ["full", "drop", "panic"] {
        time.advance(secs(10));
        assert!(executor.inner.run_next());
        executor.how.lock().unwrap().push_back(how);
        time.advance(secs(1));
        assert_eq!(notes.take(), ["dropped"], "{how}");
    }
    let counts = task.counts();
    assert_eq!((counts.rejections, counts.running, counts.interval), (3, 0, secs(10)));
}

#[test]
fn a_future_that_drops_its_wakers_is_given_up_when_its_time_is_over() {
    let time = virtual_time();
    let task =
        every_ten().build().unwrap().start_future(&time, Inline, |_| pending::<()>()).unwrap();
    time.advance(secs(14));
    let counts = task.counts();
    assert_eq!((counts.timeouts, counts.late_ends, counts.running), (1, 1, 0));
}

#[test]
fn a_destructor_of_a_future_that_panics_is_contained_and_its_run_still_ends() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let time = virtual_time();
    let task = every_ten()
        .build()
        .unwrap()
        .start_future(&time, Inline, |_| {
            let bomb = Bomb;
            async move {
                let _bomb = &bomb;
                pending::<()>().await;
            }
        })
        .unwrap();
    time.advance(secs(14));
    assert_eq!(time.metrics().panicked, 1);
    assert_eq!((task.counts().running, task.counts().late_ends), (0, 1));
    time.advance(secs(20));
    assert_eq!(task.counts().runs, 2);
}
