//! Whose the timers of systems are.
use std::future::{self, Future};
use std::panic::Location;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use futures::{FutureExt as _, StreamExt};
use lars_jobs::Jobs;
use lars_jobs::backoff::BackoffPolicy;
use lars_jobs::call::Call;
use lars_jobs::debounce::{Debounce, Throttle};
use lars_jobs::delay_queue::DelayQueue;
use lars_jobs::repeated_timer::RepeatedTimer;
use lars_jobs::scheduled_executor::{DelayedTasks, ScheduledExecutor, ShutdownPolicy};
use lars_jobs::supervised::Supervision;
use lars_jobs::wall_clock::{VirtualWallClock, WallClockScheduler};
use lars_jobs::worker::Worker;
use lars_scheduler::future::FutureExt;
use lars_scheduler::hooks::{PanicIn, PanicReport};
use lars_scheduler::listing::TimerQuery;
use lars_scheduler::{
    Builder, Inline, LightArrayRevolverScheduler, Periodic, TaskIdentity, VirtualTime,
};

use crate::common;

const SECOND: Duration = Duration::from_secs(1);

fn builder() -> Builder {
    LightArrayRevolverScheduler::builder()
}

#[track_caller]
fn is_ours(identity: TaskIdentity, name: Option<&str>) {
    assert_eq!(identity.name(), name);
    assert!(identity.type_name().starts_with(module_path!()), "{identity:?}");
    let place = identity.place().expect("it was scheduled");
    assert_eq!(place.file(), Location::caller().file());
}

#[test]
fn timers_of_systems_have_the_names_that_those_were_given() {
    let time = builder().build_virtual().unwrap();
    let line = line!() + 1;
    let call = time.schedule_call(SECOND, Call::new(|| 1).named("call")).unwrap();
    let worker = Worker::builder(&time).named("worker").build();
    worker.schedule_after(2 * SECOND, || ()).unwrap();
    worker.schedule_with_fixed_delay(3 * SECOND, SECOND, || ()).unwrap();
    let timer = RepeatedTimer::builder(&time, 4 * SECOND).named("repeated").build(|_| ()).unwrap();
    timer.start().unwrap();
    let refresh = Supervision::every(5 * SECOND).named("supervised").build().unwrap();
    let refresh = refresh.start(&time, Inline, |_| ()).unwrap();
    let listing = time.list(TimerQuery::new()).wait();
    let names: Vec<_> = listing.timers.iter().map(|timer| timer.identity.label()).collect();
    assert_eq!(names, ["call", "worker", "worker", "repeated", "supervised"]);
    is_ours(listing.timers[0].identity, Some("call"));
    assert_eq!(listing.timers[0].identity.place().unwrap().line(), line);
    drop((call, refresh));
}

#[test]
fn a_panic_of_what_a_system_runs_is_reported_with_whose_it_is() {
    let (sender, reports) = mpsc::channel();
    let tell = move |report: &PanicReport<'_>| sender.send(report.task).unwrap();
    let time = builder().inline().on_panic(tell).build_virtual().unwrap();
    let worker = Worker::builder(&time).named("worker").build();
    worker.schedule(fail).unwrap();
    worker.schedule_after(SECOND, fail).unwrap();
    worker.schedule_at_fixed_rate(2 * SECOND, SECOND, || -> () { fail() }).unwrap();
    let timer = RepeatedTimer::builder(&time, 3 * SECOND).named("repeated");
    let timer = timer.build(|timer| {
        timer.stop();
        fail();
    });
    timer.as_ref().unwrap().start().unwrap();
    let debounce = Debounce::builder(&time, 4 * SECOND).named("debounce");
    let debounce = debounce.build(|()| fail()).unwrap();
    debounce.call(()).unwrap();
    let throttle = Throttle::builder(&time, 5 * SECOND).named("throttle").leading(false);
    let throttle = throttle.build(|()| fail()).unwrap();
    throttle.call(()).unwrap();
    let refresh = Supervision::every(6 * SECOND).named("supervised").build().unwrap();
    let closure = refresh.start(&time, Inline, |_| fail()).unwrap();
    time.advance(6 * SECOND);
    closure.cancel();
    let future = refresh.start_future(&time, Inline, |_| async { fail() }).unwrap();
    time.advance(6 * SECOND);
    for name in [
        "worker",
        "worker",
        "worker",
        "repeated",
        "debounce",
        "throttle",
        "supervised",
        "supervised",
    ] {
        is_ours(reports.try_recv().unwrap().expect("it is somebody's"), Some(name));
    }
    assert!(reports.try_recv().is_err());
    drop(future);
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("expected by this test");
    }
}

