//! Runs that are futures: polled on the executor, woken through it, and dropped on it.
//!
//! # The stages
//!
//! | stage | meaning | leaves by |
//! |---|---|---|
//! | `Queued` | a poll is on its way to the executor | the poll begins; the executor drops it |
//! | `Polling` | a thread polls; the future is on its stack | the poll ends; a wake-up |
//! | `Woken` | a thread polls, and was asked to poll again | the poll ends |
//! | `Idle` | no poll; some waker will ask for one | a wake-up |
//! | `Done` | future and run are gone | never |
//!
//! So at most one poll is outstanding, whatever wakers do. The token has a waker of the run as
//! well: a run that is given up is polled once more and, unless it is to be left, dropped if it is
//! still pending.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};

use super::report::Completion;
use super::run::{Ending, Owner, Run, Runner, ending_of};
use super::settings::GivenUp;
use super::token::CancelToken;
use lars_base::sync::{Arc, Mutex};
use lars_scheduler::executor::{Runnable, TaskBody};

/// A runner that makes a future for each run.
pub(super) struct FutureRunner<F>(pub(super) F);

impl<F, Fut> Runner for FutureRunner<F>
where
    F: Fn(CancelToken) -> Fut + Send + Sync,
    Fut: Future<Output: Completion> + Send + 'static,
{
    fn execute(&self, run: Run) {
        let Some(run) = run.begin() else { return };
        let future = match run.call(|| Box::pin((self.0)(run.token().clone()))) {
            Ok(future) => future,
            Err(panic) => return run.end(panic),
        };
        let owner = Arc::clone(run.owner());
        let token = run.token().clone();
        let drop_it = owner.given_up() == GivenUp::Drop;
        let task = Arc::new(FutureRun {
            owner,
            token: token.clone(),
            drop_it,
            slot: Mutex::new(Slot {
                stage: PollStage::Queued,
                content: Some((future, run)),
                polled_by: None,
                again: false,
                subscription: None,
            }),
        });
        let subscription = token.subscribe(Waker::from(Arc::clone(&task)));
        task.slot.lock().subscription = subscription;
        task.poll_here();
    }
}

struct FutureRun<Fut: Future<Output: Completion> + Send + 'static> {
    owner: Arc<dyn Owner>,
    token: CancelToken,
    /// Whether the future is dropped when the run is given up.
    drop_it: bool,
    slot: Mutex<Slot<Fut>>,
}

struct Slot<Fut> {
    stage: PollStage,
    /// In `Queued` and `Idle`.
    content: Option<(Pin<Box<Fut>>, Run)>,
    /// The thread that is in `poll_here`, until it has resubmitted what it polled.
    polled_by: Option<ThreadId>,
    /// That thread was handed the next poll before it had left, because the executor runs things at
    /// once.
    again: bool,
    /// The waker that the token has of this run.
    subscription: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum PollStage {
    Queued,
    Polling,
    Woken,
    Idle,
    Done,
}

impl<Fut: Future<Output: Completion> + Send + 'static> FutureRun<Fut> {
    /// Polls on this thread.
    fn poll_here(self: Arc<Self>) {
        let here = thread::current().id();
        loop {
            let (mut future, run) = {
                let mut slot = self.slot.lock();
                if slot.polled_by == Some(here) {
                    // The executor runs things at once: the loop below goes on, so that the stack
                    // does not grow.
                    slot.again = true;
                    return;
                }
                let Some(content) = slot.content.take() else { return };
                slot.stage = PollStage::Polling;
                slot.polled_by = Some(here);
                content
            };
            // Read before the poll, so that the last poll sees the cancelled token.
            let last = self.drop_it && self.token.is_cancelled();
            let waker = Waker::from(Arc::clone(&self));
            let polled = run.call(|| {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                polled.map(ending_of)
            });
            match polled {
                Ok(Poll::Pending) if last => return self.finish(future, run, None),
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(ending)) => return self.finish(future, run, Some(ending)),
                Err(panic) => return self.finish(future, run, Some(panic)),
            }
            let mut slot = self.slot.lock();
            slot.content = Some((future, run));
            if slot.stage == PollStage::Polling {
                slot.stage = PollStage::Idle;
                slot.polled_by = None;
                return;
            }
            slot.stage = PollStage::Queued;
            drop(slot);
            // Through the executor, so that others get their turn.
            Arc::clone(&self).submit();
            let mut slot = self.slot.lock();
            if slot.polled_by != Some(here) {
                return; // another thread polls by now
            }
            slot.polled_by = None;
            if !slot.again {
                return;
            }
            slot.again = false;
        }
    }

    fn submit(self: Arc<Self>) {
        let owner = Arc::clone(&self.owner);
        owner.execute(Runnable::of_body(QueuedPoll(self)), "poll");
    }

    /// Drops the future, and then ends the run: while its captures exist, it has not ended.
    fn finish(&self, future: Pin<Box<Fut>>, run: Run, ending: Option<Ending>) {
        let subscription = {
            let mut slot = self.slot.lock();
            slot.stage = PollStage::Done;
            slot.subscription.take()
        };
        self.owner.contain(|| drop(future));
        if let Some(subscription) = subscription {
            self.token.unsubscribe(subscription);
        }
        match ending {
            Some(ending) => run.end(ending),
            None => drop(run),
        }
    }

    /// There will be no further poll: the executor has dropped the poll, or the future has dropped
    /// all of its wakers.
    fn abandoned(&self) {
        let content = self.slot.lock().content.take();
        if let Some((future, run)) = content {
            self.finish(future, run, None);
        }
    }
}

impl<Fut: Future<Output: Completion> + Send + 'static> Wake for FutureRun<Fut> {
    fn wake(self: Arc<Self>) {
        let mut slot = self.slot.lock();
        match slot.stage {
            PollStage::Idle => {
                slot.stage = PollStage::Queued;
                drop(slot);
                self.submit();
            }
            PollStage::Polling => slot.stage = PollStage::Woken,
            PollStage::Queued | PollStage::Woken | PollStage::Done => {}
        }
    }
}

impl<Fut: Future<Output: Completion> + Send + 'static> Drop for FutureRun<Fut> {
    fn drop(&mut self) {
        self.abandoned();
    }
}

/// A poll on its way through the executor.
struct QueuedPoll<Fut: Future<Output: Completion> + Send + 'static>(Arc<FutureRun<Fut>>);

impl<Fut: Future<Output: Completion> + Send + 'static> TaskBody for QueuedPoll<Fut> {
    fn run(self) {
        self.0.poll_here();
    }

    fn lost(self) {
        self.0.abandoned();
    }
}
