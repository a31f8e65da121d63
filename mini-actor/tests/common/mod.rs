//! What several tests need: actors that tell what happens to them, and long lists compared.
#![allow(dead_code, unreachable_pub)]

use std::fmt::Debug;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use mini_actor::{Actor, ActorSystem, CloseReport, Context, StopReason};

/// Longer than any machine stands still.
pub const LONG: Duration = Duration::from_secs(60);

/// Closes a system, whose own limit may be too short for a busy machine.
#[track_caller]
pub fn close(system: &ActorSystem) -> CloseReport {
    let report = system.close_within(LONG);
    assert!(report.is_complete(), "{report}");
    report
}

/// Like `assert_eq!` for long lists: shows their first difference.
#[track_caller]
pub fn assert_same<T: PartialEq + Debug>(found: &[T], expected: &[T]) {
    let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let (count, all) = (found.len(), expected.len());
    assert!(
        same == count && same == all,
        "{count} elements, expected {all}; number {same} is {:?}, expected {:?}",
        found.get(same),
        expected.get(same)
    );
}

#[derive(Debug, PartialEq, Eq)]
pub enum Event<M> {
    Started,
    Received(M),
    Stopped(StopReason),
    /// The actor itself was dropped.
    Dropped,
}

/// What the probe does with a message, beside telling of it.
pub type React<M> = fn(&M, &mut Context<Probe<M>>);

pub struct Probe<M: Send + Clone + 'static> {
    events: Sender<Event<M>>,
    react: React<M>,
}

/// A factory for a probe, and where it tells of itself.
pub fn probe<M: Send + Clone + 'static>(
    react: React<M>,
) -> (impl FnOnce() -> Probe<M> + Send, Receiver<Event<M>>) {
    let (events, told) = channel();
    (move || Probe { events, react }, told)
}

impl<M: Send + Clone + 'static> Probe<M> {
    fn tell(&self, event: Event<M>) {
        // A test that has seen enough is gone.
        let _ = self.events.send(event);
    }
}

impl<M: Send + Clone + 'static> Actor for Probe<M> {
    type Message = M;

    fn started(&mut self, _: &mut Context<Self>) {
        self.tell(Event::Started);
    }

    fn receive(&mut self, message: M, ctx: &mut Context<Self>) {
        self.tell(Event::Received(message.clone()));
        (self.react)(&message, ctx);
    }

    fn stopped(&mut self, reason: StopReason, _: &mut Context<Self>) {
        self.tell(Event::Stopped(reason));
    }
}

impl<M: Send + Clone + 'static> Drop for Probe<M> {
    fn drop(&mut self) {
        self.tell(Event::Dropped);
    }
}

/// All events until the probe is gone.
pub fn all<M>(told: &Receiver<Event<M>>) -> Vec<Event<M>> {
    let mut events = Vec::new();
    loop {
        match told.recv_timeout(LONG) {
            Ok(event) => events.push(event),
            Err(RecvTimeoutError::Disconnected) => return events,
            Err(RecvTimeoutError::Timeout) => panic!("the actor is still there"),
        }
    }
}

/// What happens to a [`Script`].
#[derive(Debug, PartialEq, Eq)]
pub enum Call<M> {
    Started,
    Message(M),
    Gone(mini_actor::Terminated),
    Quiet,
    /// Is restarted, after the panic with this message.
    Restarting(String, Option<M>),
    Stopped(StopReason),
}

type Act<M> = Box<dyn FnMut(Call<M>, &mut Context<Script<M>>) + Send>;

/// An actor that is one closure.
pub struct Script<M: Clone + Send + 'static>(Act<M>);

impl<M: Clone + Send + 'static> Script<M> {
    pub fn new(act: impl FnMut(Call<M>, &mut Context<Self>) + Send + 'static) -> Self {
        Self(Box::new(act))
    }
}

impl<M: Clone + Send + 'static> Actor for Script<M> {
    type Message = M;

    fn started(&mut self, ctx: &mut Context<Self>) {
        (self.0)(Call::Started, ctx);
    }

    fn receive(&mut self, message: M, ctx: &mut Context<Self>) {
        (self.0)(Call::Message(message), ctx);
    }

    fn terminated(&mut self, gone: mini_actor::Terminated, ctx: &mut Context<Self>) {
        (self.0)(Call::Gone(gone), ctx);
    }

    fn receive_timeout(&mut self, ctx: &mut Context<Self>) {
        (self.0)(Call::Quiet, ctx);
    }

    fn keep(message: &M) -> Option<M> {
        Some(message.clone())
    }

    fn restarting(
        &mut self,
        failure: mini_actor::supervision::Failure<M>,
        ctx: &mut Context<Self>,
    ) {
        (self.0)(Call::Restarting(failure.panic.message, failure.message), ctx);
    }

    fn stopped(&mut self, reason: StopReason, ctx: &mut Context<Self>) {
        (self.0)(Call::Stopped(reason), ctx);
    }
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const SECOND: Duration = Duration::from_secs(1);
