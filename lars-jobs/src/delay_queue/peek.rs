//! Looking at the first item.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::DelayKey;
use super::waiting::Contents;
use lars_base::sync::MutexGuard;

/// A view of a queue's first item. Dereferences to the item, and holds the queue's lock. Made by
/// [`DelayQueue::peek`](super::DelayQueue::peek).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::delay_queue::DelayQueue;
/// use std::time::Duration;
///
/// let queue = DelayQueue::new();
/// queue.put(String::from("later"), Duration::MAX)?;
/// queue.put(String::from("now"), Duration::ZERO)?;
/// let (key, length) = {
///     let head = queue.peek().unwrap();
///     assert_eq!(head.remaining(), Duration::ZERO);
///     (head.key(), head.len()) // a method of the string
/// }; // unlocks the queue
/// assert_eq!(length, 3);
/// assert_eq!(queue.remove(key).as_deref(), Some("now"));
/// # Ok(()) }
/// ```
pub struct Peek<'a, T> {
    contents: MutexGuard<'a, Contents<T>>,
    key: DelayKey,
    remaining: Duration,
}

impl<'a, T> Peek<'a, T> {
    pub(super) fn new(
        contents: MutexGuard<'a, Contents<T>>,
        key: DelayKey,
        remaining: Duration,
    ) -> Self {
        Self { contents, key, remaining }
    }

    /// How long it was until the item is due when [`peek`](super::DelayQueue::peek) was called:
    /// zero if it was due, [`Duration::MAX`] if it never will be.
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// The item's key.
    pub fn key(&self) -> DelayKey {
        self.key
    }
}

impl<T> Deref for Peek<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        let first = self.contents.items.first_key_value();
        first.expect("the lock is held since it was looked at").1
    }
}

impl<T: fmt::Debug> fmt::Debug for Peek<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peek")
            .field("item", &**self)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}
