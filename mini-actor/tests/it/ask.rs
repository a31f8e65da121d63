//! Questions, answers, and futures whose results become messages.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context as TaskContext, Wake, Waker};
use std::thread::yield_now;
use std::time::Duration;

use common::{Call, LONG, SECOND, Script, close, ms};
use futures::executor::block_on;
use mini_actor::hooks::Undelivered;
use mini_actor::supervision::SupervisionStrategy;
use mini_actor::test_kit::TestKit;
use mini_actor::{Actor, ActorRef, ActorSystem, AskError, Context, Overflow, Props, Reply};

enum Question {
    Double(u64, Reply<u64>),
    /// Kept until `Release`.
    Keep(Reply<u64>),
    Release,
    Drop(Reply<u64>),
    Throw(Reply<u64>),
}

#[derive(Default)]
struct Oracle(Vec<Reply<u64>>);

impl Actor for Oracle {
    type Message = Question;
    fn receive(&mut self, question: Question, _: &mut Context<Self>) {
        match question {
            Question::Double(number, reply) => reply.send(2 * number),
            Question::Keep(reply) => self.0.push(reply),
            Question::Release => self.0.drain(..).for_each(|reply| reply.send(7)),
            Question::Drop(reply) => drop(reply),
            Question::Throw(_reply) => panic!("expected by this test"),
        }
    }
}

#[test]
fn an_answer_comes_to_a_thread_and_to_a_task_and_cancels_the_one_timer() {
    let system = ActorSystem::new("test").unwrap();
    let oracle = system.spawn("oracle", Oracle::default).unwrap();
    let ask = oracle.ask(|reply| Question::Double(4, reply), LONG);
    assert_eq!(ask.wait(), Ok(8));
    let ask = oracle.ask(|reply| Question::Double(5, reply), LONG);
    assert_eq!(block_on(ask), Ok(10));
    // Whoever answers cancels it, and the asker may go on before that.
    let counts = || system.scheduler().timers().metrics();
    while counts().pending > 0 {
        yield_now();
    }
    assert_eq!((counts().scheduled, counts().cancelled), (2, 2));
}

#[test]
fn a_question_times_out_never_early_and_a_late_answer_is_a_dead_letter() {
    let kit = TestKit::new("test").unwrap();
    let oracle = kit.spawn("oracle", Oracle::default).unwrap();
    let mut ask = Box::pin(oracle.ask(Question::Keep, SECOND));
    kit.advance(SECOND - Duration::from_nanos(1));
    assert!(poll(&mut ask).is_none());
    kit.advance(Duration::from_nanos(1));
    assert_eq!(poll(&mut ask), Some(Err(AskError::Timeout(SECOND))));
    assert_eq!(kit.dead_letters(), []);
    oracle.tell(Question::Release).unwrap();
    let letters = kit.dead_letters();
    assert_eq!((letters.len(), letters[0].reason), (1, Undelivered::Late));
    assert_eq!((&*letters[0].recipient, letters[0].message_type), ("/oracle", "u64"));
}

fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    use futures::FutureExt;
    future.now_or_never()
}

#[test]
fn an_asker_that_does_not_wait_any_more_gives_the_timer_back_and_the_answer_is_a_dead_letter() {
    let kit = TestKit::new("test").unwrap();
    let oracle = kit.spawn("oracle", Oracle::default).unwrap();
    drop(oracle.ask(Question::Keep, SECOND));
    assert_eq!(kit.scheduler().timers().pending(), 0);
    oracle.tell(Question::Release).unwrap();
    assert_eq!(kit.dead_letters().len(), 1);
    // One that has come and was not looked at.
    let ask = oracle.ask(|reply| Question::Double(1, reply), SECOND);
    kit.settle();
    drop(ask);
    assert_eq!(kit.dead_letters().len(), 1);
}

