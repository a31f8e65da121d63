//! The keeper: this node's lease, the other nodes, and who owns which bucket.
//!
//! No wall clock takes part. A node's lease counts from before its renewal was *sent*, and is a
//! fifth shorter than what others wait, who count from when they first *saw* that renewal. So it
//! has stopped starting before anybody may take over, unless clocks run at rates a fifth apart, or
//! the process is frozen between the check and the start; for those the fence in the row decides.
//!
//! Each node has the lease that it was given, and its row says which: others wait for that, and not
//! for their own. They renew, and so look at it, as often as the shortest lease of all needs.
//!
//! A lease does not run down while nobody could renew. A silence counts only as long as its witness
//! reached the store with each attempt: one that fails, or a long time without one, and every
//! silence begins anew. And a node that cannot renew tries again often enough to be back within
//! half a lease, of which its attempt may take a third.

use std::collections::{BTreeMap, BTreeSet};

use super::lane::{LONGEST_PAUSE, LaneState};
use super::{Lane, Node, Output};
use crate::model::{BucketNo, NodeId};
use crate::store::{
    Committed, Keep, Peer, Renewed, Reply, Request, StoreError, Terms, mismatched, paired,
};
use crate::sync::Arc;
use crate::time::{Micros, Mono};

/// What is to be taken: nodes seen dead, with their renewals, and buckets that nobody owns.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Claim {
    dead: Vec<(NodeId, u64)>,
    buckets: Vec<BucketNo>,
}

/// How often another node has renewed its lease, and since when that is the number.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    renewals: u64,
    since: Mono,
}

/// See the module's documentation. Its lane is the keeper's.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Lease {
    lane: LaneState,
    /// What the lane has in flight.
    asked: Vec<Keep>,
    /// This life of the node.
    node: NodeId,
    /// The node's row exists, as far as is known.
    joined: bool,
    /// Nothing may begin at this instant or later.
    valid_until: Mono,
    next_renewal: Mono,
    /// The other nodes: their renewals, and since when these are the same.
    seen: BTreeMap<NodeId, Sighting>,
    /// When they were last seen.
    looked: Mono,
    /// The shortest lease of all nodes, and the widest window.
    shortest: Micros,
    widest: Micros,
    /// How many buckets the group has.
    buckets: BucketNo,
    paused: BTreeSet<Arc<str>>,
    /// What calls of this node have paused or resumed since the last renewal was sent, and when
    /// they were answered: a renewal that was sent before that need not know of it.
    said: BTreeMap<Arc<str>, (bool, Mono)>,
    claim: Option<Claim>,
    /// For how many renewals this node has had more than its share.
    rounds_above: u32,
    /// It has ended without a renewal, and those that run were told. (Before it begins, none does.)
    lapse_told: bool,
    /// The store's last words, for callers that wait for the node to join.
    last_error: Option<StoreError>,
}

impl Lease {
    pub(super) fn new(rng: &mut fastrand::Rng, terms: Terms, now: Mono) -> Self {
        let Terms { lease, window } = terms;
        Self {
            lane: LaneState::new(LONGEST_PAUSE.min(lease / 6)),
            asked: Vec::new(),
            node: rng.u128(..),
            joined: false,
            valid_until: Mono::MIN,
            next_renewal: now,
            seen: BTreeMap::new(),
            looked: Mono::MIN,
            shortest: lease,
            widest: window,
            buckets: 0,
            paused: BTreeSet::new(),
            said: BTreeMap::new(),
            claim: None,
            rounds_above: 0,
            lapse_told: true,
            last_error: None,
        }
    }

    /// The reply of the batch in flight came: says when that was sent.
    pub(super) fn answered(&mut self, now: Mono, result: &Result<Committed, StoreError>) -> Mono {
        self.lane.answered(now, result)
    }

    /// Whether runs may begin.
    pub(super) fn is_valid(&self, now: Mono) -> bool {
        now < self.valid_until
    }

