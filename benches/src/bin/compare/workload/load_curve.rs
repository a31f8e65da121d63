//! W13: the mix of W8 at a given rate, in an open loop. A batch begins when its millisecond comes,
//! or late if the one before took too long; none is left out. How late timers fire, and whether the
//! producers kept up.

use std::thread;
use std::time::{Duration, Instant};

use super::mix;
use super::producers::{share, wall};
use crate::record::{Case, Outcome};
use crate::timers::Timers;

/// Between two batches.
const PACE: Duration = Duration::from_millis(1);

/// The mean delay is this part of the time that it lasts.
const MEAN: u32 = 50;

/// A load is carried if 99 of 100 timers are at most so late, and 99 of 100 batches, too.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(5);

/// What one producer did.
struct Kept {
    /// How late its batches began.
    lags: Vec<Duration>,
    steps: u64,
}

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let window = case.duration();
    let batches = (window.as_millis() / PACE.as_millis()).max(1) as u64;
    let results = mix::drive::<T, Kept>(case, window / MEAN, outcome, |mix, number| {
        let all = u128::from(share(case.n, case.producers, number));
        let mut kept = Kept { lags: Vec::with_capacity(batches as usize), steps: 0 };
        let start = Instant::now();
        for batch in 0..batches {
            let planned = PACE * batch as u32;
            thread::sleep(planned.saturating_sub(start.elapsed()));
            let begun = start.elapsed();
            kept.lags.push(begun.saturating_sub(planned));
            if begun >= window {
                // Out of time: the batches that are left never begin.
                let left = (batch + 1..batches).map(|batch| window - PACE * batch as u32);
                kept.lags.extend(left);
                break;
            }
            // Rounded so that they add up.
            let until = (all * u128::from(batch + 1) / u128::from(batches)) as u64;
            while kept.steps < until {
                mix.step();
                kept.steps += 1;
            }
        }
        kept
    });
    let (spans, kept): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let steps: u64 = kept.iter().map(|kept| kept.steps).sum();
    let mut lags: Vec<_> = kept.into_iter().flat_map(|kept| kept.lags).collect();
    lags.sort_unstable();
    let lag = lags[((lags.len() * 99).div_ceil(100) - 1).min(lags.len() - 1)];
    outcome.set("lag_p99_ms", lag.as_secs_f64() * 1e3);
    let on_time = lag <= TOLERANCE && steps == case.n;
    outcome.set("on_time", f64::from(u8::from(on_time)));
    // The last batch may take less than its millisecond.
    let (wall, _) = wall(&spans);
    outcome.set("per_second", steps as f64 / wall.max(window).as_secs_f64());
}
