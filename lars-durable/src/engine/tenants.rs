//! What lives in a bucket beyond a run: actors. A bucket is given back when they have gone, and
//! they have to go when it is lost.
//!
//! The runtime says who comes and goes, and is told who has to go. Between the two lies time: a
//! tenant may come after its bucket was lost, because its run began before. So a tenancy belongs to
//! an epoch, and what tenants were told is said again to those of a new one.
//!
//! An [`Output::Vacate`] is taken back by an [`Output::Admit`]: when the last of them has gone, or
//! when the lease turns out to hold after all.

use std::collections::BTreeMap;

use super::{Node, Output};
use crate::model::BucketNo;
use crate::time::Mono;

/// By bucket; those without tenants are not here.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Tenants(BTreeMap<BucketNo, Tenancy>);

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Tenancy {
    living: usize,
    /// The epoch of the last one that came.
    epoch: u32,
    told: Notice,
}

/// What tenants are told. A later one is stronger, and takes the place of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Notice {
    /// Nothing: they may stay, and others may come.
    Stay,
    /// The bucket is given back: they go when they have done what they were sent.
    Leave,
    /// The bucket may be another node's: they go at once.
    LeaveAtOnce,
}

impl Tenants {
    /// Buckets in which an actor lives.
    pub(super) fn buckets(&self) -> impl Iterator<Item = BucketNo> {
        self.0.keys().copied()
    }

    pub(super) fn are_gone(&self) -> bool {
        self.0.is_empty()
    }

    /// The node waits for them no longer.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

impl Node {
    /// An actor lives in `bucket` from now on, because of a run of this epoch.
    pub(crate) fn moved_in(&mut self, bucket: BucketNo, epoch: u32) {
        let none = Tenancy { living: 0, epoch, told: Notice::Stay };
        let tenancy = self.tenants.0.entry(bucket).or_insert(none);
        tenancy.living += 1;
        if epoch > tenancy.epoch {
            (tenancy.epoch, tenancy.told) = (epoch, Notice::Stay);
        }
    }

    /// An actor that lived in `bucket` has gone.
    pub(crate) fn moved_out(&mut self, bucket: BucketNo) {
        if let Some(tenancy) = self.tenants.0.get_mut(&bucket) {
            tenancy.living -= 1;
            if tenancy.living == 0 {
                let (epoch, told) = (tenancy.epoch, tenancy.told);
                self.tenants.0.remove(&bucket);
                if told != Notice::Stay {
                    // Whoever still comes begins a tenancy, and is told by that.
                    self.out.push(Output::Admit { bucket, epoch });
                }
            }
        }
    }

    /// When the tenants have to go if the lease is not renewed.
    pub(super) fn next_vacate(&self) -> Mono {
        let waits = self.tenants.0.values().any(|tenancy| tenancy.told == Notice::Stay);
        if waits { self.lease.valid_until() } else { Mono::NEVER }
    }

    /// Tells the tenants that have to go, and admits others where nobody has to go any more: the
    /// lease lapsed, and its renewal found the bucket still owned in the same epoch.
    pub(super) fn vacate(&mut self, now: Mono) {
        let (valid, closing) = (self.lease.is_valid(now), self.closing.is_closing());
        for (bucket, tenancy) in &mut self.tenants.0 {
            let lost = !valid || self.window.epoch(*bucket) != Some(tenancy.epoch);
            let leaves = closing || self.window.starts_in(*bucket).is_none();
            let due = match (lost, leaves) {
                (true, _) => Notice::LeaveAtOnce,
                (false, true) => Notice::Leave,
                (false, false) => Notice::Stay,
            };
            let (bucket, epoch) = (*bucket, tenancy.epoch);
            if due > tenancy.told {
                tenancy.told = due;
                self.out.push(Output::Vacate { bucket, epoch, lost });
            } else if due == Notice::Stay && tenancy.told > due {
                // Those who were told go all the same.
                tenancy.told = due;
                self.out.push(Output::Admit { bucket, epoch });
            }
        }
    }
}
