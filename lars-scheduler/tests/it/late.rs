//! Why tasks begin late, with real threads. Other programs may make them later still, so these
//! tests ask for what must be in a share at least, together with what the machine took.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::late::{Cause, LateShare};
use lars_scheduler::{Builder, LightArrayRevolverScheduler, Task};

const BOUND: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_millis(40);
/// A deadline is rounded up by that much at most, and a timer is not late before that.
const TICK: Duration = Duration::from_millis(1);

struct Told {
    task: Option<&'static str>,
    lateness: Duration,
    shares: Vec<LateShare>,
}

/// A builder that explains, and what it explains.
fn explaining() -> (Builder, Receiver<Told>) {
    let (sender, told) = channel();
    let builder = LightArrayRevolverScheduler::builder().explain_late(BOUND).on_late(move |late| {
        let task = late.who.task().and_then(|task| task.name());
        let (lateness, shares) = (late.lateness, late.shares.to_vec());
        drop(sender.send(Told { task, lateness, shares }));
    });
    (builder, told)
}

/// Waits until this task is told, and checks that its shares add up.
fn told_of(told: &Receiver<Told>, name: &str) -> Told {
    let found = told.iter().find(|told| told.task == Some(name)).expect("the hook is alive");
    let sum: Duration = found.shares.iter().map(|share| share.time).sum();
    assert_eq!(sum, found.lateness, "{:?}", found.shares);
    found
}

/// The time of a cause and a culprit, and what the machine took beside it.
fn time_of(told: &Told, cause: Cause, culprit: Option<&str>) -> Duration {
    let machine = |cause| {
        use Cause::{Overslept, Processor, Stolen, Throttled, Unknown};
        matches!(cause, Processor | Throttled | Stolen | Overslept | Unknown)
    };
    let is_named = |share: &&LateShare| {
        let name = share.culprit.as_ref().and_then(|who| who.task()?.name());
        machine(share.cause) || share.cause == cause && name == culprit
    };
    told.shares.iter().filter(is_named).map(|share| share.time).sum()
}

fn sleeps(name: &'static str) -> Task<impl FnOnce() + Send> {
    Task::new(|| thread::sleep(LONG)).named(name)
}

#[test]
fn behind_an_inline_task_that_sleeps_a_timer_is_late_by_that_task() {
    let (builder, told) = explaining();
    let scheduler = builder.inline().build().unwrap();
    let ms = Duration::from_millis;
    // If this thread stands still here, the second has run before the first is there.
    for lead in (0..).map(|step| ms(20 << step)) {
        let due = Instant::now() + lead;
        let late = Task::new(|| ()).named("late");
        let _ = scheduler.schedule_at(due + ms(2), late).unwrap();
        let _ = scheduler.schedule_at(due, sleeps("sleeps")).unwrap();
        while scheduler.metrics().pending > 0 {
            thread::yield_now();
        }
        // What ran last is told when something else begins.
        let _ = scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
        while scheduler.metrics().pending > 0 {
            thread::yield_now();
        }
        let Some(found) = told.try_iter().find(|told| told.task == Some("late")) else { continue };
        let sum: Duration = found.shares.iter().map(|share| share.time).sum();
        assert_eq!(sum, found.lateness);
        let least = LONG - ms(2) - TICK;
        let time = time_of(&found, Cause::InlineTask, Some("sleeps"));
        assert!(time >= least, "{:?}", found.shares);
        return;
    }
}

/// A scheduler whose pool has one thread, which is in a task until what is returned is dropped.
fn held(builder: Builder) -> (LightArrayRevolverScheduler, Sender<()>) {
    let scheduler = builder.build().unwrap();
    let (release, held) = channel::<()>();
    let holds = Task::new(move || _ = held.recv()).named("holds");
    let _ = scheduler.schedule_once(Duration::ZERO, holds).unwrap();
    while scheduler.metrics().pool.running == 0 {
        thread::yield_now();
    }
    (scheduler, release)
}

#[test]
fn while_the_only_thread_of_the_pool_is_in_a_task_timers_are_late_by_that_task() {
    let (builder, told) = explaining();
    let (scheduler, release) = held(builder.pool(|pool| pool.threads(1)));
    let _ = scheduler.schedule_once(Duration::ZERO, Task::new(|| ()).named("late")).unwrap();
    while scheduler.metrics().pool.queued == 0 {
        thread::yield_now();
    }
    thread::sleep(LONG);
    drop(release);
    let found = told_of(&told, "late");
    assert!(time_of(&found, Cause::PoolBusy, Some("holds")) >= LONG - TICK, "{:?}", found.shares);
}

