//! Messages that no actor received.

use std::any::{Any, type_name};
use std::borrow::Borrow;
use std::cell::Cell;

use lars_base::panics::quietly;

use crate::base::lineage::Stands;
use crate::base::panics::guard;
use crate::dispatcher::marks::Set;
use crate::sync::plain::AtomicU64;
use crate::sync::{Arc, Mutex, Ordering, Weak, thread_local};

/// Why a message is a dead letter.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::hooks::Undelivered;
/// use mini_actor::Reply;
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let clerk = kit.probe::<Reply<u32>>("clerk");
/// let answer = clerk.actor().ask(|reply| reply, Duration::from_secs(1));
/// kit.advance(Duration::from_secs(1));
/// assert!(answer.wait().is_err());
/// clerk.expect_message().send(7); // nobody waits for it any more
/// assert_eq!(kit.dead_letters()[0].reason, Undelivered::Late);
///
/// let gone = kit.probe::<u32>("gone");
/// gone.actor().tell(8)?;
/// gone.actor().kill();
/// assert_eq!(kit.dead_letters()[0].reason, Undelivered::Stopped);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Undelivered {
    /// The actor had stopped, or stopped before it received the message.
    Stopped,
    /// The actor's mailbox was full, and its policy drops messages, or the message had no sender to
    /// give it back to.
    Full,
    /// It is an answer that came after the timeout, or whose asker has gone.
    Late,
}

/// A message that was accepted or scheduled and will not be received.
///
/// Messages that `tell` refused are not dead letters: they were given back to their senders.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::hooks::Undelivered;
/// use mini_actor::test_kit::TestKit;
/// use std::sync::mpsc;
///
/// let kit = TestKit::new("test")?;
/// let (sender, letters) = mpsc::channel();
/// let subscription = kit.on_dead_letter(move |letter| {
///     let message = letter.message.downcast_ref::<u32>().copied();
///     drop(sender.send((message, letter.reason)));
/// });
/// let probe = kit.probe::<u32>("probe");
/// probe.actor().tell(7)?;
/// probe.actor().kill(); // does not let it receive what is queued
/// kit.settle();
/// assert_eq!(letters.try_recv()?, (Some(7), Undelivered::Stopped));
/// drop(subscription); // and no letter is shown any more; `forever` keeps it
/// # Ok(()) }
/// ```
#[non_exhaustive]
pub struct DeadLetter<'a> {
    /// The path of the recipient; for an answer, of the actor that was asked.
    pub recipient: &'a str,
    /// The type of the message.
    pub message_type: &'static str,
    /// Why it will not be received.
    pub reason: Undelivered,
    /// The message itself, to be looked at.
    pub message: &'a (dyn Any + Send),
}

show!([] DeadLetter<'_>, "DeadLetter", |it|
    recipient: it.recipient, message_type: it.message_type, reason: it.reason
);

pub(crate) type Hook = Arc<dyn Fn(&DeadLetter<'_>) + Send + Sync>;

#[derive(Default)]
struct Hooks {
    next: u64,
    all: Vec<(u64, Hook)>,
    /// The system is over: no hook is to be kept for its life.
    released: bool,
}

pub(crate) struct DeadLetters {
    count: AtomicU64,
    hooks: Mutex<Hooks>,
}

/// Ends a subscription to dead letters when it is dropped.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let (sender, letters) = mpsc::channel();
/// let subscription = kit.on_dead_letter(move |letter| drop(sender.send(letter.reason)));
/// kit.on_dead_letter(|letter| eprintln!("{letter:?}")).forever();
///
/// let (probe, second) = (kit.probe::<u32>("probe"), Duration::from_secs(1));
/// let _ = kit.scheduler().schedule_once(second, probe.actor(), 7)?;
/// let _ = kit.scheduler().schedule_once(2 * second, probe.actor(), 8)?;
/// probe.actor().stop();
/// kit.advance(second);
/// assert_eq!(letters.try_iter().count(), 1);
/// drop(subscription);
/// kit.advance(second);
/// assert_eq!(letters.try_iter().count(), 0);
/// assert_eq!(kit.metrics().dead_letters, 2);
/// # Ok(()) }
/// ```
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    letters: Weak<DeadLetters>,
    number: u64,
}

