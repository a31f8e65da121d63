//! Whose a task is: in panic reports, with cancellables, with what `stop` hands back.

use std::future::pending;
use std::panic::Location;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use futures::FutureExt;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::listing::TimerQuery;
use lars_scheduler::{
    Builder, Executor, Handle, Inline, LightArrayRevolverScheduler, Periodic, Pool, Task,
    TaskIdentity, VirtualTime,
};

const SECOND: Duration = Duration::from_secs(1);

fn builder() -> Builder {
    LightArrayRevolverScheduler::builder()
}

/// Whose the tasks are that panic.
fn reporting(builder: Builder) -> (Builder, Receiver<(PanicIn, Option<TaskIdentity>)>) {
    let (sender, receiver) = channel();
    let tell = move |report: &lars_scheduler::hooks::PanicReport<'_>| {
        sender.send((report.place, report.task)).unwrap();
    };
    (builder.on_panic(tell), receiver)
}

#[track_caller]
fn is_ours(identity: TaskIdentity, name: Option<&str>) {
    assert_eq!(identity.name(), name);
    assert!(identity.type_name().starts_with(module_path!()), "{identity:?}");
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
fn a_task_is_known_by_its_own_type_whatever_it_is_wrapped_in() {
    for spans in [false, true] {
        let time = builder().capture_spans(spans).build_virtual().unwrap();
        let own = || Task::new(|| ()).executor(Inline);
        is_ours(time.schedule_once(SECOND, own()).unwrap().identity(), None);
        is_ours(time.schedule_once(SECOND, own().named("own")).unwrap().identity(), Some("own"));
        is_ours(time.schedule_once(SECOND, || ()).unwrap().identity(), None);
    }
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

#[test]
fn futures_that_wait_on_behalf_of_other_code_show_its_place() {
    // (Not in functions that track their callers, which would pass the place on by themselves.)
    let (time, here) = (builder().build_virtual().unwrap(), Location::caller());
    let mut sleep = time.sleep(SECOND).placed_at(here);
    let mut timeout = time.timeout(2 * SECOND, pending::<()>()).placed_at(here);
    assert!((&mut sleep).now_or_never().is_none());
    assert!((&mut timeout).now_or_never().is_none());
    assert_eq!(lines_of(&time), [here.line(); 2]);
}
