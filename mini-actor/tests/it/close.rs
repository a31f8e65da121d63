//! Closing: what is scheduled is sent, what is queued is received, everybody stops, and it is
//! reported.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use common::{Call, Event, LONG, Script, all, assert_same, close, ms, probe};
use mini_actor::hooks::DeadLetter;
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{
    Actor, ActorRef, ActorSystem, AskError, ClosePolicy, CloseReport, Context, Props, Reply,
    SpawnError, StopReason,
};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn closing_sends_what_is_scheduled_and_lets_actors_receive_what_is_queued() {
    let system = ActorSystem::builder("test").shutdown_timeout(LONG).build().unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    for number in 0..50 {
        actor.tell(number).unwrap();
    }
    for number in 50..60 {
        // Later ones first: they are sent in the order of their deadlines.
        let delay = HOUR + Duration::from_secs(60 - number);
        let _ = system.scheduler().schedule_once(delay, &actor, number).unwrap();
    }
    let _ = system.scheduler().schedule_at_fixed_rate(HOUR, HOUR, &actor, 99).unwrap();
    let report = system.close().unwrap();
    assert_eq!(report.sent, 10);
    assert_eq!(report.repeats_ended, 1);
    assert_eq!(report.actors_stopped, 1);
    assert_eq!(report.dead_letters, 0);
    let mut expected = vec![Event::Started];
    expected.extend((0..50).map(Event::Received));
    expected.extend((50..60).rev().map(Event::Received));
    expected.extend([Event::Stopped(StopReason::SystemClosed), Event::Dropped]);
    assert_same(&all(&told), &expected);
    let metrics = system.scheduler().timers().metrics();
    assert_eq!(metrics.pending, 0);
    assert_eq!(metrics.scheduled, metrics.fired + metrics.cancelled + metrics.handed_back);
}

#[test]
fn a_system_may_be_closed_without_sending_what_is_scheduled() {
    let system =
        ActorSystem::builder("test").close_policy(ClosePolicy::DropPending).build().unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    actor.tell(1).unwrap();
    let _ = system.scheduler().schedule_once(HOUR, &actor, 2).unwrap();
    let report = close(&system);
    assert_eq!((report.sent, report.dropped), (0, 1));
    assert!(all(&told).contains(&Event::Received(1)));
    assert_eq!(report.dead_letters, 0);
}

#[test]
fn a_closed_system_refuses_actors_and_closing_again_does_nothing() {
    let system = ActorSystem::new("test").unwrap();
    close(&system);
    let (factory, _) = probe(|_: &(), _| ());
    let error = system.spawn("a", factory).unwrap_err();
    assert_eq!(error, SpawnError::Closed { system: "test".to_owned() });
    let again = close(&system);
    assert_eq!(again.actors_stopped, 0);
    assert_eq!(again.sent, 0);
}

#[test]
fn an_actor_may_close_its_system_and_another_thread_waits_for_the_end() {
    struct Closer(std::sync::Arc<ActorSystem>, mpsc::Sender<CloseReport>);
    impl Actor for Closer {
        type Message = ();
        fn receive(&mut self, (): (), _: &mut Context<Self>) {
            self.1.send(self.0.close().unwrap_err().report).unwrap();
        }
    }
    let builder = ActorSystem::builder("test").shutdown_timeout(LONG);
    let system = Arc::new(builder.build().unwrap());
    let (sender, receiver) = mpsc::channel();
    let inner = Arc::clone(&system);
    let closer = system.spawn("closer", move || Closer(inner, sender)).unwrap();
    let (factory, told) = probe(|_, _| ());
    let other = system.spawn("other", factory).unwrap();
    let _ = system.scheduler().schedule_once(HOUR, &other, 7).unwrap();
    closer.tell(()).unwrap();
    let report = receiver.recv_timeout(LONG).unwrap();
    assert_eq!(report.sent, 1);
    assert!(report.running.contains(&"/closer".into()));
    // Whoever else is there receives what is left and stops without further ado.
    assert!(all(&told).contains(&Event::Received(7)));
    let report = close(&system);
    assert_eq!(report.actors_stopped, 2);
}

