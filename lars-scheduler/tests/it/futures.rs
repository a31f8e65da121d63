//! Async adapters: sleeps, timeouts, intervals, and work that begins later.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

mod after;
mod block_on;
mod closing;
mod executors;
mod interval;
mod other_threads;
mod races;
mod reset;
mod sleep;
mod stop;
mod timeout;
mod wakers;

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use common::{Bell, PATIENCE};
use lars_scheduler::Refusal;

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
