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

/// The loads that every peer is measured at, in timers a millisecond.
pub(crate) const LADDER: [u64; 7] = [500, 1_000, 2_000, 4_000, 6_000, 8_000, 10_000];

/// Between a load that a peer carries and one that it does not carry, further loads are measured
/// until they are so close: the capacity is known to a tenth.
const CLOSE: f64 = 1.1;

/// Loads beyond the ladder are not looked for without end.
const LEAST: f64 = 10e3;
const MOST: f64 = 100e6;

/// What one producer did.
struct Kept {
    /// How late its batches began.
    lags: Vec<Duration>,
    steps: u64,
}

/// Whether every peer is measured with this case.
pub(crate) fn is_on_the_ladder(case: &Case) -> bool {
    LADDER.iter().any(|per_milli| per_milli * case.millis == case.n)
}

/// The load that a peer is to be measured at next, so that its capacity is known, in timers a
/// second; `None` if it is. `known` are the loads that it was measured at, and whether it carried
/// them.
pub(crate) fn next_load(known: &[(f64, bool)]) -> Option<f64> {
    let carried = known.iter().filter(|load| load.1).map(|load| load.0).reduce(f64::max);
    let beyond = |load: f64| carried.is_none_or(|carried| load > carried);
    let failed = known.iter().filter(|load| !load.1 && beyond(load.0)).map(|load| load.0);
    let next = match (carried, failed.reduce(f64::min)) {
        (Some(carried), Some(failed)) if failed / carried <= CLOSE => return None,
        (Some(carried), Some(failed)) => (carried * failed).sqrt(),
        (Some(carried), None) => carried * 1.25,
        (None, Some(failed)) => failed / 2.0,
        (None, None) => return None,
    };
    (LEAST..=MOST).contains(&next).then_some(next)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The loads that are looked at for a peer that carries up to `limit`, the ladder first.
    fn looked_at(limit: f64) -> Vec<(f64, bool)> {
        let ladder = LADDER.iter().map(|&per_milli| per_milli as f64 * 1e3);
        let mut known: Vec<_> = ladder.map(|load| (load, load <= limit)).collect();
        while let Some(load) = next_load(&known) {
            known.push((load, load <= limit));
        }
        known
    }

    #[test]
    fn a_capacity_on_the_ladder_or_beside_it_is_found_to_a_tenth_in_a_few_steps() {
        for limit in [60e3, 499e3, 1e6, 1.93e6, 5.5e6, 7.99e6, 10e6, 17e6] {
            let known = looked_at(limit);
            let best = known.iter().filter(|load| load.1).map(|load| load.0).fold(0.0, f64::max);
            assert!(best <= limit && limit < best * CLOSE, "{best} of {limit}");
            assert!(known.len() <= LADDER.len() + 8, "{known:?}");
        }
    }

    #[test]
    fn what_carries_nothing_or_everything_is_not_measured_without_end() {
        assert!(looked_at(0.0).len() < LADDER.len() + 10);
        assert!(looked_at(f64::INFINITY).len() < LADDER.len() + 20);
        assert_eq!(next_load(&[]), None);
    }

    #[test]
    fn a_load_that_failed_below_one_that_was_carried_is_forgotten() {
        assert_eq!(next_load(&[(1e6, false), (2e6, true), (2.1e6, false)]), None);
    }
}
