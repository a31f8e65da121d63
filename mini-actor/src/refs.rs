//! What reaches an actor: references, questions, scheduled sends, and the system that it sees.

pub(crate) mod address;

pub(crate) mod ask;
pub(crate) mod sends;

pub(crate) mod system;
