//! How many buckets are read from the start of their index in one batch.
//!
//! Rows that are gone stay in an index as long as somebody's snapshot sees them, and whoever reads
//! a bucket from its start passes them all. Half an hour at a thousand timers a second leaves two
//! million of them, and to read all 64 buckets past those takes PostgreSQL 8 to 18 s. So a batch
//! reads as many buckets as take a moment, and the next batches read the others.

use crate::time::Micros;

/// The first portion: a few, because each may take long. If none does, all are read a few batches
/// later.
const FIRST: usize = 8;

/// There are at most so many buckets.
const MOST: usize = u16::MAX as usize;

/// How long a batch with them may take, since due timers wait for it. If it takes less than a
/// quarter of that, the next one may have twice as many.
const MOMENT: Micros = Micros::MILLISECOND.times(250);

/// The portion of one batch.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Portion {
    most: usize,
    /// How many the batch has that is put together or under way.
    has: usize,
}

impl Portion {
    pub(super) const FIRST: Self = Self { most: FIRST, has: 0 };

    /// Whether the batch may have one more. If so, it counts as taken.
    pub(super) fn takes(&mut self) -> bool {
        let takes = self.has < self.most;
        self.has += usize::from(takes);
        takes
    }

    /// The batch has taken so long.
    pub(super) fn took(&mut self, took: Micros) {
        let has = std::mem::take(&mut self.has);
        if has == 0 {
            return;
        }
        if took > MOMENT {
            let fit = has as i64 * MOMENT.0 / took.0;
            self.most = usize::try_from(fit).unwrap_or(1).clamp(1, self.most);
        } else if has == self.most && took < Micros(MOMENT.0 / 4) {
            self.most = (self.most * 2).min(MOST);
        }
    }

    /// The batch has failed, perhaps because it took too long.
    pub(super) fn failed(&mut self) {
        if std::mem::take(&mut self.has) > 0 {
            self.most = (self.most / 8).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many as it may, and says how many.
    fn take(portion: &mut Portion) -> usize {
        (0..).take_while(|_| portion.takes()).count()
    }

    #[test]
    fn a_portion_is_as_large_as_takes_a_moment() {
        let mut portion = Portion::FIRST;
        for size in [8, 16, 32, 64] {
            assert_eq!(take(&mut portion), size);
            portion.took(Micros::MILLISECOND);
        }
        assert!(portion.takes());
        portion.took(Micros::MILLISECOND);
        assert_eq!(take(&mut portion), 128, "it was not full");
        portion.took(MOMENT * 32);
        assert_eq!(take(&mut portion), 4);
        portion.failed();
        assert_eq!(take(&mut portion), 1);
        portion.took(MOMENT * 100);
        portion.took(MOMENT * 100);
        assert_eq!(take(&mut portion), 1, "never none");
        portion.took(Micros::MILLISECOND);
        assert_eq!(take(&mut portion), 2);
    }

    #[test]
    fn a_portion_grows_without_end_and_no_further_than_there_are_buckets() {
        let mut portion = Portion::FIRST;
        for _ in 0..40 {
            take(&mut portion);
            portion.took(Micros::ZERO);
        }
        assert_eq!(take(&mut portion), MOST);
    }
}
