//! What watching leaves behind at an actor that lives on, an actor when it ends or is refused, and
//! a question that is never sent: nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use lars_scheduler::LightArrayRevolverScheduler;

use crate::cell::signal::Resident;
use crate::{Actor, ActorRef, ActorSystem, Context, Reply, StopReason};

const LONG: Duration = Duration::from_secs(60);

struct Idle;

impl Actor for Idle {
    type Message = ();
    fn receive(&mut self, (): (), _: &mut Context<Self>) {}
}

#[test]
fn a_termination_that_is_dropped_leaves_nothing_at_a_living_actor() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let actor = system.spawn("a", || Idle).unwrap();
    for _ in 0..100 {
        assert_eq!(actor.termination().wait_timeout(Duration::ZERO), None);
    }
    assert_eq!(actor.cell().watchers().len(), 0);
    let kept = actor.termination();
    assert_eq!(actor.cell().watchers().len(), 1);
    actor.stop();
    assert_eq!(kept.wait_timeout(LONG), Some(StopReason::Asked));
}

/// Watches, and tells the test that it does.
struct Session(ActorRef<()>, mpsc::Sender<()>);

impl Actor for Session {
    type Message = ();
    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.watch(&self.0);
        self.1.send(()).unwrap();
    }
    fn receive(&mut self, (): (), ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

#[test]
fn actors_that_stop_or_unwatch_leave_nothing_at_what_they_watched() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let bus = system.spawn("bus", || Idle).unwrap();
    let (watching, ready) = mpsc::channel();
    let sessions: Vec<_> = (0..50)
        .map(|number| {
            let (bus, watching) = (bus.clone(), watching.clone());
            system.spawn(&format!("s{number}"), || Session(bus, watching)).unwrap()
        })
        .collect();
    for _ in &sessions {
        ready.recv_timeout(LONG).unwrap();
    }
    assert_eq!(bus.cell().watchers().len(), 50);
    for session in sessions.iter().rev() {
        session.tell(()).unwrap();
    }
    for session in &sessions {
        assert_eq!(session.termination().wait_timeout(LONG), Some(StopReason::Itself));
    }
    assert_eq!(bus.cell().watchers().len(), 0);
}

#[test]
fn what_is_asked_of_an_actor_that_has_ended_is_not_kept() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let actor = system.spawn("a", || Idle).unwrap();
    actor.kill();
    assert_eq!(actor.termination().wait_timeout(LONG), Some(StopReason::Killed));
    actor.cell().take_signals();
    for _ in 0..100 {
        actor.stop();
        actor.kill();
    }
    assert_eq!(actor.cell().take_signals().len(), 0);
}

#[test]
fn an_actor_that_is_refused_leaves_nothing_behind() {
    let system = ActorSystem::builder("test").threads(1).build().unwrap();
    let _first = system.spawn("a", || Idle).unwrap();
    let held = Arc::new(());
    let inner = Arc::clone(&held);
    let make = move || {
        let _ = &inner;
        Idle
    };
    assert!(system.spawn("a", make).is_err());
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_question_that_cannot_be_made_leaves_nothing_behind() {
    let timers = LightArrayRevolverScheduler::new().unwrap();
    let system = ActorSystem::builder("test").threads(1).on_scheduler(&timers).build().unwrap();
    let actor = system.spawn("a", || Idle).unwrap();
    let bad = |_: Reply<()>| panic!("expected by this test");
    let asked = catch_unwind(AssertUnwindSafe(|| drop(actor.ask(bad, LONG))));
    assert!(asked.is_err());
    assert_eq!(timers.pending(), 0);
    let open = |system: &ActorSystem| system.registry().questions.as_ref().map(|it| it.len());
    assert_eq!(open(&system), Some(0));
    // One that is sent is kept until it has ended.
    let answer = actor.ask(|_: Reply<()>| (), LONG);
    assert_eq!(open(&system), Some(1));
    drop(answer);
    assert_eq!(open(&system), Some(0));
}
