//! The state of a supervised task, and its rules. It knows no timers and no threads, and calls no
//! foreign code.
//!
//! # The phases
//!
//! | phase | what it waits for | leaves by |
//! |---|---|---|
//! | `Waiting(due)` | the time of the next run | a look at or after `due` |
//! | `Running` | the awaited run's end, or its deadline | that end; a look after the deadline |
//! | `Held` | a straggler's end: no more runs are allowed | a look when one has ended |
//! | `Ended` | nothing | never |

use std::time::Duration;

use super::report::{Counts, Outcome, RunReport};
use super::run::Runner;
use super::settings::{Settings, SettledHook};
use super::token::CancelToken;
use lars_base::sync::Arc;
use lars_base::time::Instant;
use lars_base::when_due::WhenDue;
use lars_scheduler::Cancellable;

pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) interval: Duration,
    /// Dropped when the supervision ends; runs have clones.
    pub(super) runner: Option<Arc<dyn Runner>>,
    /// Dropped when the supervision has ended and no run is awaited any more.
    pub(super) hook: Option<SettledHook>,
    /// Present in `Running`, and after the end until the run that was in flight has ended.
    pub(super) awaited: Option<Awaited>,
    /// When the series looks next. If that has passed, it is about to.
    pub(super) wake: WhenDue,
    pub(super) nudge: Option<Nudge>,
    /// For a run that ends the task; `None` until it is known, and after the end.
    pub(super) series: Option<Arc<Cancellable>>,
    /// A run was settled, and the hook has not heard of it yet or is at it. The next one waits for
    /// that, so reports come in order, one at a time, and are never kept.
    pub(super) untold: bool,
    /// `run_now` was called while a run was awaited.
    pub(super) again: bool,
    /// `run_now` has been used up to here, counted from the start. (The "theoretical arrival time"
    /// of the generic cell rate algorithm.)
    pub(super) used_up: Duration,
    pub(super) random: fastrand::Rng,
    pub(super) running: usize,
    /// The counters; its gauges are computed when they are asked for.
    pub(super) tally: Counts,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    Waiting(WhenDue),
    Running,
    Held,
    Ended,
}

pub(super) struct Awaited {
    pub(super) number: u64,
    pub(super) token: CancelToken,
    pub(super) handed_over: Instant,
    pub(super) deadline: WhenDue,
    pub(super) begun: bool,
}

pub(super) struct Nudge {
    pub(super) at: WhenDue,
    pub(super) timer: Cancellable,
}

/// What remains to be cancelled and dropped outside the lock when a task has ended.
pub(super) struct Remains {
    pub(super) runner: Option<Arc<dyn Runner>>,
    pub(super) nudge: Option<Nudge>,
    pub(super) series: Option<Arc<Cancellable>>,
}

/// A run that was settled, and what remains to be done outside the lock.
pub(super) struct Settled {
    pub(super) token: CancelToken,
    pub(super) report: RunReport,
    pub(super) hook: Option<SettledHook>,
}

impl State {
    pub(super) fn new(
        settings: &Settings,
        first: WhenDue,
        runner: Arc<dyn Runner>,
        hook: Option<SettledHook>,
    ) -> Self {
        Self {
            phase: Phase::Waiting(first),
            interval: settings.interval,
            runner: Some(runner),
            hook,
            awaited: None,
            wake: first,
            nudge: None,
            series: None,
            untold: false,
            again: false,
            used_up: Duration::ZERO,
            random: settings.random(),
            running: 0,
            tally: Counts::default(),
        }
    }

    /// No run begins any more. `None` if that is so already.
    pub(super) fn end(&mut self) -> Option<Remains> {
        if matches!(self.phase, Phase::Ended) {
            return None;
        }
        self.phase = Phase::Ended;
        let (runner, nudge, series) = (self.runner.take(), self.nudge.take(), self.series.take());
        Some(Remains { runner, nudge, series })
    }

