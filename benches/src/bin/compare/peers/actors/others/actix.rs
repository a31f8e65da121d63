//! actix on one arbiter, as a program has it that starts no further ones.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use actix::{Actor, Addr, Arbiter, ArbiterHandle, AsyncContext, Context, Handler, System};

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends};

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

pub(crate) struct Node(Behaviour<Address>);

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

    fn handle(&mut self, message: Carried, _: &mut Context<Self>) {
        self.0.receive(message.0);
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
    const ABOUT: &'static str = "actix, all actors on one arbiter's thread; a send is scheduled by \
                                 the actor itself, with notify_later";
    const TICK_US: Option<u64> = Some(1_000);

    type Address = Address;

    fn start() -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let system = System::new();
            sender.send(Arbiter::current()).expect("its maker waits for it");
            system.run().expect("the system runs");
        });
        Self { arbiter: receiver.recv().expect("the system starts") }
    }

    fn spawn(&self, behaviour: Behaviour<Address>) -> Address {
        Address(Node::start_in_arbiter(&self.arbiter, move |_| Node(behaviour)))
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        let (done, wait) = mpsc::channel();
        to.0.do_send(Schedule { sends, taken: Duration::ZERO, done });
        wait.recv().expect("the actor schedules them all")
    }
}
