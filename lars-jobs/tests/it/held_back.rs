//! Threads that backpressure holds back, and others that use the same objects meanwhile.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{ms, occupy};
use lars_jobs::Jobs;
use lars_jobs::debounce::Debounce;
use lars_jobs::repeated_timer::RepeatedTimer;
use lars_jobs::scheduled_executor::ScheduledExecutor;
use lars_jobs::supervised::Supervision;
use lars_jobs::worker::Worker;
use lars_scheduler::listing::{TimerKind, TimerQuery};
use lars_scheduler::{Handle, Inline, LightArrayRevolverScheduler};

/// So many cancelled timers of another thread cost a thread so much that its next call waits for
/// some hundred milliseconds, or for the second that is the most.
const DEBT: usize = 50_000;

const FAR: Duration = Duration::from_secs(1 << 30);

/// A thread that owes a lot calls `held_back`, and waits in it. What that returned, and what
/// `meanwhile` did while it waited; `None` if it did not wait all the time.
fn during_a_wait<T: Send + Sync + 'static, R: Send + 'static, M>(
    make: impl Fn(&Handle) -> T,
    held_back: fn(&T) -> R,
    meanwhile: impl Fn(&T) -> M,
) -> Option<(R, M)> {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let object = Arc::new(make(&scheduler));
    let timers = (0..DEBT).map(|_| (FAR, || ()));
    let timers = scheduler.schedule_batch(timers).unwrap();
    let release = occupy(&scheduler);
    let (called, handle) = (Arc::clone(&object), scheduler.handle());
    let (owes, begins) = mpsc::channel();
    let flood = thread::spawn(move || {
        // More than it has a share for, so that it asks. After that it hears nothing of the
        // timer thread for so long that this is late.
        (0..3_000).for_each(|_| drop(handle.schedule_once(FAR, || ()).unwrap()));
        thread::sleep(ms(10));
        timers.iter().for_each(|timer| assert!(timer.cancel()));
        owes.send(()).unwrap();
        held_back(&called)
    });
    begins.recv().unwrap();
    let waits = || scheduler.waits().iter().map(|it| it.waiting).sum::<u64>() > 0;
    while !waits() && !flood.is_finished() {
        thread::yield_now();
    }
    let done = meanwhile(&object);
    let still_waits = waits();
    drop(release);
    let returned = flood.join().unwrap();
    still_waits.then_some((returned, done))
}

/// The same, until it has waited. (Now and then a machine may keep a thread from running for as
/// long as the other waits.)
fn waiting<T: Send + Sync + 'static, R: Send + 'static, M>(
    make: impl Fn(&Handle) -> T,
    held_back: fn(&T) -> R,
    meanwhile: impl Fn(&T) -> M,
) -> (R, M) {
    let waited = (0..20).find_map(|_| during_a_wait(&make, held_back, &meanwhile));
    waited.expect("`meanwhile` waits for the thread that is held back")
}

/// Fails if no other thread can call `other` while a thread is held back in a call.
fn nobody_else_waits<T: Send + Sync + 'static>(
    make: impl Fn(&Handle) -> T,
    held_back: fn(&T),
    other: fn(&T),
) {
    waiting(make, held_back, other);
}

/// What a call has scheduled is due so long after the call began, although that was held back.
fn counts_from_the_call<T: Send + Sync + 'static>(
    make: impl Fn(&Handle) -> T,
    call: fn(&T) -> Option<Instant>,
) {
    let (due, during_the_call) = waiting(make, call, |_| Instant::now());
    assert!(due.unwrap() <= during_the_call + FAR);
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn the_delay_of_a_call_counts_from_the_call_even_if_that_is_held_back() {
    counts_from_the_call(Handle::clone, |it| it.schedule_call(FAR, || ()).unwrap().due());
    counts_from_the_call(ScheduledExecutor::on, |it| it.schedule(FAR, || ()).unwrap().due());
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn a_series_of_calls_begins_when_it_says_even_if_its_call_is_held_back() {
    /// When the only series of this scheduler runs first.
    fn first_run(timers: &Handle) -> Option<Instant> {
        let listing = timers.list(TimerQuery::new().limit(usize::MAX)).wait();
        listing.timers.iter().find(|timer| timer.kind == TimerKind::Repeat).unwrap().due
    }
    let calls: [fn(&Handle) -> _; 2] = [
        |it| {
            let series = it.schedule_calls_with_fixed_delay(FAR, FAR, || ()).unwrap();
            (series.due(), first_run(it))
        },
        |it| {
            let jobs = ScheduledExecutor::on(it);
            let series = jobs.schedule_at_fixed_rate(FAR, FAR, || ()).unwrap();
            (series.due(), first_run(it))
        },
    ];
    for call in calls {
        let ((said, runs), ()) = waiting(Handle::clone, call, |_| ());
        assert_eq!(said, runs);
    }
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn a_call_of_a_debounce_that_waits_blocks_no_other_caller() {
    let make = |timers: &Handle| Debounce::new(timers, FAR, |_: u32| ()).unwrap();
    nobody_else_waits(make, |it| it.call(7).unwrap(), |it| _ = it.is_pending());
    let with_value = |timers: &Handle| {
        let debounce = make(timers);
        debounce.call(7).unwrap();
        debounce
    };
    nobody_else_waits(with_value, |it| assert!(it.flush().unwrap()), |it| _ = it.is_pending());
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn a_call_of_a_worker_that_waits_blocks_no_other_caller() {
    let calls: [fn(&Worker); 3] = [
        |it| drop(it.schedule(|| ()).unwrap()),
        |it| drop(it.schedule_after(FAR, || ()).unwrap()),
        |it| drop(it.schedule_with_fixed_delay(FAR, FAR, || ()).unwrap()),
    ];
    for call in calls {
        nobody_else_waits(Worker::new, call, |it| _ = it.outstanding());
    }
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn a_call_of_a_repeated_timer_that_waits_blocks_no_other_caller() {
    let make = |timers: &Handle| RepeatedTimer::new(timers, FAR, |_| ()).unwrap();
    nobody_else_waits(make, |it| it.start().unwrap(), |it| _ = it.is_triggering());
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn a_call_of_an_executor_that_waits_blocks_no_other_caller() {
    let calls: [fn(&ScheduledExecutor); 2] = [
        |it| drop(it.schedule(FAR, || ()).unwrap()),
        |it| drop(it.submit_with_timeout(FAR, || ()).unwrap()),
    ];
    for call in calls {
        nobody_else_waits(ScheduledExecutor::on, call, |it| _ = it.is_shutdown());
    }
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn a_call_of_a_supervised_task_that_waits_blocks_no_other_caller() {
    let make = |timers: &Handle| {
        let supervision = Supervision::every(FAR).build().unwrap();
        supervision.start(timers, Inline, |_| ()).unwrap()
    };
    nobody_else_waits(make, |it| it.run_now().unwrap(), |it| _ = it.counts());
}
