//! The hook that each thread of a scheduler calls first.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

use lars_scheduler::hooks::ThreadKind;
use lars_scheduler::{Builder, CloseError, LightArrayRevolverScheduler, Task};

/// A thread as the hook saw it.
type Started = (ThreadKind, String, ThreadId);

fn told() -> (Builder, Receiver<Started>) {
    let (sender, receiver) = channel();
    let builder =
        LightArrayRevolverScheduler::builder().thread_name("ours").pool(|pool| pool.threads(2));
    let builder = builder.on_thread_start(move |started| {
        let here = thread::current();
        // (An assertion here would be contained.)
        let same = here.name() == Some(started.name);
        let name = if same { started.name.to_owned() } else { format!("not {:?}", here.name()) };
        let _ = sender.send((started.kind, name, here.id()));
    });
    (builder, receiver)
}

#[test]
fn the_hook_runs_first_on_the_timer_thread_and_on_each_thread_of_the_pool() {
    let (builder, started) = told();
    let scheduler = builder.build().unwrap();
    let (kind, name, timer) = started.recv().unwrap();
    assert_eq!((kind, &*name), (ThreadKind::Timer, "ours"));
    let (sender, ids) = channel();
    let other = sender.clone();
    let inline = Task::new(move || sender.send(thread::current().id()).unwrap()).inline();
    scheduler.schedule_once(Duration::ZERO, inline).unwrap();
    assert_eq!(ids.recv().unwrap(), timer);
    scheduler
        .schedule_once(Duration::ZERO, move || other.send(thread::current().id()).unwrap())
        .unwrap();
    let ran_on = ids.recv().unwrap();
    let mut pool: Vec<_> = started.iter().take(2).collect();
    pool.sort_by(|one, two| one.1.cmp(&two.1));
    assert_eq!((&*pool[0].1, &*pool[1].1), ("ours-worker-0", "ours-worker-1"));
    assert!(pool.iter().all(|thread| matches!(thread.0, ThreadKind::Pool { .. })));
    assert!(pool.iter().any(|thread| thread.2 == ran_on));
}

#[test]
fn a_hook_that_panics_costs_no_thread() {
    let builder = LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1));
    let scheduler = builder.on_thread_start(|_| panic!("expected by this test")).build().unwrap();
    let (sender, ran) = channel();
    scheduler.schedule_once(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    ran.recv().unwrap();
    scheduler.close().unwrap();
}

#[test]
fn a_hook_on_the_timer_thread_that_closes_the_scheduler_is_told_that_it_would_wait_for_itself() {
    let (give, scheduler) = channel::<LightArrayRevolverScheduler>();
    let (sender, closed) = channel();
    // Only one thread may use each of these, and only one does.
    let (scheduler, sender) = (Mutex::new(scheduler), Mutex::new(sender));
    let builder = LightArrayRevolverScheduler::builder().on_thread_start(move |started| {
        if started.kind == ThreadKind::Timer {
            let scheduler = scheduler.lock().unwrap().recv().unwrap();
            sender.lock().unwrap().send(scheduler.close()).unwrap();
            drop(scheduler); // does not wait either
        }
    });
    give.send(builder.build().unwrap()).unwrap();
    let closed = closed.recv().unwrap();
    assert!(matches!(closed, Err(CloseError::OnTimerThread)), "{closed:?}");
}
