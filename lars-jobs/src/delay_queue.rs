//! A queue whose items can be taken when they are due: the JDK's `DelayQueue`.
//!
//! For work that your own threads or tasks take when its time comes: retries, expiries, cool-downs.
//! It has no thread of its own, and blocking consumers need no scheduler. Async consumers bring a
//! [`Handle`], whose scheduler wakes them when the first item is due.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lars_jobs::delay_queue::DelayQueue;
//! use std::time::Duration;
//!
//! let retries = DelayQueue::new();
//! let later = retries.put("later", Duration::from_secs(3600))?;
//! retries.put("soon", Duration::from_millis(10))?;
//!
//! assert_eq!(retries.take()?, "soon"); // waits until it is due
//! assert_eq!(retries.poll(), None); // the other is not
//! assert_eq!(retries.remove(later), Some("later"));
//! # Ok(()) }
//! ```
//!
//! # Compared with the JDK
//!
//! The names are the same, and so is the idea that one consumer, the leader, waits for the first
//! item while the others sleep. The delay is an argument of `put`, so an item need not know it.
//! Items with equal deadlines keep their order. An item is removed by its key in O(log n), where
//! the JDK searches the whole queue. A queue can be closed, which wakes every waiting consumer.

mod error;
mod waiting;

mod next;
mod peek;

use std::sync::Arc;
use std::time::Duration;

pub use self::error::{PutError, QueueClosed};
pub use self::next::{Items, Next, NextError};
pub use self::peek::Peek;
use self::waiting::{SharedQueue, wake};
use lars_base::debug_fields;
use lars_base::sync::real_now;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::Handle;

/// A queue of items with deadlines: an item is taken when it is due, never before, the earliest
/// first.
///
/// Any number of threads put and take. The queue takes any item with any delay up to
/// [`Duration::MAX`], and has no limit. Clones refer to the same queue.
///
/// # Ordering
///
/// By deadline; items with equal deadlines in the order in which they were put. Waiting consumers
/// are served in the order in which they began to wait, with two exceptions. A consumer that
/// arrives while an item is due may be faster than the one that was just woken for it. And a
/// consumer that arrives between another's wake-up and its next check may be served first.
///
/// # Lateness
///
/// Never early, by the queue's clock. A blocked thread is as late as the operating system wakes it,
/// a future as late as a timer of its scheduler.
///
/// # Closing
///
/// [`close`](Self::close) ends all waiting: no item can be put in, and no consumer waits. Items
/// stay in the queue, for [`poll`](Self::poll), [`drain`](Self::drain) and
/// [`take_all`](Self::take_all).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::delay_queue::{DelayQueue, QueueClosed};
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?; // or `DelayQueue::new()`
/// let handle = time.handle();
/// let queue = DelayQueue::with_clock(move || handle.now());
/// let second = Duration::from_secs(1);
/// let begin = time.now();
/// queue.put('a', second)?;
/// queue.put_at('b', begin + 2 * second)?;
/// let c = queue.put('c', 3 * second)?;
/// queue.put('d', 4 * second)?;
/// assert_eq!(queue.remaining(c), Some(3 * second));
///
/// time.advance(second);
/// assert_eq!(queue.poll_timeout(Duration::ZERO), Ok(Some('a')));
/// assert_eq!(queue.poll(), None); // `take` would wait
/// time.advance(2 * second);
/// assert_eq!(queue.drain_up_to(1), ['b']);
/// assert_eq!(queue.drain(), ['c']);
/// assert_eq!(queue.remove(c), None); // it is gone
///
/// assert!(queue.close());
/// assert_eq!(queue.put('e', second).unwrap_err().into_item(), 'e');
/// assert_eq!(queue.take(), Err(QueueClosed)); // nothing is due, and it does not wait any more
/// assert!(queue.is_closed() && queue.len() == 1 && !queue.is_empty());
/// assert_eq!(queue.take_all(), [(Some(begin + 4 * second), 'd')]);
/// # Ok(()) }
/// ```
pub struct DelayQueue<T> {
    shared: Arc<SharedQueue<T>>,
}

