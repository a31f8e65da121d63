//! What a probe sees.
#![allow(missing_docs)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use lars_scheduler::extend::LatenessRecorder;
use lars_scheduler::late::{Cause, LateShare, Lateness, Who};
use lars_scheduler::{LightArrayRevolverScheduler, Task};
use lars_top::snapshot::{Late, LateRow};
use lars_top::{Probe, SlowLog, Snapshot};
use mini_actor::{Actor, ActorSystem, Context};

const HOUR: Duration = Duration::from_secs(3600);

fn scheduler() -> LightArrayRevolverScheduler {
    LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1)).build().unwrap()
}

/// An actor that is held up by each message, and says when it is.
struct Blocks(Sender<()>);

impl Actor for Blocks {
    type Message = Receiver<()>;

    fn receive(&mut self, gate: Receiver<()>, _: &mut Context<Self>) {
        let _ = self.0.send(());
        let _ = gate.recv();
    }
}

/// Snapshots until one is as it should be.
fn until(probe: &Probe, good: impl Fn(&Snapshot) -> bool) -> Snapshot {
    loop {
        let snapshot = probe.snapshot();
        if good(&snapshot) {
            return snapshot;
        }
    }
}

#[test]
fn a_snapshot_has_what_is_pending_by_whose_it_is_and_where_in_the_wheel() {
    let scheduler = scheduler();
    for _ in 0..700 {
        scheduler.schedule_once(HOUR, Task::new(|| ()).named("idle timeout")).unwrap();
    }
    for _ in 0..300 {
        scheduler.schedule_once(2 * HOUR, || ()).unwrap();
    }
    let _ = scheduler.schedule_once(Duration::MAX, || ()).unwrap();
    let probe = Probe::new(scheduler.handle()).named("test");
    let snapshot = until(&probe, |snapshot| snapshot.pending.is_some());
    assert_eq!((&*snapshot.program, snapshot.pid), ("test", std::process::id()));
    assert_eq!((snapshot.counts.pending, snapshot.counts.tick), (1_001, 1_000_000));
    let pending = snapshot.pending.as_ref().unwrap();
    assert_eq!((pending.timers, pending.unseen), (1_001, 0));
    let slots = pending.levels.iter().flat_map(|level| &level.slots);
    assert_eq!(slots.sum::<u64>(), 1_001);
    let first = &pending.groups[0];
    assert_eq!((&*first.label, first.count), ("idle timeout", 700));
    assert!(first.place.contains("tests/it/probe.rs:"), "{first:?}");
    assert!(first.first_due.unwrap() <= HOUR.as_nanos() as u64);
    assert_eq!(pending.groups[2].first_due, None);
    assert_eq!((pending.next.len(), pending.next[0].label == "idle timeout"), (50, true));
    // It can be sent.
    let text = serde_json::to_string(&snapshot).unwrap();
    let came = serde_json::from_str::<Snapshot>(&text).unwrap();
    assert!(came == snapshot, "it is another one when it comes; {} bytes: {text:.500}", text.len());
}

#[test]
fn a_snapshot_does_not_wait_for_a_timer_thread_that_a_task_holds_up() {
    let slow = SlowLog::new();
    let builder = LightArrayRevolverScheduler::builder().slow_inline(Duration::from_nanos(1));
    let scheduler = builder.on_slow(slow.hook()).build().unwrap();
    let probe = Probe::new(scheduler.handle()).slow_log(&slow);
    until(&probe, |snapshot| snapshot.pending.is_some());
    let (entered, inside) = channel();
    let (open, gate) = channel::<()>();
    let blocks = Task::new(move || {
        entered.send(()).unwrap();
        gate.recv().unwrap();
    });
    scheduler.schedule_once(Duration::ZERO, blocks.named("blocks").inline()).unwrap();
    inside.recv().unwrap();
    let _ = scheduler.schedule_once(HOUR, || ()).unwrap();
    // The task ends only after these. They have the counts, and the listing before, which grows
    // older.
    let first = until(&probe, |snapshot| snapshot.pending.as_ref().unwrap().age > 0);
    let second = probe.snapshot();
    assert_eq!(second.counts.pending, 1);
    assert_eq!(second.pending.as_ref().unwrap().timers, 0);
    assert!(second.pending.unwrap().age > first.pending.unwrap().age);
    open.send(()).unwrap();
    let last = until(&probe, |snapshot| {
        snapshot.pending.as_ref().unwrap().timers == 1 && !snapshot.slow.is_empty()
    });
    assert_eq!((&*last.slow[0].label, last.slow[0].on_timer_thread), ("blocks", true));
}

