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

use crate::time::{Mono, Timestamp};

/// How far two clocks part in a second, in millionths.
const DRIFT_PPM: i64 = 200;

/// How long a sample is used.
const MEMORY: i64 = 60_000_000;

/// Samples that are worse than a newer one, and not older than this, are not worth keeping.
const SPACING: i64 = 1_000_000;

/// A clock that moved by more than this jumped.
const JUMP: i64 = 2_000;

#[derive(Debug, Default)]
pub(super) struct ClockEstimate {
    /// When each was received, and how far the local clock was ahead of the store's then.
    samples: VecDeque<(Mono, i64)>,
}

impl ClockEstimate {
    /// Takes in what the clock showed between `sent` and `received`; says whether it jumped.
    #[must_use]
    pub(super) fn observe(&mut self, sent: Mono, received: Mono, clock: Timestamp) -> bool {
        let before = self.ahead(received);
        let (least, most) = (sent.0.saturating_sub(clock.0), received.0.saturating_sub(clock.0));
        let back = before.is_some_and(|ahead| least > ahead + JUMP);
        if back {
            self.samples.clear();
        }
        while self.samples.front().is_some_and(|(at, _)| received.0 - at.0 > MEMORY) {
            self.samples.pop_front();
        }
        while self.samples.back().is_some_and(|(_, ahead)| *ahead >= most) {
            self.samples.pop_back();
        }
        if self.samples.back().is_none_or(|(at, _)| received.0 - at.0 >= SPACING) {
            self.samples.push_back((received, most));
        }
        back || before.is_some_and(|ahead| most < ahead - JUMP)
    }

    /// When, at the earliest, the store's clock can be relied on to show `due`. Never, while
    /// nothing is known.
    pub(super) fn local(&self, due: Timestamp, now: Mono) -> Mono {
        match self.ahead(now) {
            Some(ahead) if due != Timestamp::NEVER => Mono(due.0.saturating_add(ahead)),
            _ => Mono::NEVER,
        }
    }

    /// What the store's clock shows at least. Before everything, while nothing is known.
    pub(super) fn at_least(&self, now: Mono) -> Timestamp {
        self.ahead(now).map_or(Timestamp::MIN, |ahead| Timestamp(now.0.saturating_sub(ahead)))
    }

    pub(super) fn ahead(&self, now: Mono) -> Option<i64> {
        let aged = |(at, ahead): &(Mono, i64)| ahead + (now.0 - at.0) / 1_000_000 * DRIFT_PPM;
        self.samples.iter().map(aged).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn the_fastest_reply_of_the_last_minute_decides_and_ages() {
        let mut clock = ClockEstimate::default();
        assert_eq!(clock.local(Timestamp(5), Mono(0)), Mono::NEVER);
        assert!(!clock.observe(Mono(0), Mono(900), Timestamp(1_000_000)));
        assert!(!clock.observe(Mono(2 * SECOND), Mono(2 * SECOND + 100), Timestamp(3 * SECOND)));
        assert_eq!(clock.at_least(Mono(2 * SECOND + 100)), Timestamp(3 * SECOND));
        let later = Mono(12 * SECOND + 100);
        assert_eq!(clock.at_least(later), Timestamp(13 * SECOND - 10 * DRIFT_PPM));
    }

    #[test]
    fn a_clock_that_goes_back_is_followed_at_once() {
        let mut clock = ClockEstimate::default();
        let _ = clock.observe(Mono(0), Mono(10), Timestamp(100 * SECOND));
        assert!(clock.observe(Mono(SECOND), Mono(SECOND + 10), Timestamp(50 * SECOND)));
        assert_eq!(clock.at_least(Mono(SECOND + 10)), Timestamp(50 * SECOND));
    }

    #[test]
    fn a_slow_reply_is_not_taken_for_a_clock_that_went_back() {
        let mut clock = ClockEstimate::default();
        let _ = clock.observe(Mono(0), Mono(10), Timestamp(100 * SECOND));
        let shown = Timestamp(100 * SECOND + 100);
        assert!(!clock.observe(Mono(50), Mono(9 * SECOND), shown));
        assert!(clock.at_least(Mono(9 * SECOND)) > Timestamp(108 * SECOND));
    }

    #[test]
    fn a_clock_that_goes_forward_is_followed_at_once() {
        let mut clock = ClockEstimate::default();
        let _ = clock.observe(Mono(0), Mono(10), Timestamp(100 * SECOND));
        assert!(clock.observe(Mono(SECOND), Mono(SECOND), Timestamp(200 * SECOND)));
        assert_eq!(clock.at_least(Mono(SECOND)), Timestamp(200 * SECOND));
    }
}
