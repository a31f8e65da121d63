//! Actors as they are written by hand with tokio: a task and an unbounded channel.

use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends, Session};
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
                                 core; a send is scheduled by a task with a sleep, a \
                                 session has a Sleep and resets it";
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

    fn spawn_session(&self, mut session: Session<Address>) -> Address {
        let (sender, mut receiver) = unbounded_channel();
        self.runtime.spawn(async move {
            let mut timer = pin!(tokio::time::sleep(session.silence()));
            let mut runs = true;
            loop {
                tokio::select! {
                    // A message that came in time counts; and chance would cost time.
                    biased;
                    message = receiver.recv() => {
                        let Some(message) = message else { return };
                        if let Some(silence) = session.receive(message) {
                            timer.as_mut().reset(Instant::now() + silence);
                            runs = true;
                        }
                    }
                    () = &mut timer, if runs => {
                        runs = false;
                        session.receive(Message::Silence);
                    }
                }
            }
        });
        Address(sender)
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        runtime::send_by_tasks(&self.runtime, to, sends)
    }
}
