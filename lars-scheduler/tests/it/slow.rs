//! Slow tasks, and a pool that does not get on.

use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::Duration;

use lars_scheduler::executor::TaskBody;
use lars_scheduler::hooks::{RanOn, SlowTask};
use lars_scheduler::{Builder, LightArrayRevolverScheduler, Task, TaskIdentity};

const THRESHOLD: Duration = Duration::from_millis(20);
const LONGER: Duration = Duration::from_millis(25);
const OFF: Duration = Duration::MAX;

/// A report, owned.
struct Report {
    on: RanOn,
    task: TaskIdentity,
    lateness: Duration,
    run_time: Duration,
    others: Vec<TaskIdentity>,
}

impl Report {
    /// Whether the slow task is this one, or, after fast ones, one of several.
    fn names(&self, name: &str) -> bool {
        self.task.name() == Some(name) || self.others.iter().any(|task| task.name() == Some(name))
    }
}

fn builder() -> Builder {
    LightArrayRevolverScheduler::builder()
}

fn reporting(builder: Builder) -> (Builder, Receiver<Report>) {
    let (sender, receiver) = channel();
    let tell = move |slow: &SlowTask<'_>| {
        let &SlowTask { on, task, lateness, run_time, .. } = slow;
        let report = Report { on, task, lateness, run_time, others: slow.others.to_vec() };
        let _ = sender.send(report);
    };
    (builder.on_slow(tell), receiver)
}

/// The report of the task with this name. (On a busy machine others may be slow as well.)
fn report_of(reports: &Receiver<Report>, name: &str) -> Report {
    reports.iter().find(|report| report.names(name)).expect("the hook lives as long as the test")
}

#[test]
fn a_slow_inline_task_is_reported_with_its_name_its_run_time_and_its_lateness() {
    let (builder, reports) = reporting(builder().slow_inline(THRESHOLD));
    let scheduler = builder.build().unwrap();
    let slow = |name| Task::new(|| sleep(LONGER)).named(name).inline();
    let batch = ["first", "second"].map(|name| (Duration::from_millis(5), slow(name)));
    scheduler.schedule_batch(batch).unwrap();
    let first = report_of(&reports, "first");
    assert_eq!((first.on, first.others.len()), (RanOn::TimerThread, 0));
    assert!(first.run_time >= LONGER);
    assert!(first.task.place().is_some());
    let second = report_of(&reports, "second");
    assert!(second.lateness >= LONGER, "{:?}: it had to wait for the first", second.lateness);
    assert!(scheduler.metrics().slow_tasks >= 2);
}

