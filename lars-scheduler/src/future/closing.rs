//! Closing a scheduler without blocking the thread that asks for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::channel::oneshot;

use crate::sync::{Arc, Mutex, thread};
use crate::{CloseError, CloseReport, LightArrayRevolverScheduler};
use lars_base::debug_fields;
use lars_base::panics::quietly;

impl LightArrayRevolverScheduler {
    /// Closes the scheduler on a new thread, for async code that must not block. The future is
    /// ready with the report.
    ///
    /// It does what [`close`](Self::close) does. The pending tasks run on the new thread, and not
    /// on the executor that polls the future. The scheduler refuses tasks as soon as the thread has
    /// begun. If you drop the future, the scheduler is closed anyway, and its owner is dropped
    /// after that.
    ///
    /// (If the system has no thread left, this call closes the scheduler itself, and blocks.)
    ///
    /// # Errors
    ///
    /// Same as [`close`](Self::close): [`CloseError::Timeout`] if an inline task occupies the timer
    /// thread for longer than the `shutdown_timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// futures::executor::block_on(async {
    ///     let _ = scheduler.schedule_once(Duration::from_secs(3600), || println!("flushed"))?;
    ///     let report = scheduler.close_async().await?; // prints "flushed"
    ///     assert_eq!(report.ran, 1);
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn close_async(self) -> Closing {
        let (sender, receiver) = oneshot::channel();
        // Taken out by the thread, or by this call if there is no thread.
        let work = Arc::new(Mutex::new(Some((self, sender))));
        let close = {
            let work = Arc::clone(&work);
            move || {
                let taken = work.lock().take();
                if let Some((scheduler, sender)) = taken {
                    let report = scheduler.close();
                    // The receiver may be gone, and its waker may panic.
                    quietly(|| drop(sender.send(report)));
                }
            }
        };
        let thread = thread::Builder::new().name("lars-scheduler-close".to_owned());
        if thread.spawn(close.clone()).is_err() {
            close();
        }
        Closing { report: receiver }
    }
}

/// A scheduler that is being closed. Made by [`LightArrayRevolverScheduler::close_async`].
#[must_use = "the report says what became of the pending tasks"]
pub struct Closing {
    report: oneshot::Receiver<Result<CloseReport, CloseError>>,
}

impl Future for Closing {
    type Output = Result<CloseReport, CloseError>;

    /// # Panics
    ///
    /// If it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.report)
            .poll(context)
            .map(|report| report.expect("`close` does not panic, and it answers once"))
    }
}

debug_fields!(|_it: Closing|);
