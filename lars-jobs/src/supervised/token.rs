//! The token that tells a run that it was given up.

use std::any::Any;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lars_base::debug_fields;
use lars_base::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};

/// Tells a run that it was given up: its time is over, or the supervision has ended.
///
/// Nothing is interrupted. A run that wants to end early checks its token between two steps
/// ([`is_cancelled`](Self::is_cancelled)), sleeps on it ([`wait_timeout`](Self::wait_timeout)) or
/// awaits it ([`cancelled`](Self::cancelled)). A cancelled token stays cancelled, and the token of
/// a run that ended in time is never cancelled. Each run has its own; clones are the same token.
/// All methods may be called from any thread.
///
/// The idea is that of .NET's `CancellationToken`, and of tokio-util's.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::supervised::Supervision;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let pool = lars_scheduler::Pool::new("refresh", 1)?;
/// let (sender, given_up) = mpsc::channel();
/// let refresh = Supervision::every(Duration::from_millis(5))
///     .timeout(Duration::from_millis(1))
///     .build()?
///     .start(&scheduler, pool, move |token| {
///         // Sleeps for an hour between two steps, but not if it was given up.
///         let cancelled = token.wait_timeout(Duration::from_secs(3600));
///         drop(sender.send(cancelled && token.is_cancelled()));
///     })?;
/// assert!(given_up.recv()?);
/// assert!(refresh.cancel());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CancelToken {
    inner: Arc<Inner>,
}

struct Inner {
    /// Set once, while `waiting` is locked. A caller that finds it unset under the lock is woken
    /// later.
    cancelled: AtomicBool,
    waiting: Mutex<Wakers>,
    /// For the threads in `wait_timeout`; belongs to `waiting`.
    happened: Condvar,
}

#[derive(Default)]
struct Wakers {
    next: u64,
    wakers: Vec<(u64, Waker)>,
}

impl CancelToken {
    pub(super) fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                cancelled: AtomicBool::new(false),
                waiting: Mutex::new(Wakers::default()),
                happened: Condvar::new(),
            }),
        }
    }

    /// Cancels, once, and wakes all waiters. `report` gets the panics of wakers.
    pub(super) fn cancel(&self, report: impl Fn(Box<dyn Any + Send>)) {
        let wakers = {
            let mut waiting = self.inner.waiting.lock();
            // Release: a thread that sees the flag sees what was done before the cancel.
            self.inner.cancelled.store(true, Ordering::Release);
            mem::take(&mut waiting.wakers)
        };
        self.inner.happened.notify_all();
        // Foreign code: outside the lock, and each by itself.
        for (_, waker) in wakers {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                report(payload);
            }
        }
    }

    /// Wakes `waker` when the token is cancelled, at once if it is. Returns what to
    /// [`unsubscribe`](Self::unsubscribe) with.
    pub(super) fn subscribe(&self, waker: Waker) -> Option<u64> {
        let mut waiting = self.inner.waiting.lock();
        if self.is_cancelled() {
            drop(waiting);
            waker.wake();
            return None;
        }
        Some(waiting.insert(waker))
    }

    /// Drops a waker, unless it was woken.
    pub(super) fn unsubscribe(&self, key: u64) {
        let waker = self.inner.waiting.lock().remove(key);
        drop(waker); // outside the lock
    }

    /// Whether the run was given up. Costs one atomic load.
    pub fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the store in `cancel`.
        self.inner.cancelled.load(Ordering::Acquire)
    }

    /// Blocks this thread, which must not be the timer thread, until the token is cancelled or
    /// `limit` of real time has passed. True if it is cancelled.
    ///
    /// A closure sleeps with it, for example between two attempts.
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        let mut waiting = self.inner.waiting.lock();
        self.inner.happened.wait_while_for(&mut waiting, |_| !self.is_cancelled(), limit);
        drop(waiting);
        self.is_cancelled()
    }

    /// A future that is ready when the token is cancelled. It can be dropped at any time, and needs
    /// no runtime.
    ///
    /// ```
    /// use futures::future::{Either, pending, select};
    /// use lars_jobs::supervised::CancelToken;
    /// use std::pin::pin;
    ///
    /// async fn fetch(token: CancelToken) -> Result<u32, &'static str> {
    ///     let answer = pin!(pending::<u32>()); // a server that does not answer
    ///     match select(answer, token.cancelled()).await {
    ///         Either::Left((answer, _)) => Ok(answer),
    ///         Either::Right(_) => Err("given up"), // say goodbye to the server here
    ///     }
    /// }
    /// ```
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.clone(), key: None }
    }
}

impl Wakers {
    fn insert(&mut self, waker: Waker) -> u64 {
        let key = self.next;
        self.next += 1;
        self.wakers.push((key, waker));
        key
    }

    /// Puts `waker` in the place of the one with this key, which is returned to be dropped outside
    /// the lock.
    fn replace(&mut self, key: u64, waker: Waker) -> Option<Waker> {
        let place = self.wakers.iter_mut().find(|(known, _)| *known == key)?;
        Some(mem::replace(&mut place.1, waker))
    }

    fn remove(&mut self, key: u64) -> Option<Waker> {
        let place = self.wakers.iter().position(|(known, _)| *known == key)?;
        Some(self.wakers.swap_remove(place).1)
    }
}

debug_fields!(|it: CancelToken| cancelled: it.is_cancelled());

/// Ready when its token is cancelled. Made by [`CancelToken::cancelled`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_jobs::supervised::{CancelToken, Supervision};
/// use lars_scheduler::{Inline, LightArrayRevolverScheduler};
/// use std::{sync::mpsc, time::Duration};
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let secs = Duration::from_secs;
/// let (sender, receiver) = mpsc::channel();
/// let _task = Supervision::every(secs(10)).timeout(secs(1)).build()?.start_future(
///     &time,
///     Inline,
///     move |token: CancelToken| {
///         let sender = sender.clone();
///         async move {
///             token.cancelled().await; // beside work that takes too long
///             drop(sender.send("given up"));
///         }
///     },
/// )?;
/// time.advance(secs(11));
/// assert_eq!(receiver.try_recv()?, "given up");
/// # Ok(()) }
/// ```
#[must_use = "a future does nothing unless it is polled"]
pub struct Cancelled {
    token: CancelToken,
    /// What the waker is kept under, once there is one.
    key: Option<u64>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.token.is_cancelled() {
            return Poll::Ready(());
        }
        // Cloned outside the lock: it is foreign code.
        let waker = context.waker().clone();
        let mut waiting = self.token.inner.waiting.lock();
        if self.token.is_cancelled() {
            return Poll::Ready(());
        }
        let old = match self.key {
            Some(key) => waiting.replace(key, waker),
            None => {
                let key = waiting.insert(waker);
                drop(waiting);
                self.key = Some(key);
                return Poll::Pending;
            }
        };
        drop(waiting);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.token.unsubscribe(key);
        }
    }
}

debug_fields!(|it: Cancelled| token: it.token);