fn fail() {
    panic!("expected by this test");
}

/// Virtual time, and whose the panics are that it reports.
fn reporting() -> (VirtualTime, mpsc::Receiver<(PanicIn, Option<TaskIdentity>)>) {
    let (sender, reports) = mpsc::channel();
    let tell = move |report: &PanicReport<'_>| sender.send((report.place, report.task)).unwrap();
    (builder().inline().on_panic(tell).build_virtual().unwrap(), reports)
}

#[test]
fn a_panic_on_the_wall_clock_is_reported_with_whose_it_is() {
    let (time, reports) = reporting();
    let start = SystemTime::UNIX_EPOCH;
    let clock = VirtualWallClock::new(time.handle(), start);
    let wall = WallClockScheduler::with_clock(time.handle(), clock).named("wall");
    wall.schedule_at_system_time(start + SECOND, fail).unwrap();
    let each = |after: SystemTime| Some(after + SECOND);
    let daily = wall.schedule_by_calendar(each, || -> () { fail() }).unwrap();
    let listing = time.list(TimerQuery::new().label("wall")).wait();
    assert_eq!(listing.timers.len(), 2);
    time.advance(2 * SECOND);
    for _ in 0..2 {
        let (place, task) = reports.try_recv().unwrap();
        assert_eq!(place, PanicIn::Task);
        is_ours(task.expect("it is somebody's"), Some("wall"));
    }
    assert!(!daily.is_pending(), "a panic ends the series");
    assert!(reports.try_recv().is_err());
}

#[test]
fn a_panic_in_a_scheduled_executor_is_reported_with_whose_it_is() {
    let (time, reports) = reporting();
    let jobs = ScheduledExecutor::on(&time);
    let named = || Call::new(fail).named("job");
    let call = jobs.schedule(SECOND, named()).unwrap();
    time.advance(SECOND);
    let busy = common::ByHand::default();
    let slow = Call::new(|| ()).named("job").executor(busy.clone());
    let or = jobs.submit_with_timeout_or(SECOND, slow, fail).unwrap();
    time.advance(SECOND);
    // Handed back, and run by the holder.
    let unstarted = jobs.schedule(SECOND, named()).unwrap();
    for task in jobs.shutdown_now() {
        assert!(!task.run());
    }
    for number in 0..3 {
        let (place, task) = reports.try_recv().unwrap_or_else(|_| panic!("only {number}"));
        assert_eq!(place, PanicIn::Task);
        is_ours(task.expect("it is somebody's"), Some("job"));
    }
    assert_eq!(time.metrics().panicked, 3);
    drop((call, or, unstarted));
}

