//! Why runs begin late: what the engine says of the time until a run was launched, and what is
//! known of its way from there to its handler.

use std::cell::Cell;

use lars_scheduler::Executor;
use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::extend::LatenessRecorder;
use lars_scheduler::late::{Cause, LateShare, Who};

use super::threads::Threads;
use super::{Begin, Shared};
use crate::engine::{Delay, Launch};
use crate::sync::Arc;
use crate::time::{Micros, Mono, MonoClock};

/// What is late, and who may be the reason.
pub(super) struct Explainer {
    recorder: LatenessRecorder,
    /// In the order of the handlers.
    names: Vec<Arc<str>>,
}

/// A run's way from the wheel to its handler.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// It is on the thread of the wheel.
    Wheel,
    /// It came to a thread of the node's own pool.
    Pool,
    /// It came to one that it might not have, and this handler had most of them.
    Waited { came: Mono, most: usize },
    /// The wheel handed it to another executor.
    HandedOver(Mono),
    /// Nobody noted that.
    Unknown,
}

impl Way {
    /// To this thread.
    pub(super) fn here(shared: &Shared) -> Self {
        match HANDED_OVER.get() {
            _ if shared.threads.are_own() => Self::Pool,
            Some(at) => Self::HandedOver(at),
            None => Self::Unknown,
        }
    }

    /// It has to wait for a thread that it may have.
    pub(super) fn wait(&mut self, shared: &Shared, most: usize) {
        if shared.explainer.is_some() {
            *self = Self::Waited { came: shared.gate.now(), most };
        }
    }
}

impl Explainer {
    pub(super) fn new(recorder: LatenessRecorder, names: Vec<Arc<str>>) -> Self {
        Self { recorder, names }
    }

    pub(super) fn recorder(&self) -> &LatenessRecorder {
        &self.recorder
    }

    /// A run begins.
    pub(super) fn began(&self, launch: &Launch, way: Way, threads: &Threads<Begin>, now: Mono) {
        let late = (now - launch.counts_from).to_duration();
        if late > self.recorder.bound() {
            let who = self.name(launch.handler);
            let _ = self.recorder.record(who, late, self.shares(launch, way, threads, now).0);
        }
    }

    #[cold]
    fn shares(&self, launch: &Launch, way: Way, threads: &Threads<Begin>, now: Mono) -> Shares {
        let engine = launch.delays.iter().map(|Delay { cause, culprit, time }| LateShare {
            cause: *cause,
            culprit: culprit.clone().map(Who::Named),
            time: time.to_duration(),
        });
        let mut shares = Shares(engine.collect());
        // The engine's part ends here.
        let from = launch.at.max(launch.counts_from);
        match way {
            Way::Wheel => shares.add(Cause::Timer, None, now - from),
            Way::Pool => self.in_the_queue(&mut shares, threads, (from, now)),
            Way::Waited { came, most } => {
                let came = came.max(from);
                self.in_the_queue(&mut shares, threads, (from, came));
                shares.add(Cause::PoolBusy, Some(self.name(most)), now - came);
            }
            Way::HandedOver(handed_over) => {
                let handed_over = handed_over.max(from);
                shares.add(Cause::Timer, None, handed_over - from);
                shares.add(Cause::OtherExecutor, None, now - handed_over);
            }
            Way::Unknown => {}
        }
        shares
    }

    /// What kept a run from a thread of the pool.
    fn in_the_queue(
        &self,
        shares: &mut Shares,
        threads: &Threads<Begin>,
        (from, to): (Mono, Mono),
    ) {
        let Some(crowd) = threads.between(from, to) else { return };
        for (most, time) in crowd.full {
            shares.add(Cause::PoolBusy, Some(self.name(most)), time);
        }
        shares.add(Cause::Timer, None, crowd.free);
    }

    fn name(&self, handler: usize) -> Who {
        Who::Named(Arc::clone(&self.names[handler]))
    }
}

struct Shares(Vec<LateShare>);

impl Shares {
    fn add(&mut self, cause: Cause, culprit: Option<Who>, time: Micros) {
        if time > Micros::ZERO {
            self.0.push(LateShare { cause, culprit, time: time.to_duration() });
        }
    }
}

thread_local! {
    /// When the wheel handed over what this thread runs just now.
    static HANDED_OVER: Cell<Option<Mono>> = const { Cell::new(None) };
}

/// An executor that is not the node's own, and notes when it is given something.
pub(super) struct Noting {
    pub(super) executor: Arc<dyn Executor>,
    pub(super) clock: MonoClock,
}

impl Executor for Noting {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        let handed_over = self.clock.now();
        self.executor.execute(Runnable::new(move || {
            let before = HANDED_OVER.replace(Some(handed_over));
            // A panic in it is contained.
            task.run();
            HANDED_OVER.set(before);
        }))
    }
}
