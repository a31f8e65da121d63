//! lars-scheduler's futures.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::task::Context;
use std::time::{Duration, Instant};

use lars_scheduler::future::{Interval, Sleep};
use lars_scheduler::{Handle, LightArrayRevolverScheduler};

use crate::sleeps::{Access, Sleeps};

/// Our scheduler. If it `EXPLAINS`, then what is late by more than 5 ms.
pub(crate) struct Lars<const EXPLAINS: bool> {
    scheduler: LightArrayRevolverScheduler,
}

impl<const EXPLAINS: bool> Sleeps for Lars<EXPLAINS> {
    const NAME: &'static str = if EXPLAINS { "lars-scheduler-explains" } else { "lars-scheduler" };
    const ABOUT: &'static str = if EXPLAINS {
        "this crate: the same, with `explain_late`; only if it is named"
    } else {
        "this crate: its futures, with the default settings"
    };
    const TICK_US: Option<u64> = Some(1_000);

    type Access<'a> = Handle;

    fn start() -> Self {
        let builder = LightArrayRevolverScheduler::builder();
        let builder =
            if EXPLAINS { builder.explain_late(Duration::from_millis(5)) } else { builder };
        Self { scheduler: builder.build().expect("the scheduler starts") }
    }

    fn access(&self) -> Handle {
        self.scheduler.handle()
    }
}

impl Access for Handle {
    type Sleep = Sleep;
    type Interval = Interval;

    fn make_poll_drop(&self, limit: Duration, context: &mut Context<'_>) {
        let timeout = pin!(self.timeout(limit, pending::<()>()));
        assert!(timeout.poll(context).is_pending());
    }

    fn sleep(&self, delay: Duration) -> Pin<Box<Sleep>> {
        Box::pin(Handle::sleep(self, delay))
    }

    fn reset(&self, mut sleep: Pin<&mut Sleep>, delay: Duration) {
        sleep.reset(delay);
    }

    fn poll(&self, sleep: Pin<&mut Sleep>, context: &mut Context<'_>) -> bool {
        sleep.poll(context).is_ready()
    }

    fn interval(&self, ago: Duration, period: Duration) -> Option<Interval> {
        let start = Instant::now().checked_sub(ago).expect("the machine has run for longer");
        Some(self.interval_at(start, period).expect("the period is not zero"))
    }

    fn tick(&self, interval: &mut Interval, context: &mut Context<'_>) -> bool {
        interval.poll_tick(context).is_ready()
    }
}
