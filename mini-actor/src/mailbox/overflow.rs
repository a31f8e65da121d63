//! How many messages a mailbox holds, and what it does with more.

use std::time::Duration;

/// What a full mailbox does with a message.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use mini_actor::{Actor, Context};
/// use mini_actor::test_kit::TestKit;
/// use mini_actor::hooks::Undelivered;
/// use mini_actor::{Overflow, Props, Unsendable};
/// # struct Worker;
/// # impl Actor for Worker {
/// #     type Message = u32;
/// #     fn receive(&mut self, _: u32, _: &mut Context<Self>) {}
/// # }
///
/// let kit = TestKit::new("test")?;
/// let props = Props::new(|| Worker).bounded(1, Overflow::Fail);
/// let worker = kit.spawn_with("fails", props)?;
/// worker.tell(1)?;
/// let refused = worker.tell(2).unwrap_err();
/// assert_eq!((refused.reason(), refused.into_message()), (Unsendable::Full, 2));
///
/// let props = Props::new(|| Worker).bounded(1, Overflow::DropOldest);
/// let worker = kit.spawn_with("drops", props)?;
/// worker.tell(1)?;
/// worker.tell(2)?; // instead of 1
/// let letters = kit.dead_letters();
/// assert_eq!((letters.len(), letters[0].reason), (1, Undelivered::Full));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Overflow {
    /// Gives the message back to the sender in the error.
    Fail,
    /// Makes the sending thread wait for room, at most this long ([`Duration::MAX`]: forever), and
    /// then gives the message back. A sender that could keep the receiver from making room does not
    /// wait; for it this is [`Fail`](Self::Fail). Such senders are the receiver itself, the timer
    /// thread, senders in virtual time, and every actor, closure or piped future on a thread that
    /// actors share. A [pinned](crate::Props::pinned) actor waits, unless the receiver is
    /// restarting and waits for its children to stop: the sender may be one of them.
    Block(#[cfg_attr(feature = "serde", serde(with = "humantime_serde"))] Duration),
    /// Makes the message a dead letter.
    DropNewest,
    /// Accepts the message, and makes the oldest one in the mailbox a dead letter.
    DropOldest,
}

/// How many messages a mailbox holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Capacity {
    /// No limit but the memory.
    #[default]
    Unbounded,
    /// This many, at least 1, and a policy for when it is full. Signals, and the actor's own
    /// timers, do not count.
    Bounded(usize, Overflow),
}
