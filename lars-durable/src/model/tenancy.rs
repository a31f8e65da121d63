//! Who may live where: the decisions of the host of a kind of actors. They stand alone, so that the
//! simulation can use them.

use std::collections::HashMap;

use super::BucketNo;

/// By bucket, the epoch up to which no actor may live in it: raised when its actors have to go, and
/// lowered when that is over.
#[derive(Debug, Default)]
pub(crate) struct Vacated(HashMap<BucketNo, u32>);

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

/// `epoch` is that of the message.
pub(crate) fn next(tenant: Option<Tenant>, epoch: u32) -> Next {
    match tenant {
        None => Next::Make,
        Some(tenant) if tenant.leaving => Next::Wait,
        Some(tenant) if tenant.epoch != epoch => Next::Kill,
        Some(_) => Next::Send,
    }
}