#[test]
fn a_destructor_that_panics_is_reported_with_whose_it_is() {
    let (time, reports) = reporting();
    let bomb = || {
        let bomb = Bomb;
        move || {
            let _ = &bomb;
        }
    };
    let call = || Call::new(bomb()).named("job");
    let jobs = ScheduledExecutor::on(&time);
    assert!(jobs.schedule(SECOND, call()).unwrap().cancel());
    let busy = common::ByHand::default();
    let given_up = call().executor(busy.clone());
    let given_up = jobs.submit_with_timeout(SECOND, given_up).unwrap();
    time.advance(SECOND);
    let (one, other) = (jobs.schedule(SECOND, call()), jobs.schedule(SECOND, call()));
    let policy = ShutdownPolicy { delayed: DelayedTasks::Cancel, ..ShutdownPolicy::default() };
    assert_eq!(jobs.shutdown(policy), 2);
    let jobs = ScheduledExecutor::on(&time);
    let last = jobs.schedule(SECOND, call()).unwrap();
    drop(jobs.shutdown_now());
    let periodic = Periodic::new(bomb()).named("job");
    assert!(time.schedule_at_fixed_rate(SECOND, SECOND, periodic).unwrap().cancel());
    let once = Periodic::new(bomb()).named("job").times(1);
    let once = time.schedule_at_fixed_rate(SECOND, SECOND, once).unwrap();
    time.advance(SECOND);
    let hook = Periodic::new(|| ()).named("job").on_cancel(fail);
    assert!(time.schedule_at_fixed_rate(SECOND, SECOND, hook).unwrap().cancel());
    for number in 0..8 {
        let (place, task) = reports.try_recv().unwrap_or_else(|_| panic!("only {number}"));
        assert_eq!(place, PanicIn::Cleanup);
        is_ours(task.unwrap_or_else(|| panic!("whose is number {number}?")), Some("job"));
    }
    assert!(reports.try_recv().is_err());
    drop((given_up, one, other, last, once));
}

#[test]
fn timers_of_systems_show_the_place_of_the_users_code() {
    let time = builder().build_virtual().unwrap();
    let first = line!() + 1;
    let worker = Worker::new(&time);
    worker.schedule(|| ()).unwrap();
    worker.schedule_after(SECOND, || ()).unwrap();
    worker.schedule_with_fixed_delay(2 * SECOND, SECOND, || ()).unwrap();
    worker.schedule_at_fixed_rate(3 * SECOND, SECOND, || ()).unwrap();
    let timer = RepeatedTimer::new(&time, 4 * SECOND, |_| ()).unwrap();
    timer.start().unwrap();
    let refresh = Supervision::every(5 * SECOND).build().unwrap();
    let refresh = refresh.start(&time, Inline, |_| ()).unwrap();
    let jobs = ScheduledExecutor::on(&time);
    let job = jobs.schedule(6 * SECOND, || ()).unwrap();
    let wall = WallClockScheduler::new(time.handle());
    let at = SystemTime::now() + 3_600 * SECOND;
    let at = wall.schedule_at_system_time(at, || ()).unwrap();
    let listing = time.list(TimerQuery::new()).wait();
    let places = listing.timers.iter().map(|timer| timer.identity.place().unwrap());
    let lines: Vec<_> = places
        .map(|place| {
            assert_eq!(place.file(), file!());
            place.line() - first
        })
        .collect();
    // (The drain is the worker's, whichever task it is for.)
    assert_eq!(lines, [0, 2, 3, 4, 5, 8, 10, 13]);
    drop((refresh, job, at));
}

#[test]
fn timers_of_a_scheduled_executor_show_the_place_of_the_users_call() {
    let time = builder().build_virtual().unwrap();
    let jobs = ScheduledExecutor::on(&time);
    let first = line!() + 1;
    let job = jobs.schedule(SECOND, || ()).unwrap();
    let limited = jobs.submit_with_timeout(2 * SECOND, || ()).unwrap();
    let or = jobs.submit_with_timeout_or(3 * SECOND, || (), || ()).unwrap();
    let delay = jobs.schedule_with_fixed_delay(4 * SECOND, SECOND, || ()).unwrap();
    let rate = jobs.schedule_at_fixed_rate(5 * SECOND, SECOND, || ()).unwrap();
    let mut places: Vec<_> = lines_of(&time).iter().map(|line| line - first).collect();
    // The limits have a timer each. Their tasks are due at once, in no order of a listing.
    places[..2].sort_unstable();
    assert_eq!(places, [1, 2, 0, 1, 2, 3, 4]);
    drop((job, limited, or, delay, rate));
}