#[test]
fn slow_tasks_are_remembered_up_to_a_limit_the_newest_first() {
    let slow = SlowLog::new();
    let builder = LightArrayRevolverScheduler::builder().slow_inline(Duration::from_nanos(1));
    let scheduler = builder.on_slow(slow.hook()).build().unwrap();
    let probe = Probe::new(scheduler.handle()).slow_log(&slow);
    let (done, all) = channel();
    for number in 0..200 {
        let done = done.clone();
        let task = Task::new(move || {
            std::thread::sleep(Duration::from_micros(10));
            done.send(()).unwrap();
        });
        let name = if number == 199 { "last" } else { "other" };
        scheduler.schedule_once(Duration::ZERO, task.named(name).inline()).unwrap();
        all.recv().unwrap();
    }
    let snapshot = until(&probe, |it| it.slow.first().is_some_and(|it| it.label == "last"));
    assert_eq!(snapshot.slow.len(), 64);
    assert!(snapshot.slow.is_sorted_by_key(|slow| slow.age));
}

#[test]
fn a_snapshot_says_why_tasks_were_late_if_the_scheduler_explains_it() {
    assert_eq!(Probe::new(scheduler().handle()).snapshot().late, None);
    let builder = LightArrayRevolverScheduler::builder().pool(|pool| pool.threads(1));
    let scheduler = builder.explain_late(Duration::from_millis(2)).build().unwrap();
    let probe = Probe::new(scheduler.handle());
    assert_eq!(probe.snapshot().late.map(|it| (it.bound, it.more_rows)), Some((2_000_000, 0)));
    let (release, held) = channel::<()>();
    let holds = Task::new(move || _ = held.recv()).named("holds");
    scheduler.schedule_once(Duration::ZERO, holds).unwrap();
    scheduler.schedule_once(Duration::ZERO, Task::new(|| ()).named("behind")).unwrap();
    until(&probe, |it| it.executor.running == 1 && it.executor.queued == 1);
    std::thread::sleep(Duration::from_millis(5));
    drop(release);
    // (On a busy machine the first may have been late, too.)
    let by_it = |late: &Late| late.rows.iter().find(|row| row.culprit == "holds").cloned();
    let found = until(&probe, |it| it.late.as_ref().and_then(by_it).is_some());
    let late = found.late.unwrap();
    let row = by_it(&late).unwrap();
    assert_eq!(row.cause, "all threads of the pool were busy");
    assert!(row.place.contains("tests/it/probe.rs:"), "{row:?}");
    assert!(row.time <= late.total && late.longest <= late.total, "{late:?}");
    assert!(late.longest > late.bound, "{late:?}");
}

#[test]
fn a_snapshot_says_why_messages_were_late_if_the_system_explains_it() {
    let late = |it: &Snapshot| it.actors.as_ref().unwrap().late.clone();
    let system = ActorSystem::builder("shop").threads(1).build().unwrap();
    assert_eq!(late(&Probe::of_system(&system).snapshot()), None);
    let builder = ActorSystem::builder("shop").threads(1);
    let system = builder.explain_late(Duration::from_millis(2)).build().unwrap();
    let probe = Probe::of_system(&system);
    assert_eq!(late(&probe.snapshot()).map(|it| (it.bound, it.count)), Some((2_000_000, 0)));
    let (says, blocked) = channel();
    let actor = system.spawn("blocks", move || Blocks(says.clone())).unwrap();
    let (open, gate) = channel();
    actor.tell(gate).unwrap();
    blocked.recv().unwrap();
    // (Not by the probe: what it shows of mailboxes may be older than the first message.)
    let before = actor.metrics().mailbox_depth;
    let _ = system.scheduler().schedule_once(Duration::ZERO, &actor, channel().1).unwrap();
    while actor.metrics().mailbox_depth == before {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(5));
    drop(open);
    let found = until(&probe, |it| late(it).is_some_and(|it| it.count == 1));
    let late = late(&found).unwrap();
    let busy = late.rows.iter().find(|row| row.cause == "the actor was in another message");
    let busy = busy.unwrap_or_else(|| panic!("{late:?}"));
    assert!(busy.culprit.starts_with("/blocks in "), "{busy:?}");
    // (How much of it: on a busy machine the message may have been put there late, too.)
    assert!(busy.time > 0 && busy.time <= late.total, "{late:?}");
    system.close().unwrap();
}

