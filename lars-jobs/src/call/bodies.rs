//! What the scheduler runs for a call.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::outcome::{CallError, CallOutcome, Promise, promise};
use super::sealed::MaybeLast;
use super::{Call, CallOptions, IntoRepeatedCall, RunResult};
use crate::when_due::start_at;
use lars_base::sync::Mutex;
use lars_base::when_due::WhenDue;
use lars_scheduler::executor::TaskBody;
use lars_scheduler::extend::{EndOfSeries, RunOn};
use lars_scheduler::{Cancellable, Handle, ScheduleError};

/// A call that runs once. `keep` is dropped after its promise is settled.
pub(crate) struct CallBody<F, T, K> {
    run: F,
    promise: Promise<T>,
    keep: K,
}

impl<F, T, K> CallBody<F, T, K> {
    pub(crate) fn new(run: F, promise: Promise<T>, keep: K) -> Self {
        Self { run, promise, keep }
    }

    pub(crate) fn outcome(&self) -> Arc<CallOutcome<T>> {
        Arc::clone(self.promise.outcome())
    }

    /// The closure of a call that was refused.
    pub(crate) fn into_run(self) -> F {
        self.run
    }
}

impl<F, T, K> TaskBody for CallBody<F, T, K>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    K: Send + 'static,
{
    fn run(self) {
        let Self { run, promise, keep } = self;
        let _keep = keep;
        promise.fulfil(run);
    }

    fn handed_back(&self) {
        self.promise.outcome().hand_back();
    }

    fn cancelled(self) {
        let Self { run, mut promise, keep } = self;
        let _keep = keep;
        // Settled by its drop, whatever the captures do in theirs, and after them.
        promise.cancel();
        let _promise = promise;
        drop(run);
    }

    fn known_as() -> &'static str {
        std::any::type_name::<F>()
    }
}

/// How the runs of a series follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rhythm {
    FixedDelay(Duration),
    FixedRate(Duration),
}

/// A series that can be waited for, before it is scheduled. `keep` is dropped when it is over,
/// after its promise is settled.
pub(crate) struct Series<F, V, K> {
    /// Shared with the closure that is scheduled, so that it can be given back if that is refused.
    run: Arc<Mutex<Option<F>>>,
    end: Arc<End<V, K>>,
    outcome: Arc<CallOutcome<V>>,
    /// As they were given, for a call that is given back.
    options: CallOptions,
    /// Where it runs if the options do not say.
    run_on: RunOn,
}

/// What happens once, when a series is over. The series' closure and its cancelled hook share it;
/// the scheduler drops both at the end.
struct End<V, K> {
    promise: Mutex<Option<Promise<V>>>,
    _keep: K,
}

impl<V, K> End<V, K> {
    fn take(&self) -> Option<Promise<V>> {
        self.promise.lock().take()
    }
}

impl<F, V: Send + 'static, K: Send + Sync + 'static> Series<F, V, K> {
    pub(crate) fn new(run: F, options: CallOptions, run_on: RunOn, keep: K) -> Self {
        let (promise, outcome) = promise();
        Self {
            run: Arc::new(Mutex::new(Some(run))),
            end: Arc::new(End { promise: Mutex::new(Some(promise)), _keep: keep }),
            outcome,
            options,
            run_on,
        }
    }

    /// Schedules it. A call that is refused is given back.
    #[track_caller]
    pub(crate) fn start<R, C>(
        self,
        handle: &Handle,
        due: WhenDue,
        rhythm: Rhythm,
    ) -> Result<(Arc<CallOutcome<V>>, Cancellable), ScheduleError<C>>
    where
        R: RunResult + MaybeLast<Value = V>,
        F: FnMut() -> R + Send + 'static,
        C: IntoRepeatedCall<R, Run = F>,
    {
        let Self { run, end, outcome, options, run_on } = self;
        let (body, ending, at_stop) = (Arc::clone(&run), Arc::clone(&end), Arc::clone(&outcome));
        let at_end = Arc::clone(&end);
        let settle = |end: Arc<End<V, K>>, error| {
            if let Some(promise) = end.take() {
                promise.settle(Err(error));
            }
        };
        let cancelled = move || settle(end, CallError::Cancelled);
        // A run that broke off with a value has settled it.
        let over = move || settle(at_end, CallError::Ended);
        let ours = options.clone().or_on(&run_on);
        let task = ours.periodic(move || once(&body, &ending)).on_end(
            cancelled,
            move || at_stop.hand_back(),
            over,
        );
        let initial = start_at(due);
        let started = match rhythm {
            Rhythm::FixedDelay(delay) => {
                handle.schedule_with_fixed_delay(initial, delay, task).map_err(|e| e.map(drop))
            }
            Rhythm::FixedRate(interval) => {
                handle.schedule_at_fixed_rate(initial, interval, task).map_err(|e| e.map(drop))
            }
        };
        match started {
            Ok(series) => Ok((outcome, series)),
            Err(refused) => {
                let run = run.lock().take().expect("nobody has called what was refused");
                Err(refused.map(|()| C::from_call(Call { run, options })))
            }
        }
    }
}

/// One run of a series.
fn once<F, R, V, K>(body: &Mutex<Option<F>>, end: &End<V, K>) -> ControlFlow<()>
where
    F: FnMut() -> R,
    R: MaybeLast<Value = V>,
{
    // Uncontended: runs of a series do not overlap.
    let mut body = body.lock();
    let Some(run) = body.as_mut() else { return ControlFlow::Break(()) };
    let broken = match catch_unwind(AssertUnwindSafe(|| run().end())) {
        Ok(None) => return ControlFlow::Continue(()),
        Ok(Some(value)) => Ok(value),
        Err(payload) => Err(payload),
    };
    drop(body);
    if let Some(promise) = end.take() {
        promise.fulfil(|| broken.unwrap_or_else(|payload| resume_unwind(payload)));
    }
    ControlFlow::Break(())
}
