//! A handler's future on an executor that knows only tasks.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use futures::task::{ArcWake, waker_ref};
use lars_scheduler::Executor;
use lars_scheduler::executor::Runnable;

use crate::sync::{Arc, AtomicBool, Mutex, Ordering};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls and destructors are foreign code, which may wake this task: none of it runs while `state`
/// is locked.
struct FutureTask {
    state: Mutex<State>,
    executor: Arc<dyn Executor>,
    /// A poll has been handed over, and has not begun.
    queued: AtomicBool,
}

enum State {
    Waits(Work),
    /// A thread has it; `again` if it was woken since.
    Polled {
        again: bool,
    },
    /// It has ended, or the executor has refused a poll.
    Over,
}

/// The tokio runtime that futures belong to, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    #[cfg(feature = "tokio")]
    runtime: Option<tokio::runtime::Handle>,
}

impl Surroundings {
    /// That of this thread.
    pub(crate) fn here() -> Self {
        Self {
            #[cfg(feature = "tokio")]
            runtime: tokio::runtime::Handle::try_current().ok(),
        }
    }
}

/// Polls `work` until it is ready: as a task of the runtime around it, or else by tasks of
/// `executor`. A runtime that has shut down, or an executor that refuses a poll, ends it: it is
/// dropped.
pub(crate) fn spawn(
    executor: Arc<dyn Executor>,
    around: &Surroundings,
    work: impl Future<Output = ()> + Send + 'static,
) {
    #[cfg(feature = "tokio")]
    if let Some(runtime) = &around.runtime {
        drop(runtime.spawn(work));
        return;
    }
    let _ = around;
    let (state, queued) = (Mutex::new(State::Waits(Box::pin(work))), AtomicBool::new(false));
    FutureTask::hand_over(&Arc::new(FutureTask { state, executor, queued }));
}

impl FutureTask {
    fn hand_over(task: &Arc<Self>) {
        // Acquire and release: a waker that finds it set knows that the poll to come sees its
        // cause.
        if task.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let here = Arc::clone(task);
        if task.executor.execute(Runnable::new(move || here.poll())).is_err() {
            task.set(State::Over);
        }
    }

    fn poll(self: Arc<Self>) {
        // Cleared before the poll, so that what wakes it meanwhile hands over another.
        self.queued.swap(false, Ordering::AcqRel);
        let Some(mut work) = self.take() else { return };
        let waker = waker_ref(&self);
        loop {
            let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                return self.set(State::Over);
            }
            match self.put_back(work) {
                Some(again) => work = again,
                None => return,
            }
        }
    }

    /// What is to be polled, unless it is over, or another thread has it and will do so.
    fn take(&self) -> Option<Work> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Polled { again: false }) {
            State::Waits(work) => return Some(work),
            State::Polled { .. } => *state = State::Polled { again: true },
            State::Over => *state = State::Over,
        }
        None
    }

    /// After a poll. If it was woken since, it is to be polled again.
    fn put_back(&self, work: Work) -> Option<Work> {
        let mut state = self.state.lock();
        match *state {
            State::Polled { again: true } => {
                *state = State::Polled { again: false };
                return Some(work);
            }
            State::Polled { again: false } => *state = State::Waits(work),
            State::Waits(_) | State::Over => {
                drop(state);
                drop(work);
            }
        }
        None
    }

    fn set(&self, state: State) {
        let before = std::mem::replace(&mut *self.state.lock(), state);
        drop(before);
    }
}

impl ArcWake for FutureTask {
    fn wake_by_ref(task: &Arc<Self>) {
        FutureTask::hand_over(task);
    }
}
