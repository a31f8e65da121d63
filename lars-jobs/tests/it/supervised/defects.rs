//! What the originals get wrong, or do not say.

use super::*;

#[test]
fn a_run_that_takes_for_ever_blocks_neither_the_timer_thread_nor_another_task_of_one_pool_thread() {
    // The original waits for the run in the scheduler's thread.
    let scheduler =
        LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap();
    let (release, hold) = mpsc::channel::<()>();
    let hold = Mutex::new(hold);
    let task = Supervision::every(ms(1))
        .timeout(secs(3600))
        .max_interval(secs(3600))
        .build()
        .unwrap()
        .start(&scheduler, Pool::new("slow", 1).unwrap(), move |_| {
            let _ = hold.lock().unwrap().recv();
        })
        .unwrap();
    eventually("the run to begin", || task.counts().running == 1);
    // The scheduler's only pool thread and its timer thread both go on.
    let (sender, receiver) = mpsc::channel();
    for delay in [0, 1, 5] {
        let sender = sender.clone();
        let _ = scheduler.schedule_once(ms(delay), move || sender.send(()).unwrap()).unwrap();
    }
    for _ in 0..3 {
        receiver.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(task.counts().running, 1);
    task.cancel();
    drop(release);
}

#[test]
fn it_ends_with_its_scheduler_by_itself() {
    // SOFARegistry's copy schedules itself again on a scheduler that was shut down.
    for how in ["stop", "close", "drop"] {
        let notes = Notes::new();
        let captive = Captive::new(&notes, "the task was dropped");
        let time = virtual_time();
        let executor = ByHand::default();
        let run = move |_: &CancelToken| {
            let _ = &captive;
        };
        let task = every_ten().build().unwrap().start(&time, executor.clone(), run).unwrap();
        time.advance(secs(10));
        assert!(executor.run_next());
        match how {
            "stop" => drop(time.stop()),
            "close" => assert_eq!(time.close().unwrap().repeats_ended, 1),
            _ => drop(time),
        }
        assert!(task.is_ended(), "after {how}");
        assert_eq!(notes.take(), ["the task was dropped"], "after {how}");
        assert_eq!(task.run_now(), Err(RunNowError::Ended));
        assert_eq!(executor.waiting(), 0);
        assert_eq!(task.counts().runs, 1);
        assert!(!task.cancel());
    }
}

#[test]
fn a_run_under_way_when_the_scheduler_stops_is_given_up_and_still_counted() {
    let time = Arc::new(virtual_time());
    let executor = ByHand::default();
    let (stop, seen) = (Arc::clone(&time), Notes::new());
    let notes = seen.clone();
    let task = every_ten()
        .build()
        .unwrap()
        .start(&time, executor.clone(), move |token| {
            notes.add(token.is_cancelled());
            drop(stop.stop());
            notes.add(token.is_cancelled());
        })
        .unwrap();
    time.advance(secs(10));
    assert!(executor.run_next());
    assert_eq!(seen.take(), [false, true]);
    let counts = task.counts();
    assert_eq!((counts.successes, counts.running, counts.next_run), (1, 0, None));
    assert!(task.is_ended());
}

#[test]
fn a_run_under_way_is_given_up_when_the_scheduler_stops_also_while_what_it_handed_back_is_kept() {
    let time = virtual_time();
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&tokens);
    let task = Supervision::every(secs(10))
        .timeout(secs(5))
        .build()
        .unwrap()
        .start_future(&time, Inline, move |token| {
            sees.lock().unwrap().push(token.clone());
            pending::<()>()
        })
        .unwrap();
    time.advance(secs(11));
    let handed_back = time.stop().wait();
    let tokens: Vec<bool> = tokens.lock().unwrap().iter().map(|t| t.is_cancelled()).collect();
    assert_eq!(tokens, [true], "while the list is kept");
    assert_eq!(task.counts().running, 0);
    for next_run in handed_back {
        assert!(next_run.is_repeat() && next_run.run());
    }
    assert_eq!(task.counts().runs, 1, "the supervision is over");
}

#[test]
fn a_start_on_a_stopped_or_full_scheduler_is_refused_and_the_closure_given_back() {
    let time = LightArrayRevolverScheduler::builder().max_pending(1).build_virtual().unwrap();
    let _other = time.schedule_once(secs(1), || ()).unwrap();
    let policy = every_ten().build().unwrap();
    let error = policy.start(&time, Inline, |_: &CancelToken| ()).unwrap_err();
    assert_eq!(error.refusal(), &Refusal::Full { limit: 1 });
    let run = error.into_task();
    drop(time.stop());
    let error = policy.start(&time, Inline, run).unwrap_err();
    assert_eq!(error.refusal(), &Refusal::Stopped);
    let make = |_: CancelToken| async {};
    let error = policy.start_future(&time, Inline, make).unwrap_err();
    assert_eq!(error.refusal(), &Refusal::Stopped);
    let _make: fn(CancelToken) -> _ = error.into_task();
}

#[test]
fn a_scheduler_that_is_full_between_two_runs_does_not_end_the_task() {
    let time = LightArrayRevolverScheduler::builder().max_pending(2).build_virtual().unwrap();
    let builder = Supervision::every(secs(1)).timeout(secs(100)).max_interval(secs(10));
    let (task, executor) = by_hand(&time, builder);
    let others: Vec<_> =
        std::iter::from_fn(|| time.schedule_once(Duration::MAX, || ()).ok()).collect();
    assert_eq!(others.len(), 1);
    time.advance(secs(1));
    assert!(executor.run_next()); // ends 100 s before its deadline
    assert_eq!(task.run_now(), Err(RunNowError::Refused(Refusal::Full { limit: 2 })));
    let mut late = Duration::ZERO;
    while executor.waiting() == 0 {
        late += time.advance_to_next().expect("the task was lost");
    }
    assert!(late >= secs(1) && late <= secs(10), "{late:?}");
    // With room again it is punctual again.
    others.iter().for_each(|other| assert!(other.cancel()));
    executor.run_next();
    time.advance(secs(1));
    assert_eq!(executor.waiting(), 1);
}
