//! How late the runs of the last 30 to 60 s began.

use hdrhistogram::Histogram;

use crate::sync::Mutex;
use crate::time::{Micros, Mono};

/// For how long each of the two histograms is filled.
const SPAN: Micros = Micros::SECOND.times(30);

/// What is later than this counts as this: microseconds.
const LATEST: u64 = 24 * 3_600_000_000;

/// How late the runs of one handler began.
pub(crate) struct Lateness(Mutex<Spans>);

struct Spans {
    now: Histogram<u32>,
    before: Histogram<u32>,
    since: Mono,
}

/// Percentiles, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Percentiles {
    pub(crate) median: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Lateness {
    pub(super) fn new(now: Mono) -> Self {
        Self(Mutex::new(Spans { now: empty(), before: empty(), since: now }))
    }

    pub(super) fn record(&self, now: Mono, micros: u64) {
        let mut spans = self.0.lock();
        spans.turn(now);
        spans.now.saturating_record(micros);
    }

    /// `None` if nothing has run.
    pub(super) fn percentiles(&self, now: Mono) -> Option<Percentiles> {
        let mut spans = self.0.lock();
        spans.turn(now);
        let mut both = spans.before.clone();
        // Both have the same bounds.
        let _ = both.add(&spans.now);
        drop(spans);
        (!both.is_empty()).then(|| Percentiles {
            median: both.value_at_quantile(0.5),
            p99: both.value_at_quantile(0.99),
            max: both.max(),
        })
    }
}

impl Spans {
    fn turn(&mut self, now: Mono) {
        let passed = now - self.since;
        if passed >= SPAN {
            std::mem::swap(&mut self.now, &mut self.before);
            self.now.reset();
            if passed >= SPAN * 2 {
                self.before.reset();
            }
            self.since = now;
        }
    }
}

fn empty() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LATEST, 2).expect("the bounds are in range")
}