#[test]
fn a_snapshot_says_why_durable_runs_were_late_if_their_table_says_it() {
    let scheduler = scheduler();
    let late = |table: fn() -> Lateness| {
        Probe::new(scheduler.handle()).late_runs(table).snapshot().late_runs
    };
    assert_eq!(Probe::new(scheduler.handle()).snapshot().late_runs, None);
    assert_eq!(late(Lateness::default), None);
    let found = late(|| {
        let recorder = LatenessRecorder::new(Duration::from_millis(5), |_| ());
        let mail = || Who::Named("mail".into());
        let (cause, time) = (Cause::HandlerFull, Duration::from_millis(30));
        let full = LateShare { cause, culprit: Some(mail()), time };
        recorder.record(mail(), Duration::from_millis(40), [full]);
        recorder.table()
    });
    let row = |cause: &str, culprit: &str, time| LateRow {
        cause: cause.to_owned(),
        culprit: culprit.to_owned(),
        place: String::new(),
        count: 1,
        time,
    };
    let rows = vec![
        row("the handler was at its limit", "mail", 30_000_000),
        row("unknown", "", 10_000_000),
    ];
    let (total, longest) = (40_000_000, 40_000_000);
    let expected = Late { bound: 5_000_000, count: 1, total, longest, rows, more_rows: 0 };
    assert_eq!(found, Some(expected));
}

