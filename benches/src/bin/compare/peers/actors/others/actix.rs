//! actix on one arbiter, as a program has it that starts no further ones.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use actix::{
    Actor, Addr, Arbiter, ArbiterHandle, AsyncContext, Context, Handler, SpawnHandle, System,
};

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends, Session};

/// Scheduled before the actor has its mailbox again.
const AT_ONCE: usize = 1_000;

pub(crate) struct Actix {
    arbiter: ArbiterHandle,
}

#[derive(Clone)]
pub(crate) struct Address(Addr<Node>);

impl behaviour::Address for Address {
    fn tell(&self, message: behaviour::Message<Self>) {
        self.0.do_send(Carried(message));
    }
}

/// A session is boxed, so that the others are no larger for it.
pub(crate) enum Node {
    Plain(Behaviour<Address>),
    Session(Box<Restarting>),
}

/// Cancels its timer, and schedules another one.
pub(crate) struct Restarting {
    session: Session<Address>,
    timer: Option<SpawnHandle>,
}

impl Actor for Node {
    type Context = Context<Self>;
}

/// A message; actix wants a type of ours.
struct Carried(behaviour::Message<Address>);

impl actix::Message for Carried {
    type Result = ();
}

impl Handler<Carried> for Node {
    type Result = ();

    fn handle(&mut self, message: Carried, context: &mut Context<Self>) {
        match self {
            Self::Plain(behaviour) => behaviour.receive(message.0),
            Self::Session(node) => {
                if let Some(silence) = node.session.receive(message.0) {
                    if let Some(before) = node.timer.take() {
                        context.cancel_future(before);
                    }
                    let silent = Carried(behaviour::Message::Silence);
                    node.timer = Some(context.notify_later(silent, silence));
                }
            }
        }
    }
}

/// Only the actor itself can schedule messages to it.
struct Schedule {
    sends: Sends,
    taken: Duration,
    done: mpsc::Sender<Duration>,
}

impl actix::Message for Schedule {
    type Result = ();
}

impl Handler<Schedule> for Node {
    type Result = ();

    fn handle(&mut self, mut schedule: Schedule, context: &mut Context<Self>) {
        let start = Instant::now();
        for _ in 0..AT_ONCE {
            let Some((delay, message)) = schedule.sends.next() else {
                let taken = schedule.taken + start.elapsed();
                schedule.done.send(taken).expect("the measurement waits for it");
                return;
            };
            context.notify_later(Carried(message), delay);
        }
        schedule.taken += start.elapsed();
        context.notify(schedule);
    }
}

impl Actors for Actix {
    const NAME: &'static str = "actix";
    const ABOUT: &'static str = "actix, all actors on one arbiter's thread; a send, and the timer \
                                 of a session, by the actor itself, with notify_later";
    const TICK_US: Option<u64> = Some(1_000);

    type Address = Address;

    fn start() -> Self {
        const { assert!(size_of::<Node>() == size_of::<Behaviour<Address>>()) };
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let system = System::new();
            sender.send(Arbiter::current()).expect("its maker waits for it");
            system.run().expect("the system runs");
        });
        Self { arbiter: receiver.recv().expect("the system starts") }
    }

    fn spawn(&self, behaviour: Behaviour<Address>) -> Address {
        Address(Node::start_in_arbiter(&self.arbiter, move |_| Node::Plain(behaviour)))
    }

    fn spawn_session(&self, session: Session<Address>) -> Address {
        let node = Restarting { session, timer: None };
        Address(Node::start_in_arbiter(&self.arbiter, move |_| Node::Session(Box::new(node))))
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        let (done, wait) = mpsc::channel();
        to.0.do_send(Schedule { sends, taken: Duration::ZERO, done });
        wait.recv().expect("the actor schedules them all")
    }
}
