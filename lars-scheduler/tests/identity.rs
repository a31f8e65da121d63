//! Whose a task is: in panic reports, with cancellables, with what `stop` hands back.

use std::future::{self, Future};
use std::panic::Location;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use futures::{FutureExt as _, StreamExt};
use lars_scheduler::backoff::BackoffPolicy;
use lars_scheduler::call::Call;
use lars_scheduler::delay_queue::DelayQueue;
use lars_scheduler::future::FutureExt;
use lars_scheduler::repeated_timer::RepeatedTimer;
use lars_scheduler::scheduled_executor::ScheduledExecutor;
use lars_scheduler::supervised::Supervision;
use lars_scheduler::wall_clock::WallClockScheduler;
use lars_scheduler::worker::Worker;
use lars_scheduler::{
    Builder, Executor, Handle, Inline, LightArrayRevolverScheduler, PanicIn, Periodic, Pool, Task,
    TaskBody, TaskIdentity, TimerQuery, VirtualTime,
};

const SECOND: Duration = Duration::from_secs(1);

fn builder() -> Builder {
    LightArrayRevolverScheduler::builder()
}

/// Whose the tasks are that panic.
fn reporting(builder: Builder) -> (Builder, Receiver<(PanicIn, Option<TaskIdentity>)>) {
    let (sender, receiver) = channel();
    let tell = move |report: &lars_scheduler::PanicReport<'_>| {
        sender.send((report.place, report.task)).unwrap();
    };
    (builder.on_panic(tell), receiver)
}

#[track_caller]
fn is_ours(identity: TaskIdentity, name: Option<&str>) {
    assert_eq!(identity.name(), name);
    assert!(identity.type_name().starts_with("identity::"), "{identity:?}");
    let place = identity.place().expect("it was scheduled");
    assert_eq!(place.file(), Location::caller().file());
}

#[test]
fn a_panic_report_says_whose_the_task_is_wherever_it_runs() {
    let (builder, reports) = reporting(builder());
    let scheduler = builder.build().unwrap();
    let own: std::sync::Arc<dyn Executor> = std::sync::Arc::new(Pool::new("own", 1).unwrap());
    let fail = || panic!("expected by this test");
    let captured = [1_usize; 3];
    let fail_with_three_words = move || assert_eq!(captured[0], 2, "expected by this test");
    let captured = [1_usize; 9];
    let fail_with_nine_words = move || assert_eq!(captured[0], 2, "expected by this test");
    scheduler.schedule_once(Duration::ZERO, fail).unwrap();
    scheduler.schedule_once(Duration::ZERO, fail_with_three_words).unwrap();
    scheduler.schedule_once(Duration::ZERO, fail_with_nine_words).unwrap();
    scheduler.schedule_once(Duration::ZERO, Task::new(fail).inline()).unwrap();
    scheduler.schedule_once(Duration::ZERO, Task::new(fail).executor(own)).unwrap();
    scheduler.schedule_once(Duration::ZERO, Task::new(fail).on_cancel(|| ())).unwrap();
    scheduler.schedule_with_fixed_delay(Duration::ZERO, SECOND, move || -> () { fail() }).unwrap();
    scheduler.schedule_batch([(Duration::ZERO, fail)]).unwrap();
    for _ in 0..8 {
        let (place, task) = reports.recv().unwrap();
        assert_eq!(place, PanicIn::Task);
        is_ours(task.unwrap(), None);
    }
}

#[test]
fn a_panic_report_has_the_name_that_the_task_was_given() {
    let (builder, reports) = reporting(builder());
    let time = builder.build_virtual().unwrap();
    let fail = || panic!("expected by this test");
    time.schedule_once(SECOND, Task::new(fail).named("once")).unwrap();
    let series = Periodic::new(move || -> () { fail() }).named("series");
    time.schedule_with_fixed_delay(2 * SECOND, SECOND, series).unwrap();
    time.advance(2 * SECOND);
    is_ours(reports.recv().unwrap().1.unwrap(), Some("once"));
    is_ours(reports.recv().unwrap().1.unwrap(), Some("series"));
}

#[test]
fn a_panic_in_a_cancelled_hook_is_reported_with_its_task() {
    let (builder, reports) = reporting(builder());
    let time = builder.build_virtual().unwrap();
    let task = Task::new(|| ()).on_cancel(|| panic!("expected by this test")).named("hooked");
    assert!(time.schedule_once(SECOND, task).unwrap().cancel());
    let (place, task) = reports.recv().unwrap();
    assert_eq!(place, PanicIn::Cleanup);
    is_ours(task.unwrap(), Some("hooked"));
}