#[test]
fn closing_gives_up_on_an_actor_that_does_not_return_and_the_next_close_keeps_the_first_report() {
    struct Stuck(mpsc::Receiver<()>, mpsc::Sender<()>);
    impl Actor for Stuck {
        type Message = ();
        fn receive(&mut self, (): (), _: &mut Context<Self>) {
            self.1.send(()).unwrap();
            let _ = self.0.recv();
        }
    }
    let (system, error, release) = loop {
        let builder = ActorSystem::builder("test").shutdown_timeout(ms(20));
        let system = builder.build().unwrap();
        let (release, hold) = mpsc::channel::<()>();
        let (entered, wait) = mpsc::channel();
        let stuck = system.spawn("stuck", move || Stuck(hold, entered)).unwrap();
        let _ = system.scheduler().schedule_once(HOUR, &stuck, ()).unwrap();
        stuck.tell(()).unwrap();
        wait.recv_timeout(LONG).unwrap();
        let error = system.close().unwrap_err();
        // Or it gave up before the timer thread had its turn, on a busy machine.
        if error.report.scheduler_stopped {
            break (system, error, release);
        }
    };
    assert!(error.to_string().starts_with("not closed within 20ms: "), "{error}");
    assert_eq!((error.report.sent, error.report.actors_stopped), (1, 0));
    assert_eq!(error.report.running, ["/stuck".into()]);
    drop(release);
    let report = system.close_within(LONG);
    assert!(report.is_complete());
    // The message that it was receiving when closing began was received before that.
    assert_eq!((report.sent, report.actors_stopped, report.received), (1, 1, 1));
}

#[test]
fn a_report_counts_what_was_received_since_closing_began_and_nothing_before() {
    struct Counter(mpsc::Sender<()>, mpsc::Receiver<()>);
    impl Actor for Counter {
        type Message = bool;
        fn receive(&mut self, wait: bool, _: &mut Context<Self>) {
            if wait {
                self.0.send(()).unwrap();
                let _ = self.1.recv();
            }
        }
    }
    let system = ActorSystem::new("test").unwrap();
    let (entered, wait) = mpsc::channel();
    let (release, hold) = mpsc::channel();
    let counter = system.spawn("counter", move || Counter(entered, hold)).unwrap();
    // All in one activation: five before closing begins, and three after that.
    for wait in [false, false, false, false, true, false, false, false] {
        counter.tell(wait).unwrap();
    }
    wait.recv_timeout(LONG).unwrap();
    assert_eq!(system.metrics().processed, 5);
    assert_eq!(system.close_within(Duration::ZERO).received, 0);
    release.send(()).unwrap();
    let report = system.close_within(LONG);
    assert!(report.is_complete());
    assert_eq!(report.received, 3);
    assert_eq!(counter.metrics().processed, 8);
}

#[test]
fn dropping_a_system_stops_its_actors_without_sending_what_is_scheduled() {
    let system = ActorSystem::new("test").unwrap();
    let (factory, told) = probe(|_, _| ());
    let actor = system.spawn("a", factory).unwrap();
    actor.tell(1).unwrap();
    let _ = system.scheduler().schedule_once(HOUR, &actor, 2).unwrap();
    drop(system);
    assert_eq!(
        all(&told),
        [
            Event::Started,
            Event::Received(1),
            Event::Stopped(StopReason::SystemClosed),
            Event::Dropped
        ]
    );
}

#[test]
fn closing_stops_children_before_parents_and_says_what_became_of_all() {
    let kit = TestKit::new("test").unwrap();
    let (sender, order) = mpsc::channel();
    let parent = kit
        .spawn("parent", move || {
            let told = sender.clone();
            Script::new(move |call: Call<u8>, ctx: &mut Context<Script<u8>>| match call {
                Call::Started => {
                    let told = told.clone();
                    ctx.timers().start_single("idle", HOUR, 9).unwrap();
                    ctx.spawn("child", move || {
                        Script::new(move |call: Call<u8>, _| match call {
                            Call::Message(_) => panic!("expected by this test"),
                            Call::Stopped(_) => told.send("child").unwrap(),
                            _ => {}
                        })
                    })
                    .unwrap();
                }
                Call::Message(9) => panic!("a timer is never early"),
                Call::Message(number) => {
                    // This was sent before its time, so the scheduler has stopped. Actors still
                    // send and spawn. A timer of their own is no error, and never fires.
                    let child = ctx.system().find::<u8>("/parent/child").unwrap();
                    child.tell(number).unwrap();
                    let refused = ctx.scheduler().schedule_once(HOUR, ctx.myself(), number);
                    assert_eq!(*refused.unwrap_err().refusal(), lars_scheduler::Refusal::Stopped);
                    ctx.timers().start_single(u64::from(number), HOUR, 9).unwrap();
                    ctx.set_receive_timeout(HOUR).unwrap();
                    let name = format!("new-{number}");
                    ctx.system().spawn(&name, || Script::new(|_: Call<()>, _| ())).unwrap();
                }
                Call::Stopped(reason) => {
                    assert_eq!(reason, StopReason::SystemClosed);
                    told.send("parent").unwrap();
                }
                _ => {}
            })
        })
        .unwrap();
    kit.settle();
    let _ = kit.scheduler().schedule_once(HOUR, &parent, 1).unwrap();
    let _ = kit.scheduler().schedule_once(2 * HOUR, &parent, 2).unwrap();
    let report = kit.close().unwrap();
    assert_eq!(order.try_iter().collect::<Vec<_>>(), ["child", "parent"]);
    // The child got two messages, failed at the first and left the second.
    assert_eq!((report.sent, report.received, report.undelivered), (2, 3, 1));
    assert_eq!((report.timers_ended, report.actors_stopped), (5, 2));
    assert_eq!(
        report.to_string(),
        "scheduled messages sent: 2, dropped: 0, repeats ended: 0, timers ended: 5; received: 3, \
         undelivered: 1; actors stopped: 2, running: 0; dead letters: 1"
    );
}

