//! xtra on a tokio runtime, with unbounded mailboxes.
//!
//! One worker: on two, players that come to be on different ones meet at a spin lock, and a round
//! trip takes a hundred times as long, in about every second run.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Runtime;
use xtra::{Actor, Handler, Mailbox};

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends};
use crate::record::Workload;
use crate::runtime;

type Message = behaviour::Message<Address>;

pub(crate) struct Xtra {
    runtime: Runtime,
}

#[derive(Clone)]
pub(crate) struct Address(xtra::Address<Node>);

impl behaviour::Address for Address {
    /// Sending to an unbounded mailbox is done when it is polled for the first time.
    fn tell(&self, message: Message) {
        let send = pin!(self.0.send(message).detach());
        let polled = send.poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_ready(), "the mailbox is unbounded");
    }
}

pub(crate) struct Node(Behaviour<Address>);

impl Actor for Node {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<Message> for Node {
    type Return = ();

    async fn handle(&mut self, message: Message, _: &mut xtra::Context<Self>) {
        self.0.receive(message);
    }
}

impl Actors for Xtra {
    const NAME: &'static str = "xtra";
    const ABOUT: &'static str = "xtra on tokio with one worker, unbounded mailboxes; a send is \
                                 scheduled by a task with a sleep";
    const TICK_US: Option<u64> = Some(1_000);
    const WORKLOADS: &'static [Workload] = &Workload::ACTORS_WITHOUT_TIMERS;

    type Address = Address;

    fn start() -> Self {
        Self { runtime: runtime::start(1) }
    }

    fn spawn(&self, behaviour: Behaviour<Address>) -> Address {
        let _inside = self.runtime.enter();
        Address(xtra::spawn_tokio(Node(behaviour), Mailbox::unbounded()))
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        runtime::send_by_tasks(&self.runtime, to, sends)
    }
}
