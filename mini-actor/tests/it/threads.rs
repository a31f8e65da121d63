//! Threads that actors share: one that blocks, one that never has a free moment, one whose tasks
//! panic when they are dropped; and futures that they poll.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::cell::{Cell, RefCell};
use std::future::{Future as _, pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::time::Duration;

use common::{Call, Event, LONG, Script, all, close, probe};
use mini_actor::hooks::{ThreadKind, ThreadStart};
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, ActorRef, ActorSystem, Context, Props, Reply};

type Body = Box<dyn FnOnce(&mut Context<Runs>) + Send>;

/// Runs what it is sent.
struct Runs;

impl Actor for Runs {
    type Message = Body;

    fn receive(&mut self, body: Body, ctx: &mut Context<Self>) {
        body(ctx);
    }
}

fn threads(number: usize) -> ActorSystem {
    ActorSystem::builder("test").threads(number).build().unwrap()
}

/// Lets an actor run it, and waits for what it gives.
fn inside<T: Send + 'static>(
    system: &ActorSystem,
    body: impl FnOnce(&mut Context<Runs>) -> T + Send + 'static,
) -> T {
    let (sender, result) = channel();
    let actor = system.spawn("inside", || Runs).unwrap();
    actor.tell(Box::new(move |ctx| drop(sender.send(body(ctx))))).ok().unwrap();
    let result = result.recv_timeout(2 * LONG).unwrap();
    actor.stop();
    assert!(actor.termination().wait_timeout(LONG).is_some());
    result
}

/// Answers each message with itself.
fn echo(system: &ActorSystem, name: &str) -> (ActorRef<u32>, Receiver<u32>) {
    let (sender, told) = channel();
    let actor = system.spawn(name, move || {
        Script::new(move |call, _| {
            if let Call::Message(number) = call {
                let _ = sender.send(number);
            }
        })
    });
    (actor.unwrap(), told)
}

#[test]
fn an_actor_that_is_told_something_by_one_that_blocks_is_not_kept_from_receiving_it() {
    let system = threads(2);
    let (other, told) = echo(&system, "other");
    let answers = inside(&system, move |ctx| {
        let before = ctx.blocking(|| {
            other.tell(1).unwrap();
            told.recv_timeout(LONG)
        });
        // The thread may go on to block until the turn is over.
        other.tell(2).unwrap();
        [before, told.recv_timeout(LONG)]
    });
    assert_eq!(answers, [Ok(1), Ok(2)]);
}

struct Asked;

impl Actor for Asked {
    type Message = Reply<u32>;

    fn receive(&mut self, reply: Reply<u32>, _: &mut Context<Self>) {
        reply.send(7);
    }
}

#[test]
fn an_actor_may_wait_for_an_answer_or_an_end_with_an_executor_of_its_own() {
    let system = threads(2);
    let asked = system.spawn("asked", || Asked).unwrap();
    let (other, _told) = echo(&system, "other");
    let answer = inside(&system, move |_| {
        other.stop();
        let _ = futures::executor::block_on(other.termination());
        futures::executor::block_on(asked.ask(|reply| reply, LONG))
    });
    assert_eq!(answer, Ok(7));
}

/// Sends itself one message after the other, and counts them; waits once until it may go on.
struct Busy {
    count: Arc<AtomicU64>,
    begun: Sender<()>,
    go_on: Receiver<()>,
}

impl Actor for Busy {
    type Message = ();

    fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            self.begun.send(()).unwrap();
            let _ = self.go_on.recv();
        }
        let _ = ctx.myself().tell(());
    }
}

fn busy(system: &ActorSystem) -> (ActorRef<()>, Arc<AtomicU64>, Sender<()>) {
    let (begun, has_begun) = channel();
    let (go, go_on) = channel();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let actor = system.spawn("busy", || Busy { count: counted, begun, go_on }).unwrap();
    actor.tell(()).unwrap();
    has_begun.recv_timeout(LONG).unwrap();
    (actor, count, go)
}

#[test]
fn what_waits_for_a_thread_that_blocks_goes_to_one_that_never_has_a_free_moment() {
    let system = threads(2);
    let (busy, _, go) = busy(&system);
    go.send(()).unwrap();
    let ((first, told_first), (second, told_second)) =
        (echo(&system, "first"), echo(&system, "second"));
    let answers = inside(&system, move |ctx| {
        // The one comes into the queue of this thread, the other into its slot.
        first.tell(1).unwrap();
        second.tell(2).unwrap();
        ctx.blocking(|| [told_first.recv_timeout(LONG), told_second.recv_timeout(LONG)])
    });
    busy.kill();
    assert_eq!(answers, [Ok(1), Ok(2)]);
}

