//! Actors by name, reminded by durable timers, one live copy on all nodes.
//!
//! A [`Kind`] says how to make [`DurableActor`]s.
//! [`Builder::actors`](crate::Builder::actors) gives it to a node, and
//! [`Timers::tell`](crate::Timers::tell) sends them messages. Their contexts have [`Reminders`],
//! and the [`Delivery`] of the message in hand.
//!
//! A kind is a handler whose runs are messages. The address of an actor decides the bucket of all
//! its timers. So one node has them all, and creates the actor when the first one is due.

// In the order in which they may use each other.
mod place;

mod delivery;

mod scope;

mod reminders;

mod hosted;

mod host;

mod kind;

pub use self::delivery::Delivery;
pub use self::hosted::{DurableActor, DurableContext, Envelope, Hosted};
pub use self::kind::Kind;
pub use self::reminders::Reminders;
