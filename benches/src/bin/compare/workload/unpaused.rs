//! W8: the mix, by producers that never pause. What a step costs, and how late those fire that are
//! left alone.

use super::mix;
use super::producers::{share, wall};
use crate::record::{Case, Outcome};
use crate::timers::Timers;

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let results = mix::drive::<T, ()>(case, case.duration(), outcome, |mix, number| {
        for _ in 0..share(case.n, case.producers, number) {
            mix.step();
        }
    });
    let spans: Vec<_> = results.into_iter().map(|(span, ())| span).collect();
    let (wall, _) = wall(&spans);
    outcome.set("ns", wall.as_nanos() as f64 / case.n as f64);
}
