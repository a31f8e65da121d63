//! Runs a model in many schedules.

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

/// Enough for the deepest of them, with debug assertions.
const STACK: usize = 256 << 10;
/// A run that takes more steps than this goes round in circles.
const STEPS: usize = 200_000;
/// The least and the most changes of priority that are tried in one schedule.
const DEPTHS: std::ops::RangeInclusive<usize> = 2..=5;

/// Runs the model in this many schedules, times the environment's `LARS_SHUTTLE`: half of them
/// random at each step, the other half by random priorities that change at a few random steps
/// (Burckhardt and others, *A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs*,
/// ASPLOS 2010).
///
/// A schedule that fails is printed. `LARS_SHUTTLE_REPLAY=<schedule>` runs that one again.
pub fn check(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    let model = std::sync::Arc::new(move || {
        super::begin();
        model();
    });
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.stack_size = STACK;
        config.max_steps = MaxSteps::FailAfter(STEPS);
        config.silence_warnings = true;
        let model = std::sync::Arc::clone(&model);
        Runner::new(scheduler, config).run(move || model());
    };
    if let Ok(schedule) = std::env::var("LARS_SHUTTLE_REPLAY") {
        return run(Box::new(ReplayScheduler::new_from_encoded(&schedule)));
    }
    let factor = std::env::var("LARS_SHUTTLE").map_or(1.0, |factor| {
        factor.parse::<f64>().expect("LARS_SHUTTLE is a number to multiply the schedules with")
    });
    let half = ((schedules / 2) as f64 * factor).ceil() as usize;
    run(Box::new(RandomScheduler::new(half)));
    for depth in DEPTHS {
        run(Box::new(PctScheduler::new(depth, half / DEPTHS.count() + 1)));
    }
}
