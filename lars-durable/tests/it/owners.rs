//! Buckets that change their owner while something runs in them, in virtual time.

use crate::common;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lars_durable::test_kit::Store;
use lars_durable::{Builder, Durable, Fired, Handler, Outcome};
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::{Executor, LightArrayRevolverScheduler, VirtualTime};

use self::common::{Note, note, tell};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);
const TIMERS: usize = 100;

/// An executor all of whose threads are busy until the test says otherwise.
#[derive(Clone, Default)]
struct Crowded(Arc<Mutex<Vec<Runnable>>>);

impl Executor for Crowded {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        self.0.lock().unwrap().push(task);
        Ok(())
    }
}

impl Crowded {
    fn take(&self) -> Vec<Runnable> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Two nodes share the timers, and one of them loses the store for so long that the other one
/// declares it dead.
struct Bench {
    time: VirtualTime,
    crowded: Crowded,
    store: Store,
    /// That of the second node.
    path: Store,
}

impl Bench {
    fn new() -> Self {
        let crowded = Crowded::default();
        let builder = LightArrayRevolverScheduler::builder().executor(crowded.clone());
        let time = builder.build_virtual().unwrap();
        let store = Store::new(&time.handle());
        let path = store.other_path();
        Self { time, crowded, store, path }
    }

    /// Time goes on, and what is due runs.
    fn advance(&self, by: Duration) {
        let step = SECOND / 10;
        let mut moved = Duration::ZERO;
        while moved < by {
            self.time.advance(step);
            moved += step;
            self.crowded.take().into_iter().for_each(Runnable::run);
        }
    }

    fn schedule(&self, node: &Durable, prefix: &str) {
        for number in 0..TIMERS {
            let text = format!("{prefix} {number}");
            let timer = node.timers().schedule_once(SECOND, note(&text)).key(&text);
            timer.submit().wait().unwrap();
        }
    }

    /// Two nodes that have divided the buckets.
    fn pair(&self, node: impl Fn(Builder) -> Builder) -> (Durable, Durable) {
        let start = |store: &Store| node(store.node().lease(LEASE)).start().unwrap();
        let one = start(&self.store);
        self.advance(SECOND);
        let two = start(&self.path);
        self.advance(3 * LEASE);
        (one, two)
    }

    fn lose_one_path_for_two_leases(&self) {
        self.path.set_reachable(false);
        self.advance(2 * LEASE);
        self.path.set_reachable(true);
        self.advance(3 * LEASE);
    }
}

/// When the store is lost: from one renewal of a lease to the next.
fn moments() -> impl Iterator<Item = Duration> {
    (0..10).map(|tenth| LEASE / 30 * tenth)
}

#[test]
fn a_run_that_waited_while_its_node_was_declared_dead_does_not_begin_when_it_has_joined_again() {
    let mut deaths = 0;
    for (future, moment) in
        [false, true].into_iter().flat_map(|it| moments().map(move |at| (it, at)))
    {
        let bench = Bench::new();
        let (sender, runs) = channel();
        let (one, two) = bench.pair(|node| {
            let tell = tell(sender.clone());
            match future {
                true => node.executor(bench.crowded.clone()).handle_future(move |due| {
                    tell(&due);
                    std::future::ready(())
                }),
                false => node.handle(tell),
            }
        });
        bench.schedule(&one, "timer");
        // Launched by both, but no thread is free.
        bench.time.advance(5 * SECOND + moment);
        let mut waiting = bench.crowded.take();
        if future {
            // A thread makes tasks of them, and none is free to poll these.
            waiting.into_iter().for_each(Runnable::run);
            waiting = bench.crowded.take();
        }
        assert_eq!(waiting.len(), TIMERS);
        bench.lose_one_path_for_two_leases();
        let elsewhere = runs.try_iter().count();
        assert!(elsewhere < TIMERS);
        deaths += usize::from(elsewhere > 0);
        // Whoever was declared dead has timers of its own again.
        bench.schedule(&one, "later");
        bench.advance(4 * LEASE);
        assert_eq!(runs.try_iter().count(), TIMERS);
        waiting.into_iter().for_each(Runnable::run);
        assert_eq!(runs.try_iter().count(), TIMERS - elsewhere, "the rest, by its owner");
        bench.advance(3 * LEASE);
        assert_eq!(runs.try_iter().count(), 0);
        assert_eq!([&one, &two].map(|node| node.metrics().in_flight), [0, 0]);
    }
    assert!(deaths > 0, "nobody was declared dead");
}

#[test]
fn a_run_knows_that_its_node_was_declared_dead_when_that_has_joined_again() {
    let mut deaths = 0;
    for moment in moments() {
        let bench = Bench::new();
        let (sender, runs) = channel();
        let (one, _two) = bench.pair(|node| {
            let sender = sender.clone();
            node.handle_future(move |due: Fired<Note>| {
                let _ = sender.send(due);
                std::future::ready(Outcome::Done)
            })
        });
        let run = |prefix: &str| {
            bench.schedule(&one, prefix);
            bench.advance(5 * SECOND);
            let runs: Vec<Fired<Note>> = runs.try_iter().collect();
            assert_eq!(runs.len(), TIMERS);
            runs
        };
        let current = |runs: &[Fired<Note>]| runs.iter().filter(|run| run.is_current()).count();
        let before = run("before");
        assert_eq!(current(&before), TIMERS);
        bench.advance(moment);
        bench.lose_one_path_for_two_leases();
        let after = run("after");
        assert_eq!(current(&after), TIMERS);
        let rest = current(&before);
        assert!(rest > 0, "one of them kept its buckets");
        deaths += usize::from(rest < TIMERS);
    }
    assert!(deaths > 0, "nobody was declared dead");
}

#[test]
fn what_runs_for_long_holds_up_no_other_timer_of_its_bucket_when_that_is_to_be_given_back() {
    let bench = Bench::new();
    let (sender, runs) = channel();
    let node = || {
        let handler = Handler::new(tell(sender.clone())).concurrency(1_000);
        bench.store.node().lease(LEASE).handler(handler).start().unwrap()
    };
    let one = node();
    bench.advance(3 * LEASE);
    // More than buckets, so that something runs in each.
    for round in 0..4 {
        bench.schedule(&one, &format!("long {round}"));
    }
    bench.time.advance(5 * SECOND);
    let long = bench.crowded.take();
    assert_eq!(long.len(), 4 * TIMERS);
    // It gets buckets as soon as nothing runs in them: none.
    let two = node();
    for round in 0..4 {
        bench.advance(3 * LEASE);
        bench.schedule(&one, &format!("short {round}"));
    }
    bench.advance(4 * LEASE);
    assert_eq!(runs.try_iter().count(), 4 * TIMERS);
    assert_eq!(two.metrics().started, 0);
    long.into_iter().for_each(Runnable::run);
    assert_eq!(runs.try_iter().count(), 4 * TIMERS);
    bench.advance(3 * LEASE);
    bench.schedule(&one, "shared");
    bench.advance(5 * SECOND);
    assert_eq!(runs.try_iter().count(), TIMERS);
    let started = two.metrics().started;
    assert!((TIMERS as u64 / 4..TIMERS as u64).contains(&started), "{started} by the second");
}