/// What the handler of a message does that is received while its system is closed.
type Verb = fn(&mut Context<Script<u32>>, &ActorRef<Wanted>);

enum Wanted {
    Note,
    Question(Reply<u32>),
}

/// Answers, and counts what it gets.
struct Clerk(mpsc::Sender<()>);

impl Actor for Clerk {
    type Message = Wanted;
    fn receive(&mut self, wanted: Wanted, _: &mut Context<Self>) {
        self.0.send(()).unwrap();
        if let Wanted::Question(reply) = wanted {
            reply.send(0);
        }
    }
}

#[test]
fn the_work_of_the_messages_that_are_queued_at_a_close_is_done_whatever_it_is() {
    let verbs: [(Verb, usize); 7] = [
        (|ctx, _| ctx.timers().start_single("idle", HOUR, 0).unwrap(), 0),
        (|ctx, _| ctx.set_receive_timeout(HOUR).unwrap(), 0),
        (
            |ctx, _| {
                let idle = || Script::new(|_: Call<()>, _| ());
                drop(ctx.spawn_anonymous(Props::once(idle)).unwrap());
            },
            0,
        ),
        (
            |ctx, clerk| {
                // Sent before its time, like all that is scheduled.
                let _ = ctx.scheduler().schedule_once(HOUR, clerk, Wanted::Note).unwrap();
            },
            1,
        ),
        (|_, clerk| clerk.tell(Wanted::Note).unwrap(), 1),
        (
            |ctx, clerk| {
                let answer = clerk.ask(Wanted::Question, HOUR);
                ctx.pipe_to_self(answer, |answer| answer.unwrap());
            },
            2,
        ),
        (|ctx, _| ctx.pipe_to_self(async {}, |()| 0), 1),
    ];
    for (number, (verb, leads_to)) in verbs.into_iter().enumerate() {
        let kit = TestKit::new("test").unwrap();
        let (sender, _notes) = mpsc::channel();
        let clerk = kit.spawn("clerk", || Clerk(sender)).unwrap();
        let works = move || {
            Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| {
                if matches!(call, Call::Message(1..)) {
                    verb(ctx, &clerk);
                }
            })
        };
        let works = kit.spawn("works", works).unwrap();
        const QUEUED: usize = 300; // several turns
        (0..QUEUED).for_each(|_| works.tell(1).unwrap());
        let report = kit.close().unwrap();
        assert!(kit.panics().is_empty(), "{number}");
        assert_eq!((report.received, report.undelivered), received(QUEUED, leads_to), "{number}");
    }
}

/// What a report says if each of these messages led to so many more.
fn received(queued: usize, leads_to: usize) -> (u64, u64) {
    ((queued * (1 + leads_to)) as u64, 0)
}

#[test]
fn an_actor_that_has_not_started_when_its_system_is_closed_starts_as_ever() {
    let kit = TestKit::new("test").unwrap();
    for number in 0..100 {
        let session = move || {
            Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| {
                if call == Call::Started {
                    ctx.timers().start_at_fixed_rate("beat", HOUR, HOUR, || 0).unwrap();
                    ctx.spawn("child", || Script::new(|_: Call<()>, _| ())).unwrap();
                }
            })
        };
        let session = kit.spawn(&format!("session-{number}"), session).unwrap();
        (0..10).for_each(|_| session.tell(1).unwrap());
    }
    let report = kit.close().unwrap();
    assert!(kit.panics().is_empty());
    assert_eq!((report.received, report.undelivered, report.timers_ended), (1_000, 0, 100));
}

