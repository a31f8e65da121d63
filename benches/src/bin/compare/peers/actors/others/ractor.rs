//! ractor on a tokio runtime.

use std::time::Duration;

use ractor::concurrency::JoinHandle;
use ractor::{Actor, ActorProcessingErr, ActorRef, MessagingErr};
use tokio::runtime::Runtime;

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends, Session};
use crate::runtime;

type Message = behaviour::Message<Address>;

pub(crate) struct Ractor {
    runtime: Runtime,
}

#[derive(Clone)]
pub(crate) struct Address(ActorRef<Message>);

impl behaviour::Address for Address {
    fn tell(&self, message: Message) {
        assert!(self.0.send_message(message).is_ok(), "the actor is running");
    }
}

struct Node;

impl Actor for Node {
    type Msg = Message;
    type State = Behaviour<Address>;
    type Arguments = Behaviour<Address>;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        behaviour: Behaviour<Address>,
    ) -> Result<Behaviour<Address>, ActorProcessingErr> {
        Ok(behaviour)
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        behaviour: &mut Behaviour<Address>,
    ) -> Result<(), ActorProcessingErr> {
        behaviour.receive(message);
        Ok(())
    }
}

/// Aborts the task that waits, and starts another one.
struct Restarting;

struct Restarted {
    session: Session<Address>,
    timer: Option<JoinHandle<Result<(), MessagingErr<Message>>>>,
}

impl Actor for Restarting {
    type Msg = Message;
    type State = Restarted;
    type Arguments = Session<Address>;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        session: Session<Address>,
    ) -> Result<Restarted, ActorProcessingErr> {
        Ok(Restarted { session, timer: None })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut Restarted,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(silence) = state.session.receive(message) {
            let timer = myself.send_after(silence, || Message::Silence);
            if let Some(before) = state.timer.replace(timer) {
                before.abort();
            }
        }
        Ok(())
    }
}

impl Actors for Ractor {
    const NAME: &'static str = "ractor";
    const ABOUT: &'static str =
        "ractor on tokio, a worker per core; a send, and a session's timer, by send_after";
    const TICK_US: Option<u64> = Some(1_000);

    type Address = Address;

    fn start() -> Self {
        Self { runtime: runtime::start(runtime::threads()) }
    }

    fn spawn(&self, behaviour: Behaviour<Address>) -> Address {
        let spawned = self.runtime.block_on(Actor::spawn(None, Node, behaviour));
        Address(spawned.expect("the actor starts").0)
    }

    fn spawn_session(&self, session: Session<Address>) -> Address {
        let spawned = self.runtime.block_on(Actor::spawn(None, Restarting, session));
        Address(spawned.expect("the actor starts").0)
    }

    /// An actor of ractor goes on when nobody refers to it.
    fn end(self, actors: Vec<Address>) {
        actors.iter().for_each(|actor| actor.0.stop(None));
        drop(actors);
        // The runtime ends with this, and waits for no task.
        while self.runtime.metrics().num_alive_tasks() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        let _inside = self.runtime.enter();
        sends.each(|delay, message| {
            drop(to.0.send_after(delay, move || message));
        })
    }
}
