//! The options of a repeated timer.

use std::any::type_name_of_val;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::RepeatedTimer;
use super::chain::{Adjust, DestroyHook, DeviceParts, SharedTimer};
use crate::label::Label;
use lars_base::debug_fields;
use lars_scheduler::extend::{RunOn, check_period};
use lars_scheduler::{Executor, Handle, Refusal};

/// Builds a [`RepeatedTimer`]. Made by [`RepeatedTimer::builder`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_jobs::repeated_timer::RepeatedTimer;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let (sender, destroyed) = mpsc::channel();
/// let election = RepeatedTimer::builder(&time, ms(100))
///     .adjust_timeout(|period| period + Duration::from_millis(50)) // a random one, in real life
///     .on_destroy(move || drop(sender.send("destroyed")))
///     .inline()
///     .build(|timer| println!("no word for {:?}", timer.period()))?;
/// election.start()?;
/// assert_eq!(time.advance(ms(149)), 0);
/// assert_eq!(time.advance(ms(1)), 1);
/// drop(election);
/// assert_eq!(destroyed.try_recv()?, "destroyed");
/// # Ok(()) }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct RepeatedTimerBuilder {
    handle: Handle,
    period: Duration,
    run_on: RunOn,
    name: Option<&'static str>,
    adjust: Option<Adjust>,
    on_destroy: Option<DestroyHook>,
}

impl RepeatedTimerBuilder {
    pub(super) fn new(handle: &Handle, period: Duration) -> Self {
        let run_on = RunOn::Default;
        let name = None;
        Self { handle: handle.clone(), period, run_on, name, adjust: None, on_destroy: None }
    }

    /// Computes a timeout from the period each time before a trigger is armed: in `start`,
    /// `restart`, `reset`, and at the end of each run. This is for elections, whose timeouts have
    /// to differ from node to node and from round to round.
    ///
    /// It runs on the thread that arms the timer; several threads may call it at once. It may
    /// inspect the timer and stop it, but must not arm it, because that would call it again. A
    /// timeout of zero means at once.
    pub fn adjust_timeout(
        mut self,
        adjust: impl Fn(Duration) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.adjust = Some(Arc::new(adjust));
        self
    }

    /// Calls `hook` once when the timer has been [destroyed](RepeatedTimer::destroy).
    pub fn on_destroy(mut self, hook: impl FnOnce() + Send + 'static) -> Self {
        self.on_destroy = Some(Box::new(hook));
        self
    }

    /// Gives the timers of this timer a name. See [`Task::named`](lars_scheduler::Task::named).
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Runs the trigger on the timer thread itself. See
    /// [`Task::inline`](lars_scheduler::Task::inline).
    pub fn inline(mut self) -> Self {
        self.run_on = RunOn::Inline;
        self
    }

    /// Runs the trigger on `executor` instead of the scheduler's own.
    pub fn executor(mut self, executor: impl Executor) -> Self {
        self.run_on = RunOn::Executor(executor.into_shared());
        self
    }

    /// Builds the timer, stopped. It runs `trigger`, which gets the timer as its argument.
    ///
    /// # Errors
    ///
    /// [`Refusal::Period`] for a period of zero.
    #[track_caller]
    pub fn build(
        self,
        trigger: impl FnMut(&RepeatedTimer) + Send + 'static,
    ) -> Result<RepeatedTimer, Refusal> {
        check_period(self.period)?;
        let kind = type_name_of_val(&trigger);
        let parts = DeviceParts {
            period: self.period,
            trigger: Box::new(trigger),
            adjust: self.adjust,
            on_destroy: self.on_destroy,
        };
        let label = Label::at(Location::caller()).named(self.name);
        let shared = SharedTimer::new(self.handle, (self.run_on, label, kind), parts);
        Ok(RepeatedTimer { shared })
    }
}

debug_fields!(|it: RepeatedTimerBuilder| period: it.period);