#[test]
fn a_panic_behind_a_stop_or_a_close_costs_an_actor_that_restarts_one_message() {
    for closes in [false, true] {
        let kit = TestKit::new("test").unwrap();
        let (sender, received) = mpsc::channel();
        let factory = move || {
            let sender = sender.clone();
            Script::new(move |call: Call<u32>, ctx: &mut Context<Script<u32>>| match call {
                Call::Started => ctx.timers().start_single("idle", HOUR, 0).unwrap(),
                Call::Message(3 | 100) => panic!("expected by this test"),
                Call::Message(number) => sender.send(number).unwrap(),
                _ => {}
            })
        };
        let strategy = SupervisionStrategy::restart().backoff(ms(100), ms(100));
        let actor = kit.spawn_with("a", Props::new(factory).supervision(strategy)).unwrap();
        kit.settle();
        if !closes {
            actor.stop();
        }
        (0..=100).for_each(|number| actor.tell(number).unwrap());
        let report = kit.close().unwrap();
        let expected: Vec<u32> = (0..100).filter(|number| *number != 3).collect();
        assert_eq!(received.try_iter().collect::<Vec<_>>(), expected);
        assert_eq!((report.undelivered, actor.metrics().restarts), (0, 2), "{closes}");
    }
}

#[test]
fn actors_that_always_have_another_message_do_not_keep_a_system_open() {
    struct Endless;
    impl Actor for Endless {
        type Message = ();
        fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
            let _ = ctx.myself().tell(());
        }
    }
    let kit = TestKit::new("test").unwrap();
    kit.spawn("endless", || Endless).unwrap().tell(()).unwrap();
    assert!(kit.close_within(LONG).is_complete());
    let system = ActorSystem::new("test").unwrap();
    system.spawn("endless", || Endless).unwrap().tell(()).unwrap();
    close(&system);
}

/// What a close grants to piped futures, and to turns without a message, when there is nothing else
/// to do.
const GRANTED: Duration = Duration::from_secs(1);

#[test]
fn a_close_waits_for_what_is_piped_and_not_for_ever() {
    struct Waits(Option<oneshot::Receiver<u32>>, mpsc::Sender<u32>, mpsc::Sender<()>);
    impl Actor for Waits {
        type Message = u32;
        fn started(&mut self, ctx: &mut Context<Self>) {
            let answer = self.0.take().unwrap();
            ctx.pipe_to_self(answer, |answer| answer.unwrap());
            self.2.send(()).unwrap();
        }
        fn receive(&mut self, answer: u32, _: &mut Context<Self>) {
            self.1.send(answer).unwrap();
        }
    }
    for answers in [true, false] {
        loop {
            let system = Arc::new(ActorSystem::new("test").unwrap());
            let ((answer, waits), (sender, received)) = (oneshot::channel(), mpsc::channel());
            let (pipes, piped) = mpsc::channel();
            system.spawn("waits", move || Waits(Some(waits), sender, pipes)).unwrap();
            piped.recv_timeout(LONG).unwrap();
            let closes = Arc::clone(&system);
            let begun = Instant::now();
            let closing = std::thread::spawn(move || closes.close_within(LONG));
            if !answers {
                assert!(closing.join().unwrap().is_complete());
                drop(answer);
                break;
            }
            let accepted = answer.send(7);
            let received = received.recv_timeout(LONG);
            assert!(closing.join().unwrap().is_complete());
            // On a busy machine this thread may have been late with its answer.
            if begun.elapsed() < GRANTED || received.is_ok() {
                assert_eq!((accepted, received), (Ok(()), Ok(7)));
                break;
            }
        }
    }
}

