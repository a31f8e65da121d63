//! Actors as they are written by hand with tokio: a task and an unbounded channel.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends};
use crate::runtime;

type Message = behaviour::Message<Address>;

pub(crate) struct TokioMpsc {
    runtime: Runtime,
}

#[derive(Clone)]
pub(crate) struct Address(UnboundedSender<Message>);

impl behaviour::Address for Address {
    fn tell(&self, message: Message) {
        assert!(self.0.send(message).is_ok(), "the task is running");
    }
}

impl Actors for TokioMpsc {
    const NAME: &'static str = "tokio-mpsc";
    const ABOUT: &'static str = "by hand: a tokio task with an unbounded channel, a worker per \
                                 core; a send is scheduled by a task with a sleep";
    const TICK_US: Option<u64> = Some(1_000);

    type Address = Address;

    fn start() -> Self {
        Self { runtime: runtime::start(runtime::threads()) }
    }

    fn spawn(&self, mut behaviour: Behaviour<Address>) -> Address {
        let (sender, mut receiver) = unbounded_channel();
        self.runtime.spawn(async move {
            while let Some(message) = receiver.recv().await {
                behaviour.receive(message);
            }
        });
        Address(sender)
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        runtime::send_by_tasks(&self.runtime, to, sends)
    }
}
