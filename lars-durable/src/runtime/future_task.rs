//! A handler's future on an executor that knows only tasks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::task::{ArcWake, waker_ref};
use lars_scheduler::Executor;
use lars_scheduler::executor::Runnable;

use crate::sync::{Arc, AtomicBool, Mutex, Ordering};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct FutureTask {
    work: Mutex<Option<Work>>,
    executor: Arc<dyn Executor>,
    /// A poll has been handed over, and has not begun.
    queued: AtomicBool,
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

    /// Makes a future, whose parts may look for their runtime already.
    pub(crate) fn make<W>(&self, make: impl FnOnce() -> W) -> W {
        #[cfg(feature = "tokio")]
        let _entered = self.runtime.as_ref().map(tokio::runtime::Handle::enter);
        make()
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
    let work: Work = Box::pin(work);
    let (work, queued) = (Mutex::new(Some(work)), AtomicBool::new(false));
    FutureTask::hand_over(&Arc::new(FutureTask { work, executor, queued }));
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
            *task.work.lock() = None;
        }
    }

    fn poll(self: Arc<Self>) {
        // Cleared before the poll, so that what wakes it meanwhile hands over another.
        self.queued.swap(false, Ordering::AcqRel);
        let mut work = self.work.lock();
        if let Some(future) = work.as_mut() {
            let waker = waker_ref(&self);
            if let Poll::Ready(()) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                *work = None;
            }
        }
    }
}

impl ArcWake for FutureTask {
    fn wake_by_ref(task: &Arc<Self>) {
        FutureTask::hand_over(task);
    }
}