#[test]
fn a_close_waits_for_what_is_piped_by_an_actor_that_is_starting_when_it_begins() {
    struct Starts(Option<(mpsc::Receiver<()>, oneshot::Receiver<u32>)>, mpsc::Sender<u32>);
    impl Actor for Starts {
        type Message = u32;
        fn started(&mut self, ctx: &mut Context<Self>) {
            let (goes_on, answer) = self.0.take().unwrap();
            let _ = goes_on.recv();
            ctx.pipe_to_self(answer, |answer| answer.unwrap());
        }
        fn receive(&mut self, answer: u32, _: &mut Context<Self>) {
            self.1.send(answer).unwrap();
        }
    }
    loop {
        let system = Arc::new(ActorSystem::new("test").unwrap());
        let ((go_on, goes_on), (answer, waits)) = (mpsc::channel(), oneshot::channel());
        let (sender, received) = mpsc::channel();
        system.spawn("starts", move || Starts(Some((goes_on, waits)), sender)).unwrap();
        let (closes, begun) = (Arc::clone(&system), Instant::now());
        let closing = std::thread::spawn(move || closes.close_within(LONG));
        // Time enough for a close that does not wait to go on.
        std::thread::sleep(ms(50));
        go_on.send(()).unwrap();
        let accepted = answer.send(7);
        let received = received.recv_timeout(LONG);
        assert!(closing.join().unwrap().is_complete());
        // On a busy machine the actor may have had no turn within the second that it is granted.
        if begun.elapsed() < GRANTED || received.is_ok() {
            assert_eq!((accepted, received), (Ok(()), Ok(7)));
            return;
        }
    }
}

#[test]
fn a_closure_on_the_scheduler_runs_on_close_only_if_it_is_marked() {
    let system = ActorSystem::new("test").unwrap();
    let (sender, receiver) = mpsc::channel();
    for (name, marked) in [("marked", true), ("unmarked", false)] {
        let sender = sender.clone();
        let task = lars_scheduler::Task::new(move || sender.send(name).unwrap());
        let task = if marked { task.run_on_close() } else { task };
        let _ = system.scheduler().timers().schedule_once(HOUR, task).unwrap();
    }
    let report = close(&system);
    drop(sender);
    assert_eq!((report.sent, report.timers_ended), (1, 1));
    assert_eq!(receiver.iter().collect::<Vec<_>>(), ["marked"]);
}

#[test]
fn a_repeat_on_the_scheduler_runs_once_more_on_close_only_if_it_is_marked_and_the_policy_sends() {
    for (policy, runs) in [(ClosePolicy::SendPending, 1), (ClosePolicy::DropPending, 0)] {
        let system = ActorSystem::builder("test").close_policy(policy).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        for (name, marked) in [("marked", true), ("unmarked", false)] {
            let sender = sender.clone();
            let task = lars_scheduler::Periodic::new(move || sender.send(name).unwrap());
            let task = if marked { task.run_on_close() } else { task };
            let timers = system.scheduler().timers();
            let _ = timers.schedule_with_fixed_delay(HOUR, HOUR, task).unwrap();
        }
        let report = close(&system);
        drop(sender);
        assert_eq!((report.sent, report.repeats_ended), (0, 2), "{policy:?}");
        assert_eq!(receiver.iter().collect::<Vec<_>>(), vec!["marked"; runs], "{policy:?}");
    }
}

#[test]
fn what_a_close_has_no_more_time_to_run_is_left_to_the_threads_of_the_system() {
    let here = std::thread::current().id();
    for limit in (0..50).map(|micros| Duration::from_micros(4 * micros)) {
        let system = ActorSystem::builder("test").threads(1).build().unwrap();
        let (sender, ran) = mpsc::channel();
        for _ in 0..3 {
            let sender = sender.clone();
            let long = move || {
                std::thread::sleep(ms(1));
                sender.send(std::thread::current().id()).unwrap();
            };
            let task = lars_scheduler::Task::new(long).run_on_close();
            let _ = system.scheduler().timers().schedule_once(HOUR, task).unwrap();
        }
        // When the scheduler hands them over is not known: before the limit, at it or behind it.
        let _ = system.close_within(limit);
        let ran_here = (0..3).filter(|_| ran.recv_timeout(LONG).unwrap() == here).count();
        assert!(ran_here <= 1, "{ran_here} within {limit:?}");
        assert_eq!(close(&system).sent, 3);
    }
}

/// Says which thread drops it.
struct SaysWhere(mpsc::Sender<std::thread::ThreadId>);

impl Drop for SaysWhere {
    fn drop(&mut self) {
        self.0.send(std::thread::current().id()).unwrap();
    }
}

/// Receives a question, and nothing more until it is released.
struct Occupied {
    entered: mpsc::Sender<()>,
    hold: mpsc::Receiver<()>,
}

impl Actor for Occupied {
    type Message = Reply<u32>;

