//! Random histories against a model, and races of real threads.

use super::*;

/// Random ends, timeouts, rejections and requests: each run comes exactly when the model says.
#[test]
fn over_many_random_histories_no_run_overlaps_is_early_late_or_uncounted() {
    for seed in 1..=scaled(200, 5) as u64 {
        let mut random = Xorshift(seed * 0x9e37_79b9);
        let time = virtual_time();
        let executor = Refusing::default();
        let timeout = secs(1 + random.below(20));
        let reports = Notes::new();
        let hook = reports.clone();
        let clock = time.handle();
        let task = Supervision::every(secs(5))
            .timeout(timeout)
            .max_interval(secs(40))
            .on_settled(move |report| hook.add((clock.now(), report.clone())))
            .build()
            .unwrap()
            .start(&time, executor.clone(), |_| ())
            .unwrap();
        let mut interval = secs(5);
        let mut due = Some(time.now() + secs(5));
        let mut runs = 0;
        for _ in 0..200 {
            match random.below(5) {
                0 => drop(executor.inner.run_next()),
                1 => executor.how.lock().unwrap().push_back("full"),
                2 => {
                    // One that will still be due later runs now.
                    if due.is_some_and(|due| due > time.now()) {
                        due = Some(time.now());
                    }
                    // During a run this asks for another, which the model below sees in `next_in`.
                    task.run_now().unwrap();
                }
                _ => drop(time.advance(ms(random.below(9_000)))),
            }
            let counts = task.counts();
            assert!(add_up(&counts), "{counts:?}");
            assert!(counts.runs <= runs + 1 + reports.len() as u64, "two runs at once");
            for (at, report) in reports.take() {
                runs += 1;
                assert_eq!(report.number, runs, "a run was settled twice, or out of order");
                let began = at - report.took;
                assert_eq!(Some(began), due, "run {runs} was early or late");
                match report.outcome {
                    Outcome::Success => interval = secs(5),
                    Outcome::Timeout => {
                        assert!(report.took >= timeout, "given up early");
                        interval = (interval * 2).min(secs(40));
                    }
                    Outcome::Rejected => assert_eq!(report.took, Duration::ZERO),
                    other => panic!("{other:?}"),
                }
                let next_in = report.next_in.unwrap();
                assert!(next_in == interval || next_in.is_zero());
                due = Some(at + next_in);
            }
        }
        let counts = task.counts();
        assert_eq!(counts.failures + counts.withdrawn, 0);
        assert!(runs >= 20, "hardly anything happened: {runs}");
    }
}

#[test]
fn a_run_that_ends_as_its_time_is_over_is_counted_once_whoever_wins() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .tick_duration(Duration::from_micros(100))
        .build()
        .unwrap();
    let inside = Arc::new(Concurrency::default());
    let enter = Arc::clone(&inside);
    let settled = Notes::new();
    let hook = settled.clone();
    let task = Supervision::every(Duration::from_micros(300))
        .max_interval(Duration::from_micros(300))
        .on_settled(move |report| hook.add(report.number))
        .build()
        .unwrap()
        .start(&scheduler, Pool::new("race", 2).unwrap(), move |token| {
            let _inside = enter.enter();
            // Ends at about its deadline: the wake-up and the end race.
            token.wait_timeout(Duration::from_micros(290));
        })
        .unwrap();
    let enough = scaled(1_000, 20);
    eventually("many runs", || settled.len() >= enough);
    assert!(task.cancel());
    eventually("the last run to end", || task.counts().running == 0);
    let numbers = settled.take();
    assert_same(numbers.iter().copied(), 1..=numbers.len() as u64);
    let counts = task.counts();
    assert_eq!(inside.most(), 1);
    assert_eq!(
        counts.runs,
        counts.successes + counts.timeouts + counts.withdrawn,
        "a run was counted twice or not at all: {counts:?}"
    );
}

#[test]
fn no_run_begins_while_the_hook_hears_of_the_one_before() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let told = Notes::new();
    let hook = told.clone();
    let runs = Arc::new(AtomicU64::new(0));
    let (seen, run) = (Arc::clone(&runs), Arc::clone(&runs));
    let task = Supervision::every(Duration::from_micros(100))
        .timeout(secs(3_600))
        .on_settled(move |report| {
            // Far longer than the interval.
            std::thread::sleep(Duration::from_millis(2));
            hook.add((report.number, seen.load(Ordering::SeqCst)));
        })
        .build()
        .unwrap()
        .start(&scheduler, Pool::new("two", 2).unwrap(), move |_| {
            run.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let enough = scaled(50, 5);
    eventually("many reports", || told.len() >= enough);
    assert!(task.cancel());
    let told = told.take();
    assert_same(told.iter().copied(), (1..=told.len() as u64).map(|number| (number, number)));
}

#[test]
fn cancels_requests_and_a_stop_from_many_threads_leave_nothing_running_and_nothing_pending() {
    for round in 0..scaled(60, 4) {
        let scheduler = LightArrayRevolverScheduler::new().unwrap();
        let notes = Notes::new();
        let captive = Captive::new(&notes, "dropped");
        let make = move |token: CancelToken| {
            let _ = &captive;
            async move {
                token.cancelled().await;
                Err::<(), _>("given up")
            }
        };
        let task = Supervision::every(Duration::from_micros(200))
            .initial_delay(Duration::ZERO)
            .build()
            .unwrap()
            .start_future(&scheduler, Pool::new("many", 2).unwrap(), make)
            .unwrap();
        let cancelled: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let task = task.clone();
                    scope.spawn(move || {
                        for _ in 0..20 {
                            let _ = task.run_now();
                        }
                        usize::from(task.cancel())
                    })
                })
                .collect();
            if round % 2 == 0 {
                drop(scheduler.stop());
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(cancelled <= 1, "{cancelled} threads were told that they cancelled");
        assert!(round % 2 == 0 || cancelled == 1);
        eventually("the last run to end", || {
            let counts = task.counts();
            counts.running == 0
                && counts.runs
                    == counts.successes + counts.timeouts + counts.failures + counts.withdrawn
        });
        eventually("the task to be dropped", || notes.len() == 1);
        assert!(task.is_ended());
        eventually("its timers to go", || scheduler.pending() == 0);
    }
}

#[test]
fn a_panic_of_a_task_keeps_a_pool_thread_and_the_rhythm() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let task = Supervision::every(ms(1))
        .timeout(PATIENCE)
        .max_interval(PATIENCE)
        .build()
        .unwrap()
        .start(&scheduler, Pool::new("panics", 1).unwrap(), |_| -> () { panic!("again") })
        .unwrap();
    eventually("several runs", || task.counts().failures >= 5);
    assert!(task.cancel());
    eventually("their reports", || scheduler.metrics().panicked >= 5);
    assert!(catch_unwind(AssertUnwindSafe(|| task.counts())).is_ok());
}
