//! What the store's clock shows, estimated so that nothing is early.
//!
//! A reply that says "my clock is D", received at the local instant `r`, means that the store's
//! clock reached D at `r` or before. So what is due at `due` may run at `r + (due - D)`: never
//! early, and late by the time that the reply took. The smallest `r - D` of the last minute is the
//! best; it gets worse with age, because the two clocks go at different rates.
//!
//! The request was sent at `s`, and the clock was read after that. If `s - D` is more than the
//! estimate, the store's clock went back, and everything that was known of it is forgotten.

use std::collections::VecDeque;

use crate::time::{Micros, Mono, Timestamp};

/// How far two clocks part in a second, in millionths.
const DRIFT_PPM: i64 = 200;

/// How long a sample is used.
const MEMORY: Micros = Micros::SECOND.times(60);

/// Samples that are worse than a newer one, and not older than this, are not worth keeping.
const SPACING: Micros = Micros::SECOND;

/// A clock that moved by more than this jumped.
const JUMP: Micros = Micros::MILLISECOND.times(2);

/// A reply of the store.
#[derive(Debug, Clone, Copy)]
struct Sample {
    received: Mono,
    /// How far the local clock was ahead of what the store's had shown.
    ahead: Micros,
}

/// What a sample says of the store's clock.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    Steady,
    /// It is not where it was expected: what was computed from it before is wrong.
    Jumped,
}

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct ClockEstimate {
    /// In the order of their arrival.
    samples: VecDeque<Sample>,
}

impl ClockEstimate {
    /// Takes in what the clock showed between `sent` and `received`.
    pub(super) fn observe(&mut self, sent: Mono, received: Mono, clock: Timestamp) -> Course {
        let before = self.ahead(received);
        let (least, most) = (ahead_of(sent, clock), ahead_of(received, clock));
        let back = before.is_some_and(|ahead| least > ahead + JUMP);
        if back {
            self.samples.clear();
        }
        while self.samples.front().is_some_and(|first| received - first.received > MEMORY) {
            self.samples.pop_front();
        }
        while self.samples.back().is_some_and(|last| last.ahead >= most) {
            self.samples.pop_back();
        }
        if self.samples.back().is_none_or(|last| received - last.received >= SPACING) {
            self.samples.push_back(Sample { received, ahead: most });
        }
        let forward = before.is_some_and(|ahead| most < ahead - JUMP);
        if back || forward { Course::Jumped } else { Course::Steady }
    }

    /// When, at the earliest, the store's clock can be relied on to show `due`. Never, while
    /// nothing is known.
    pub(super) fn local(&self, due: Timestamp, now: Mono) -> Mono {
        match self.ahead(now) {
            Some(ahead) if due != Timestamp::NEVER => Mono(due.0) + ahead,
            _ => Mono::NEVER,
        }
    }

    /// What the store's clock shows at least. Before everything, while nothing is known.
    pub(super) fn at_least(&self, now: Mono) -> Timestamp {
        self.ahead(now).map_or(Timestamp::MIN, |ahead| Timestamp(now.0) - ahead)
    }

    /// How far the local clock is ahead of the store's at most, if anything is known of it.
    pub(super) fn ahead(&self, now: Mono) -> Option<Micros> {
        let aged = |sample: &Sample| {
            let seconds = (now - sample.received).0 / Micros::SECOND.0;
            sample.ahead + Micros(seconds * DRIFT_PPM)
        };
        self.samples.iter().map(aged).min()
    }
}

/// How far the local clock is ahead, if it shows `local` when the store's shows `clock`.
fn ahead_of(local: Mono, clock: Timestamp) -> Micros {
    Micros(local.0.saturating_sub(clock.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn the_fastest_reply_of_the_last_minute_decides_and_ages() {
        let mut clock = ClockEstimate::default();
        assert_eq!(clock.local(Timestamp(5), Mono(0)), Mono::NEVER);
        assert_eq!(clock.observe(Mono(0), Mono(900), Timestamp(1_000_000)), Course::Steady);
        assert_eq!(
            clock.observe(Mono(2 * SECOND), Mono(2 * SECOND + 100), Timestamp(3 * SECOND)),
            Course::Steady
        );
        assert_eq!(clock.at_least(Mono(2 * SECOND + 100)), Timestamp(3 * SECOND));
        let later = Mono(12 * SECOND + 100);
        assert_eq!(clock.at_least(later), Timestamp(13 * SECOND - 10 * DRIFT_PPM));
    }

    #[test]
    fn a_clock_that_goes_back_is_followed_at_once() {
        let mut clock = ClockEstimate::default();
        let _ = clock.observe(Mono(0), Mono(10), Timestamp(100 * SECOND));
        assert_eq!(
            clock.observe(Mono(SECOND), Mono(SECOND + 10), Timestamp(50 * SECOND)),
            Course::Jumped
        );
        assert_eq!(clock.at_least(Mono(SECOND + 10)), Timestamp(50 * SECOND));
    }

    #[test]
    fn a_slow_reply_is_not_taken_for_a_clock_that_went_back() {
        let mut clock = ClockEstimate::default();
        let _ = clock.observe(Mono(0), Mono(10), Timestamp(100 * SECOND));
        let shown = Timestamp(100 * SECOND + 100);
        assert_eq!(clock.observe(Mono(50), Mono(9 * SECOND), shown), Course::Steady);
        assert!(clock.at_least(Mono(9 * SECOND)) > Timestamp(108 * SECOND));
    }

    #[test]
    fn a_clock_that_goes_forward_is_followed_at_once() {
        let mut clock = ClockEstimate::default();
        let _ = clock.observe(Mono(0), Mono(10), Timestamp(100 * SECOND));
        assert_eq!(
            clock.observe(Mono(SECOND), Mono(SECOND), Timestamp(200 * SECOND)),
            Course::Jumped
        );
        assert_eq!(clock.at_least(Mono(SECOND)), Timestamp(200 * SECOND));
    }
}
