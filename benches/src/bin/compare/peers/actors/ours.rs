//! mini-actor with its defaults. Everything that `compare` knows of its interface is here.

use std::time::Duration;

use mini_actor::{Actor, ActorRef, ActorSystem, Context, Props};

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends};
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
