//! What few actors have beside their home.

use crate::cell::askers::Askers;
use crate::sync::OnceLock;
use crate::sync::plain::AtomicU64;

/// Who waits for the actor, and what is counted of it.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) askers: Askers,
    pub(crate) restarts: AtomicU64,
    /// Futures that are piped to it and have not ended.
    pub(crate) pipes: AtomicU64,
}

/// Made by whoever first puts something in.
#[derive(Default)]
pub(crate) struct Extras(OnceLock<Box<Parts>>);

impl Extras {
    /// Nothing if nobody has put anything in.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Parts> {
        self.0.get().map(|parts| &**parts)
    }

    pub(crate) fn make(&self) -> &Parts {
        self.0.get_or_init(Box::default)
    }
}