#[test]
fn the_limits_of_many_tasks_at_once_show_the_place_of_the_users_call() {
    const LONG: Duration = Duration::from_secs(600);
    // A scheduler for each: a limit may be pending for a moment after its tasks are over.
    let (for_all, for_any) = (builder().build().unwrap(), builder().build().unwrap());
    let look = |scheduler: &LightArrayRevolverScheduler| {
        let handle = scheduler.handle();
        move || {
            let listing = handle.list(TimerQuery::new().place(file!())).wait();
            let places = listing.timers.iter().map(|timer| timer.identity.place().unwrap().line());
            Ok::<_, ()>(places.collect::<Vec<_>>())
        }
    };
    let all = ScheduledExecutor::on(&for_all).invoke_all_timeout([look(&for_all)], LONG);
    assert_eq!(all[0].as_ref().unwrap().as_ref().unwrap(), &[line!() - 1]);
    let any = ScheduledExecutor::on(&for_any).invoke_any_timeout([look(&for_any)], LONG);
    assert_eq!(any.unwrap(), [line!() - 1]);
}

/// The lines of the pending timers' places, from the one that is due first.
fn lines_of(time: &VirtualTime) -> Vec<u32> {
    let listing = time.list(TimerQuery::new()).wait();
    let lines = listing.timers.iter().map(|timer| {
        let place = timer.identity.place().unwrap();
        assert_eq!(place.file(), file!());
        place.line()
    });
    lines.collect()
}

fn poll_once(future: impl Future) {
    assert!(future.now_or_never().is_none());
}

#[test]
fn timers_of_futures_and_of_delay_queues_show_the_place_of_the_users_call() {
    let time = builder().build_virtual().unwrap();
    let queue = DelayQueue::with_clock({
        let clock = time.handle();
        move || clock.now()
    });
    queue.put((), 10 * SECOND).unwrap();
    let policy = BackoffPolicy::builder().initial(9 * SECOND).build().unwrap();
    let failing = || future::ready(Err::<(), ()>(()));
    let first = line!() + 1;
    let mut sleep = time.sleep(SECOND);
    let mut until = time.sleep_until(time.now() + 2 * SECOND);
    let mut timeout = time.timeout(3 * SECOND, future::pending::<()>());
    let mut timeout_at = time.timeout_at(time.now() + 4 * SECOND, future::pending::<()>());
    let mut after = time.after(5 * SECOND, future::pending::<()>());
    let mut by_method = future::pending::<()>().timeout(&time, 6 * SECOND);
    let mut interval_at = time.interval_at(time.now() + 7 * SECOND, SECOND).unwrap();
    let mut interval = time.interval(8 * SECOND).unwrap();
    let mut retry = Box::pin(time.retry(policy, failing));
    let mut next = queue.next(&time);
    assert!(interval.tick().now_or_never().is_some());
    poll_once(&mut sleep);
    poll_once(&mut until);
    poll_once(&mut timeout);
    poll_once(&mut timeout_at);
    poll_once(&mut after);
    poll_once(&mut by_method);
    poll_once(interval_at.tick());
    poll_once(interval.tick());
    poll_once(&mut retry);
    poll_once(&mut next);
    assert_eq!(lines_of(&time), (first..first + 10).collect::<Vec<_>>());
    drop(next);
    let line = line!() + 1;
    let mut items = queue.stream(&time);
    poll_once(items.next());
    assert_eq!(lines_of(&time).last(), Some(&line));
    // It stays when the future is moved to another deadline, and polled by another task.
    sleep.reset(11 * SECOND);
    poll_once(&mut sleep);
    assert_eq!(lines_of(&time).last(), Some(&first));
}
