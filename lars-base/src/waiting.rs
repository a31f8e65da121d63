//! Waiting on this thread, with a limit: for a future, or to be unparked.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::sync::{CHECKED, Parker, Unparker, real_now};
use crate::time::Instant;

struct Unpark(Unparker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A waker that unparks the thread of `parker`.
pub fn waker_of(parker: &Parker) -> Waker {
    Waker::from(Arc::new(Unpark(parker.unparker().clone())))
}

/// Calls `wait` with a parker that this thread keeps for its next wait: on Windows a new one takes
/// two kernel objects. An earlier wait may still have it unparked, so `wait` looks again each time.
pub fn with_parker<R>(wait: impl FnOnce(&Parker) -> R) -> R {
    thread_local! {
        static SPARE: Cell<Option<Parker>> = const { Cell::new(None) };
    }
    // A checker's parker ends with its schedule. A wait within a wait finds none.
    let spare = if CHECKED { None } else { SPARE.try_with(Cell::take).ok().flatten() };
    let parker = spare.unwrap_or_else(Parker::new);
    let result = wait(&parker);
    if !CHECKED {
        // A thread that ends keeps none.
        let _ = SPARE.try_with(|spare| spare.set(Some(parker)));
    }
    result
}

/// Parks this thread until it is unparked or `deadline` has passed; without a deadline, until it is
/// unparked. False, without parking, if `deadline` has passed already.
pub fn park_until(parker: &Parker, deadline: Option<Instant>) -> bool {
    match deadline {
        None => parker.park(),
        Some(deadline) if real_now() >= deadline => return false,
        Some(deadline) => parker.park_deadline(deadline),
    }
    true
}

/// Polls `future` until it is ready or `deadline` has passed; without a deadline, for as long as it
/// takes.
pub fn block_until<F: Future>(
    mut future: Pin<&mut F>,
    deadline: Option<Instant>,
) -> Option<F::Output> {
    with_parker(|parker| {
        let waker = waker_of(parker);
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            if !park_until(parker, deadline) {
                return None;
            }
        }
    })
}