    /// Nothing may begin at this instant or later.
    pub(super) fn valid_until(&self) -> Mono {
        self.valid_until
    }

    /// Whether it has ended without a renewal, for the first time it is asked.
    pub(super) fn has_just_lapsed(&mut self, now: Mono) -> bool {
        !self.is_valid(now) && !std::mem::replace(&mut self.lapse_told, true)
    }

    /// When that will be, if it is not renewed.
    pub(super) fn next_lapse(&self) -> Mono {
        if self.lapse_told { Mono::NEVER } else { self.valid_until }
    }

    /// Who this node is until it is declared dead.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// How many buckets the group has; none until the node has joined.
    pub(super) fn buckets(&self) -> BucketNo {
        self.buckets
    }

    /// Timers that are due sooner than this may be in the memory of a node.
    pub(super) fn widest_window(&self) -> Micros {
        self.widest
    }

    pub(super) fn is_paused(&self, handler: &Arc<str>) -> bool {
        self.paused.contains(handler)
    }

    /// A call of this node has paused or resumed a handler: it need not wait for the renewal.
    pub(super) fn set_paused(&mut self, now: Mono, handler: &Arc<str>, paused: bool) {
        self.said.insert(Arc::clone(handler), (paused, now));
        self.note_paused(handler, paused);
    }

    fn note_paused(&mut self, handler: &Arc<str>, paused: bool) {
        match paused {
            true => drop(self.paused.insert(Arc::clone(handler))),
            false => drop(self.paused.remove(handler)),
        }
    }

    /// A renewal that was sent at `sent` says which handlers are paused.
    fn learn_paused(&mut self, sent: Mono, paused: &[Arc<str>]) {
        self.paused = paused.iter().cloned().collect();
        let mut said = std::mem::take(&mut self.said);
        said.retain(|_, (_, at)| *at >= sent);
        for (handler, (paused, _)) in &said {
            self.note_paused(handler, *paused);
        }
        self.said = said;
    }

    /// Whether a batch of the keeper is under way, or the last one has failed.
    pub(super) fn waits_for_store(&self) -> bool {
        !self.lane.is_idle() || self.last_error.is_some()
    }

    /// Why the keeper's last batch failed, if it did.
    pub(super) fn last_words(&self) -> Option<&str> {
        self.last_error.as_ref().map(|error| error.reason.as_str())
    }
}

impl Node {
    /// When the keeper has something to do, if nothing comes in before.
    pub(super) fn next_keep(&self) -> Mono {
        self.lease.lane.next(self.lease.next_renewal.min(self.window.next_kept()))
    }

    /// Others may have given buckets back.
    pub(crate) fn renew_soon(&mut self, now: Mono) {
        self.lease.next_renewal = now;
    }

    /// Sends what the keeper has to send.
    pub(super) fn keep(&mut self, now: Mono) {
        self.keep_busy_buckets(now);
        if !self.lease.lane.is_free(now) || self.closing.has_left() {
            return;
        }
        let node = self.lease.node;
        let drained = self.drained_buckets();
        let keep = if !self.lease.joined {
            Keep::Join { node, serves: self.settings.serves(), terms: self.settings.terms() }
        } else if self.may_leave() {
            Keep::Leave { node }
        } else if !drained.is_empty() {
            Keep::Release { node, buckets: drained }
        } else if let Some(Claim { dead, buckets }) = self.lease.claim.take() {
            Keep::Claim { node, dead, buckets }
        } else if now >= self.lease.next_renewal {
            // The sender fills in what the node reports of itself.
            Keep::Renew { node, report: None }
        } else {
            return;
        };
        match &keep {
            // Given up before the store knows of it, so that nothing starts in between.
            Keep::Release { buckets, .. } => {
                for bucket in buckets {
                    self.window.disown(*bucket);
                }
            }
            Keep::Leave { .. } => self.closing.leaving(),
            _ => {}
        }
        self.lease.lane.sent(now);
        self.lease.asked = vec![keep.clone()];
        self.out.push(Output::Send { lane: Lane::Keeper, requests: vec![Request::Keep(keep)] });
    }

