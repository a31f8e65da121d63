//! Consumers that are futures.

use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::Stream;
use thiserror::Error;

use super::waiting::{Consumer, Found, SharedQueue};
use lars_base::debug_fields;
use lars_base::when_due::WhenDue;
use lars_scheduler::future::Sleep;
use lars_scheduler::{Handle, Refusal};

/// Why there is no next item.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::delay_queue::{DelayQueue, NextError};
/// use lars_scheduler::{LightArrayRevolverScheduler, Refusal};
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let queue = DelayQueue::new();
/// queue.put("later", Duration::from_secs(3600))?;
/// time.close()?;
/// let next = time.block_on(queue.next(&time))?;
/// assert_eq!(next, Err(NextError::Refused(Refusal::Stopped)));
/// assert_eq!(queue.len(), 1); // the item is still there
/// queue.close();
/// assert_eq!(time.block_on(queue.next(&time))?, Err(NextError::Closed));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NextError {
    /// The queue has been closed, and nothing in it is due.
    #[error("the delay queue has been closed, and nothing in it is due")]
    Closed,
    /// The scheduler gave no timer to wait with.
    #[error("the scheduler gave no timer to wait with: {0}")]
    Refused(Refusal),
}

/// Waits for the next item. Made by [`DelayQueue::next`](super::DelayQueue::next).
///
/// It can be polled again after it was ready, and then waits for another item.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::delay_queue::DelayQueue;
/// use std::time::Duration;
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let clock = time.handle();
/// let queue = DelayQueue::with_clock(move || clock.now());
/// queue.put('b', Duration::from_secs(20))?;
/// queue.put('a', Duration::from_secs(10))?;
/// let mut next = queue.next(&time);
/// assert_eq!(time.block_on(&mut next)?, Ok('a'));
/// assert_eq!(time.block_on(&mut next)?, Ok('b')); // another item
/// assert_eq!(time.elapsed(), Duration::from_secs(20));
/// # Ok(()) }
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Next<T> {
    consumer: Consumer<T>,
    handle: Handle,
    /// Of the call that made it.
    place: &'static Location<'static>,
    /// Has a timer while the future leads.
    timer: Option<Sleep>,
    leads: bool,
}

impl<T> Next<T> {
    #[track_caller]
    pub(super) fn new(queue: Arc<SharedQueue<T>>, handle: Handle) -> Self {
        let (consumer, place) = (Consumer::new(queue), Location::caller());
        Self { consumer, handle, place, timer: None, leads: false }
    }

    fn look(&mut self, waker: &Waker) -> Poll<Result<T, NextError>> {
        self.follow(); // and its place, where places are limited, is for the next one
        match self.consumer.look(waker) {
            Found::Item(item) => Poll::Ready(Ok(item)),
            Found::Closed => Poll::Ready(Err(NextError::Closed)),
            Found::NotYet(WhenDue::Never) => Poll::Pending,
            Found::NotYet(due) => {
                let remaining = due.remaining(self.consumer.queue.now());
                self.leads = true;
                let timer = self.handle.sleep(remaining).placed_at(self.place);
                match Pin::new(self.timer.insert(timer)).poll(&mut Context::from_waker(waker)) {
                    Poll::Pending => Poll::Pending,
                    // It came due meanwhile: this looks again.
                    Poll::Ready(Ok(())) => {
                        waker.wake_by_ref();
                        Poll::Pending
                    }
                    Poll::Ready(Err(refusal)) => {
                        self.leave();
                        Poll::Ready(Err(NextError::Refused(refusal)))
                    }
                }
            }
        }
    }

    /// Gives up the timer, if this leads.
    fn follow(&mut self) {
        self.timer = None;
        self.leads = false;
    }

    fn leave(&mut self) {
        self.follow();
        self.consumer.leave();
    }
}

impl<T> Future for Next<T> {
    type Output = Result<T, NextError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // Unwind safety: the consumer leaves the line.
        let look = AssertUnwindSafe(|| this.look(context.waker()));
        catch_unwind(look).unwrap_or_else(|payload| {
            // Another consumer has to lead, if this one did.
            this.leave();
            resume_unwind(payload)
        })
    }
}

debug_fields!(|it: Next<T>| leads: it.leads);

/// The items of a queue, as they become due. Made by
/// [`DelayQueue::stream`](super::DelayQueue::stream).
///
/// It is one consumer among others: several streams share the items.
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
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let clock = time.handle();
/// let queue = DelayQueue::with_clock(move || clock.now());
/// queue.put('b', Duration::from_secs(20))?;
/// queue.put('a', Duration::from_secs(10))?;
/// let mut items = queue.stream(&time);
/// assert_eq!(time.block_on(items.next())?, Some(Ok('a')));
/// assert_eq!(time.block_on(items.next())?, Some(Ok('b')));
/// queue.close();
/// assert_eq!(time.block_on(items.next())?, None);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "streams do nothing unless they are polled"]
pub struct Items<T> {
    /// `None` when it has ended.
    next: Option<Next<T>>,
}

impl<T> Items<T> {
    pub(super) fn new(next: Next<T>) -> Self {
        Self { next: Some(next) }
    }
}

impl<T> Stream for Items<T> {
    type Item = Result<T, Refusal>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(next) = &mut this.next else { return Poll::Ready(None) };
        let Poll::Ready(result) = Pin::new(next).poll(context) else { return Poll::Pending };
        if matches!(result, Err(NextError::Closed | NextError::Refused(Refusal::Stopped))) {
            this.next = None;
        }
        Poll::Ready(match result {
            Ok(item) => Some(Ok(item)),
            Err(NextError::Refused(refusal)) => Some(Err(refusal)),
            Err(NextError::Closed) => None,
        })
    }
}
