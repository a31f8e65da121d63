//! A set of levels, in one word.

/// Levels by number; a wheel has at most fifteen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LevelSet(u32);

impl LevelSet {
    #[inline]
    pub(crate) fn insert(&mut self, level: usize) {
        self.0 |= 1 << level;
    }

    #[inline]
    pub(crate) fn remove(&mut self, level: usize) {
        self.0 &= !(1 << level);
    }

    #[inline]
    pub(crate) fn contains(self, level: usize) -> bool {
        self.0 & (1 << level) != 0
    }

    /// The levels that it has now, except level 0, from the lowest.
    #[inline]
    pub(crate) fn upper(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0 & !1;
        std::iter::from_fn(move || {
            let level = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (level < u32::BITS as usize).then_some(level)
        })
    }

    /// The highest level below `limit`, except level 0.
    #[inline]
    pub(crate) fn highest_upper_below(self, limit: usize) -> Option<usize> {
        let below = self.0 & ((1 << limit) - 1) & !1;
        below.checked_ilog2().map(|level| level as usize)
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_levels_is_read_from_both_ends() {
        let mut set = LevelSet::default();
        assert_eq!((set.upper().next(), set.highest_upper_below(31)), (None, None));
        [0, 1, 4, 14].into_iter().for_each(|level| set.insert(level));
        assert_eq!(set.upper().collect::<Vec<_>>(), [1, 4, 14]);
        assert_eq!(set.highest_upper_below(15), Some(14));
        assert_eq!(set.highest_upper_below(14), Some(4));
        assert_eq!(set.highest_upper_below(1), None);
        set.remove(4);
        assert!(set.contains(0) && !set.contains(4));
        assert_eq!(set.upper().collect::<Vec<_>>(), [1, 14]);
    }
}
