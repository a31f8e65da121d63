//! Futures and streams that wait for items, polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::Stream;
use lars_jobs::delay_queue::{DelayQueue, Items, Next, NextError};
use lars_scheduler::{Handle, Refusal};

use super::Item;

/// What a poll has given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Item(usize),
    Pending,
    /// The queue is closed, and nothing is due; or the stream had ended before.
    End,
    Refused(Refusal),
}

enum Kind {
    Future(Next<Item>),
    Stream { items: Items<Item>, ended: bool },
}

pub(crate) struct Consumer {
    kind: Kind,
    /// While it waits: whether it was woken. Each poll brings another waker, and only the last one
    /// counts.
    waiting: Option<Arc<Bell>>,
}

/// A waker that uses the queue.
struct Bell {
    queue: DelayQueue<Item>,
    rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.queue.len();
        self.rung.store(true, Ordering::Relaxed);
    }
}

impl Consumer {
    pub(crate) fn new(queue: &DelayQueue<Item>, handle: &Handle, stream: bool) -> Self {
        let kind = if stream {
            Kind::Stream { items: queue.stream(handle), ended: false }
        } else {
            Kind::Future(queue.next(handle))
        };
        Self { kind, waiting: None }
    }

    /// Whether it is a stream that has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.kind, Kind::Stream { ended: true, .. })
    }

    /// Whether it waits, and nobody has told it to look.
    pub(crate) fn waits(&self) -> bool {
        self.waiting.as_ref().is_some_and(|bell| !bell.rung.load(Ordering::Relaxed))
    }

    /// Whether it was told to look, and has not done so.
    pub(crate) fn is_woken(&self) -> bool {
        self.waiting.as_ref().is_some_and(|bell| bell.rung.load(Ordering::Relaxed))
    }

    pub(crate) fn poll(&mut self, queue: &DelayQueue<Item>) -> Got {
        let bell = Arc::new(Bell { queue: queue.clone(), rung: AtomicBool::new(false) });
        let waker = Waker::from(Arc::clone(&bell));
        let mut context = Context::from_waker(&waker);
        let polled = match &mut self.kind {
            Kind::Future(next) => Pin::new(next).poll(&mut context).map(Some),
            Kind::Stream { items, ended } => {
                let polled = Pin::new(items).poll_next(&mut context);
                *ended |= matches!(polled, Poll::Ready(None | Some(Err(Refusal::Stopped))));
                polled.map(|item| item.map(|result| result.map_err(NextError::Refused)))
            }
        };
        self.waiting = polled.is_pending().then_some(bell);
        match polled {
            Poll::Pending => Got::Pending,
            Poll::Ready(Some(Ok(item))) => Got::Item(item.0),
            Poll::Ready(None | Some(Err(NextError::Closed))) => Got::End,
            Poll::Ready(Some(Err(NextError::Refused(refusal)))) => Got::Refused(refusal),
        }
    }
}
