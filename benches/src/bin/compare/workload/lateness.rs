//! How late callbacks came, as it is kept.

use crate::callback::Recorder;
use crate::record::Outcome;

/// Of each of these percentiles the lateness is kept, for the plot.
pub(crate) const PERCENTILES: [f64; 16] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0,
];

/// What the lateness at a percentile is called, in microseconds.
pub(crate) fn percentile_name(percentile: f64) -> String {
    format!("p{percentile}_us")
}

/// Tells what the recorder wrote down. Being early is a failure of ours, and a figure of others.
pub(super) fn tell(recorder: &Recorder, is_ours: bool, outcome: &mut Outcome) {
    let late = recorder.sorted();
    if late.is_empty() {
        return;
    }
    let at = |percentile: f64| {
        let index = ((percentile / 100.0) * late.len() as f64).ceil() as usize;
        Some(late[index.clamp(1, late.len()) - 1])
    };
    tell_all(at, late[0], recorder.early(), is_ours, outcome);
}

/// Tells what the recorder's histogram counted, in the same way.
pub(super) fn tell_spread(recorder: &Recorder, is_ours: bool, outcome: &mut Outcome) {
    if let Some(late) = recorder.histogram().filter(|late| late.count() > 0) {
        let at = |percentile| late.percentile(percentile);
        tell_all(at, late.least(), late.early(), is_ours, outcome);
    }
}

/// Tells some of what was told before in milliseconds as well, where it is a matter of those.
pub(super) fn tell_millis(outcome: &mut Outcome) {
    for percentile in [50.0, 99.0, 100.0] {
        if let Some(&micros) = outcome.figures.get(&percentile_name(percentile)) {
            outcome.set(&format!("p{percentile}_ms"), micros / 1e3);
        }
    }
}

fn tell_all(
    at: impl Fn(f64) -> Option<i64>,
    least: i64,
    early: u64,
    is_ours: bool,
    outcome: &mut Outcome,
) {
    for percentile in PERCENTILES {
        if let Some(nanos) = at(percentile) {
            outcome.set(&percentile_name(percentile), nanos as f64 / 1e3);
        }
    }
    outcome.set("early", early as f64);
    outcome.set("most_early_us", (-least).max(0) as f64 / 1e3);
    outcome.check(!is_ours || early == 0, || format!("{early} fired early"));
}
