//! Supervised tasks: a timeout for each run, a backoff, counters, tokens; in virtual time unless
//! races are the point.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

mod backoff;
mod cancel;
mod defects;
mod eureka;
mod futures;
mod last;
mod on_demand;
mod one_at_a_time;
mod races;
mod settings;
mod tokens;

use std::collections::VecDeque;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{
    ByHand, Captive, Notes, PATIENCE, Xorshift, assert_same, eventually, ms, ns, scaled, secs,
    virtual_time,
};
use lars_jobs::supervised::{
    CancelToken, Counts, GivenUp, Outcome, RunNowError, RunReport, SettingError, Supervised,
    Supervision, SupervisionBuilder,
};
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::{
    CancelOnDrop, Executor, Handle, Inline, LightArrayRevolverScheduler, Pool, Refusal, VirtualTime,
};

/// Every 10 s, with 4 s for a run, up to 60 s.
fn every_ten() -> SupervisionBuilder {
    Supervision::every(secs(10)).timeout(secs(4)).max_interval(secs(60))
}

/// A task that does nothing, run by hand: what happens depends on when the test runs it.
fn by_hand(time: &Handle, builder: SupervisionBuilder) -> (Supervised, ByHand) {
    let executor = ByHand::default();
    let task = builder.build().unwrap().start(time, executor.clone(), |_| ()).unwrap();
    (task, executor)
}

/// `runs` is the sum of what became of them.
fn add_up(counts: &Counts) -> bool {
    let settled = counts.successes + counts.timeouts + counts.rejections + counts.failures;
    counts.runs - settled - counts.withdrawn <= 1
}

/// How many runs are under way at once, and how many were at most.
#[derive(Debug, Default)]
struct Concurrency {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Concurrency {
    fn enter(&self) -> impl Drop {
        struct Inside<'a>(&'a Concurrency);
        impl Drop for Inside<'_> {
            fn drop(&mut self) {
                self.0.now.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Inside(self)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// Rejects as many runs as it is told to, in a way that it is told, and keeps the others.
#[derive(Debug, Clone, Default)]
struct Refusing {
    how: Arc<Mutex<VecDeque<&'static str>>>,
    inner: ByHand,
}

impl Executor for Refusing {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        let how = self.how.lock().unwrap().pop_front();
        match how {
            None => self.inner.execute(task),
            Some("drop") => {
                drop(task);
                Ok(())
            }
            Some("panic") => panic!("the executor is broken"),
            Some(reason) => Err(Rejected::new(task, reason)),
        }
    }
}

/// Ready when `time` has moved on by this much.
async fn sleep(timers: Handle, delay: Duration) {
    let deadline = timers.now() + delay;
    let mut timer = None::<CancelOnDrop>;
    poll_fn(move |context| {
        if timers.now() >= deadline {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let task = lars_scheduler::Task::new(move || waker.wake()).inline();
        drop(timer.replace(timers.schedule_at(deadline, task).unwrap().cancel_on_drop()));
        Poll::Pending
    })
    .await;
}

/// Runs what waits in the executor, until nothing does.
fn run_all(executor: &ByHand) -> usize {
    std::iter::from_fn(|| executor.run_next().then_some(())).count()
}
