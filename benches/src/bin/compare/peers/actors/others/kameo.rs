//! kameo on a tokio runtime, with unbounded mailboxes.

use std::convert::Infallible;
use std::time::Duration;

use kameo::actor::{ActorRef, Spawn};
use kameo::error::SendError;
use kameo::message::{Context, Message};
use kameo::{Actor, mailbox};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends, Session};
use crate::runtime;

pub(crate) struct Kameo {
    runtime: Runtime,
}

#[derive(Clone)]
pub(crate) struct Address(ActorRef<Node>);

impl behaviour::Address for Address {
    fn tell(&self, message: behaviour::Message<Self>) {
        assert!(self.0.tell(message).try_send().is_ok(), "the actor is running");
    }
}

/// A session is boxed, so that the others are no larger for it.
pub(crate) enum Node {
    Plain(Behaviour<Address>),
    Session(Box<Restarting>),
}

/// Aborts the task that waits, and starts another one.
pub(crate) struct Restarting {
    session: Session<Address>,
    timer: Option<JoinHandle<Result<(), SendError<behaviour::Message<Address>>>>>,
}

impl Actor for Node {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(node: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(node)
    }
}

impl Message<behaviour::Message<Address>> for Node {
    type Reply = ();

    async fn handle(
        &mut self,
        message: behaviour::Message<Address>,
        context: &mut Context<Self, Self::Reply>,
    ) {
        match self {
            Self::Plain(behaviour) => behaviour.receive(message),
            Self::Session(node) => {
                if let Some(silence) = node.session.receive(message) {
                    let silent = context.actor_ref().tell(behaviour::Message::Silence);
                    if let Some(before) = node.timer.replace(silent.send_after(silence)) {
                        before.abort();
                    }
                }
            }
        }
    }
}

impl Actors for Kameo {
    const NAME: &'static str = "kameo";
    const ABOUT: &'static str = "kameo on tokio, a worker per core, unbounded mailboxes; a send, \
                                 and a session's timer, by send_after";
    const TICK_US: Option<u64> = Some(1_000);

    type Address = Address;

    fn start() -> Self {
        const { assert!(size_of::<Node>() == size_of::<Behaviour<Address>>()) };
        Self { runtime: runtime::start(runtime::threads()) }
    }

    fn spawn(&self, behaviour: Behaviour<Address>) -> Address {
        let _inside = self.runtime.enter();
        Address(Node::spawn_with_mailbox(Node::Plain(behaviour), mailbox::unbounded()))
    }

    fn spawn_session(&self, session: Session<Address>) -> Address {
        let _inside = self.runtime.enter();
        let node = Node::Session(Box::new(Restarting { session, timer: None }));
        Address(Node::spawn_with_mailbox(node, mailbox::unbounded()))
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        let _inside = self.runtime.enter();
        sends.each(|delay, message| {
            drop(to.0.tell(message).send_after(delay));
        })
    }
}
