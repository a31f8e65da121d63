//! What a closed queue answers.

use lars_base::debug_fields;
use thiserror::Error;

/// The queue has been closed. The item is given back.
///
/// # Examples
///
/// ```
/// use lars_jobs::delay_queue::DelayQueue;
/// use std::time::Duration;
///
/// let queue = DelayQueue::new();
/// queue.close();
/// let refused = queue.put("session 7", Duration::from_secs(30)).unwrap_err();
/// assert_eq!(refused.into_item(), "session 7");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("the delay queue has been closed; nothing can be put into it any more")]
pub struct PutError<T> {
    item: T,
}

impl<T> PutError<T> {
    pub(super) fn new(item: T) -> Self {
        Self { item }
    }

    /// The item.
    pub fn into_item(self) -> T {
        self.item
    }
}

debug_fields!(|_it: PutError<T>|);

/// The queue has been closed, and nothing in it is due.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::delay_queue::{DelayQueue, QueueClosed};
/// use std::time::Duration;
///
/// let queue = DelayQueue::new();
/// queue.put("due", Duration::ZERO)?;
/// queue.put("never due", Duration::MAX)?;
/// assert!(queue.close());
/// assert_eq!(queue.take(), Ok("due"));
/// assert_eq!(queue.take(), Err(QueueClosed)); // the other item is for `take_all`
/// assert_eq!(queue.take_all(), [(None, "never due")]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the delay queue has been closed, and nothing in it is due")]
pub struct QueueClosed;
