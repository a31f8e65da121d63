//! Closing a node without blocking the thread that asks for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::channel::oneshot;

use super::durable::{CLOSE_LIMIT, Durable};
use crate::error::CloseError;
use crate::runtime::contain;
use crate::sync::{Arc, Mutex};

impl Durable {
    /// [`close_async_within`](Self::close_async_within) half a minute.
    pub fn close_async(self) -> Closing {
        self.close_async_within(CLOSE_LIMIT)
    }

    /// Does what [`close_within`](Self::close_within) does, on a new thread, for async code that
    /// must not block: the futures of handlers may need this very thread to end. The future is
    /// ready when the node has closed. If you drop it, the node is closed anyway.
    ///
    /// (If the system has no thread left, this call closes the node itself, and blocks.)
    ///
    /// # Errors
    ///
    /// The future says what `close_within` would.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let durable = lars_durable::Durable::in_memory().start()?;
    /// futures::executor::block_on(async { durable.close_async().await })?;
    /// # Ok(()) }
    /// ```
    pub fn close_async_within(self, limit: Duration) -> Closing {
        let (sender, receiver) = oneshot::channel();
        #[cfg(feature = "test-kit")]
        if self.runtime.is_virtual() {
            let _ = sender.send(self.close_within(limit));
            return Closing(receiver);
        }
        // Taken out by the thread, or by this call if there is no thread.
        let work = Arc::new(Mutex::new(Some((self, sender))));
        let close = move || {
            let taken = work.lock().take();
            if let Some((durable, sender)) = taken {
                let closed = durable.close_within(limit);
                // The receiver may be gone, and its waker may panic.
                let _ = contain(|| drop(sender.send(closed)));
            }
        };
        let thread = std::thread::Builder::new().name("lars-durable-close".into());
        if thread.spawn(close.clone()).is_err() {
            close();
        }
        Closing(receiver)
    }
}

/// A node that is being closed. Made by [`Durable::close_async`].
#[must_use = "it says whether all runs have ended"]
pub struct Closing(oneshot::Receiver<Result<(), CloseError>>);

impl Future for Closing {
    type Output = Result<(), CloseError>;

    /// # Panics
    ///
    /// If it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let closed = Pin::new(&mut self.0).poll(context);
        closed.map(|closed| closed.expect("`close_within` does not panic, and it answers once"))
    }
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing").finish_non_exhaustive()
    }
}
