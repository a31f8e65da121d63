//! kompact with its thread pool.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use kompact::prelude::*;

use crate::actors::Actors;
use crate::actors::behaviour::{self, Behaviour, Sends, Session};
use crate::runtime;

/// Scheduled before the component looks into its mailbox again.
const AT_ONCE: usize = 1_000;

pub(crate) struct Kompact {
    system: KompactSystem,
}

#[derive(Clone)]
pub(crate) struct Address(ActorRef<Carried>);

impl behaviour::Address for Address {
    fn tell(&self, message: behaviour::Message<Self>) {
        self.0.tell(Carried::Message(message));
    }
}

#[derive(Debug)]
pub(crate) enum Carried {
    Message(behaviour::Message<Address>),
    /// Only the component itself can schedule something for it.
    Schedule(Box<Schedule>),
}

#[derive(Debug)]
pub(crate) struct Schedule {
    sends: Sends,
    taken: Duration,
    done: mpsc::Sender<Duration>,
}

#[derive(ComponentDefinition)]
pub(crate) struct Node {
    ctx: ComponentContext<Self>,
    behaviour: Behaviour<Address>,
}

ignore_lifecycle!(Node);

impl Actor for Node {
    type Message = Carried;

    fn receive_local(&mut self, message: Carried) -> HandlerResult {
        match message {
            Carried::Message(message) => self.behaviour.receive(message),
            Carried::Schedule(schedule) => self.schedule(schedule),
        }
        Handled::OK
    }
}

impl Node {
    fn schedule(&mut self, mut schedule: Box<Schedule>) {
        let start = Instant::now();
        for _ in 0..AT_ONCE {
            let Some((delay, message)) = schedule.sends.next() else {
                let taken = schedule.taken + start.elapsed();
                schedule.done.send(taken).expect("the measurement waits for it");
                return;
            };
            self.schedule_once(delay, move |node, _| {
                node.behaviour.receive(message);
                Handled::OK
            });
        }
        schedule.taken += start.elapsed();
        self.actor_ref().tell(Carried::Schedule(schedule));
    }
}

/// Cancels its timer, and schedules another one.
#[derive(ComponentDefinition)]
pub(crate) struct Restarting {
    ctx: ComponentContext<Self>,
    session: Session<Address>,
    timer: Option<ScheduledTimer>,
}

ignore_lifecycle!(Restarting);

impl Actor for Restarting {
    type Message = Carried;

    fn receive_local(&mut self, message: Carried) -> HandlerResult {
        let Carried::Message(message) = message else {
            unreachable!("a session schedules nothing but its timer");
        };
        if let Some(silence) = self.session.receive(message) {
            if let Some(before) = self.timer.take() {
                self.cancel_timer(before);
            }
            self.timer = Some(self.schedule_once(silence, |node, _| {
                node.session.receive(behaviour::Message::Silence);
                Handled::OK
            }));
        }
        Handled::OK
    }
}

impl Actors for Kompact {
    const NAME: &'static str = "kompact";
    const ABOUT: &'static str = "kompact's components, a thread per core; a send, and a session's \
                                 timer, by the component itself, with schedule_once";
    const TICK_US: Option<u64> = Some(1_000);

    type Address = Address;

    fn start() -> Self {
        let mut config = KompactConfig::default();
        config.set_config_value(&kompact::config_keys::system::THREADS, runtime::threads());
        Self { system: config.build().wait().expect("the system starts") }
    }

    fn spawn(&self, behaviour: Behaviour<Address>) -> Address {
        let component =
            self.system.create(|| Node { ctx: ComponentContext::uninitialised(), behaviour });
        self.system.start(&component);
        // The system keeps what it has started.
        Address(component.actor_ref())
    }

    fn spawn_session(&self, session: Session<Address>) -> Address {
        let component = self.system.create(|| Restarting {
            ctx: ComponentContext::uninitialised(),
            session,
            timer: None,
        });
        self.system.start(&component);
        Address(component.actor_ref())
    }

    fn end(self, actors: Vec<Address>) {
        drop(actors);
        self.system.shutdown().wait().expect("the system shuts down");
    }

    fn send_later(&self, to: &Address, sends: Sends) -> Duration {
        let (done, wait) = mpsc::channel();
        let schedule = Schedule { sends, taken: Duration::ZERO, done };
        to.0.tell(Carried::Schedule(Box::new(schedule)));
        wait.recv().expect("the component schedules them all")
    }
}