    /// Takes in the reply to what was sent.
    pub(super) fn kept(&mut self, sent: Mono, now: Mono, result: Result<Committed, StoreError>) {
        let asked = std::mem::take(&mut self.lease.asked);
        let committed = match result {
            Ok(committed) => committed,
            Err(error) => {
                // A claim, or a release, that was lost shows in the next renewal.
                self.lease.next_renewal = now;
                // Perhaps the others cannot reach the store either.
                self.lease.seen.clear();
                self.lease.claim = None;
                self.lease.last_error = Some(error);
                self.closing.failed();
                return;
            }
        };
        self.lease.last_error = None;
        for (keep, reply) in paired(asked, committed.replies) {
            match (keep, reply) {
                (Keep::Join { .. }, Reply::Joined { buckets }) => {
                    (self.lease.joined, self.lease.buckets) = (true, buckets);
                    self.lease.next_renewal = now;
                }
                (Keep::Renew { .. }, Reply::Renewed(renewed)) => self.renewed(sent, now, renewed),
                (Keep::Claim { .. }, Reply::Claimed(claimed)) => {
                    for (bucket, epoch) in claimed {
                        self.own(bucket, epoch, now);
                    }
                }
                // Given up when it was sent.
                (Keep::Release { .. }, Reply::Released) => {}
                (Keep::Leave { .. }, Reply::Left) => self.closing.confirmed(),
                (keep, reply) => mismatched(&keep, &reply),
            }
        }
    }

    /// Everything here counts from when the renewal was sent: the others count from later.
    fn renewed(&mut self, sent: Mono, now: Mono, renewed: Renewed) {
        if !renewed.alive {
            self.begin_anew(now);
            return;
        }
        let others = || renewed.nodes.iter().filter(|peer| peer.id != self.lease.node);
        let terms = || others().map(|peer| peer.terms).chain([self.settings.terms()]);
        let shortest = terms().map(|terms| terms.lease).min().unwrap_or_default();
        self.lease.widest = terms().map(|terms| terms.window).max().unwrap_or_default();
        // Who serves nothing takes nothing, and need not look at others.
        let serves = self.settings.serves();
        self.lease.shortest = if serves { shortest } else { self.settings.lease };
        self.lease.next_renewal = sent + self.lease.shortest / 3;
        self.lease.valid_until = match self.settings.sole {
            true => Mono::NEVER,
            false => sent + self.settings.lease - self.settings.lease / 5,
        };
        self.lease.lapse_told = false;
        self.out.push(Output::ValidUntil(self.lease.valid_until));
        self.lease.learn_paused(sent, &renewed.paused);
        self.look_at_owners(&renewed, now);
        self.agree_on_buckets(&renewed, now);
        self.tell_of_buckets();
        self.resolve_doubts(sent, now);
        if self.settings.serves() && !self.closing.is_closing() {
            self.balance(&renewed, now);
        }
        self.launch_held(now);
    }

    /// Who has the buckets of others, and when it was last seen to live.
    fn look_at_owners(&mut self, renewed: &Renewed, now: Mono) {
        let Some(delays) = &mut self.delays else { return };
        let (me, seen) = (self.lease.node, &self.lease.seen);
        let alive = |owner: NodeId| {
            let peer = renewed.nodes.iter().find(|peer| peer.id == owner)?;
            let before = seen.get(&owner).filter(|before| before.renewals == peer.renewals);
            Some((owner, before.map_or(now, |before| before.since)))
        };
        for (bucket, owner, _) in renewed.buckets.iter().filter(|it| it.1 != Some(me)) {
            delays.saw_owner(*bucket, owner.and_then(alive), now);
        }
    }

