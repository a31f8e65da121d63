//! What a user writes, and what that is passed with each call.

use std::fmt;

use crate::address::ActorRef;
use crate::handle::System;
use crate::sends::Scheduler;
use crate::stop_reason::StopReason;

/// An actor: state that is touched by one message at a time.
///
/// # Ordering
///
/// Messages from one thread to one actor are received in the order in which they were sent. Nothing is said
/// about messages from different threads.
///
/// # Panics
///
/// A panic in any of these methods, or in the factory that makes the actor, is contained: it is logged and
/// counted, and the actor stops. Its remaining messages become dead letters.
///
/// # Examples
///
/// ```
/// use mini_actor::{Actor, ActorSystem, Context};
/// use std::sync::mpsc;
///
/// struct Counter {
///     total: u64,
///     report: mpsc::Sender<u64>,
/// }
///
/// impl Actor for Counter {
///     type Message = u64;
///
///     fn receive(&mut self, message: u64, ctx: &mut Context<Self>) {
///         self.total += message;
///         if message == 0 {
///             self.report.send(self.total).expect("the test waits for it");
///             ctx.stop();
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let system = ActorSystem::new("demo")?;
/// let (report, total) = mpsc::channel();
/// let counter = system.spawn("counter", move || Counter { total: 0, report })?;
/// counter.tell(1)?;
/// counter.tell(2)?;
/// counter.tell(0)?;
/// assert_eq!(total.recv()?, 3);
/// system.close()?;
/// # Ok(()) }
/// ```
pub trait Actor: Send + Sized + 'static {
    /// What it can be sent.
    type Message: Send + 'static;

    /// Called once, before the first message.
    fn started(&mut self, ctx: &mut Context<Self>) {
        let _ = ctx;
    }

    /// Called with each message.
    fn receive(&mut self, message: Self::Message, ctx: &mut Context<Self>);

    /// Called once, after the last message, whatever the reason. The actor is dropped after it.
    fn stopped(&mut self, reason: StopReason, ctx: &mut Context<Self>) {
        let _ = (reason, ctx);
    }
}

/// Passed to an actor with each call.
pub struct Context<A: Actor> {
    myself: ActorRef<A::Message>,
    system: System,
    stopping: bool,
}

impl<A: Actor> Context<A> {
    pub(crate) fn new(myself: ActorRef<A::Message>, system: System) -> Self {
        Self { myself, system, stopping: false }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// A reference to this actor.
    pub fn myself(&self) -> &ActorRef<A::Message> {
        &self.myself
    }

    /// Stops this actor when the current call returns. What is left in its mailbox becomes dead letters.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// The system, to spawn other actors.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The system's scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        self.system.scheduler()
    }
}

impl<A: Actor> fmt::Debug for Context<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("myself", &self.myself)
            .field("stopping", &self.stopping)
            .finish_non_exhaustive()
    }
}