#[test]
fn a_snapshot_has_the_largest_reasons_for_lateness_and_says_how_many_it_leaves_out() {
    const NAMES: usize = 60;
    let builder = LightArrayRevolverScheduler::builder().explain_late(Duration::ZERO);
    let scheduler = builder.inline().build().unwrap();
    let probe = Probe::new(scheduler.handle());
    // Each is late because of the one before.
    let start = scheduler.now();
    for number in 0..=NAMES {
        let name: &'static str = Box::leak(format!("task {number}").into_boxed_str());
        let task = Task::new(|| std::thread::sleep(Duration::from_millis(1))).named(name);
        scheduler.schedule_at(start, task).unwrap();
    }
    let found = until(&probe, |it| it.late.as_ref().is_some_and(|it| it.more_rows > 9));
    let late = found.late.unwrap();
    assert_eq!(late.rows.len(), 50);
    assert!(late.rows.is_sorted_by(|one, other| one.time >= other.time), "{late:?}");
    assert!(late.rest() > 0, "{late:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_snapshot_has_all_threads_or_says_how_many_it_leaves_out() {
    let (hold, held) = channel::<()>();
    let held = std::sync::Mutex::new(held);
    let scheduler = scheduler();
    let probe = Probe::new(scheduler.handle());
    std::thread::scope(|scope| {
        for _ in 0..300 {
            let start = std::thread::Builder::new().name("one of many".to_owned());
            start.spawn_scoped(scope, || _ = held.lock().unwrap().recv()).unwrap();
        }
        // Each has its name before its first step, which it may take later.
        let many = |it: &Snapshot| {
            let named = it.threads.iter().filter(|thread| thread.name == "one of many");
            named.count() == 300
        };
        let snapshot = until(&probe, many);
        assert_eq!(snapshot.more_threads, 0);
        drop(hold);
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_thread_is_in_a_snapshot_also_if_the_system_cuts_its_name_within_a_character() {
    let (hold, held) = channel::<()>();
    let scheduler = scheduler();
    let probe = Probe::new(scheduler.handle());
    // 15 bytes remain: the last character has one of its three.
    let start = std::thread::Builder::new().name("ab時間時間時間".to_owned());
    let (begin, begun) = channel();
    let run = move || {
        begin.send(()).unwrap();
        let _ = held.recv();
    };
    let thread = start.spawn(run).unwrap();
    begun.recv().unwrap();
    let threads = probe.snapshot().threads;
    assert!(threads.iter().any(|it| it.name == "ab時間時間\u{fffd}"), "{threads:?}");
    drop(hold);
    thread.join().unwrap();
}

#[test]
fn a_snapshot_of_a_system_has_its_actors_and_dead_letters() {
    struct Idle;
    impl Actor for Idle {
        type Message = u32;
        fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
    }
    let system = ActorSystem::builder("shop").threads(1).build().unwrap();
    let probe = Probe::of_system(&system);
    let actors: Vec<_> =
        (0..5).map(|number| system.spawn(&format!("a{number}"), || Idle).unwrap()).collect();
    // First killed: a machine that stands still would let the message come before that.
    actors[0].kill();
    let later = Duration::from_millis(1);
    let _ = system.scheduler().schedule_once(later, &actors[0], 7).unwrap();
    let snapshot = until(&probe, |it| !it.actors.as_ref().unwrap().letters.is_empty());
    let actors = snapshot.actors.unwrap();
    assert_eq!((&*actors.system, actors.dead_letters), ("shop", 1));
    let letter = &actors.letters[0];
    assert_eq!((&*letter.recipient, &*letter.message, &*letter.reason), ("/a0", "u32", "stopped"));
    let actors = until(&probe, |it| it.actors.as_ref().unwrap().busiest.len() == 4);
    assert_eq!(actors.actors.unwrap().busiest[0].path, "/a1");
    system.close().unwrap();
    assert!(probe.snapshot().counts.stopped);
}

#[test]
fn a_snapshot_counts_slow_messages_and_timers_that_wait_for_room_in_the_queue_of_the_pool() {
    let scheduler = LightArrayRevolverScheduler::builder()
        .pool(|pool| pool.threads(1).queue(1))
        .build()
        .unwrap();
    let builder = ActorSystem::builder("shop").threads(1).on_scheduler(&scheduler);
    let system = builder.slow_receive(Duration::from_nanos(1)).build().unwrap();
    let probe = Probe::of_system(&system);
    let actor = system.spawn("blocks", move || Blocks(channel().0)).unwrap();
    let (open, gate) = channel();
    actor.tell(gate).unwrap();
    let (release, hold) = channel::<()>();
    scheduler.schedule_once(Duration::ZERO, move || _ = hold.recv()).unwrap();
    for _ in 0..10 {
        scheduler.schedule_once(Duration::ZERO, || ()).unwrap();
    }
    // One runs, one waits in the queue.
    until(&probe, |it| it.counts.held_for_pool >= 9);
    drop((open, release));
    until(&probe, |it| it.actors.as_ref().unwrap().slow_receives > 0);
    system.close().unwrap();
}

#[test]
fn a_snapshot_names_the_threads_that_backpressure_makes_wait() {
    let scheduler = LightArrayRevolverScheduler::builder().inline().build().unwrap();
    let probe = Probe::new(scheduler.handle());
    assert_eq!(probe.snapshot().waits, []);
    // A timer thread that is stuck in a task holds back who schedules more than a share.
    let (release, hold) = channel::<()>();
    scheduler.schedule_once(Duration::ZERO, move || _ = hold.recv()).unwrap();
    let timers = scheduler.handle();
    let flood = move || {
        while timers.metrics().backpressure_waited.is_zero() {
            // (A batch is charged as a whole. Single calls of a slow thread may earn their share.)
            timers.schedule_batch((0..8_192).map(|_| (HOUR, || ()))).unwrap();
        }
    };
    std::thread::Builder::new().name("flood".into()).spawn(flood).unwrap().join().unwrap();
    drop(release);
    let snapshot = probe.snapshot();
    let waits = &snapshot.waits[0];
    assert_eq!((&*waits.thread, waits.waiting, snapshot.waits.len()), ("flood", 0, 1));
    assert!(waits.waits > 0 && waits.waited > 0, "{waits:?}");
    let counts = &snapshot.counts;
    let all = (counts.backpressure_waits, counts.backpressure_waited);
    assert_eq!(all, (waits.waits, waits.waited));
}

#[test]
fn a_probe_works_in_virtual_time_and_after_the_scheduler_has_gone() {
    let time = LightArrayRevolverScheduler::builder().build_virtual().unwrap();
    let _ = time.schedule_once(HOUR, || ()).unwrap();
    let probe = Probe::new(time.handle());
    assert_eq!(probe.snapshot().counts.pending, 1);
    time.advance(Duration::from_secs(1));
    let snapshot = until(&probe, |snapshot| snapshot.pending.is_some());
    assert_eq!(snapshot.pending.unwrap().timers, 1);
    drop(time);
    let snapshot = until(&probe, |it| it.pending.as_ref().is_some_and(|it| it.timers == 0));
    assert!(snapshot.counts.stopped);
}