#[test]
fn a_question_that_nobody_will_answer_ends_at_once() {
    let kit = TestKit::new("test").unwrap();
    let oracle = kit.spawn("oracle", Oracle::default).unwrap();
    assert_eq!(oracle.ask(Question::Drop, LONG).wait(), Err(AskError::NoAnswer));
    // In the mailbox of an actor that is killed.
    let unanswered = oracle.ask(|reply| Question::Double(1, reply), LONG);
    oracle.kill();
    assert_eq!(unanswered.wait(), Err(AskError::NoAnswer));
    let gone = oracle.ask(|reply| Question::Double(1, reply), LONG);
    assert_eq!(gone.wait(), Err(AskError::Stopped("/oracle".into())));
    let clumsy = kit.spawn("clumsy", Oracle::default).unwrap();
    assert_eq!(clumsy.ask(Question::Throw, LONG).wait(), Err(AskError::NoAnswer));
    let full =
        kit.spawn_with("full", Props::new(Oracle::default).bounded(1, Overflow::Fail)).unwrap();
    full.tell(Question::Release).unwrap();
    let refused = full.ask(Question::Keep, LONG).wait();
    assert_eq!(refused, Err(AskError::Full("/full".into())));
    assert_eq!(kit.scheduler().timers().pending(), 0);
}

#[test]
fn waiting_in_virtual_time_runs_what_can_run_and_does_not_wait_for_ever() {
    let kit = TestKit::new("test").unwrap();
    let oracle = kit.spawn("oracle", Oracle::default).unwrap();
    assert_eq!(oracle.ask(|reply| Question::Double(3, reply), SECOND).wait(), Ok(6));
    assert_eq!(oracle.ask(Question::Keep, SECOND).wait(), Err(AskError::WouldBlock));
}

#[test]
fn an_open_question_is_told_when_its_system_has_been_closed_and_not_before() {
    let kit = TestKit::new("test").unwrap();
    let oracle = kit.spawn("oracle", Oracle::default).unwrap();
    let answered = oracle.ask(Question::Keep, LONG);
    oracle.tell(Question::Release).unwrap();
    let (sender, receiver) = mpsc::channel();
    let keeper = kit
        .spawn("keeper", move || {
            struct Keeper(mpsc::Sender<Reply<u64>>);
            impl Actor for Keeper {
                type Message = Reply<u64>;
                fn receive(&mut self, reply: Reply<u64>, _: &mut Context<Self>) {
                    self.0.send(reply).unwrap();
                }
            }
            Keeper(sender)
        })
        .unwrap();
    let open = keeper.ask(|reply| reply, LONG);
    let report = kit.close().unwrap();
    assert_eq!(report.timers_ended, 1);
    assert_eq!(answered.wait(), Ok(7));
    assert_eq!(open.wait(), Err(AskError::Closed));
    let reply = receiver.recv().unwrap();
    assert!(!reply.is_wanted());
    reply.send(1);
    assert_eq!(keeper.ask(|reply| reply, LONG).wait(), Err(AskError::Closed));
}

#[test]
fn actors_that_ask_each_other_and_wait_do_not_starve_each_other_as_long_as_a_thread_is_free() {
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let oracle = system.spawn("oracle", Oracle::default).unwrap();
    let (sender, receiver) = mpsc::channel();
    let asker = system
        .spawn("asker", move || {
            Script::new(move |call: Call<u64>, _| {
                if let Call::Message(number) = call {
                    // The oracle was just scheduled on this very thread.
                    let ask = oracle.ask(|reply| Question::Double(number, reply), LONG);
                    sender.send(ask.wait()).unwrap();
                }
            })
        })
        .unwrap();
    for number in 0..200 {
        asker.tell(number).unwrap();
    }
    for number in 0..200 {
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), Ok(2 * number));
    }
}

/// Pipes what the test makes, and tells what comes of it.
fn piping<F: Future<Output = u64> + Send + 'static>(
    system: &ActorSystem,
    make: impl FnOnce() -> F + Send + 'static,
) -> mpsc::Receiver<u64> {
    let (sender, receiver) = mpsc::channel();
    let mut make = Some(make);
    system
        .spawn("pipes", move || {
            Script::new(move |call: Call<u64>, ctx: &mut Context<Script<u64>>| match call {
                Call::Started => {
                    let make = make.take().unwrap();
                    ctx.pipe_to_self(make(), |result| result + 1);
                }
                Call::Message(result) => sender.send(result).unwrap(),
                _ => {}
            })
        })
        .unwrap();
    receiver
}

#[test]
fn a_future_of_a_tokio_runtime_is_piped_to_an_actor() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let system = ActorSystem::new("test").unwrap();
    let handle = runtime.handle().clone();
    let receiver = piping(&system, move || async move {
        let slept = handle.spawn(async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            41
        });
        slept.await.unwrap()
    });
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), 42);
}