    /// The store decides who owns what: a reply may have been lost.
    fn agree_on_buckets(&mut self, renewed: &Renewed, now: Mono) {
        for (bucket, owner, epoch) in &renewed.buckets {
            if *owner == Some(self.lease.node) {
                if self.window.epoch(*bucket) != Some(*epoch) && !self.closing.is_closing() {
                    self.own(*bucket, *epoch, now);
                }
            } else {
                self.window.disown(*bucket);
            }
        }
    }

    /// Takes what nobody owns, up to this node's share, and gives back what is above it.
    fn balance(&mut self, renewed: &Renewed, now: Mono) {
        let me = self.lease.node;
        let mut seen = std::mem::take(&mut self.lease.seen);
        // It was frozen, or got its answers late, and perhaps the others did: or the first one that
        // comes back would take everything.
        if now - self.lease.looked > self.lease.shortest * 2 / 3 {
            seen.clear();
        }
        self.lease.looked = now;
        let (mut dead, mut serving) = (Vec::new(), 1);
        for Peer { id, renewals, serves, terms } in renewed.nodes.iter().filter(|it| it.id != me) {
            let since = match seen.get(id) {
                Some(before) if before.renewals == *renewals => before.since,
                Some(_) | None => now,
            };
            self.lease.seen.insert(*id, Sighting { renewals: *renewals, since });
            if now - since >= terms.lease {
                dead.push((*id, *renewals));
            } else {
                serving += usize::from(*serves);
                // Not a whole round later, because a renewal came a little too soon.
                self.lease.next_renewal = self.lease.next_renewal.min(since + terms.lease);
            }
        }
        let lives = |owner: &NodeId| {
            renewed.nodes.iter().any(|peer| peer.id == *owner)
                && !dead.iter().any(|(node, _)| node == owner)
        };
        let mut free: Vec<BucketNo> = (renewed.buckets.iter())
            .filter(|(_, owner, _)| owner.as_ref().is_none_or(|owner| !lives(owner)))
            .map(|(bucket, ..)| *bucket)
            .collect();
        let share = renewed.buckets.len().div_ceil(serving);
        let owned = self.window.owned();
        self.rng.shuffle(&mut free);
        free.truncate(share.saturating_sub(owned));
        if !free.is_empty() || !dead.is_empty() {
            self.lease.claim = Some(Claim { dead, buckets: free });
        }
        self.lease.rounds_above = if owned > share { self.lease.rounds_above + 1 } else { 0 };
        if self.lease.rounds_above >= 2 {
            let busy = self.busy_buckets();
            self.window.drain((owned - share).div_ceil(4), &busy, now);
        }
    }

    /// Buckets in which something runs, or an actor lives, or has lived whose calls are under way.
    fn busy_buckets(&self) -> BTreeSet<BucketNo> {
        let mut busy = self.runs.buckets();
        busy.extend(self.tenants.buckets());
        busy.extend(self.calls.buckets());
        busy
    }

    /// Buckets that are being given back, and in which nothing runs any more.
    fn drained_buckets(&self) -> Vec<BucketNo> {
        let mut draining = self.window.draining().peekable();
        if draining.peek().is_none() {
            return Vec::new();
        }
        let busy = self.busy_buckets();
        draining.filter(|bucket| !busy.contains(bucket)).collect()
    }

    /// This node was declared dead: it begins again under a new identity. What runs is left to end;
    /// its fence decides whether that still counts.
    fn begin_anew(&mut self, now: Mono) {
        tracing::warn!(target: "lars_durable", "declared dead by another node; beginning anew");
        self.lease.node = self.rng.u128(..);
        (self.lease.joined, self.lease.claim) = (false, None);
        self.lease.valid_until = Mono::MIN;
        self.lease.next_renewal = now;
        self.out.push(Output::BegunAnew);
        self.window.disown_all();
        if let Some(delays) = &mut self.delays {
            delays.lost_all(now);
        }
        self.tell_of_buckets();
    }
}
