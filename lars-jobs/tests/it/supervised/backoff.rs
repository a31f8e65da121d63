//! Intervals: when the next run is due after each kind of end.

use super::*;

#[test]
fn the_first_run_comes_after_the_initial_delay_and_not_a_nanosecond_before() {
    let time = virtual_time();
    for delay in [Duration::ZERO, ns(1), ms(40), secs(3600)] {
        let (task, executor) = by_hand(&time, every_ten().initial_delay(delay));
        if !delay.is_zero() {
            time.advance(delay - ns(1));
            assert_eq!(executor.waiting(), 0);
            time.advance(ns(1));
        } else {
            assert_eq!(executor.waiting(), 0, "it ran on the caller's stack");
            time.advance(ns(0));
        }
        assert_eq!(executor.waiting(), 1);
        assert!(task.cancel());
    }
    // Left out, it is the interval.
    let (_task, executor) = by_hand(&time, every_ten());
    time.advance(secs(10) - ns(1));
    assert_eq!(executor.waiting(), 0);
    time.advance(ns(1));
    assert_eq!(executor.waiting(), 1);
}

#[test]
fn the_next_run_is_due_an_interval_after_the_end_of_the_last() {
    let time = virtual_time();
    let (task, executor) = by_hand(&time, every_ten());
    for _ in 0..5 {
        time.advance(secs(10));
        time.advance(secs(3));
        assert!(executor.run_next()); // 3 s after it was due
        time.advance(secs(10) - ns(1));
        assert_eq!(executor.waiting(), 0);
        time.advance(ns(1));
        assert!(executor.run_next());
    }
    assert_eq!(task.counts().successes, 10);
}

#[test]
fn a_run_that_ends_long_before_its_deadline_does_not_hold_up_the_next() {
    let time = virtual_time();
    let builder = Supervision::every(secs(1)).timeout(secs(1000)).max_interval(secs(5000));
    let (task, executor) = by_hand(&time, builder);
    for run in 1..=100 {
        time.advance(secs(1) - ns(1));
        assert_eq!(executor.waiting(), 0);
        time.advance(ns(1));
        assert!(executor.run_next(), "run {run} is late");
    }
    assert_eq!((task.counts().successes, task.counts().timeouts), (100, 0));
    assert!(time.pending() <= 2, "{} timers for one task", time.pending());
}

#[test]
fn each_timeout_doubles_the_interval_up_to_the_bound_and_a_success_resets_it() {
    let time = virtual_time();
    let (task, executor) = by_hand(&time, every_ten());
    let mut interval = 10;
    for expected in [20, 40, 60, 60] {
        time.advance(secs(interval));
        assert_eq!(executor.waiting(), 1);
        time.advance(secs(4) - ns(1));
        assert_eq!(task.counts().interval, secs(interval), "it was given up early");
        time.advance(ns(1));
        assert_eq!(task.counts().interval, secs(expected));
        executor.abandon();
        interval = expected;
        // Not before the longer interval is over.
        time.advance(ns(0));
        assert_eq!(task.counts().next_run, Some(time.now() + secs(interval)));
    }
    assert_eq!(task.counts().timeouts, 4);
    time.advance(secs(60));
    assert!(executor.run_next());
    assert_eq!(task.counts().interval, secs(10));
    time.advance(secs(10));
    assert_eq!(executor.waiting(), 1);
}

#[test]
fn by_default_the_timeout_is_the_interval_and_the_bound_ten_intervals() {
    let time = virtual_time();
    let (task, executor) = by_hand(&time, Supervision::every(secs(1)));
    let mut seen = Vec::new();
    for _ in 0..6 {
        time.advance(task.counts().interval);
        assert_eq!(executor.waiting(), 1);
        time.advance(secs(1));
        executor.abandon();
        seen.push(task.counts().interval);
    }
    assert_eq!(seen, [2, 4, 8, 10, 10, 10].map(secs));
}

#[test]
fn a_failure_leaves_the_interval_where_it_is() {
    let time = virtual_time();
    let executor = ByHand::default();
    let fail = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fail);
    let run =
        move |_: &CancelToken| if failing.load(Ordering::SeqCst) { Err("refused") } else { Ok(()) };
    let task = every_ten().build().unwrap().start(&time, executor.clone(), run).unwrap();
    time.advance(secs(10));
    time.advance(secs(4)); // a timeout first
    assert_eq!(executor.abandon(), 1);
    for _ in 0..3 {
        time.advance(secs(20) - ns(1));
        assert_eq!(executor.waiting(), 0);
        time.advance(ns(1));
        assert!(executor.run_next());
        assert_eq!(task.counts().interval, secs(20));
    }
    let counts = task.counts();
    assert_eq!((counts.timeouts, counts.failures, counts.rejections), (1, 3, 0));
    fail.store(false, Ordering::SeqCst);
    time.advance(secs(20));
    assert!(executor.run_next());
    assert_eq!(task.counts().interval, secs(10));
}