#[test]
fn a_future_of_smol_is_piped_to_an_actor() {
    let system = ActorSystem::new("test").unwrap();
    let receiver = piping(&system, || async {
        smol::Timer::after(Duration::from_millis(2)).await;
        smol::unblock(|| 41).await
    });
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), 42);
}

#[test]
fn a_piped_future_is_woken_in_virtual_time_too_and_its_result_for_a_stopped_actor_is_a_dead_letter()
{
    let kit = TestKit::new("test").unwrap();
    let (promise, result) = futures::channel::oneshot::channel();
    let receiver = piping(&kit, || async { result.await.unwrap() });
    kit.settle();
    let (late_promise, late) = futures::channel::oneshot::channel::<u64>();
    let stopped = kit
        .spawn("stops", move || {
            let mut late = Some(late);
            Script::new(move |call: Call<u64>, ctx: &mut Context<Script<u64>>| {
                if call == Call::Started {
                    let late = late.take().unwrap();
                    ctx.pipe_to_self(async { late.await.unwrap() }, |result| result);
                    ctx.pipe_to_self(async { panic!("expected by this test") }, |(): ()| 0);
                    ctx.stop();
                }
            })
        })
        .unwrap();
    kit.settle();
    assert!(stopped.is_stopped());
    promise.send(1).unwrap();
    late_promise.send(2).unwrap();
    kit.advance(ms(1));
    assert_eq!(receiver.try_recv(), Ok(2));
    assert_eq!(kit.dead_letters().len(), 1);
}

/// Gives the way back to the test, which keeps it.
struct Keeper(mpsc::Sender<Reply<u64>>);

impl Actor for Keeper {
    type Message = Reply<u64>;
    fn receive(&mut self, reply: Reply<u64>, _: &mut Context<Self>) {
        self.0.send(reply).unwrap();
    }
}

#[test]
fn a_question_of_an_actor_keeps_its_time_out_while_its_system_is_closed() {
    struct Parent(mpsc::Sender<Reply<u64>>, mpsc::Sender<Result<u64, AskError>>);
    impl Actor for Parent {
        type Message = ();
        fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
            let sender = self.0.clone();
            let child = ctx.spawn("child", move || Keeper(sender)).unwrap();
            self.1.send(child.ask(|reply| reply, ms(300)).wait()).unwrap();
        }
    }
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let ((sender, kept), (told, result)) = (mpsc::channel(), mpsc::channel());
    let parent = system.spawn("parent", move || Parent(sender, told)).unwrap();
    parent.tell(()).unwrap();
    let _kept = kept.recv().unwrap();
    let report = system.close_within(LONG);
    assert!(report.is_complete(), "{report}");
    assert_eq!(result.recv().unwrap(), Err(AskError::Timeout(ms(300))));
}

#[test]
fn an_open_question_ends_when_closing_is_given_up() {
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let (sender, kept) = mpsc::channel();
    let keeper = system.spawn("keeper", move || Keeper(sender)).unwrap();
    let ((begun, has_begun), (release, hold)) = (mpsc::channel(), mpsc::channel::<()>());
    let busy = system
        .spawn("busy", move || {
            Script::new(move |call: Call<()>, _| {
                if call == Call::Message(()) {
                    begun.send(()).unwrap();
                    let _ = hold.recv();
                }
            })
        })
        .unwrap();
    let ask = keeper.ask(|reply| reply, Duration::MAX);
    let asleep = keeper.ask(|reply| reply, Duration::MAX);
    let _kept = (kept.recv().unwrap(), kept.recv().unwrap());
    busy.tell(()).unwrap();
    has_begun.recv().unwrap();
    assert!(!system.close_within(ms(10)).is_complete());
    let (sender, results) = mpsc::channel();
    let other = sender.clone();
    std::thread::spawn(move || sender.send(ask.wait()));
    std::thread::spawn(move || other.send(block_on(asleep)));
    assert_eq!(results.recv_timeout(LONG).unwrap(), Err(AskError::Closed));
    assert_eq!(results.recv_timeout(LONG).unwrap(), Err(AskError::Closed));
    drop(release);
    close(&system);
}