    fn receive(&mut self, _question: Reply<u32>, _: &mut Context<Self>) {
        let _ = self.entered.send(());
        let _ = self.hold.recv();
    }
}

#[test]
fn what_a_close_has_no_more_time_to_drop_is_left_to_the_threads_and_questions_have_ended() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let (sender, dropped) = mpsc::channel();
    for _ in 0..5 {
        let says = SaysWhere(sender.clone());
        let closure = move || drop(says);
        let _ = system.scheduler().timers().schedule_once(HOUR, closure).unwrap();
    }
    drop(sender);
    // An actor has the one thread, and with it the questions. They come behind the closures.
    let ((release, hold), (entered, inside)) = (mpsc::channel::<()>(), mpsc::channel());
    let clerk = system.spawn("clerk", move || Occupied { entered, hold }).unwrap();
    let ask = || clerk.ask(|reply| reply, 2 * HOUR);
    let (first, second) = (ask(), ask());
    inside.recv_timeout(LONG).unwrap();
    assert!(!system.close_within(ms(20)).is_complete());
    for question in [first, second] {
        assert_eq!(question.wait(), Err(AskError::Closed));
    }
    drop(release);
    let here = std::thread::current().id();
    let dropped_here = (0..5).filter(|_| dropped.recv_timeout(LONG).unwrap() == here).count();
    assert!(dropped_here <= 1, "{dropped_here}");
    close(&system);
}

#[test]
fn a_scheduled_task_may_close_the_system_and_drop_it_without_a_deadlock() {
    for inline in [true, false] {
        let system = ActorSystem::new("test").unwrap();
        let (factory, told) = probe(|_: &u8, _| ());
        let _actor = system.spawn("a", factory).unwrap();
        let timers = system.scheduler().timers().clone();
        let (sender, receiver) = mpsc::channel();
        let task = lars_scheduler::Task::new(move || {
            sender.send(system.close_within(LONG).is_complete()).unwrap();
            drop(system);
        });
        let task = if inline { task.inline() } else { task };
        let _ = timers.schedule_once(Duration::from_millis(1), task).unwrap();
        let _ = receiver.recv_timeout(LONG).unwrap();
        assert_eq!(all(&told).last(), Some(&Event::Dropped));
    }
}

#[test]
fn closing_says_so_when_a_closure_of_the_scheduler_does_not_return() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let (release, hold) = mpsc::channel::<()>();
    let (entered, wait) = mpsc::channel();
    let stuck = move || {
        entered.send(()).unwrap();
        let _ = hold.recv();
    };
    let _ = system.scheduler().timers().schedule_once(Duration::ZERO, stuck).unwrap();
    wait.recv_timeout(LONG).unwrap();
    let report = system.close_within(Duration::from_millis(5));
    assert_eq!((report.is_complete(), report.threads), (false, 1));
    // (So short a time may also be over before the scheduler has stopped; that is said behind it.)
    assert!(report.to_string().contains("; threads running: 1"), "{report}");
    drop(release);
    assert!(system.close_within(LONG).is_complete());
}

#[test]
fn an_actor_that_holds_the_last_reference_to_its_system_may_drop_it() {
    struct Owner(Option<ActorSystem>, mpsc::Sender<()>);
    impl Actor for Owner {
        type Message = ActorSystem;
        fn receive(&mut self, system: ActorSystem, _: &mut Context<Self>) {
            self.0 = Some(system);
            self.0 = None;
            self.1.send(()).unwrap();
        }
    }
    let system = ActorSystem::new("test").unwrap();
    let (sender, receiver) = mpsc::channel();
    let owner = system.spawn("owner", move || Owner(None, sender)).unwrap();
    let end = owner.termination();
    owner.tell(system).map_err(drop).unwrap();
    receiver.recv_timeout(LONG).unwrap();
    assert_eq!(end.wait_timeout(LONG), Some(StopReason::SystemClosed));
}

