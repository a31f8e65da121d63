//! Numbers that look random and are the same for the same seed.

use std::time::Duration;

/// SplitMix64, by Guy Steele, Doug Lea and Christine Flood (OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator for one of many, so that none depends on how often the others are asked.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The high half of a product is as even as the generator, and needs no division.
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A duration from `shortest` on, and shorter than `longest`.
    pub fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let range = longest.saturating_sub(shortest).as_nanos() as u64;
        shortest + Duration::from_nanos(self.below(range))
    }

    /// Which of `all` are among `chosen`, all choices being equally likely.
    pub fn choose(&mut self, chosen: usize, all: usize) -> Vec<bool> {
        let mut left = chosen;
        (0..all)
            .map(|index| {
                let take = self.below((all - index) as u64) < left as u64;
                left -= usize::from(take);
                take
            })
            .collect()
    }
}
