//! A set of small numbers that finds its next member in a few instructions.

/// One bit for each slot of a level, and one summary bit for each word of 64.
#[derive(Debug)]
pub(crate) struct Bitmap {
    words: Box<[u64]>,
    summary: Box<[u64]>,
    members: usize,
}

impl Bitmap {
    pub(crate) fn new(size: usize) -> Self {
        let words = size.div_ceil(64);
        Self {
            words: vec![0; words].into(),
            summary: vec![0; words.div_ceil(64)].into(),
            members: 0,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Whether it was no member before.
    #[inline]
    pub(crate) fn insert(&mut self, number: usize) -> bool {
        let (word, bit) = (number / 64, 1 << (number % 64));
        // Mostly it is a member already.
        if self.words[word] & bit != 0 {
            return false;
        }
        self.members += 1;
        self.words[word] |= bit;
        self.summary[word / 64] |= 1 << (word % 64);
        true
    }

    #[inline]
    pub(crate) fn remove(&mut self, number: usize) {
        let (word, bit) = (number / 64, 1 << (number % 64));
        self.members -= usize::from(self.words[word] & bit != 0);
        self.words[word] &= !bit;
        if self.words[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
        }
    }

    /// The first member at or after `start`, going round at the end.
    pub(crate) fn next_round(&self, start: usize) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        self.next_from(start).or_else(|| self.next_from(0))
    }

    fn next_from(&self, start: usize) -> Option<usize> {
        let word = start / 64;
        let rest = self.words[word] & (u64::MAX << (start % 64));
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let after = word + 1;
        let mut block = after / 64;
        let mut mask = u64::MAX.checked_shl((after % 64) as u32).unwrap_or(0);
        while block < self.summary.len() {
            let rest = self.summary[block] & mask;
            if rest != 0 {
                let word = block * 64 + rest.trailing_zeros() as usize;
                return Some(word * 64 + self.words[word].trailing_zeros() as usize);
            }
            block += 1;
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn a_bitmap_finds_what_a_sorted_set_finds(
            // Mostly around the edges of words, so that what is removed is often there.
            operations in prop::collection::vec(
                (any::<bool>(), prop_oneof![62_usize..66, 4094_usize..4098, 0_usize..5000]),
                1..100,
            ),
            start in prop_oneof![61_usize..67, 0_usize..5000],
        ) {
            let mut bitmap = Bitmap::new(5000);
            let mut set = BTreeSet::new();
            for (insert, number) in operations {
                if insert {
                    prop_assert_eq!(bitmap.insert(number), set.insert(number));
                } else {
                    bitmap.remove(number);
                    set.remove(&number);
                }
                let expected = set.range(start..).next().or_else(|| set.iter().next());
                prop_assert_eq!(bitmap.next_round(start), expected.copied());
                prop_assert_eq!(bitmap.is_empty(), set.is_empty());
            }
        }
    }
}
