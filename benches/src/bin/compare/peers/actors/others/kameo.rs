//! kameo on a tokio runtime, with unbounded mailboxes.

use std::convert::Infallible;
use std::time::Duration;

use kameo::actor::{ActorRef, Spawn};
use kameo::message::{Context, Message};
use kameo::{Actor, mailbox};
use tokio::runtime::Runtime;

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends};
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

pub(crate) struct Node(Behaviour<Address>);

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
        _: &mut Context<Self, Self::Reply>,
    ) {
        self.0.receive(message);
    }
}

impl Actors for Kameo {
    const NAME: &'static str = "kameo";
    const ABOUT: &'static str = "kameo on tokio, a worker per core, unbounded mailboxes; a send is \
                                 scheduled by send_after";
    const TICK_US: Option<u64> = Some(1_000);

    type Address = Address;

    fn start() -> Self {
        Self { runtime: runtime::start(runtime::threads()) }
    }

    fn spawn(&self, behaviour: Behaviour<Address>) -> Address {
        let _inside = self.runtime.enter();
        Address(Node::spawn_with_mailbox(Node(behaviour), mailbox::unbounded()))
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        let _inside = self.runtime.enter();
        sends.each(|delay, message| {
            drop(to.0.tell(message).send_after(delay));
        })
    }
}
