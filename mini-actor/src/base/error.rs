//! Errors; those that refuse a message give it back.

use std::fmt;
use std::time::Duration;

use lars_scheduler::Refusal;
use thiserror::Error;

use crate::sync::Arc;

/// Why a message was not accepted.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use mini_actor::{Actor, Context};
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{Overflow, Props, Unsendable};
/// # struct Worker;
/// # impl Actor for Worker {
/// #     type Message = u32;
/// #     fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
/// # }
///
/// let kit = TestKit::new("test")?;
/// let props = Props::new(|| Worker).bounded(1, Overflow::Fail);
/// let worker = kit.spawn_with("worker", props)?;
/// worker.tell(1)?;
/// let refused = worker.tell(2).unwrap_err();
/// assert_eq!(refused.reason(), Unsendable::Full); // for now
/// kit.settle();
/// worker.tell(refused.into_message())?;
///
/// worker.stop();
/// kit.settle();
/// assert_eq!(worker.tell(3).unwrap_err().reason(), Unsendable::Stopped); // forever
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unsendable {
    /// The recipient has stopped, or has closed its mailbox because it is stopping.
    Stopped,
    /// The recipient's mailbox is full, and its policy is to fail; or there was no room in time.
    Full,
}

/// A message that was not sent, given back with the reason.
///
/// The error is `Send` and `Sync` whenever the message is `Send`, so it passes through `?` into the
/// usual boxed errors.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::Unsendable;
/// use mini_actor::test_kit::TestKit;
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<u32>("gone");
/// probe.actor().stop();
/// kit.settle();
/// let error = probe.actor().tell(7).unwrap_err();
/// assert_eq!(error.reason(), Unsendable::Stopped);
/// assert!(error.recipient().ends_with("gone"));
/// assert_eq!(error.into_message(), 7);
/// # Ok(()) }
/// ```
pub struct SendError<M> {
    message: Exclusive<M>,
    reason: Unsendable,
    recipient: Arc<str>,
}

/// Gives its content out by value only, so sharing it shares nothing.
struct Exclusive<M>(M);

// SAFETY: a shared reference to `Exclusive` gives no access to the value inside: no method takes
// `&self` and returns anything of it.
unsafe impl<M> Sync for Exclusive<M> {}

impl<M> SendError<M> {
    pub(crate) fn new(message: M, reason: Unsendable, recipient: &Arc<str>) -> Self {
        Self { message: Exclusive(message), reason, recipient: Arc::clone(recipient) }
    }

    /// The message, as it was handed in.
    pub fn into_message(self) -> M {
        self.message.0
    }

    /// Why it was not accepted.
    pub fn reason(&self) -> Unsendable {
        self.reason
    }

    /// The path of the recipient.
    pub fn recipient(&self) -> &str {
        &self.recipient
    }
}

show!([M] SendError<M>, "SendError", |it| recipient: it.recipient, reason: it.reason);

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.reason {
            Unsendable::Stopped => "has stopped",
            Unsendable::Full => "has a full mailbox",
        };
        write!(f, "the actor {:?} {why}; the message is given back", &*self.recipient)
    }
}

impl<M> std::error::Error for SendError<M> {}

/// A question that was not answered.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{AskError, Reply};
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let clerk = kit.probe::<Reply<u32>>("clerk"); // keeps its questions
/// let ask = || clerk.actor().ask(|reply| reply, Duration::from_secs(5));
/// assert_eq!(ask().wait(), Err(AskError::WouldBlock));
///
/// let answer = ask();
/// kit.advance(Duration::from_secs(5));
/// assert_eq!(answer.wait().unwrap_err().to_string(), "no answer within 5s");
///
/// clerk.actor().stop();
/// kit.settle();
/// assert_eq!(ask().wait(), Err(AskError::Stopped("/clerk".into())));
/// kit.close()?;
/// assert_eq!(ask().wait(), Err(AskError::Closed));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AskError {
    /// The actor has stopped, so it was not asked.
    #[error("the actor {0:?} has stopped")]
    Stopped(Arc<str>),
    /// The actor's mailbox is full, so it was not asked.
    #[error("the actor {0:?} has a full mailbox")]
    Full(Arc<str>),
    /// The system is being closed. Either the actor was not asked, because its timeout could not be
    /// scheduled any more; or it was asked, and all actors have stopped without an answer.
    #[error("the actor system is being closed")]
    Closed,
    /// The timeout could not be scheduled, so the actor was not asked.
    #[error("the timeout cannot be scheduled: {0}")]
    NoTimer(Refusal),
    /// No answer came in time. A later one is a dead letter.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The actor was asked, and dropped the [`Reply`](crate::Reply) without using it: it had no
    /// answer, or panicked, or stopped.
    #[error("the question was dropped without an answer")]
    NoAnswer,
    /// In virtual time: everything that could run has run, and there is no answer. To wait for one
    /// on this thread would take forever, because this thread moves time. The question stays open:
    /// move time and wait again.
    #[error("no answer, and nothing left to run before time is moved")]
    WouldBlock,
    /// An actor waited for the answer of one that is being restarted and waits for its children to
    /// stop. The asker may be one of them, and would hold the restart up. Only actors that wait get
    /// this. The question stays in the mailbox, and an answer to it is a dead letter.
    #[error("the actor {0:?} is being restarted and waits for its children to stop")]
    Restarting(Arc<str>),
}

