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
/// use mini_actor::{Overflow, Props, Undelivered, Unsendable};
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
    /// Gives it back to the sender in the error.
    Fail,
    /// Lets the sending thread wait for room, so long at most; then gives the message back.
    /// (`Duration::MAX` waits forever.) For whoever could keep the receiver from making room it is
    /// [`Fail`](Self::Fail): an actor, a closure or a piped future on a thread that actors share,
    /// the timer thread, the actor itself, and a sender in virtual time never wait. An actor that
    /// is to wait has a thread of its own ([`Props::pinned`](crate::Props::pinned)); it does not
    /// wait either while the receiver is restarted and its children have not all stopped: it may be
    /// one of these, whose end the restart waits for.
    Block(#[cfg_attr(feature = "serde", serde(with = "humantime_serde"))] Duration),
    /// Makes the message a dead letter.
    DropNewest,
    /// Accepts it, and makes the oldest message in the mailbox a dead letter.
    DropOldest,
}

/// How many messages a mailbox holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Capacity {
    /// As many as the memory holds.
    #[default]
    Unbounded,
    /// So many, at least 1, with a policy for more. Signals and timers of the actor itself do not
    /// count.
    Bounded(usize, Overflow),
}