#[test]
fn the_threads_of_a_closed_system_have_ended() {
    let system = ActorSystem::builder("ends").threads(3).build().unwrap();
    let (on_exit, exited) = mpsc::channel::<()>();
    thread_local! {
        static ON_EXIT: std::cell::RefCell<Option<mpsc::Sender<()>>> =
            const { std::cell::RefCell::new(None) };
    }
    let (factory, _told) = probe(|_: &u8, _| ());
    let actor = system
        .spawn("a", move || {
            ON_EXIT.with(|it| *it.borrow_mut() = Some(on_exit));
            factory()
        })
        .unwrap();
    close(&system);
    // The reference outlives the system.
    assert_eq!(exited.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
    assert!(actor.is_stopped());
}

#[test]
fn an_actor_that_closes_the_system_while_another_thread_does_is_not_made_to_wait() {
    struct Closer(std::sync::Arc<ActorSystem>, mpsc::Sender<()>, mpsc::Receiver<()>);
    impl Actor for Closer {
        type Message = ();
        fn receive(&mut self, (): (), _: &mut Context<Self>) {
            self.1.send(()).unwrap();
            self.2.recv().unwrap(); // until the other has begun
            assert!(!self.0.close_within(LONG).is_complete());
        }
    }
    let system = Arc::new(ActorSystem::new("test").unwrap());
    let (sender, entered) = mpsc::channel();
    let (release, hold) = mpsc::channel();
    let inner = Arc::clone(&system);
    let closer = system.spawn("closer", move || Closer(inner, sender, hold)).unwrap();
    closer.tell(()).unwrap();
    entered.recv_timeout(LONG).unwrap();
    let other = Arc::clone(&system);
    let closing = std::thread::spawn(move || other.close_within(LONG));
    assert!(!system.close_within(ms(20)).is_complete());
    release.send(()).unwrap();
    let report = closing.join().unwrap();
    assert!(report.is_complete(), "{report}");
    assert_eq!(report.actors_stopped, 1);
}

/// Occupies the timer thread of a system until what it returns is dropped.
fn occupy_timer_thread(system: &ActorSystem) -> mpsc::Sender<()> {
    let ((release, hold), (entered, inside)) = (mpsc::channel(), mpsc::channel());
    let occupies = lars_scheduler::Task::new(move || {
        entered.send(()).unwrap();
        let _ = hold.recv();
    });
    let _ = system.scheduler().timers().schedule_once(Duration::ZERO, occupies.inline()).unwrap();
    inside.recv_timeout(LONG).unwrap();
    release
}

#[test]
fn a_close_waits_for_the_one_that_sends_what_was_scheduled() {
    for by_timer_thread in [true, false] {
        let ((release, hold), (entered, inside)) = (mpsc::channel::<()>(), mpsc::channel());
        let hold = Mutex::new(hold);
        let holds = move |_: &DeadLetter<'_>| {
            entered.send(()).unwrap();
            let _ = hold.lock().unwrap().recv();
        };
        let system = Arc::new(
            ActorSystem::builder("test").threads(1).on_dead_letter(holds).build().unwrap(),
        );
        let (factory, told) = probe(|_, _| ());
        let gone = system.spawn("gone", factory).unwrap();
        gone.stop();
        all(&told);
        for number in 0..2 {
            let _ = system.scheduler().schedule_once(HOUR, &gone, number).unwrap();
        }
        // One thread is held by the hook when it sends the first of them.
        let first = if by_timer_thread {
            let occupied = occupy_timer_thread(&system);
            assert!(!system.close_within(Duration::ZERO).scheduler_stopped);
            drop(occupied);
            None
        } else {
            let closes = Arc::clone(&system);
            Some(std::thread::spawn(move || closes.close_within(LONG)))
        };
        inside.recv_timeout(LONG).unwrap();
        // Another one waits for it until the limit, and longer if it may.
        let report = system.close_within(ms(20));
        assert!(!report.is_complete() && !report.scheduler_stopped, "{report}");
        drop(release);
        let report = system.close_within(LONG);
        assert!(report.is_complete(), "{report}");
        assert_eq!((report.sent, report.undelivered), (2, 2));
        let first = first.map(|first| first.join().unwrap());
        assert!(first.is_none_or(|first| first.is_complete()));
    }
}

