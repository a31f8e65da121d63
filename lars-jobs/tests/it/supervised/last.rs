//! A run that ends its task.

use std::ops::ControlFlow;

use super::*;

/// A task whose third run is the last.
fn three_runs(captive: Captive) -> impl Fn(&CancelToken) -> ControlFlow<()> + Send + Sync {
    let runs = AtomicU32::new(0);
    move |_| {
        let _ = &captive;
        match runs.fetch_add(1, Ordering::SeqCst) {
            2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[test]
fn a_run_that_breaks_is_a_success_and_the_last_and_drops_the_task_and_its_timers() {
    for by_hand in [false, true] {
        let (time, notes) = (virtual_time(), Notes::new());
        let executor = ByHand::default();
        let run = three_runs(Captive::new(&notes, "dropped"));
        let settled = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&settled);
        let supervision = every_ten().on_settled(move |report| {
            told.lock().unwrap().push((report.outcome.clone(), report.next_in.is_some()));
        });
        let supervision = supervision.build().unwrap();
        let task = match by_hand {
            true => supervision.start(&time, executor.clone(), run).unwrap(),
            false => supervision.start(&time, Inline, run).unwrap(),
        };
        drop(supervision);
        for _ in 0..10 {
            time.advance(secs(10));
            executor.run_next();
        }
        assert_eq!(notes.take(), ["dropped"]);
        assert!(task.is_ended() && !task.cancel());
        assert_eq!(task.run_now(), Err(RunNowError::Ended));
        assert_eq!(time.pending(), 0);
        let counts = task.counts();
        assert_eq!((counts.runs, counts.successes, counts.next_run), (3, 3, None));
        let settled = settled.lock().unwrap();
        let next: Vec<_> = settled.iter().map(|(_, next)| *next).collect();
        assert_eq!(next, [true, true, false], "by hand: {by_hand}");
        assert!(settled.iter().all(|(outcome, _)| *outcome == Outcome::Success));
    }
}

#[test]
fn a_future_that_breaks_ends_its_task_too() {
    let time = virtual_time();
    let make = |_: CancelToken| async { ControlFlow::<()>::Break(()) };
    let task = every_ten().build().unwrap().start_future(&time, Inline, make).unwrap();
    time.advance(secs(100));
    assert!(task.is_ended());
    assert_eq!((task.counts().runs, task.counts().successes, time.pending()), (1, 1, 0));
}

#[test]
fn a_run_that_was_given_up_and_breaks_later_ends_nothing() {
    let time = virtual_time();
    let executor = ByHand::default();
    let release = Arc::new(Mutex::new(None));
    let make = {
        let release = Arc::clone(&release);
        move |_: CancelToken| {
            let (sender, receiver) = ::futures::channel::oneshot::channel();
            release.lock().unwrap().get_or_insert(sender);
            async move {
                match receiver.await {
                    Ok(()) => ControlFlow::Break(()),
                    Err(_) => ControlFlow::Continue(()),
                }
            }
        }
    };
    let leave = every_ten().given_up(GivenUp::Leave).max_concurrent(2).build().unwrap();
    let task = leave.start_future(&time, executor.clone(), make).unwrap();
    time.advance(secs(10));
    while executor.run_next() {}
    time.advance(secs(4));
    while executor.run_next() {}
    assert_eq!(task.counts().timeouts, 1);
    release.lock().unwrap().take().unwrap().send(()).unwrap();
    while executor.run_next() {}
    assert_eq!(task.counts().late_ends, 1);
    assert!(!task.is_ended());
    assert!(task.cancel());
}

#[test]
fn a_task_whose_first_run_is_its_last_ends_wherever_that_runs() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    for number in 0..scaled(200, 10) {
        let supervision = Supervision::every(secs(3600)).initial_delay(Duration::ZERO);
        let supervision = supervision.build().unwrap();
        let run = |_: &CancelToken| ControlFlow::Break(());
        let task = match number % 2 {
            0 => supervision.start(&scheduler, Inline, run).unwrap(),
            _ => supervision.start(&scheduler, Pool::new("last", 1).unwrap(), run).unwrap(),
        };
        eventually("its end", || task.is_ended() && scheduler.pending() == 0);
        assert_eq!(task.counts().successes, 1);
    }
}