#[test]
fn of_tasks_that_run_together_a_panic_report_names_the_first() {
    struct Together;
    impl TaskBody for Together {
        const TOGETHER: bool = true;
        fn run(self) {
            panic!("expected by this test");
        }
    }
    let (builder, reports) = reporting(builder());
    let time = builder.build_virtual().unwrap();
    time.schedule_once(SECOND, Task::new(Together).named("first")).unwrap();
    time.schedule_once(SECOND, Task::new(Together).named("second")).unwrap();
    time.advance(SECOND);
    is_ours(reports.recv().unwrap().1.unwrap(), Some("first"));
    is_ours(reports.recv().unwrap().1.unwrap(), Some("second"));
}

#[test]
fn a_cancellable_says_whose_its_task_is_also_after_the_run() {
    let time = builder().build_virtual().unwrap();
    let line = line!() + 1;
    let timer = time.schedule_once(SECOND, || ()).unwrap();
    let same = timer.identity();
    assert_eq!(same.place().unwrap().line(), line);
    time.advance(SECOND);
    // Its memory is not used again while the cancellable is kept.
    let other = time.schedule_once(SECOND, Task::new(|| ()).named("other")).unwrap();
    assert_eq!(timer.identity(), same);
    is_ours(other.identity(), Some("other"));
}

#[test]
fn each_place_of_a_loop_over_one_type_is_told_from_the_others() {
    let time = builder().build_virtual().unwrap();
    let words = [0_usize; 3];
    let body = move || assert_eq!(words[0], 0);
    let (one, two) = (time.schedule_once(SECOND, body), time.schedule_once(SECOND, body));
    let (one, two) = (one.unwrap().identity(), two.unwrap().identity());
    assert_eq!(one.type_name(), two.type_name());
    assert_ne!(one.place(), two.place());
}

#[test]
fn what_stop_hands_back_says_whose_it_is() {
    let time = builder().build_virtual().unwrap();
    let line = line!() + 1;
    time.schedule_once(SECOND, Task::new(|| ()).named("flush")).unwrap();
    let [task] = <[_; 1]>::try_from(time.stop().wait()).unwrap();
    is_ours(task.identity(), Some("flush"));
    assert_eq!(task.identity().place().unwrap().line(), line);
    assert!(format!("{task:?}").contains("flush"));
}

#[test]
fn a_cancellable_says_when_its_task_is_due_as_long_as_that_waits() {
    let time = builder().build_virtual().unwrap();
    let timer = time.schedule_once(3 * SECOND, || ()).unwrap();
    assert_eq!(timer.deadline(), Some(time.now() + 3 * SECOND));
    time.advance(SECOND);
    assert_eq!(timer.remaining(), Some(2 * SECOND));
    timer.reset(5 * SECOND);
    assert_eq!(timer.remaining(), Some(5 * SECOND));
    time.advance(5 * SECOND);
    assert_eq!((timer.deadline(), timer.remaining()), (None, None));
    let never = time.schedule_once(Duration::MAX, || ()).unwrap();
    assert!(never.is_pending());
    assert_eq!((never.deadline(), never.remaining()), (None, None));
}

#[test]
fn a_series_says_when_its_next_run_is_due() {
    let time = builder().build_virtual().unwrap();
    let series = time.schedule_at_fixed_rate(SECOND, 10 * SECOND, || ()).unwrap();
    assert_eq!(series.remaining(), Some(SECOND));
    time.advance(SECOND);
    assert_eq!(series.remaining(), Some(10 * SECOND));
    series.cancel();
    assert_eq!((series.deadline(), series.remaining()), (None, None));
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
    let scheduler = builder().build().unwrap();
    let jobs = ScheduledExecutor::on(&scheduler);
    let handle = scheduler.handle();
    let look = || {
        let handle = handle.clone();
        move || {
            let listing = handle.list(TimerQuery::new().place(file!())).wait();
            let places = listing.timers.iter().map(|timer| timer.identity.place().unwrap().line());
            Ok::<_, ()>(places.collect::<Vec<_>>())
        }
    };
    let all = jobs.invoke_all_timeout([look()], LONG);
    assert_eq!(all[0].as_ref().unwrap().as_ref().unwrap(), &[line!() - 1]);
    let any = jobs.invoke_any_timeout([look()], LONG).unwrap();
    assert_eq!(any, [line!() - 1]);
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

#[test]
fn code_that_schedules_for_its_callers_passes_their_place_on() {
    #[track_caller]
    fn schedule_for_caller(timers: &Handle) {
        let here = Location::caller();
        let named = Task::new(|| ()).named("one").placed_at(here);
        let _ = timers.schedule_once(SECOND, named).unwrap();
        let _ = timers.schedule_once(2 * SECOND, Task::new(|| ()).placed_at(here)).unwrap();
        let beat = Periodic::new(|| ()).placed_at(here);
        let _ = timers.schedule_with_fixed_delay(3 * SECOND, SECOND, beat).unwrap();
    }
    let time = builder().build_virtual().unwrap();
    let line = line!() + 1;
    schedule_for_caller(&time);
    assert_eq!(lines_of(&time), [line; 3]);
    time.advance(3 * SECOND);
    assert_eq!(lines_of(&time), [line], "the next run of the repeat");
}
