//! Who may live where: the decisions of the host of a kind of actors. They stand alone, so that the
//! simulation can use them.

use std::collections::HashMap;

use super::{BucketNo, Fence};

/// By bucket, the epoch up to which no actor may live in it: raised when its actors have to go, and
/// lowered when that is over.
#[derive(Debug, Default)]
pub(crate) struct Vacated(HashMap<BucketNo, u32>);

/// By bucket, in which epoch actors have received something there last, and how often.
///
/// Each run of an epoch is received once at most, so there are no more of these than starts, and
/// the count does not overflow.
#[derive(Debug, Default)]
pub(crate) struct Deliveries(HashMap<BucketNo, (u32, u32)>);

/// A living actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// The epoch in which its bucket was owned when it was made.
    pub(crate) epoch: u32,
    /// It gets nothing any more, and its successor is made when it has gone.
    pub(crate) leaving: bool,
}

/// What is to be done about the first message that waits for an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Wait,
    Make,
    Send,
    /// The actor that lives there has to go first, at once: the bucket may have been another node's
    /// in between.
    Kill,
}

impl Vacated {
    /// Whoever lives in `bucket` because of a run of up to this epoch has to go.
    pub(crate) fn vacate(&mut self, bucket: BucketNo, epoch: u32) {
        let before = self.0.entry(bucket).or_insert(epoch);
        *before = epoch.max(*before);
    }

    /// Runs of `epoch` may bring somebody into `bucket` again; those of earlier ones never will.
    pub(crate) fn admit(&mut self, bucket: BucketNo, epoch: u32) {
        if let Some(vacated) = self.0.get_mut(&bucket) {
            *vacated = (*vacated).min(epoch.saturating_sub(1));
        }
    }

    /// Whether a run of this epoch comes too late.
    pub(crate) fn includes(&self, bucket: BucketNo, epoch: u32) -> bool {
        self.0.get(&bucket).is_some_and(|vacated| epoch <= *vacated)
    }
}

impl Deliveries {
    /// The fence of what is received next in `bucket`, by a run of this epoch: greater than all
    /// before. `None` if a later epoch has begun there.
    pub(crate) fn next(&mut self, bucket: BucketNo, epoch: u32) -> Option<Fence> {
        let (last, count) = self.0.entry(bucket).or_insert((epoch, 0));
        if epoch > *last {
            (*last, *count) = (epoch, 0);
        }
        *count = count.checked_add(1).filter(|_| epoch == *last)?;
        Some(Fence::new(epoch, *count))
    }
}

/// `epoch` is that of the message.
pub(crate) fn next(tenant: Option<Tenant>, epoch: u32) -> Next {
    match tenant {
        None => Next::Make,
        Some(tenant) if tenant.leaving => Next::Wait,
        Some(tenant) if tenant.epoch != epoch => Next::Kill,
        Some(_) => Next::Send,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_have_growing_fences_in_each_bucket_whatever_is_received_elsewhere() {
        let mut deliveries = Deliveries::default();
        let mut next = |bucket, epoch| deliveries.next(bucket, epoch);
        assert_eq!(next(1, 7), Some(Fence::new(7, 1)));
        assert_eq!((next(2, 3), next(1, 7)), (Some(Fence::new(3, 1)), Some(Fence::new(7, 2))));
        assert_eq!(next(1, 9), Some(Fence::new(9, 1)));
        assert_eq!(next(1, 7), None, "another owner may have received something since");
        assert_eq!(next(1, 9), Some(Fence::new(9, 2)));
        deliveries.0.insert(1, (9, u32::MAX - 1));
        assert_eq!(deliveries.next(1, 9), Some(Fence::new(9, u32::MAX)));
        assert_eq!(deliveries.next(1, 9), None, "it does not begin anew");
    }
}