/// A system could not be started.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::{ActorSystem, BuildError};
///
/// let error = ActorSystem::builder("server").threads(0).build().unwrap_err();
/// assert!(matches!(error, BuildError::Threads { given: 0, max: 1024 }));
/// assert_eq!(error.to_string(), "threads is 0, but it must be between 1 and 1024");
///
/// let error = ActorSystem::new("a/b").unwrap_err();
/// assert!(matches!(error, BuildError::Name { given, .. } if given == "a/b"));
/// # Ok(()) }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A name that systems cannot have: see [`ActorSystem::builder`](crate::ActorSystem::builder).
    #[error("the system's name is {given:?}, but {rule}")]
    Name {
        /// What was asked for.
        given: String,
        /// What names must be like.
        rule: &'static str,
    },
    /// A throughput out of its range.
    #[error("throughput is {given}, but it must be between 1 and {max}")]
    Throughput {
        /// What was asked for.
        given: usize,
        /// The most messages of one activation.
        max: usize,
    },
    /// The number of threads is out of its range.
    #[error("threads is {given}, but it must be between 1 and {max}")]
    Threads {
        /// What was asked for.
        given: usize,
        /// The most threads of a system.
        max: usize,
    },
    /// The scheduler could not be started.
    #[error(transparent)]
    Scheduler(#[from] lars_scheduler::BuildError),
    /// A thread for the actors could not be started.
    #[error("a thread for the actors could not be started: {0}")]
    Dispatcher(std::io::Error),
}

impl From<lars_scheduler::ConfigError> for BuildError {
    fn from(error: lars_scheduler::ConfigError) -> Self {
        Self::Scheduler(error.into())
    }
}

/// An actor could not be spawned.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use mini_actor::{Actor, Context};
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{Overflow, Props, SpawnError};
/// # struct Worker;
/// # impl Actor for Worker {
/// #     type Message = u32;
/// #     fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
/// # }
///
/// let kit = TestKit::new("test")?;
/// kit.spawn("worker", || Worker)?;
/// let error = kit.spawn("worker", || Worker).unwrap_err();
/// assert_eq!(error, SpawnError::NameTaken { path: "/worker".to_owned() });
///
/// let props = Props::new(|| Worker).bounded(0, Overflow::Fail);
/// assert_eq!(kit.spawn_with("other", props).unwrap_err(), SpawnError::Capacity);
///
/// kit.close()?;
/// let error = kit.spawn("late", || Worker).unwrap_err();
/// assert_eq!(error.to_string(), "the actor system \"test\" has been closed");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// An actor of that path is alive.
    #[error("an actor {path:?} is alive already; names are unique among living siblings")]
    NameTaken {
        /// The path.
        path: String,
    },
    /// A name that actors cannot have: see [`System::spawn`](crate::System::spawn).
    #[error("the actor's name is {given:?}, but {rule}")]
    Name {
        /// What was asked for.
        given: String,
        /// What names must be like.
        rule: &'static str,
    },
    /// A mailbox with a capacity of zero.
    #[error("the mailbox's capacity is 0, but it must be at least 1")]
    Capacity,
    /// A restart limit over zero time, which would limit nothing.
    #[error("the window of the limit of restarts is {given:?}, but it must be at least {min:?}")]
    Window {
        /// What was asked for.
        given: Duration,
        /// The shortest window.
        min: Duration,
    },
    /// The thread of a pinned actor could not be started.
    #[error("the thread of a pinned actor could not be started: {0}")]
    Thread(String),
    /// The parent is stopping, so it cannot have another child.
    #[error("the actor {path:?} is stopping, and cannot have another child")]
    Stopping {
        /// The parent's path.
        path: String,
    },
    /// The system is being closed, or was.
    #[error("the actor system {system:?} has been closed")]
    Closed {
        /// The system's name.
        system: String,
    },
}

/// A stash that is full; with the message.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::{Actor, Context, Props, Recipient};
///
/// struct Shy(Recipient<String>);
///
/// impl Actor for Shy {
///     type Message = u32;
///     fn receive(&mut self, number: u32, ctx: &mut Context<Self>) {
///         if let Err(full) = ctx.stash(number) {
///             let _ = self.0.tell(format!("{full}, so {} is left", full.message));
///         }
///     }
/// }
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<String>("probe");
/// let left = probe.actor().recipient();
/// let shy = kit.spawn_with("shy", Props::once(|| Shy(left)).stash(2))?;
/// for number in 1..=3 {
///     shy.tell(number)?;
/// }
/// assert_eq!(probe.expect_message(), "the stash has its 2 messages already, so 3 is left");
/// # Ok(()) }
/// ```
#[derive(Debug, Error)]
#[error("the stash has its {capacity} messages already")]
pub struct StashFull<M> {
    /// How many it holds: 1,024, unless [`Props::stash`](crate::Props::stash) says otherwise.
    pub capacity: usize,
    /// The message.
    pub message: M,
}
