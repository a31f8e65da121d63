//! mini-actor with its defaults. Everything that `compare` knows of its interface is here.

use std::time::Duration;

use mini_actor::{Actor, ActorRef, ActorSystem, Context, Props};

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends, Session};
use crate::record::Workload;
use crate::timers::LIMIT;

type Message = behaviour::Message<Address>;

/// Our actors. If it `EXPLAINS`, then what is received late by more than 5 ms.
pub(crate) struct Mini<const EXPLAINS: bool> {
    system: ActorSystem,
}

#[derive(Clone)]
pub(crate) struct Address(ActorRef<Message>);

impl behaviour::Address for Address {
    #[inline]
    fn tell(&self, message: Message) {
        self.0.tell(message).expect("the actor is running");
    }
}

struct Node(Behaviour<Address>);

impl Actor for Node {
    type Message = Message;

    #[inline]
    fn receive(&mut self, message: Message, _: &mut Context<Self>) {
        self.0.receive(message);
    }
}

/// Restarts the timer of its key.
struct Restarting(Session<Address>);

impl Actor for Restarting {
    type Message = Message;

    #[inline]
    fn receive(&mut self, message: Message, context: &mut Context<Self>) {
        if let Some(silence) = self.0.receive(message) {
            let started = context.timers().start_single("silence", silence, Message::Silence);
            started.expect("timers have no limit");
        }
    }
}

impl<const EXPLAINS: bool> Actors for Mini<EXPLAINS> {
    const NAME: &'static str = if EXPLAINS { "mini-actor-explains" } else { "mini-actor" };
    const ABOUT: &'static str = if EXPLAINS {
        "these actors: the same, with `explain_late`; only if it is named"
    } else {
        "this repository's actors, with their defaults: a thread per core"
    };
    const TICK_US: Option<u64> = Some(1_000);
    const IS_OURS: bool = true;

    type Address = Address;

    fn start() -> Self {
        let builder = ActorSystem::builder("compare");
        let builder =
            if EXPLAINS { builder.explain_late(Duration::from_millis(5)) } else { builder };
        Self { system: builder.build().expect("the system starts") }
    }

    fn spawn(&self, behaviour: Behaviour<Address>) -> Address {
        let props = Props::once(move || Node(behaviour));
        Address(self.system.spawn_anonymous(props).expect("the system is running"))
    }

    fn spawn_session(&self, session: Session<Address>) -> Address {
        let props = Props::once(move || Restarting(session));
        Address(self.system.spawn_anonymous(props).expect("the system is running"))
    }

    fn end(self, actors: Vec<Address>) {
        let report = self.system.close_within(LIMIT);
        assert!(report.is_complete(), "the actors end: {report}");
        drop(actors);
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        let scheduler = self.system.scheduler();
        sends.each(|delay, message| {
            let _ = scheduler.schedule_once(delay, &to.0, message).expect("the system is running");
        })
    }
}

/// mini-actor as one uses it where any message counts: nothing is restarted, but the system looks
/// whether there was one.
pub(crate) struct WithReceiveTimeout(Mini<false>);

/// Has a receive timeout.
struct Listening(Session<Address>);

impl Actor for Listening {
    type Message = Message;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_receive_timeout(self.0.silence()).expect("timers have no limit");
    }

    #[inline]
    fn receive(&mut self, message: Message, _: &mut Context<Self>) {
        self.0.receive(message);
    }

    fn receive_timeout(&mut self, context: &mut Context<Self>) {
        context.cancel_receive_timeout();
        self.0.receive(Message::Silence);
    }
}

impl Actors for WithReceiveTimeout {
    const NAME: &'static str = "mini-actor-receive-timeout";
    const ABOUT: &'static str = "these actors: the same, with `set_receive_timeout`";
    const TICK_US: Option<u64> = Some(1_000);
    const WORKLOADS: &'static [Workload] = &[Workload::A5];
    const IS_OURS: bool = true;

    type Address = Address;

    fn start() -> Self {
        Self(Mini::start())
    }

    fn spawn(&self, behaviour: Behaviour<Address>) -> Address {
        self.0.spawn(behaviour)
    }

    fn spawn_session(&self, session: Session<Address>) -> Address {
        let props = Props::once(move || Listening(session));
        Address(self.0.system.spawn_anonymous(props).expect("the system is running"))
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        self.0.send_later(to, sends)
    }
}
