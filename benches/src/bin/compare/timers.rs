//! What a timer has to be able to do to be compared.

use std::time::Duration;

use crate::callback::{Callback, Recorder};
use crate::record::Workload;

/// How long anything is waited for that ought to happen at once.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A far deadline for timers that are cancelled.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// What becomes of a timer that is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelling {
    /// Its memory is used again at once, or soon.
    Frees,
    /// It lies around until it would have been due.
    Leaves,
}

/// A timer under test.
pub(crate) trait Timers: Sync + Sized + 'static {
    /// What it is called in tables and options.
    const NAME: &'static str;
    /// How it is used here, in a few words.
    const ABOUT: &'static str;
    /// Its tick in microseconds, if it has one.
    const TICK_US: Option<u64> = None;
    const CANCELLING: Cancelling = Cancelling::Frees;
    /// Whether it fires. Without timers W4 and W5 say what the measuring itself costs.
    const FIRES: bool = true;
    /// The workloads that it is measured with.
    const WORKLOADS: &'static [Workload] = &Workload::TIMERS;
    /// Whether being early is a failure, and not just a figure.
    const IS_OURS: bool = false;
    /// Whether the answers of `cancel` and `reset` are the truth even while the timer fires.
    const ANSWERS: bool = false;

    /// What is returned for a timer.
    type Timer: Send;
    /// A thread's access to it.
    type Producer<'a>: Producer<Timer = Self::Timer>
    where
        Self: 'a;

    /// Starts it, with its threads.
    fn start() -> Self;

    /// Made on the thread that uses it.
    fn producer(&self) -> Self::Producer<'_>;

    /// How many timers it says are pending, if it says.
    fn pending(&self) -> Option<u64> {
        None
    }
}

/// What a producer thread does.
pub(crate) trait Producer {
    type Timer;

    /// Runs `callback` after `delay`.
    fn schedule(&mut self, delay: Duration, callback: Callback) -> Self::Timer;

    /// Cancels; says whether that prevented the run, as far as the peer knows.
    fn cancel(&mut self, timer: Self::Timer) -> bool;

    /// Moves the deadline to `delay` from now, and returns the timer; `None` if there was nothing
    /// to move any more, as far as the peer knows. A peer that cannot move one cancels, and
    /// schedules `callback` anew.
    fn reset(
        &mut self,
        timer: Self::Timer,
        delay: Duration,
        callback: Callback,
    ) -> Option<Self::Timer> {
        self.cancel(timer).then(|| self.schedule(delay, callback))
    }

    /// Leaves a timer to fire: its owner will neither cancel nor move it. A peer whose timers are
    /// cancelled by being dropped keeps it until it has fired.
    fn release(&mut self, timer: Self::Timer) {
        drop(timer);
    }

    /// Runs `callback` after `initial` and then every `period`.
    fn repeat(&mut self, initial: Duration, period: Duration, callback: Callback) {
        let _ = (initial, period, callback);
        unreachable!("the peer says that it does not repeat");
    }

    /// Returns when everything that this producer scheduled before has arrived where it waits to be
    /// due. A timer with no delay does that wherever what is scheduled goes through a queue.
    fn settle(&mut self) {
        settle_by_timer(self);
    }
}

/// Returns when a timer without a delay has fired.
pub(crate) fn settle_by_timer<P: Producer + ?Sized>(producer: &mut P) {
    let arrived = Recorder::burst(1);
    let _fence = producer.schedule(Duration::ZERO, arrived.callback());
    assert!(arrived.wait(LIMIT), "a timer without a delay did not fire");
}