#[test]
fn actors_that_are_woken_from_outside_wait_for_a_turn_of_a_busy_one_and_not_for_many() {
    const THROUGHPUT: u64 = 3;
    let system =
        ActorSystem::builder("test").threads(1).throughput(THROUGHPUT as usize).build().unwrap();
    let (sender, told) = channel();
    let others: Vec<_> = (0..100)
        .map(|number| {
            let sender = sender.clone();
            let make = move || {
                Script::new(move |call: Call<Arc<AtomicU64>>, _| match call {
                    Call::Started => sender.send(0).unwrap(),
                    Call::Message(count) => sender.send(count.load(Ordering::Relaxed)).unwrap(),
                    _ => {}
                })
            };
            system.spawn(&format!("other-{number}"), make).unwrap()
        })
        .collect();
    assert!((0..100).all(|_| told.recv_timeout(LONG).is_ok()), "all have started");
    let (busy, count, go) = busy(&system);
    others.iter().for_each(|other| other.tell(Arc::clone(&count)).unwrap());
    go.send(()).unwrap();
    let most = (0..100).map(|_| told.recv_timeout(LONG).unwrap()).max().unwrap();
    busy.kill();
    // They are fetched in rows of up to 32, and the busy one has its turn after each row.
    assert!(most <= 12 * THROUGHPUT, "it received {most} messages before the last of them had one");
}

/// Longer than an idle thread looks for something to do. (A test that waits for it can only fail
/// if the other thread sleeps by then, which nobody can see.)
const UNTIL_OTHERS_SLEEP: Duration = Duration::from_millis(50);

#[test]
fn what_was_told_before_a_thread_blocks_wakes_another() {
    let system = threads(2);
    let (other, told) = echo(&system, "other");
    let answer = inside(&system, move |ctx| {
        std::thread::sleep(UNTIL_OTHERS_SLEEP);
        other.tell(1).unwrap();
        ctx.blocking(|| told.recv_timeout(LONG))
    });
    assert_eq!(answer, Ok(1));
}

#[test]
fn an_actor_that_tells_two_others_and_waits_without_saying_so_hears_of_the_first() {
    let system = threads(2);
    let ((first, told), (second, _told)) = (echo(&system, "first"), echo(&system, "second"));
    let answer = inside(&system, move |_| {
        std::thread::sleep(UNTIL_OTHERS_SLEEP);
        first.tell(1).unwrap();
        // The last one keeps the place next to this actor, which nobody else may take.
        second.tell(2).unwrap();
        told.recv_timeout(LONG)
    });
    assert_eq!(answer, Ok(1));
}

#[test]
fn an_actor_whose_turn_is_over_goes_on_elsewhere_while_the_one_that_it_told_blocks() {
    let system = ActorSystem::builder("test").threads(2).throughput(1).build().unwrap();
    let ((go, go_on), (sender, told)) = (channel(), channel());
    let blocks = system.spawn("blocks", move || {
        Script::new(move |call: Call<()>, _| {
            if call == Call::Message(()) {
                sender.send(go_on.recv_timeout(LONG)).unwrap();
            }
        })
    });
    let blocks = blocks.unwrap();
    let begins = system.spawn("begins", || Runs).unwrap();
    let (both_sent, has_both) = channel::<()>();
    let first: Body = Box::new(move |_| {
        has_both.recv_timeout(LONG).unwrap();
        std::thread::sleep(UNTIL_OTHERS_SLEEP);
        blocks.tell(()).unwrap();
    });
    begins.tell(first).ok().unwrap();
    begins.tell(Box::new(move |_| go.send(()).unwrap())).ok().unwrap();
    both_sent.send(()).unwrap();
    assert_eq!(told.recv_timeout(2 * LONG).unwrap(), Ok(()));
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("expected by this test");
    }
}

/// Pipes a future that nobody will wake, and that panics when it is dropped.
fn pipe_a_bomb(ctx: &mut Context<Runs>) {
    let bomb = Bomb;
    let future = async move {
        let _bomb = bomb;
        pending::<()>().await;
    };
    ctx.pipe_to_self(future, |()| Box::new(|_| {}));
}

#[test]
fn a_piped_future_that_panics_when_it_is_dropped_ends_no_thread() {
    let system = threads(1);
    inside(&system, pipe_a_bomb);
    let (other, told) = echo(&system, "other");
    other.tell(1).unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok(1));
    assert!(system.close_within(LONG).is_complete());
}

/// Tells when its thread ends.
struct Farewell(ActorRef<u32>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.tell(3).unwrap();
    }
}

