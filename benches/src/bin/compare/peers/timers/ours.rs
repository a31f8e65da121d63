//! lars-scheduler: tasks run on the timer thread, or, as by default, on its pool.

use std::time::Duration;

use lars_scheduler::{Cancellable, Handle, LightArrayRevolverScheduler};

use crate::callback::Callback;
use crate::record::Workload;
use crate::timers::{Producer, Timers};

/// Our scheduler: with a tick of so many microseconds, with tasks on the pool or on the timer
/// thread, and with short or ordinary time slices for that thread.
pub(crate) struct Lars<const TICK_US: u64, const ON_POOL: bool, const SHORT_SLICES: bool> {
    scheduler: LightArrayRevolverScheduler,
}

impl<const TICK_US: u64, const ON_POOL: bool, const SHORT_SLICES: bool> Timers
    for Lars<TICK_US, ON_POOL, SHORT_SLICES>
{
    const NAME: &'static str = match (TICK_US, ON_POOL, SHORT_SLICES) {
        (1_000, false, false) => "lars-scheduler",
        (1_000, false, true) => "lars-scheduler-short-slices",
        (1_000, true, false) => "lars-scheduler-pool",
        (100, false, false) => "lars-scheduler-100us",
        _ => panic!("settings without a name"),
    };
    const ABOUT: &'static str = match (TICK_US, ON_POOL, SHORT_SLICES) {
        (1_000, false, false) => "this crate: tasks inline, 512 slots of 1 ms",
        (1_000, false, true) => "this crate: the same, with `short_slices`",
        (1_000, true, _) => "this crate: tasks on the default pool, 512 slots of 1 ms",
        _ => "this crate: tasks inline, 512 slots of 100 µs",
    };
    const TICK_US: Option<u64> = Some(TICK_US);
    const WORKLOADS: &'static [Workload] = match (TICK_US, SHORT_SLICES) {
        (1_000, false) => &Workload::TIMERS,
        // What shorter slices are for: more busy threads than processors.
        (1_000, true) => &[Workload::W8, Workload::W13, Workload::W14],
        // What a finer tick is for, and what it costs.
        _ => &[Workload::W4, Workload::W5],
    };
    const IS_OURS: bool = true;
    const ANSWERS: bool = true;

    type Timer = Cancellable;
    type Producer<'a> = Handle;

    fn start() -> Self {
        let builder = LightArrayRevolverScheduler::builder()
            .tick_duration(Duration::from_micros(TICK_US))
            .ticks_per_wheel(512)
            .short_slices(SHORT_SLICES);
        let builder = if ON_POOL { builder } else { builder.inline() };
        Self { scheduler: builder.build().expect("the settings are in range") }
    }

    fn producer(&self) -> Handle {
        self.scheduler.handle()
    }

    fn pending(&self) -> Option<u64> {
        Some(self.scheduler.pending())
    }
}

impl Producer for Handle {
    type Timer = Cancellable;

    #[inline]
    fn schedule(&mut self, delay: Duration, callback: Callback) -> Cancellable {
        self.schedule_once(delay, move || callback.call()).expect("the scheduler is running")
    }

    #[inline]
    fn cancel(&mut self, timer: Cancellable) -> bool {
        timer.cancel()
    }

    #[inline]
    fn reset(&mut self, timer: Cancellable, delay: Duration, _: Callback) -> Option<Cancellable> {
        Cancellable::reset(&timer, delay).then_some(timer)
    }

    fn repeat(&mut self, initial: Duration, period: Duration, callback: Callback) {
        let _ = self
            .schedule_at_fixed_rate(initial, period, move || callback.call())
            .expect("the scheduler is running");
    }
}

/// Our scheduler while it explains what is late by more than 5 ms.
pub(crate) struct Explaining<const ON_POOL: bool>(Lars<1_000, ON_POOL, false>);

impl<const ON_POOL: bool> Timers for Explaining<ON_POOL> {
    const NAME: &'static str =
        if ON_POOL { "lars-scheduler-pool-explains" } else { "lars-scheduler-explains" };
    const ABOUT: &'static str = "this crate: the same, with `explain_late`; only if it is named";
    const TICK_US: Option<u64> = Some(1_000);
    const IS_OURS: bool = true;
    const ANSWERS: bool = true;

    type Timer = Cancellable;
    type Producer<'a> = Handle;

    fn start() -> Self {
        let builder = LightArrayRevolverScheduler::builder().ticks_per_wheel(512);
        let builder = builder.tick_duration(Duration::from_millis(1));
        let builder = builder.explain_late(Duration::from_millis(5));
        let builder = if ON_POOL { builder } else { builder.inline() };
        Self(Lars { scheduler: builder.build().expect("the settings are in range") })
    }

    fn producer(&self) -> Handle {
        self.0.producer()
    }

    fn pending(&self) -> Option<u64> {
        self.0.pending()
    }
}

/// lars-scheduler as one uses it whose timers are never cancelled: what a call returns is dropped
/// at once.
pub(crate) struct Forgotten(Lars<1_000, false, false>);

impl Timers for Forgotten {
    const NAME: &'static str = "lars-scheduler-dropped";
    const ABOUT: &'static str = "this crate: the same, cancellables dropped at once";
    const TICK_US: Option<u64> = Some(1_000);
    const WORKLOADS: &'static [Workload] = &[Workload::W3];
    const IS_OURS: bool = true;
    const ANSWERS: bool = true;

    type Timer = ();
    type Producer<'a> = Forgetting;

    fn start() -> Self {
        Self(Lars::start())
    }

    fn producer(&self) -> Forgetting {
        Forgetting(self.0.producer())
    }

    fn pending(&self) -> Option<u64> {
        self.0.pending()
    }
}

pub(crate) struct Forgetting(Handle);

impl Producer for Forgetting {
    type Timer = ();

    #[inline]
    fn schedule(&mut self, delay: Duration, callback: Callback) {
        drop(self.0.schedule(delay, callback));
    }

    fn cancel(&mut self, (): ()) -> bool {
        unreachable!("no workload of this peer cancels")
    }
}
