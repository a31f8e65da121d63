//! Whose a timer is, where a handler is one for many.

#[cfg(any(test, feature = "actors"))]
use super::stable_hash;

/// A hash of the recipient's name: a node that has very many timers in memory keeps no names. Two
/// of the same hash share what one may have. Nobody, by default: it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Recipient(u16);

#[cfg(any(test, feature = "actors"))]
impl Recipient {
    pub(crate) fn of(name: &str) -> Self {
        let short = stable_hash(name) % u64::from(u16::MAX);
        Self(u16::try_from(short + 1).expect("less than the greatest"))
    }
}