/// Names one item of one queue. Made by [`DelayQueue::put`].
///
/// Once the item is gone, the key names nothing. It never names an item of another queue.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::delay_queue::DelayQueue;
/// use std::time::Duration;
///
/// let queue = DelayQueue::new();
/// let hour = Duration::from_secs(3600);
/// let key = queue.put("session 7", hour)?;
/// assert!(queue.remaining(key).is_some_and(|left| left <= hour));
/// assert_eq!(queue.remove(key), Some("session 7"));
/// queue.put("session 8", hour)?;
/// assert_eq!(queue.remove(key), None); // it names nothing any more
/// assert_eq!(queue.remaining(key), None);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DelayKey {
    queue: u64,
    due: WhenDue,
    sequence: u64,
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> DelayQueue<T> {
    /// An empty queue on the system's monotonic clock.
    pub fn new() -> Self {
        Self::with_clock(real_now)
    }

    /// An empty queue on another clock: a test's, a scheduler's, or one that is cheaper to read.
    ///
    /// The clock must not go back. A waiting thread assumes that this clock keeps pace with the
    /// system's, and a waiting future that it keeps pace with its scheduler's. Code that makes it
    /// jump calls [`clock_moved`](Self::clock_moved). The clock is read outside all locks. A panic
    /// in it passes through the call that read it, and does no harm, except that a future loses its
    /// place in the line.
    ///
    /// # Examples
    ///
    /// The clock of a scheduler in virtual time:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_jobs::delay_queue::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    /// let handle = time.handle();
    /// let queue = DelayQueue::with_clock(move || handle.now());
    /// let day = Duration::from_secs(24 * 3600);
    /// queue.put("tomorrow", day)?;
    /// time.advance(day - Duration::from_nanos(1));
    /// assert_eq!(queue.poll(), None);
    /// time.advance(Duration::from_nanos(1));
    /// assert_eq!(queue.poll(), Some("tomorrow"));
    /// # Ok(()) }
    /// ```
    pub fn with_clock(clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self { shared: Arc::new(SharedQueue::new(Box::new(clock))) }
    }

    /// Makes all waiting consumers look at the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::delay_queue::DelayQueue;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::sync::Arc;
    /// use std::time::{Duration, Instant};
    ///
    /// let (start, seconds) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    /// let clock = Arc::clone(&seconds);
    /// let queue = DelayQueue::with_clock(move || {
    ///     start + Duration::from_secs(clock.load(Ordering::Relaxed))
    /// });
    /// queue.put("an hour", Duration::from_secs(3600))?;
    /// let consumer = std::thread::spawn({
    ///     let queue = queue.clone();
    ///     move || queue.take()
    /// });
    /// seconds.store(3600, Ordering::Relaxed);
    /// queue.clock_moved(); // it may sleep, and looks again
    /// assert_eq!(consumer.join().unwrap(), Ok("an hour"));
    /// # Ok(()) }
    /// ```
    pub fn clock_moved(&self) {
        let waiting = self.shared.contents.lock().notify_all();
        waiting.into_values().for_each(wake);
    }

    /// Puts in an item that is due `delay` from now. The key can remove it again.
    ///
    /// A delay beyond the clock's range, up to [`Duration::MAX`], is accepted. The item is never
    /// due, but it is counted, [`peek`](Self::peek) shows it, and it can be removed.
    ///
    /// # Errors
    ///
    /// [`PutError`] gives the item back if the queue has been closed.
    pub fn put(&self, item: T, delay: Duration) -> Result<DelayKey, PutError<T>> {
        self.put_due(item, WhenDue::after(self.shared.now(), delay))
    }

    /// Puts in an item that is due at `deadline`. If that has passed, the item is due at once,
    /// before items with later deadlines.
    ///
    /// # Errors
    ///
    /// Same as [`put`](Self::put).
    pub fn put_at(&self, item: T, deadline: Instant) -> Result<DelayKey, PutError<T>> {
        self.put_due(item, WhenDue::At(deadline))
    }

    fn put_due(&self, item: T, due: WhenDue) -> Result<DelayKey, PutError<T>> {
        let mut state = self.shared.contents.lock();
        if state.closed {
            return Err(PutError::new(item));
        }
        let (sequence, to_wake) = state.push(due, item);
        drop(state);
        to_wake.into_iter().for_each(wake);
        Ok(DelayKey { queue: self.shared.id, due, sequence })
    }

    /// Takes the first item, blocking until it is due.
    ///
    /// # Errors
    ///
    /// [`QueueClosed`] when the queue has been closed and nothing in it is due.
    pub fn take(&self) -> Result<T, QueueClosed> {
        loop {
            // Without a deadline the wait ends with an item or an error.
            if let Some(item) = self.take_until(WhenDue::Never)? {
                return Ok(item);
            }
        }
    }

    /// Takes the first item if it is due now.
    pub fn poll(&self) -> Option<T> {
        let now = self.shared.now();
        self.shared.contents.lock().pop_due(now)
    }

    /// Takes the first item, blocking until it is due, for at most `limit` by the queue's clock.
    /// `None` when that has passed.
    ///
    /// # Errors
    ///
    /// Same as [`take`](Self::take).
    pub fn poll_timeout(&self, limit: Duration) -> Result<Option<T>, QueueClosed> {
        self.take_until(WhenDue::after(self.shared.now(), limit))
    }

    fn take_until(&self, deadline: WhenDue) -> Result<Option<T>, QueueClosed> {
        match self.poll() {
            Some(item) => Ok(Some(item)),
            None => self.shared.wait(deadline),
        }
    }

    /// Waits for the next item as a future. A timer of `handle`'s scheduler wakes it; all consumers
    /// of the queue together have one such timer, that of the leader.
    ///
    /// # Errors
    ///
    /// [`NextError::Closed`] when the queue has been closed and nothing in it is due.
    /// [`NextError::Refused`] when the scheduler gives no timer to wait with, because it has been
    /// stopped or is full; the item stays in the queue.
    ///
    /// # Cancel safety
    ///
    /// An item is taken out only when the future is ready. Dropping it before that loses nothing:
    /// if it was the leader, or had been woken, the next consumer in the line takes its place. A
    /// future that was woken but is never polled delays its item until another consumer comes.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_jobs::delay_queue::{DelayQueue, NextError};
    /// use std::time::Duration;
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let queue = DelayQueue::new();
    /// queue.put(7, Duration::from_millis(5))?;
    /// assert_eq!(futures::executor::block_on(queue.next(&scheduler)), Ok(7));
    /// queue.close();
    /// let end = futures::executor::block_on(queue.next(&scheduler));
    /// assert_eq!(end, Err(NextError::Closed));
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn next(&self, handle: &Handle) -> Next<T> {
        Next::new(Arc::clone(&self.shared), handle.clone())
    }

    /// The items as a `Stream`, which ends when the queue is closed and nothing in it is due.
    ///
    /// # Errors
    ///
    /// Same as [`next`](Self::next): an item of the stream is an error when the scheduler gives no
    /// timer. It ends after the error that says that the scheduler has stopped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures::StreamExt;
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_jobs::delay_queue::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// let queue = DelayQueue::new();
    /// queue.put(1, Duration::from_millis(1))?;
    /// queue.put(2, Duration::from_millis(2))?;
    /// let items = queue.stream(&scheduler);
    /// assert_eq!(futures::executor::block_on(items.take(2).collect::<Vec<_>>()), [Ok(1), Ok(2)]);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn stream(&self, handle: &Handle) -> Items<T> {
        Items::new(self.next(handle))
    }

    /// Takes all items that are due now, the earliest first.
    pub fn drain(&self) -> Vec<T> {
        self.drain_up_to(usize::MAX)
    }

    /// Takes at most `max` of the items that are due now, the earliest first.
    pub fn drain_up_to(&self, max: usize) -> Vec<T> {
        let now = self.shared.now();
        let mut state = self.shared.contents.lock();
        std::iter::from_fn(|| state.pop_due(now)).take(max).collect()
    }

    /// Takes all items, due or not, the earliest first, each with its deadline; `None` for items
    /// that are never due.
    pub fn take_all(&self) -> Vec<(Option<Instant>, T)> {
        let all = std::mem::take(&mut self.shared.contents.lock().items);
        all.into_iter().map(|((due, _), item)| (due.instant(), item)).collect()
    }

    /// Takes one item, due or not, in O(log n). `None` if it was taken before.
    pub fn remove(&self, key: DelayKey) -> Option<T> {
        let mut state = self.shared.contents.lock();
        if key.queue == self.shared.id {
            state.items.remove(&(key.due, key.sequence))
        } else {
            None
        }
    }

    /// Moves the deadline of an item to `delay` from now, nearer or further out, in O(log n).
    /// Returns its new key; the old one names nothing any more. `None` if the item was taken
    /// before.
    ///
    /// Among items with equal deadlines it is the last. A closed queue moves its items as well.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::delay_queue::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let sessions = DelayQueue::new();
    /// let hour = Duration::from_secs(3600);
    /// let first = sessions.put("session 7", hour)?;
    /// let second = sessions.reset(first, Duration::ZERO).expect("it is there"); // log out
    /// assert_eq!(sessions.reset(first, hour), None);
    /// assert_eq!(sessions.remaining(second), Some(Duration::ZERO));
    /// assert_eq!(sessions.poll(), Some("session 7"));
    /// # Ok(()) }
    /// ```
    pub fn reset(&self, key: DelayKey, delay: Duration) -> Option<DelayKey> {
        self.reset_due(key, WhenDue::after(self.shared.now(), delay))
    }

    /// Moves the deadline of an item to `deadline`. Otherwise like [`reset`](Self::reset).
    pub fn reset_at(&self, key: DelayKey, deadline: Instant) -> Option<DelayKey> {
        self.reset_due(key, WhenDue::At(deadline))
    }

    fn reset_due(&self, key: DelayKey, due: WhenDue) -> Option<DelayKey> {
        if key.queue != self.shared.id {
            return None;
        }
        let mut state = self.shared.contents.lock();
        let item = state.items.remove(&(key.due, key.sequence))?;
        let (sequence, to_wake) = state.push(due, item);
        drop(state);
        to_wake.into_iter().for_each(wake);
        Some(DelayKey { due, sequence, ..key })
    }

    /// How long it is until an item is due: zero if it is, [`Duration::MAX`] if it never will be,
    /// `None` if it was taken.
    pub fn remaining(&self, key: DelayKey) -> Option<Duration> {
        let now = self.shared.now();
        let state = self.shared.contents.lock();
        let is_here =
            key.queue == self.shared.id && state.items.contains_key(&(key.due, key.sequence));
        is_here.then(|| key.due.remaining(now))
    }

    /// Looks at the first item, whether it is due or not.
    ///
    /// The returned guard holds the queue's lock: while it exists, all other calls wait, and a call
    /// on the same thread waits forever.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::delay_queue::DelayQueue;
    /// use std::time::Duration;
    /// let queue = DelayQueue::new();
    /// let key = queue.put(String::from("never"), Duration::MAX)?;
    /// let head = queue.peek().unwrap();
    /// assert_eq!(*head, "never");
    /// assert_eq!((head.key(), head.remaining()), (key, Duration::MAX));
    /// # Ok(()) }
    /// ```
    pub fn peek(&self) -> Option<Peek<'_, T>> {
        let now = self.shared.now();
        let state = self.shared.contents.lock();
        let (&(due, sequence), _) = state.items.first_key_value()?;
        let key = DelayKey { queue: self.shared.id, due, sequence };
        Some(Peek::new(state, key, due.remaining(now)))
    }

    /// Looks at all items, due or not, the earliest first: each with its key, and with how long it
    /// was until it is due, as [`remaining`](Self::remaining) says it.
    ///
    /// The queue's lock is held: all other calls wait, and a call from `look` waits forever.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_jobs::delay_queue::DelayQueue;
    /// use std::time::Duration;
    /// let queue = DelayQueue::new();
    /// queue.put("b", Duration::from_secs(600))?;
    /// queue.put("a", Duration::ZERO)?;
    /// let (mut items, mut late) = (Vec::new(), None);
    /// queue.for_each(|key, remaining, item| {
    ///     items.push(*item);
    ///     late = late.or((!remaining.is_zero()).then_some(key));
    /// });
    /// assert_eq!(items, ["a", "b"]);
    /// assert_eq!(late.and_then(|key| queue.remove(key)), Some("b"));
    /// # Ok(()) }
    /// ```
    #[doc(alias = "iter")]
    pub fn for_each(&self, mut look: impl FnMut(DelayKey, Duration, &T)) {
        let now = self.shared.now();
        let state = self.shared.contents.lock();
        for (&(due, sequence), item) in &state.items {
            look(DelayKey { queue: self.shared.id, due, sequence }, due.remaining(now), item);
        }
    }

    /// How many items are in the queue, due or not.
    pub fn len(&self) -> usize {
        self.shared.contents.lock().items.len()
    }

    /// Whether the queue has no item, due or not.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the queue, and wakes every waiting consumer. Items stay in the queue. True if this
    /// call closed it.
    pub fn close(&self) -> bool {
        let mut state = self.shared.contents.lock();
        let first = !std::mem::replace(&mut state.closed, true);
        let waiting = state.notify_all();
        drop(state);
        waiting.into_values().for_each(wake);
        first
    }

    /// Whether the queue has been closed.
    pub fn is_closed(&self) -> bool {
        self.shared.contents.lock().closed
    }
}

impl<T> Clone for DelayQueue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

debug_fields!(|it: DelayQueue<T>| len: it.len(), closed: it.is_closed());