impl Subscription {
    /// Keeps the subscription for the life of the system: until its
    /// [`ActorSystem`](crate::ActorSystem) has been dropped and its last actor has stopped. Then
    /// the hook is dropped, so it may hold references to actors and the [`System`](crate::System).
    pub fn forever(mut self) {
        let lives = |letters: Arc<DeadLetters>| !letters.hooks.lock().released;
        if self.letters.upgrade().is_some_and(lives) {
            self.letters = Weak::new();
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(letters) = self.letters.upgrade() {
            let mut hooks = letters.hooks.lock();
            let place = hooks.all.iter().position(|(number, _)| *number == self.number);
            let gone = place.map(|place| hooks.all.remove(place));
            // Outside the lock: the hook's destructor is foreign code.
            drop(hooks);
            drop(gone);
        }
    }
}

show!([] Subscription, "Subscription", |it| number: it.number);

thread_local! {
    /// What this thread is doing with a dead letter now: the bits below.
    static DOING: Cell<u8> = const { Cell::new(0) };
    /// How many dead letters this thread is dropping, each because of the one before.
    static DROPPING: Cell<u8> = const { Cell::new(0) };
}

const LOGS: u8 = 1;
const SHOWS: u8 = 2;

/// Runs `code`, unless the same thread is already inside such a call. A hook or a log subscriber
/// may send messages, and so cause another dead letter, without end.
fn not_within_itself(what: u8, code: impl FnOnce()) {
    let before = DOING.with(Cell::get);
    if before & what == 0 {
        let _doing = Set::enter(&DOING, before | what);
        code();
    }
}

/// Marks this thread as dropping one more dead letter, each because of the one before; not beyond a
/// depth. A destructor that sends to a full mailbox causes another dead letter, and so without end.
fn drop_deeper() -> Option<Set<u8>> {
    const DEEPEST: u8 = 8;
    let depth = DROPPING.with(Cell::get);
    (depth < DEEPEST).then(|| Set::enter(&DROPPING, depth + 1))
}

impl DeadLetters {
    pub(crate) fn new() -> Self {
        Self { count: AtomicU64::new(0), hooks: Mutex::new(Hooks::default()) }
    }

    pub(crate) fn subscribe(self: &Arc<Self>, hook: Hook) -> Subscription {
        let mut hooks = self.hooks.lock();
        let number = hooks.next;
        hooks.next += 1;
        hooks.all.push((number, hook));
        Subscription { letters: Arc::downgrade(self), number }
    }

    /// Counts a message, shows it to the hooks, and drops it. Whatever the hooks or its destructor
    /// do, the caller goes on.
    #[cold]
    pub(crate) fn bury<M: Send + 'static>(
        &self,
        recipient: &impl Stands,
        reason: Undelivered,
        message: impl Borrow<M>,
    ) {
        self.show(recipient, type_name::<M>(), reason, message.borrow());
        // Dropped where it lies: a large message must not be moved from frame to frame.
        let mut left = Some(message);
        if let Some(_deeper) = drop_deeper() {
            guard(format_args!("a dead letter for {recipient:?}"), || left = None);
        }
        std::mem::forget(left);
    }

    /// (The same code for all types of messages.)
    fn show(
        &self,
        recipient: &dyn Stands,
        message_type: &'static str,
        reason: Undelivered,
        message: &(dyn Any + Send),
    ) {
        // Relaxed: a statistic.
        self.count.fetch_add(1, Ordering::Relaxed);
        not_within_itself(LOGS, || {
            quietly(|| {
                tracing::debug!(
                    target: "mini_actor",
                    recipient = &**recipient.path(),
                    message_type,
                    ?reason,
                    "dead letter"
                );
            });
        });
        not_within_itself(SHOWS, || {
            // Copied, because a hook may subscribe.
            let hooks: Vec<Hook> =
                self.hooks.lock().all.iter().map(|(_, hook)| Arc::clone(hook)).collect();
            for hook in hooks {
                let recipient = recipient.path();
                let letter = DeadLetter { recipient, message_type, reason, message };
                guard("a hook for dead letters", || hook(&letter));
                // It may be the last reference to one that has just been unsubscribed.
                guard("the destructor of a hook for dead letters", || drop(hook));
            }
        });
    }

    /// Drops all hooks. The system is over, and they may hold references that keep its memory.
    pub(crate) fn release(&self) {
        let hooks = {
            let mut hooks = self.hooks.lock();
            hooks.released = true;
            std::mem::take(&mut hooks.all)
        };
        // Outside the lock: their destructors are foreign code.
        for (_, hook) in hooks {
            guard("the destructor of a hook for dead letters", || drop(hook));
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
