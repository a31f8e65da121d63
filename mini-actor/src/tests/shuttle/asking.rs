//! Questions: their answers, their timeouts, and the end.

use std::sync::Arc;

use lars_base::sync::{AtomicUsize, Ordering, advance, check, thread};

use super::*;
use crate::supervision::SupervisionStrategy;
use crate::{AskError, Props, Reply};

/// A question that counts its fate.
struct Question(Token, Reply<u32>);

/// Answers every question but each third.
struct Oracle {
    asked: u32,
    answered: Arc<AtomicUsize>,
}

impl Actor for Oracle {
    type Message = Question;

    fn receive(&mut self, Question(token, reply): Question, _: &mut Context<Self>) {
        token.run();
        self.asked += 1;
        if !self.asked.is_multiple_of(3) {
            self.answered.fetch_add(1, Ordering::SeqCst);
            reply.send(self.asked);
        }
    }
}

/// Three questions, each of which gets a result.
fn ask(
    ledger: &Ledger,
    oracle: &ActorRef<Question>,
    limit: Duration,
) -> Vec<Result<u32, AskError>> {
    (0..3)
        .map(|_| {
            let token = ledger.token();
            ledger.accepted(token.number);
            oracle.ask(|reply| Question(token, reply), limit).wait()
        })
        .collect()
}

fn of_questions(stop: bool, close: bool) {
    // What the question was sent in is dropped with it, buried or not.
    let late = Arc::new(AtomicUsize::new(0));
    let system = {
        let late = Arc::clone(&late);
        let builder = ActorSystem::builder("shuttle").threads(2);
        let builder = builder.on_dead_letter(move |letter| {
            late.fetch_add(
                usize::from(letter.reason == crate::hooks::Undelivered::Late),
                Ordering::SeqCst,
            );
        });
        builder.build().unwrap()
    };
    let (ledger, answered) = (Ledger::new(), Arc::new(AtomicUsize::new(0)));
    let oracle = {
        let answered = Arc::clone(&answered);
        system.spawn("oracle", || Oracle { asked: 0, answered }).unwrap()
    };
    let askers: Vec<_> = (0..2)
        .map(|_| {
            let (ledger, oracle) = (ledger.clone(), oracle.clone());
            thread::spawn(move || ask(&ledger, &oracle, TICK))
        })
        .collect();
    for _ in 0..2 {
        advance(TICK);
    }
    if stop {
        oracle.stop();
    }
    if close {
        system.close().unwrap();
    }
    let results: Vec<_> = askers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    system.close().unwrap();
    let got = results.iter().filter(|result| result.is_ok()).count();
    let answered = answered.load(Ordering::SeqCst);
    assert_eq!(got + late.load(Ordering::SeqCst), answered, "an answer is seen or a dead letter");
    for result in results {
        match result {
            Ok(_) | Err(AskError::Timeout(_) | AskError::NoAnswer) => {}
            Err(AskError::Stopped(_)) => assert!(stop || close),
            Err(AskError::Closed) => assert!(close),
            Err(other) => panic!("{other:?}"),
        }
    }
    drop(system);
    ledger.settle_dropped();
}

#[test]
fn a_question_is_answered_or_times_out_once() {
    check(3_000, || of_questions(false, false));
}

#[test]
fn a_question_to_an_actor_that_stops_has_one_result() {
    check(3_000, || of_questions(true, false));
}

#[test]
fn a_question_in_a_system_that_is_closed_has_one_result() {
    check(3_000, || of_questions(false, true));
}

/// Keeps the replies, and answers none.
struct Silent(Vec<Reply<u32>>);

impl Actor for Silent {
    type Message = Question;

    fn receive(&mut self, Question(token, reply): Question, _: &mut Context<Self>) {
        token.run();
        self.0.push(reply);
    }
}

#[test]
fn an_asker_that_sleeps_is_woken_by_the_time_out() {
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let silent = system.spawn("silent", || Silent(Vec::new())).unwrap();
        let token = ledger.token();
        ledger.accepted(token.number);
        let ask = silent.ask(|reply| Question(token, reply), TICK);
        let asker = thread::spawn(move || ask.wait());
        advance(TICK * 2);
        assert!(matches!(asker.join().unwrap(), Err(AskError::Timeout(_))));
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

#[test]
fn a_future_that_is_piped_is_woken_by_whoever_has_its_value() {
    struct Piper(Option<futures::channel::oneshot::Receiver<Token>>);
    impl Actor for Piper {
        type Message = Letter;

        fn started(&mut self, ctx: &mut Context<Self>) {
            let value = self.0.take().unwrap();
            ctx.pipe_to_self(async { value.await.unwrap() }, Letter);
        }

        fn receive(&mut self, letter: Letter, _: &mut Context<Self>) {
            letter.0.run();
        }
    }
    check(3_000, || {
        let (system, ledger) = (system(), Ledger::new());
        let (sender, receiver) = futures::channel::oneshot::channel();
        let piper = system.spawn("piper", || Piper(Some(receiver))).unwrap();
        let token = ledger.token();
        let number = token.number;
        ledger.accepted(number);
        let giver = thread::spawn(move || drop(sender.send(token)));
        tell(&ledger, &piper);
        giver.join().unwrap();
        ledger.wait_run(number);
        system.close().unwrap();
        drop(system);
        ledger.settle();
    });
}

#[test]
fn a_restart_ends_although_a_child_waits_for_an_answer_of_its_parent() {
    /// Asks its parent, and waits.
    struct Child(ActorRef<Option<Reply<u64>>>);
    impl Actor for Child {
        type Message = ();
        fn started(&mut self, _: &mut Context<Self>) {
            let answer = self.0.ask(Some, Duration::MAX).wait();
            assert!(matches!(answer, Ok(7) | Err(AskError::Restarting(_))), "{answer:?}");
        }
        fn receive(&mut self, (): (), _: &mut Context<Self>) {}
    }
    /// Has such a child, and fails at the first message; its successor answers.
    struct Parent(bool);
    impl Actor for Parent {
        type Message = Option<Reply<u64>>;
        fn started(&mut self, ctx: &mut Context<Self>) {
            if self.0 {
                let me = ctx.myself().clone();
                ctx.spawn("child", || Child(me)).unwrap();
            }
        }
        fn receive(&mut self, question: Option<Reply<u64>>, _: &mut Context<Self>) {
            match question {
                Some(reply) => reply.send(7),
                // Past the panic hook, which would print the schedule.
                None if self.0 => std::panic::resume_unwind(Box::new("expected by this test")),
                None => {}
            }
        }
    }
    check(3_000, || {
        let system = system();
        let mut first = true;
        let props = Props::new(move || Parent(std::mem::replace(&mut first, false)));
        let parent =
            system.spawn_with("parent", props.supervision(SupervisionStrategy::restart())).unwrap();
        parent.tell(None).unwrap();
        let end = parent.termination();
        parent.stop();
        end.wait();
        system.close().unwrap();
    });
}
