//! What is reported of a message that took too long.

use std::time::Duration;

use crate::sync::Arc;

/// A message whose handler ran for longer than
/// [`Builder::slow_receive`](crate::Builder::slow_receive): 100 ms unless that says otherwise.
///
/// # How exact it is
///
/// As long as messages are fast, the clock is read only for every 32nd of them, and before a thread
/// sleeps. No handler that ran for longer is missed. But the first slow one may share its report
/// with others that ran on the same thread between the same two readings. [`calls`](Self::calls)
/// says how many there were, and [`others`](Self::others) names their actors. The run time is that
/// of all together, so the report may be about messages none of which took too long alone. After a
/// message of 10 µs or more, and for a thousand readings after a report, the clock is read for each
/// message: then a slow one is named alone. So is the first message that a thread handles after it
/// has slept, and each one in a system with a [`time_slice`](crate::Builder::time_slice).
///
/// Hooks of an actor ([`started`](crate::Actor::started) and so on) count like messages. What runs
/// inside [`Context::blocking`](crate::Context::blocking) does not count, and
/// [pinned](crate::Props::pinned) actors are not watched: these may block. Piped futures and
/// closures on [`Scheduler::timers`](crate::Scheduler::timers) are not watched either. In virtual
/// time nothing is slow.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::{Actor, ActorSystem, Context};
/// use std::{sync::mpsc, thread, time::Duration};
///
/// struct Sleeper;
///
/// impl Actor for Sleeper {
///     type Message = Duration;
///     fn receive(&mut self, time: Duration, _: &mut Context<Self>) {
///         thread::sleep(time);
///     }
/// }
///
/// let (sender, slow) = mpsc::channel();
/// let system = ActorSystem::builder("server")
///     .slow_receive(Duration::from_millis(10))
///     .on_slow(move |slow| drop(sender.send((slow.actor.to_owned(), slow.run_time))))
///     .build()?;
/// system.spawn("sleeper", || Sleeper)?.tell(Duration::from_millis(20))?;
/// let (actor, run_time) = slow.recv()?;
/// assert_eq!(actor, "/sleeper");
/// assert!(run_time > Duration::from_millis(10));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SlowReceive<'a> {
    /// The path of the actor. Empty if several actors were in question and all of them have stopped
    /// since.
    pub actor: &'a str,
    /// The type of its messages, as the compiler names it.
    pub message_type: &'static str,
    /// How long it ran, in real time. On a busy machine that includes the time in which its thread
    /// had no processor.
    pub run_time: Duration,
    /// How many messages were received in that time. If it is 1, it was this actor's.
    pub calls: u64,
    /// The paths of other actors that ran in that time and have not stopped since. One of them may
    /// have been the slow one. Mostly empty.
    pub others: &'a [Arc<str>],
}

pub(crate) type SlowHook = Arc<dyn Fn(&SlowReceive<'_>) + Send + Sync>;