    /// Begins to wait for a new run, which is about to be handed over.
    pub(super) fn await_run(&mut self, now: Instant, deadline: WhenDue) -> (u64, CancelToken) {
        self.tally.runs += 1;
        let number = self.tally.runs;
        let token = CancelToken::new();
        self.phase = Phase::Running;
        self.awaited = Some(Awaited {
            number,
            token: token.clone(),
            handed_over: now,
            deadline,
            begun: false,
        });
        (number, token)
    }

    pub(super) fn is_awaited(&self, number: u64) -> bool {
        self.awaited.as_ref().is_some_and(|awaited| awaited.number == number)
    }

    /// Whether a run may begin; it counts as running then.
    pub(super) fn begin(&mut self, number: u64) -> bool {
        if matches!(self.phase, Phase::Ended) {
            return false;
        }
        match &mut self.awaited {
            Some(awaited) if awaited.number == number => awaited.begun = true,
            _ => return false,
        }
        self.running += 1;
        true
    }

    /// When the next look is to be, at the latest.
    pub(super) fn wake(&self, now: Instant) -> WhenDue {
        match self.phase {
            Phase::Waiting(due) => due,
            Phase::Held => WhenDue::At(now),
            Phase::Running | Phase::Ended => WhenDue::Never,
        }
    }

    /// Counts the awaited run, and plans the next one.
    pub(super) fn settle(
        &mut self,
        settings: &Settings,
        outcome: Outcome,
        now: Instant,
    ) -> Option<Settled> {
        let run = self.awaited.take()?;
        let tally = &mut self.tally;
        match outcome {
            Outcome::Success => {
                tally.successes += 1;
                self.interval = settings.interval;
            }
            Outcome::Timeout => {
                tally.timeouts += 1;
                let doubled = self.interval.saturating_mul(2);
                self.interval = doubled.min(settings.max_interval);
            }
            Outcome::Rejected => tally.rejections += 1,
            Outcome::Failure(_) | Outcome::Panic(_) => tally.failures += 1,
        }
        let (next_in, hook) = if matches!(self.phase, Phase::Ended) {
            (None, self.hook.take())
        } else {
            let delay = if self.again { Duration::ZERO } else { self.delay(settings) };
            self.again = false;
            self.phase = Phase::Waiting(WhenDue::after(now, delay));
            (Some(delay), self.hook.clone())
        };
        self.untold = true;
        let took = now.saturating_duration_since(run.handed_over);
        let report = RunReport { number: run.number, outcome, took, next_in };
        Some(Settled { token: run.token, report, hook })
    }

    /// The interval, less some jitter.
    fn delay(&mut self, settings: &Settings) -> Duration {
        if settings.jitter == 0.0 {
            return self.interval;
        }
        let fraction = settings.jitter * self.random.f64();
        let delay = self.interval.as_secs_f64() * (1.0 - fraction);
        // Rounding must not push it over the bound.
        Duration::try_from_secs_f64(delay).map_or(self.interval, |delay| delay.min(self.interval))
    }

    /// What `used_up` becomes if a `run_now` at this time since the start is accepted. An error is
    /// the time until one will be.
    pub(super) fn charge(&self, settings: &Settings, now: Duration) -> Result<Duration, Duration> {
        let Some(limit) = settings.on_demand else {
            return Ok(self.used_up);
        };
        let ahead = self.used_up.saturating_sub(now);
        if ahead > limit.tolerance {
            return Err(ahead - limit.tolerance);
        }
        Ok(self.used_up.max(now).saturating_add(limit.spacing))
    }

    pub(super) fn counts(&self) -> Counts {
        let awaited = self.awaited.as_ref().is_some_and(|awaited| awaited.begun);
        Counts {
            running: self.running,
            stragglers: self.running - usize::from(awaited),
            interval: self.interval,
            next_run: match self.phase {
                Phase::Waiting(due) => due.instant(),
                Phase::Running | Phase::Held | Phase::Ended => None,
            },
            ..self.tally
        }
    }
}