#[test]
fn while_the_queue_of_the_pool_is_full_timers_are_late_by_what_the_pool_does() {
    let (builder, told) = explaining();
    let (scheduler, release) = held(builder.pool(|pool| pool.threads(1).queue(1)));
    for name in ["queued", "held"] {
        let _ = scheduler.schedule_once(Duration::ZERO, Task::new(|| ()).named(name)).unwrap();
    }
    while scheduler.metrics().held_for_pool == 0 {
        thread::yield_now();
    }
    thread::sleep(LONG);
    drop(release);
    let found = told_of(&told, "held");
    assert!(time_of(&found, Cause::PoolFull, Some("holds")) >= LONG - TICK, "{:?}", found.shares);
}

#[test]
fn a_hook_for_late_tasks_may_panic_and_close_the_scheduler() {
    let builder = LightArrayRevolverScheduler::builder().explain_late(Duration::ZERO);
    let handle: Arc<OnceLock<Arc<LightArrayRevolverScheduler>>> = Arc::default();
    let (own, (sender, told)) = (Arc::clone(&handle), channel());
    let builder = builder.on_late(move |late| {
        assert!(late.lateness > Duration::ZERO);
        drop(own.get().map(|scheduler| scheduler.stop()));
        let _ = sender.send(());
        panic!("expected by this test");
    });
    let (scheduler, release) = held(builder.pool(|pool| pool.threads(1)));
    let scheduler = Arc::new(scheduler);
    assert!(handle.set(Arc::clone(&scheduler)).is_ok());
    let _ = scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
    while scheduler.metrics().pool.queued == 0 {
        thread::yield_now();
    }
    thread::sleep(TICK);
    drop(release);
    told.recv().unwrap();
    let _ = scheduler.stop().wait();
    assert!(scheduler.lateness().count > 0);
    assert!(scheduler.schedule_once(Duration::ZERO, || ()).is_err());
    let after = scheduler.lateness();
    assert_eq!(after.rows.iter().map(|row| row.time).sum::<Duration>(), after.total);
}

#[test]
fn with_the_longest_bound_nothing_is_late() {
    let builder = LightArrayRevolverScheduler::builder().explain_late(Duration::MAX);
    let (scheduler, release) = held(builder.pool(|pool| pool.threads(1)));
    let _ = scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
    while scheduler.metrics().pool.queued == 0 {
        thread::yield_now();
    }
    drop(release);
    let handle = scheduler.handle();
    scheduler.close().unwrap();
    assert_eq!((handle.lateness().count, handle.lateness().rows), (0, vec![]));
}

#[test]
fn without_a_bound_nothing_is_told_and_the_table_is_empty() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .inline()
        .on_late(|_| panic!("nobody asked for it"))
        .build()
        .unwrap();
    let _ = scheduler.schedule_once(Duration::ZERO, sleeps("sleeps")).unwrap();
    let _ = scheduler.schedule_once(Duration::from_millis(5), || ()).unwrap();
    while scheduler.metrics().fired < 2 {
        thread::yield_now();
    }
    assert_eq!(scheduler.lateness(), lars_scheduler::late::Lateness::default());
}

#[test]
fn what_began_late_just_before_a_stop_is_told_as_well() {
    let ms = Duration::from_millis;
    // If this thread stands still here, the second has run before the first is there.
    for lead in (0..).map(|step| ms(20 << step)) {
        let (builder, told) = explaining();
        let scheduler = Arc::new(builder.inline().build().unwrap());
        let (own, (sender, stopping)) = (Arc::downgrade(&scheduler), channel());
        let stops = move || _ = sender.send(own.upgrade().unwrap().stop());
        let (due, ran) = (Instant::now() + lead, Arc::new(AtomicBool::new(false)));
        let _ = scheduler.schedule_at(due + ms(2), Task::new(stops).named("late")).unwrap();
        let sets = Arc::clone(&ran);
        let sleeps = move || {
            thread::sleep(LONG);
            sets.store(true, Ordering::Relaxed);
        };
        if scheduler.schedule_at(due, Task::new(sleeps).named("sleeps")).is_ok() {
            let _ = stopping.recv().unwrap().wait();
            if ran.load(Ordering::Relaxed) {
                drop(scheduler);
                assert!(told.try_iter().any(|told| told.task == Some("late")));
                return;
            }
        }
    }
}