#[test]
fn an_open_question_ends_with_the_last_actor_of_a_system_that_an_actor_closes() {
    let system = Arc::new(ActorSystem::builder("test").threads(2).build().unwrap());
    let (sender, kept) = mpsc::channel();
    let keeper = system.spawn("keeper", move || Keeper(sender)).unwrap();
    let owner = Arc::clone(&system);
    let closes = system
        .spawn("closes", move || {
            Script::new(move |call: Call<()>, _| {
                if call == Call::Message(()) {
                    owner.close_within(Duration::ZERO);
                }
            })
        })
        .unwrap();
    let ask = keeper.ask(|reply| reply, Duration::MAX);
    let _kept = kept.recv().unwrap();
    closes.tell(()).unwrap();
    let (sender, result) = mpsc::channel();
    std::thread::spawn(move || sender.send(block_on(ask)));
    assert_eq!(result.recv_timeout(LONG).unwrap(), Err(AskError::Closed));
}

/// A task that must not be woken.
struct Bad;

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        panic!("the waker panics, as expected by this test");
    }
}

#[test]
fn a_waker_of_an_asker_that_panics_does_not_fail_the_actor_that_answers() {
    let kit = TestKit::new("test").unwrap();
    let oracle = kit.spawn("oracle", Oracle::default).unwrap();
    let mut ask = oracle.ask(Question::Keep, LONG);
    let waker = Waker::from(Arc::new(Bad));
    assert!(Pin::new(&mut ask).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    oracle.tell(Question::Release).unwrap();
    kit.settle();
    assert!(!oracle.is_stopped());
    assert_eq!(kit.scheduler().timers().pending(), 0, "the timeout was not cancelled");
    assert_eq!(ask.wait(), Ok(7));
}

#[test]
fn a_waker_of_an_asker_that_panics_while_the_asked_actor_unwinds_does_not_abort_the_process() {
    let kit = TestKit::new("test").unwrap();
    let oracle = kit.spawn("oracle", Oracle::default).unwrap();
    let mut ask = oracle.ask(Question::Throw, LONG);
    let waker = Waker::from(Arc::new(Bad));
    assert!(Pin::new(&mut ask).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    kit.settle();
    assert!(oracle.is_stopped());
    assert_eq!(ask.wait(), Err(AskError::NoAnswer));
}

/// A task whose waker's destructor looks at the question.
struct Looks(Arc<Mutex<Option<Reply<u64>>>>);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Looks {
    fn drop(&mut self) {
        let reply = self.0.lock().unwrap().take();
        reply.unwrap().send(1);
    }
}

#[test]
fn a_waker_whose_destructor_answers_the_question_does_not_lock_it_up() {
    let (ended, has_ended) = mpsc::channel();
    std::thread::spawn(move || {
        let kit = TestKit::new("test").unwrap();
        let (sender, kept) = mpsc::channel();
        let keeper = kit.spawn("keeper", move || Keeper(sender)).unwrap();
        let mut ask = keeper.ask(|reply| reply, LONG);
        kit.settle();
        let reply = Arc::new(Mutex::new(Some(kept.recv().unwrap())));
        let waker = Waker::from(Arc::new(Looks(reply)));
        assert!(Pin::new(&mut ask).poll(&mut TaskContext::from_waker(&waker)).is_pending());
        drop(waker);
        // The question drops the last clone of the waker.
        drop(ask);
        ended.send(kit.metrics().dead_letters).unwrap();
    });
    assert_eq!(has_ended.recv_timeout(LONG), Ok(1), "the late answer");
}

#[test]
fn a_question_to_a_full_mailbox_that_blocks_takes_no_longer_than_its_time_out() {
    enum Message {
        Hold(mpsc::Receiver<()>),
        Ask(Reply<u64>),
    }
    struct Sink(mpsc::Sender<()>);
    impl Actor for Sink {
        type Message = Message;
        fn receive(&mut self, message: Message, _: &mut Context<Self>) {
            match message {
                Message::Hold(hold) => {
                    self.0.send(()).unwrap();
                    let _ = hold.recv();
                }
                Message::Ask(reply) => reply.send(1),
            }
        }
    }
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let (holds, has_held) = mpsc::channel();
    let props = Props::once(|| Sink(holds)).bounded(1, Overflow::Block(Duration::MAX));
    let sink = system.spawn_with("sink", props).unwrap();
    let (release, hold) = mpsc::channel();
    sink.tell(Message::Hold(hold)).unwrap();
    has_held.recv().unwrap();
    let first = sink.ask(Message::Ask, LONG);
    let (sender, result) = mpsc::channel();
    let asks = sink.clone();
    std::thread::spawn(move || sender.send(asks.ask(Message::Ask, ms(50)).wait()));
    assert_eq!(result.recv_timeout(LONG), Ok(Err(AskError::Timeout(ms(50)))));
    drop(release);
    assert_eq!(first.wait(), Ok(1));
}

/// Lets a parent fail while a child, on a thread of its own, waits for its answer. Returns what the
/// child was told.
fn asked_by_a_child_and_restarted(
    wait: fn(mini_actor::Ask<u64>) -> Result<u64, AskError>,
) -> Result<u64, AskError> {
    type Told = mpsc::Sender<Result<u64, AskError>>;
    type Wait = fn(mini_actor::Ask<u64>) -> Result<u64, AskError>;
    struct Child(ActorRef<Option<Reply<u64>>>, Wait, Told);
    impl Actor for Child {
        type Message = ();
        fn receive(&mut self, (): (), _: &mut Context<Self>) {
            let _ = self.2.send((self.1)(self.0.ask(Some, Duration::MAX)));
        }
    }
    struct Parent(Wait, Told, mpsc::Sender<()>);
    impl Actor for Parent {
        type Message = Option<Reply<u64>>;
        fn started(&mut self, _: &mut Context<Self>) {
            self.2.send(()).unwrap();
        }
        fn receive(&mut self, question: Option<Reply<u64>>, ctx: &mut Context<Self>) {
            if let Some(reply) = question {
                reply.send(7);
                return;
            }
            let (me, wait, told) = (ctx.myself().clone(), self.0, self.1.clone());
            let props = Props::once(move || Child(me, wait, told)).pinned();
            ctx.spawn_with("child", props).unwrap().tell(()).unwrap();
            // So that it waits already, as a rule; what comes of it must be the same.
            std::thread::sleep(Duration::from_millis(50));
            panic!("expected by this test");
        }
    }
    let system = ActorSystem::builder("test").threads(2).build().unwrap();
    let ((told, child_told), (started, has_started)) = (mpsc::channel(), mpsc::channel());
    let props = Props::new(move || Parent(wait, told.clone(), started.clone()));
    let parent =
        system.spawn_with("parent", props.supervision(SupervisionStrategy::restart())).unwrap();
    parent.tell(None).unwrap();
    for _ in 0..2 {
        has_started.recv_timeout(LONG).expect("it is started, and started again");
    }
    assert_eq!(parent.ask(Some, LONG).wait(), Ok(7));
    child_told.recv_timeout(LONG).unwrap()
}

#[test]
fn a_restart_is_not_held_up_by_a_child_that_waits_for_an_answer_of_its_parent() {
    let told = asked_by_a_child_and_restarted(|ask| ask.wait());
    assert_eq!(told, Err(AskError::Restarting("/parent".into())));
    let told = asked_by_a_child_and_restarted(block_on);
    assert_eq!(told, Err(AskError::Restarting("/parent".into())));
}

#[test]
fn a_recipient_is_asked_for_what_it_takes() {
    struct Question(u64, Reply<u64>);

    let kit = TestKit::new("test").unwrap();
    let clerk = kit.probe::<Question>("clerk");
    let desk = clerk.actor().map(|(number, reply)| Question(number, reply));
    let answer = desk.ask(|reply| (7, reply), SECOND);
    let Question(number, reply) = clerk.expect_message();
    reply.send(2 * number);
    assert_eq!(answer.wait(), Ok(14));

    let answer = desk.ask(|reply| (8, reply), SECOND);
    kit.advance(SECOND);
    assert_eq!(answer.wait(), Err(AskError::Timeout(SECOND)));

    clerk.actor().stop();
    kit.settle();
    let answer = desk.ask(|reply| (9, reply), SECOND);
    assert_eq!(answer.wait(), Err(AskError::Stopped("/clerk".into())));
    assert_eq!(kit.scheduler().timers().pending(), 0);
}

#[test]
fn a_question_that_its_mapping_panics_about_leaves_no_timer() {
    let kit = TestKit::new("test").unwrap();
    let clerk = kit.probe::<Reply<u64>>("clerk");
    let desk = clerk.actor().map(|_: Reply<u64>| panic!("expected by this test"));
    let ask = || desk.ask(|reply| reply, SECOND);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask)).is_err());
    assert_eq!(kit.scheduler().timers().pending(), 0);
}
