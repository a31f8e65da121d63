//! Async adapters: sleeps, time-outs, intervals, and work that begins later.
#![allow(clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod after;
mod block_on;
mod executors;
mod interval;
mod races;
mod reset;
mod sleep;
mod stop;
mod timeout;
mod wakers;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use common::PATIENCE;
use lars_scheduler::Refusal;

/// A waker that counts.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self::default());
        (Arc::clone(&bell), Waker::from(bell))
    }

    fn rung(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

fn poll_quietly<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll(future, Waker::noop())
}

const READY: Poll<Result<(), Refusal>> = Poll::Ready(Ok(()));
const STOPPED: Poll<Result<(), Refusal>> = Poll::Ready(Err(Refusal::Stopped));

/// Runs `test` on a thread, and fails if it hangs.
fn within_patience(test: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    if wait.recv_timeout(10 * PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("a wake-up was lost");
    }
    thread.join().unwrap();
}
