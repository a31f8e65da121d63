//! Whose a timer is, where a handler serves many recipients.

#[cfg(feature = "actors")]
use super::stable_hash;

/// A hash of the recipient's name, because a node with very many timers in memory keeps no names.
/// Two recipients with the same hash share what one may have. The default is that nobody is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Recipient(u16);

#[cfg(feature = "actors")]
impl Recipient {
    pub(crate) fn of(name: &str) -> Self {
        let short = stable_hash(name) % u64::from(u16::MAX);
        Self(u16::try_from(short + 1).expect("less than the greatest"))
    }
}
