//! The options of a debounce and of a throttle.

use std::any::type_name_of_val;
use std::panic::Location;
use std::time::Duration;

use thiserror::Error;

use super::core::{Options, Rule, Shared};
use super::{Debounce, Throttle};
use crate::label::Label;
use lars_base::debug_fields;
use lars_scheduler::extend::RunOn;
use lars_scheduler::{Executor, Handle, TaskIdentity};

/// An option out of its range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DebounceError {
    /// Without a wait there is nothing to debounce.
    #[error("the wait is {given:?}, but it must be at least {min:?}")]
    Wait {
        /// What was asked for.
        given: Duration,
        /// The shortest wait.
        min: Duration,
    },
    /// Without an interval there is nothing to throttle.
    #[error("the interval is {given:?}, but it must be at least {min:?}")]
    Interval {
        /// What was asked for.
        given: Duration,
        /// The shortest interval.
        min: Duration,
    },
    /// A value would have to run before its wait is over.
    #[error("max_wait is {given:?}, but it must be at least the wait, {min:?}")]
    MaxWait {
        /// What was asked for.
        given: Duration,
        /// The wait.
        min: Duration,
    },
    /// Nothing would ever run.
    #[error("leading and trailing are both false, but at least one must be true")]
    NoEdge,
}

const MIN: Duration = Duration::from_nanos(1);

/// Builds a [`Debounce`]. Made by [`Debounce::builder`].
#[must_use = "a builder does nothing until it builds"]
pub struct DebounceBuilder {
    handle: Handle,
    wait: Duration,
    max_wait: Option<Duration>,
    options: Options,
}

/// Builds a [`Throttle`]. Made by [`Throttle::builder`].
#[must_use = "a builder does nothing until it builds"]
pub struct ThrottleBuilder {
    handle: Handle,
    interval: Duration,
    options: Options,
}

/// The options of both.
macro_rules! common {
    ($builder:ident, $leading:literal) => {
        impl $builder {
            #[doc = concat!("Whether the first call of a window runs at once; ", $leading)]
            /// by default.
            pub fn leading(mut self, leading: bool) -> Self {
                self.options.leading = leading;
                self
            }

            /// Whether the last call of a window runs at its end; true by default.
            pub fn trailing(mut self, trailing: bool) -> Self {
                self.options.trailing = trailing;
                self
            }

            /// Gives its timers a name. See [`Task::named`](lars_scheduler::Task::named).
            pub fn named(mut self, name: &'static str) -> Self {
                self.options.name = Some(name);
                self
            }

            /// Runs the action on the timer thread itself. See
            /// [`Task::inline`](lars_scheduler::Task::inline).
            pub fn inline(mut self) -> Self {
                self.options.run_on = RunOn::Inline;
                self
            }

            /// Runs the action on `executor` instead of the scheduler's own.
            pub fn executor(mut self, executor: impl Executor) -> Self {
                self.options.run_on = RunOn::Executor(executor.into_shared());
                self
            }

            /// Marks its values for
            /// [`ClosePolicy::RunMarked`](lars_scheduler::ClosePolicy::RunMarked). See
            /// [`Task::run_on_close`](lars_scheduler::Task::run_on_close).
            pub fn run_on_close(mut self) -> Self {
                self.options.run_on_close = true;
                self
            }
        }
    };
}

common!(DebounceBuilder, "false");
common!(ThrottleBuilder, "true");

fn options(leading: bool) -> Options {
    Options { leading, trailing: true, run_on: RunOn::Default, name: None, run_on_close: false }
}

fn check_edges(options: &Options) -> Result<(), DebounceError> {
    if options.leading || options.trailing { Ok(()) } else { Err(DebounceError::NoEdge) }
}

/// Whose an action of this type is, that is given to the builder here.
#[track_caller]
fn whose(options: &Options, kind: &'static str) -> TaskIdentity {
    Label::at(Location::caller()).named(options.name).identity(kind)
}

impl DebounceBuilder {
    pub(super) fn new(handle: &Handle, wait: Duration) -> Self {
        Self { handle: handle.clone(), wait, max_wait: None, options: options(false) }
    }

    /// How long a value may wait if the calls do not pause; no limit by default. It counts from the
    /// first call that waits. With the leading edge alone, that edge recurs after this time.
    pub fn max_wait(mut self, max: Duration) -> Self {
        self.max_wait = Some(max);
        self
    }

    /// Builds the debounce.
    ///
    /// # Errors
    ///
    /// [`DebounceError`] for a wait of zero, a `max_wait` that is shorter than the wait, or no edge
    /// at all.
    #[track_caller]
    pub fn build<T: Send + 'static>(
        self,
        action: impl FnMut(T) + Send + 'static,
    ) -> Result<Debounce<T>, DebounceError> {
        let Self { handle, wait, max_wait, options } = self;
        if wait < MIN {
            return Err(DebounceError::Wait { given: wait, min: MIN });
        }
        if let Some(given) = max_wait.filter(|max| *max < wait) {
            return Err(DebounceError::MaxWait { given, min: wait });
        }
        check_edges(&options)?;
        let whose = whose(&options, type_name_of_val(&action));
        let how = (Rule::Debounce { wait, max_wait }, options, whose);
        Ok(Debounce { shared: Shared::new(handle, how, Box::new(action)) })
    }
}

impl ThrottleBuilder {
    pub(super) fn new(handle: &Handle, interval: Duration) -> Self {
        Self { handle: handle.clone(), interval, options: options(true) }
    }

    /// Builds the throttle.
    ///
    /// # Errors
    ///
    /// [`DebounceError`] for an interval of zero, or no edge at all.
    #[track_caller]
    pub fn build<T: Send + 'static>(
        self,
        action: impl FnMut(T) + Send + 'static,
    ) -> Result<Throttle<T>, DebounceError> {
        let Self { handle, interval, options } = self;
        if interval < MIN {
            return Err(DebounceError::Interval { given: interval, min: MIN });
        }
        check_edges(&options)?;
        let whose = whose(&options, type_name_of_val(&action));
        let how = (Rule::Throttle { interval }, options, whose);
        Ok(Throttle { shared: Shared::new(handle, how, Box::new(action)) })
    }
}

debug_fields!(|it: DebounceBuilder| wait: it.wait, max_wait: it.max_wait, options: it.options);
debug_fields!(|it: ThrottleBuilder| interval: it.interval, options: it.options);