#[test]
fn a_report_counts_actors_that_have_stopped_whoever_was_spawned_while_it_closed() {
    let (system, release) = loop {
        let system = ActorSystem::builder("test").threads(2).build().unwrap();
        let (release, hold) = mpsc::channel::<()>();
        let (sender, spawned) = mpsc::channel();
        let mut stuck = Some(move || {
            let act = move |call: Call<()>, _: &mut Context<Script<()>>| {
                if matches!(call, Call::Started) {
                    let _ = hold.recv();
                }
            };
            Script::new(act)
        });
        let act = move |call: Call<()>, ctx: &mut Context<Script<()>>| {
            if matches!(call, Call::Message(())) {
                let stuck = ctx.system().spawn("stuck", stuck.take().unwrap());
                sender.send(stuck.is_ok()).unwrap();
            }
        };
        let actor = system.spawn("spawns", move || Script::new(act)).unwrap();
        // Closing sends that, so the other one was not alive when it began.
        let _ = system.scheduler().schedule_once(HOUR, &actor, ()).unwrap();
        let _ = system.close_within(ms(20));
        // Or it gave up before that was received, on a busy machine.
        if spawned.recv_timeout(LONG).unwrap() {
            break (system, release);
        }
    };
    let (stuck, begin) = (["/stuck".into()], Instant::now());
    let report = loop {
        let report = system.close_within(ms(1));
        if report.running == stuck {
            break report;
        }
        assert!(begin.elapsed() < LONG, "{report}");
    };
    assert_eq!(report.actors_stopped, 1);
    drop(release);
    assert_eq!(close(&system).actors_stopped, 1);
}

#[test]
fn a_close_with_a_longer_limit_waits_on_when_the_first_gives_up() {
    let system = Arc::new(ActorSystem::builder("test").threads(1).build().unwrap());
    let occupied = occupy_timer_thread(&system);
    let close = |limit| {
        let (system, (sender, report)) = (Arc::clone(&system), mpsc::channel());
        std::thread::spawn(move || sender.send(system.close_within(limit)));
        report
    };
    let first = close(ms(300));
    while !system.scheduler().timers().is_stopped() {
        std::thread::yield_now();
    }
    // As a rule it comes while the first waits; what comes of it must be the same.
    let second = close(LONG);
    let report = first.recv_timeout(LONG).unwrap();
    assert!(!report.scheduler_stopped, "{report}");
    // It never returns before this, and one that does so has had the time for it, as a rule.
    assert!(second.recv_timeout(ms(100)).is_err());
    drop(occupied);
    let report = second.recv_timeout(2 * LONG).unwrap();
    assert!(report.is_complete(), "{report}");
}

#[test]
fn a_system_in_virtual_time_that_is_dropped_stops_its_actors_and_frees_them() {
    let (factory, told) = probe(|_, _| ());
    let kit = TestKit::new("test").unwrap();
    let actor = kit.spawn("a", factory).unwrap();
    let end = actor.termination();
    actor.tell(1).unwrap();
    drop(kit);
    assert_eq!(
        all(&told),
        [
            Event::Started,
            Event::Received(1),
            Event::Stopped(StopReason::SystemClosed),
            Event::Dropped
        ]
    );
    assert_eq!(futures::executor::block_on(end), StopReason::SystemClosed);
}

/// A scheduled message whose destructor is foreign code that comes back.
struct ClosesOnDrop(Arc<ActorSystem>);
impl Drop for ClosesOnDrop {
    fn drop(&mut self) {
        self.0.close_within(Duration::ZERO);
    }
}

#[test]
fn a_scheduled_message_whose_destructor_closes_the_system_does_not_lock_it_up() {
    struct Ignores;
    impl Actor for Ignores {
        type Message = ClosesOnDrop;
        fn receive(&mut self, _: ClosesOnDrop, _: &mut Context<Self>) {}
    }
    let builder = ActorSystem::builder("test").threads(1).close_policy(ClosePolicy::DropPending);
    let system = Arc::new(builder.build().unwrap());
    let actor = system.spawn("a", || Ignores).unwrap();
    let message = ClosesOnDrop(Arc::clone(&system));
    assert!(system.scheduler().schedule_once(HOUR, &actor, message).is_ok());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(system.close_within(LONG)));
    assert!(receiver.recv_timeout(LONG).unwrap().is_complete());
}

#[test]
fn closing_in_virtual_time_returns_although_a_piped_future_wakes_itself_for_ever() {
    let (sender, closed) = mpsc::channel();
    std::thread::spawn(move || {
        let kit = TestKit::new("test").unwrap();
        kit.spawn("a", || {
            Script::new(|call: Call<()>, ctx: &mut Context<Script<()>>| {
                if call == Call::Started {
                    let endless = std::future::poll_fn(|context: &mut TaskContext<'_>| {
                        context.waker().wake_by_ref();
                        Poll::Pending::<()>
                    });
                    ctx.pipe_to_self(endless, |()| ());
                }
            })
        })
        .unwrap();
        sender.send(kit.close_within(ms(100)).running).unwrap();
    });
    assert!(closed.recv_timeout(LONG).unwrap().is_empty());
}