thread_local! {
    static FAREWELL: RefCell<Option<Farewell>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_local_of_a_worker_may_tell_when_the_thread_ends() {
    let (ending, staying) = (threads(1), threads(1));
    let (other, told) = echo(&staying, "other");
    inside(&ending, move |ctx| {
        FAREWELL.with(|farewell| *farewell.borrow_mut() = Some(Farewell(other)));
        pipe_a_bomb(ctx);
    });
    assert!(ending.close_within(LONG).is_complete());
    assert_eq!(told.recv_timeout(LONG), Ok(3));
}

#[test]
fn a_piped_future_that_always_wakes_itself_does_not_keep_a_system_from_closing() {
    let system = threads(1);
    inside(&system, |ctx| {
        let future = poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        ctx.pipe_to_self(future, |()| Box::new(|_| {}));
    });
    assert!(system.close_within(LONG).is_complete());
}

#[test]
fn a_piped_future_that_wakes_itself_while_it_is_polled_is_polled_again() {
    let kit = TestKit::new("test").unwrap();
    let probe = kit.probe::<u32>("probe");
    let told = probe.actor().clone();
    let actor = kit.spawn("actor", || Runs).unwrap();
    let body: Body = Box::new(move |ctx| {
        let mut polls = 0;
        let future = poll_fn(move |context| {
            polls += 1;
            if polls == 3 {
                return Poll::Ready(polls);
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        ctx.pipe_to_self(future, |polls| Box::new(move |_| told.tell(polls).unwrap()));
    });
    actor.tell(body).ok().unwrap();
    assert_eq!(probe.expect_message(), 3);
}

#[test]
fn a_question_that_is_polled_by_an_actor_and_not_waited_for_harms_nothing() {
    let system = threads(1);
    let asked = system.spawn("asked", || Asked).unwrap();
    let answer = inside(&system, move |_| {
        let mut ask = asked.ask(|reply| reply, LONG);
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(std::pin::Pin::new(&mut ask).poll(context).is_pending());
        ask
    });
    assert_eq!(answer.wait(), Ok(7));
    assert!(system.close_within(Duration::MAX).is_complete());
}

#[test]
fn each_thread_of_a_system_calls_the_hook_before_anything_else() {
    thread_local! {
        static HOOKED: Cell<bool> = const { Cell::new(false) };
    }
    let (sender, started) = channel();
    let hook = move |thread: &ThreadStart<'_>| {
        HOOKED.set(true);
        assert_eq!(std::thread::current().name(), Some(thread.name));
        sender.send((thread.name.to_owned(), thread.kind)).unwrap();
        panic!("expected by this test");
    };
    let system = ActorSystem::builder("test").threads(2).on_thread_start(hook).build().unwrap();
    assert!(inside(&system, |_| HOOKED.get()));
    let hooked = system.spawn_with("own", Props::once(|| Runs).pinned()).unwrap();
    let (sender, result) = channel();
    hooked.tell(Box::new(move |_| sender.send(HOOKED.get()).unwrap())).ok().unwrap();
    assert!(result.recv_timeout(LONG).unwrap());
    let mut threads: Vec<_> = (0..4).map(|_| started.recv_timeout(LONG).unwrap()).collect();
    threads.sort_by(|one, other| one.0.cmp(&other.0));
    let names: Vec<_> = threads.iter().map(|thread| &*thread.0).collect();
    assert_eq!(names, ["test-actors-0", "test-actors-1", "test-scheduler", "test/own-0"]);
    assert!(matches!(threads[1].1, ThreadKind::Actors { number: 1, .. }));
    assert_eq!((threads[2].1, threads[3].1), (ThreadKind::Timer, ThreadKind::Pinned));
    close(&system);
}

#[test]
fn actors_that_block_in_each_message_leave_turns_for_the_others() {
    /// Always has another message.
    struct Blocks;
    impl Actor for Blocks {
        type Message = ();
        fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
            ctx.blocking(|| std::thread::sleep(Duration::from_micros(100)));
            let _ = ctx.myself().tell(());
        }
    }
    let system = ActorSystem::builder("test").threads(2).throughput(1).build().unwrap();
    for number in 0..4 {
        system.spawn(&format!("blocks-{number}"), || Blocks).unwrap().tell(()).unwrap();
    }
    let (factory, told) = probe(|_, ctx| ctx.stop());
    let other = system.spawn("other", factory).unwrap();
    other.tell(7).unwrap();
    assert!(all(&told).contains(&Event::Received(7)));
    close(&system);
}

#[test]
fn an_actor_that_closes_another_system_lets_others_have_what_waits_for_its_thread() {
    /// Of the other system: waits until the message has been received here.
    struct Waits(Receiver<()>);
    impl Actor for Waits {
        type Message = ();
        fn receive(&mut self, (): (), _: &mut Context<Self>) {
            self.0.recv().unwrap();
        }
    }
    let other = ActorSystem::builder("other").threads(1).build().unwrap();
    let (sender, receiver) = channel();
    other.spawn("waits", || Waits(receiver)).unwrap().tell(()).unwrap();
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let tells = move || {
        Script::new(move |call, _| {
            if call == Call::Message(1) {
                sender.send(()).unwrap();
            }
        })
    };
    let told = system.spawn("told", tells).unwrap();
    let (sender, closed) = channel();
    let closes = move || {
        let mut other = Some(other);
        Script::new(move |call: Call<()>, _: &mut Context<Script<()>>| {
            if call == Call::Message(()) {
                told.tell(1).unwrap();
                let report = other.take().unwrap().close_within(LONG);
                sender.send(report.is_complete()).unwrap();
            }
        })
    };
    system.spawn("closes", closes).unwrap().tell(()).unwrap();
    assert_eq!(closed.recv_timeout(2 * LONG), Ok(true));
    close(&system);
}