#[test]
fn a_rejection_a_drop_and_a_panic_of_the_executor_leave_the_interval_and_the_task_goes_on() {
    let time = virtual_time();
    let executor = Refusing::default();
    let task = every_ten().build().unwrap().start(&time, executor.clone(), |_| ()).unwrap();
    executor.how.lock().unwrap().extend(["full", "drop", "panic"]);
    for rejections in 1..=3 {
        time.advance(secs(10));
        let counts = task.counts();
        assert_eq!((counts.rejections, counts.failures), (rejections, 0));
        assert_eq!(counts.interval, secs(10));
    }
    assert_eq!(time.metrics().panicked, 1, "the executor's panic was not reported");
    time.advance(secs(10));
    assert!(executor.inner.run_next());
    let counts = task.counts();
    assert_eq!((counts.runs, counts.successes, counts.timeouts), (4, 1, 0));
}

#[test]
fn a_run_that_its_executor_drops_later_is_rejected_at_that_moment() {
    let time = virtual_time();
    let (task, executor) = by_hand(&time, every_ten());
    time.advance(secs(10));
    time.advance(secs(1));
    assert_eq!(executor.abandon(), 1);
    assert_eq!(task.counts().rejections, 1);
    assert_eq!(task.counts().next_run, Some(time.now() + secs(10)));
}

/// SOFARegistry's S1: what fails is no rejection.
#[test]
fn a_panic_is_a_failure_is_reported_by_the_scheduler_and_the_task_goes_on() {
    let seen = Notes::new();
    let notes = seen.clone();
    let time = LightArrayRevolverScheduler::builder()
        .on_panic(move |report| notes.add(report.message.to_owned()))
        .build_virtual()
        .unwrap();
    let executor = ByHand::default();
    let run = |_: &CancelToken| -> () { panic!("out of luck") };
    let outcomes = Notes::new();
    let hook = outcomes.clone();
    let task = every_ten()
        .on_settled(move |report: &RunReport| hook.add(report.outcome.clone()))
        .build()
        .unwrap()
        .start(&time, executor.clone(), run)
        .unwrap();
    for _ in 0..3 {
        time.advance(secs(10));
        assert!(executor.run_next());
    }
    time.advance(ns(0));
    let counts = task.counts();
    assert_eq!((counts.failures, counts.rejections, counts.runs), (3, 0, 3));
    assert_eq!(outcomes.take(), vec![Outcome::Panic("out of luck".to_owned()); 3]);
    assert_eq!(seen.take(), ["out of luck"; 3]);
    assert_eq!(time.metrics().panicked, 3);
}

#[test]
fn the_hook_is_told_of_each_run_in_order_with_what_took_how_long_and_what_comes_next() {
    let time = virtual_time();
    let executor = Refusing::default();
    let reports = Notes::new();
    let hook = reports.clone();
    let bad = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&bad);
    let run = move |_: &CancelToken| {
        if failing.load(Ordering::SeqCst) { Err(String::from("503")) } else { Ok(7) }
    };
    let _task = every_ten()
        .on_settled(move |report| {
            hook.add((report.number, report.outcome.clone(), report.took, report.next_in));
        })
        .build()
        .unwrap()
        .start(&time, executor.clone(), run)
        .unwrap();
    time.advance(secs(10));
    time.advance(secs(1));
    executor.inner.run_next();
    bad.store(true, Ordering::SeqCst);
    time.advance(secs(10));
    time.advance(secs(2));
    executor.inner.run_next();
    time.advance(secs(10));
    time.advance(secs(4));
    executor.inner.abandon();
    executor.how.lock().unwrap().push_back("full");
    time.advance(secs(20));
    assert_eq!(
        reports.take(),
        [
            (1, Outcome::Success, secs(1), Some(secs(10))),
            (2, Outcome::Failure("503".to_owned()), secs(2), Some(secs(10))),
            (3, Outcome::Timeout, secs(4), Some(secs(20))),
            (4, Outcome::Rejected, secs(0), Some(secs(20))),
        ]
    );
}

#[test]
fn jitter_stays_inside_the_bound_spreads_and_is_the_same_for_the_same_seed() {
    let delays = |seed| {
        let time = virtual_time();
        let reports = Notes::new();
        let hook = reports.clone();
        let builder = Supervision::every(secs(10)).timeout(secs(4)).max_interval(secs(35));
        let (_task, executor) = by_hand(
            &time,
            builder
                .jitter(0.5)
                .jitter_seed(seed)
                .on_settled(move |report| hook.add(report.next_in.unwrap())),
        );
        for run in 0..200 {
            while executor.waiting() == 0 {
                time.advance_to_next();
            }
            if run < 100 {
                executor.run_next();
            } else {
                time.advance(secs(4));
                executor.abandon();
            }
        }
        reports.take()
    };
    let drawn = delays(7);
    assert_eq!(drawn.len(), 200);
    for (run, delay) in drawn.iter().enumerate() {
        let interval = if run < 100 { 10 } else { [20, 35][usize::from(run > 100)] };
        let interval = secs(interval);
        assert!(*delay <= interval && *delay >= interval / 2, "run {run}: {delay:?}");
    }
    // Also at the bound they are spread.
    let at_bound = &drawn[101..];
    assert!(at_bound.iter().any(|delay| *delay < secs(22)));
    assert!(at_bound.iter().any(|delay| *delay > secs(30)));
    assert_eq!(drawn, delays(7));
    assert_ne!(drawn, delays(8));
}