#[test]
fn a_slow_task_of_the_pool_is_reported_alone_or_in_a_chunk() {
    let (builder, reports) =
        reporting(builder().slow_on_pool(THRESHOLD).pool(|pool| pool.threads(2)));
    let scheduler = builder.build().unwrap();
    let slow = |name| Task::new(|| sleep(LONGER)).named(name);
    scheduler.schedule_once(Duration::ZERO, slow("alone")).unwrap();
    let alone = report_of(&reports, "alone");
    assert_eq!((alone.on, alone.others.len()), (RanOn::Pool, 0));
    assert!(alone.run_time >= LONGER);
    let names = ["a", "b", "c", "d"];
    let due = Duration::from_millis(5);
    scheduler.schedule_batch(names.map(|name| (due, slow(name)))).unwrap();
    let mut seen = Vec::new();
    while seen.len() < names.len() {
        let report = reports.recv().unwrap();
        assert!(report.run_time >= LONGER && report.others.is_empty());
        seen.push(report.task.name().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, names);
}

#[test]
fn a_slow_task_behind_fast_ones_is_reported_with_those_in_question() {
    let (builder, reports) = reporting(builder().slow_inline(THRESHOLD));
    let scheduler = builder.build().unwrap();
    let due = scheduler.now() + Duration::from_millis(5);
    for number in 0..100 {
        scheduler.schedule_at(due, Task::new(|| ()).named("fast").inline()).unwrap();
        if number == 50 {
            scheduler.schedule_at(due, Task::new(|| sleep(LONGER)).named("slow").inline()).unwrap();
        }
    }
    let report = report_of(&reports, "slow");
    assert!(report.run_time >= LONGER && report.others.len() <= 1);
}

#[test]
fn of_tasks_that_run_together_one_is_reported() {
    struct Together;
    impl TaskBody for Together {
        const TOGETHER: bool = true;
        fn run(self) {
            sleep(LONGER);
        }
    }
    let (builder, reports) = reporting(builder().slow_inline(THRESHOLD).inline());
    let scheduler = builder.build().unwrap();
    let tasks = (0..3).map(|_| (Duration::ZERO, Task::new(Together).named("row")));
    scheduler.schedule_batch(tasks).unwrap();
    assert!(report_of(&reports, "row").run_time >= LONGER);
}

#[test]
fn no_task_is_slow_where_that_is_turned_off_or_time_stands_still() {
    let (builder_off, reports) = reporting(builder().slow_inline(OFF).slow_on_pool(OFF));
    let scheduler = builder_off.build().unwrap();
    let (sender, done) = channel();
    let other = sender.clone();
    let inline = Task::new(move || {
        sleep(LONGER);
        sender.send(()).unwrap();
    });
    scheduler.schedule_once(Duration::ZERO, inline.inline()).unwrap();
    let pooled = move || {
        sleep(LONGER);
        other.send(()).unwrap();
    };
    scheduler.schedule_once(Duration::ZERO, pooled).unwrap();
    assert_eq!(done.iter().take(2).count(), 2);
    drop(scheduler);

    let time = builder().slow_inline(Duration::ZERO).build_virtual().unwrap();
    time.schedule_once(LONGER, || sleep(LONGER)).unwrap();
    assert_eq!(time.advance(2 * LONGER), 1);
    assert_eq!(time.metrics().slow_tasks, 0);
    assert!(reports.try_recv().is_err());
}

#[test]
fn a_hook_that_panics_about_a_slow_task_harms_nothing() {
    let fail = |_: &SlowTask<'_>| panic!("expected by this test");
    let limits =
        builder().slow_inline(THRESHOLD).slow_on_pool(THRESHOLD).pool(|pool| pool.threads(1));
    let scheduler = limits.on_slow(fail).build().unwrap();
    let (sender, done) = channel();
    for _ in 0..2 {
        scheduler.schedule_once(Duration::ZERO, Task::new(|| sleep(LONGER)).inline()).unwrap();
        let sender = sender.clone();
        let pooled = move || {
            sleep(LONGER);
            sender.send(()).unwrap();
        };
        scheduler.schedule_once(Duration::ZERO, pooled).unwrap();
    }
    assert_eq!(done.iter().take(2).count(), 2);
    scheduler.close().unwrap();
    let metrics = scheduler.metrics();
    assert_eq!(metrics.restarts, 0);
    assert!(metrics.slow_tasks >= 3, "the last one may still be on its way");
}

#[test]
fn a_pool_whose_threads_are_all_busy_for_a_second_while_a_task_waits_is_noticed() {
    let scheduler = builder().pool(|pool| pool.threads(2)).build().unwrap();
    let (release, hold) = channel::<()>();
    let hold = std::sync::Arc::new(std::sync::Mutex::new(hold));
    let (begins, begun) = channel();
    for _ in 0..2 {
        let (hold, begins) = (std::sync::Arc::clone(&hold), begins.clone());
        let block = move || {
            begins.send(()).unwrap();
            let _ = hold.lock().unwrap().recv();
        };
        scheduler.schedule_once(Duration::ZERO, block).unwrap();
    }
    // Both are busy before there is a third task, or a thread might run that one first.
    begun.iter().take(2).for_each(drop);
    let (sender, ran) = channel();
    scheduler.schedule_once(Duration::from_millis(1), move || sender.send(()).unwrap()).unwrap();
    while scheduler.metrics().pool_stalls == 0 {
        sleep(Duration::from_millis(20));
    }
    assert!(ran.try_recv().is_err());
    drop(release);
    ran.recv().unwrap();
}
