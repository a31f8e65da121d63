//! How a call names a timer.

use crate::error::Refused;
use crate::model;

/// The longest key.
const MAX_KEY: usize = 512;

/// The longest tag.
const MAX_TAG: usize = 128;

/// The timer that a call is about: by its key, or by its identity.
///
/// Calls take what can be made into one: a `&str` or `&String` is a key, and a `u64` is an
/// identity, as [`Accepted::id`](super::schedule::Accepted::id), [`TimerInfo::id`] and
/// [`Fired::id`](super::Fired::id) say it. An identity is never used again, and no other timer of
/// the file or database has it.
///
/// [`TimerInfo::id`]: super::inspection::TimerInfo::id
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_durable::schedule::Cancel;
/// use lars_durable::{Durable, Payload};
/// use std::time::Duration;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Hello;
/// impl Payload for Hello { const NAME: &'static str = "hello"; }
///
/// let durable = Durable::in_memory().start()?;
/// let timers = durable.timers();
/// let hello = timers.schedule_once(Duration::from_secs(60), Hello).submit().wait()?; // no key
/// assert!(timers.get(hello.id).wait()?.is_some());
/// assert_eq!(timers.cancel(hello.id).wait()?, Cancel::Prevented);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Which<'a> {
    /// The timer that has this key now.
    Key(&'a str),
    /// The timer with this identity.
    Id(u64),
}

impl Which<'_> {
    /// As the store is asked for it.
    pub(super) fn checked(self) -> Result<model::Which, Refused> {
        match self {
            Self::Key(key) => check_key(key).map(|()| model::Which::Key(key.into())),
            // No timer has zero.
            Self::Id(id) => Ok(model::Which::Id(i64::try_from(id).unwrap_or(0))),
        }
    }
}

impl<'a, S: AsRef<str> + ?Sized> From<&'a S> for Which<'a> {
    fn from(key: &'a S) -> Self {
        Self::Key(key.as_ref())
    }
}

impl From<u64> for Which<'_> {
    fn from(id: u64) -> Self {
        Self::Id(id)
    }
}

/// Whether this can be a tag.
pub(super) fn check_tag(tag: &str) -> Result<(), Refused> {
    if (1..=MAX_TAG).contains(&tag.len()) && !tag.contains('\0') {
        return Ok(());
    }
    Err(Refused::Tag { given: tag.len(), max: MAX_TAG })
}

pub(super) fn check_key(key: &str) -> Result<(), Refused> {
    if key.is_empty() { Err(Refused::KeyEmpty) } else { check_text(key) }
}

/// Whether this can be the beginning of a key.
pub(super) fn check_text(key: &str) -> Result<(), Refused> {
    if key.len() > MAX_KEY {
        Err(Refused::KeySize { given: key.len(), max: MAX_KEY })
    } else if let Some(position) = key.find('\0') {
        Err(Refused::KeyNul { position })
    } else {
        Ok(())
    }
}
