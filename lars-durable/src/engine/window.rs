//! What a node holds in memory: the timers of its buckets that are due inside the window.
//!
//! The wheel has one alarm for each millisecond in which something is due, and not one for each
//! timer: when it fires, everything up to that millisecond is taken in the order of (due, id).
//!
//! ```text
//!   a bucket ──┬──────────────────┬─────────────────────┬───────────────▶ due
//!              now            watermark          now + window
//!   overdue:                  resident:                 in the store only
//!   the sweep's               loaded, or announced
//! ```
//!
//! Up to its *watermark* a bucket has been loaded; what comes up to there later is announced, by a
//! call of this node or by another node. So whoever tells the window of a timer need not know
//! whether it is wanted: `near` takes it, or leaves it to a load.
//!
//! Handlers share the memory (`room`). What a handler has no room for is *left* in
//! the store: all its timers of that bucket from that one on, so that what is here of a handler are
//! always its first ones. The watermark goes on without them, and loads of their own bring them.
//!
//! None of this has to be right. A timer that is here and is not due any more is refused by the
//! store when it is to start; one that is due and not here is found by the sweep.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::delays::Heard;
use super::settings::LEAST_PUT_OFF;
use super::{Node, NodeSettings, Output};
use crate::model::{BucketNo, Fence, Finish, Loaded, Recipient, Then, TimerId};
use crate::sync::Arc;
use crate::time::{Micros, Mono, Timestamp};

/// The order in which timers start.
pub(super) type Key = (Timestamp, TimerId);

/// Before all timers.
const START: Key = (Timestamp::MIN, TimerId::MIN);

/// How long a bucket is being given back, at most. What is due in it waits meanwhile.
const LONGEST_DRAIN: Micros = Micros::MILLISECOND.times(500);

/// How long after that it is not given back while something runs in it.
const KEPT: Micros = Micros::SECOND.times(600);

/// Of how many buckets what was left is fetched at a time.
const LEFT_AT_A_TIME: usize = 8;

/// The width of an alarm.
const SLOT: Micros = Micros::MILLISECOND;

/// See the module's documentation.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Window {
    /// Those that this node owns.
    buckets: BTreeMap<BucketNo, Bucket>,
    /// How far the starts were counted in buckets that were given up, and in which epoch: if one
    /// that could not be given back is used again in the same epoch, its fences go on.
    counted: BTreeMap<BucketNo, Counted>,
    /// Only timers of those buckets: by handler, and in the last place those without one.
    residents: Vec<BTreeMap<Key, Resident>>,
    /// From where on the timers of a handler are left in the store, by bucket.
    left: Vec<BTreeMap<BucketNo, Key>>,
    /// The slots that have an alarm, and when it fires.
    armed: BTreeMap<i64, Mono>,
    /// Slots that need one.
    unarmed: Vec<i64>,
    /// The store's clock jumped.
    alarms_are_wrong: bool,
    /// All names that were seen; those of this node's handlers first.
    names: Vec<Arc<str>>,
    /// The place of each.
    places: HashMap<Arc<str>, u16>,
    /// The next bucket for a timer without a key.
    turn: usize,
    /// Those that were due before they came here, and have not started: if it is to be known why
    /// they are late.
    heard: HashMap<Key, Heard>,
}

/// A timer that waits in memory. Small, because there may be very many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resident {
    pub(super) bucket: BucketNo,
    /// Its handler's place among the names.
    pub(super) name: u16,
    /// Whose it is, if its handler says so.
    pub(super) recipient: Recipient,
}

/// How many starts were counted in a bucket, and in which epoch.
#[derive(Debug, Clone, Copy)]
struct Counted {
    epoch: u32,
    starts: u32,
}

/// What a node knows of a bucket that it owns. A new epoch begins with a new one, so nothing of an
/// earlier one is left.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Bucket {
    epoch: u32,
    /// The starts that were counted in this epoch.
    starts: u32,
    /// Everything up to here has been loaded.
    watermark: Key,
    /// Up to where a load is under way.
    loading: Option<Timestamp>,
    /// Behind which the sweep goes on, while it is under way.
    swept: Option<Key>,
    /// Since when it is being given back: nothing starts in it.
    draining: Option<Mono>,
    /// Before this it is given back only if nothing runs in it.
    kept_until: Mono,
}

impl Bucket {
    fn is_used_up(&self) -> bool {
        self.starts == u32::MAX
    }
}

impl Window {
    pub(super) fn new(settings: &NodeSettings) -> Self {
        let names: Vec<Arc<str>> =
            settings.handlers.iter().map(|handler| Arc::clone(&handler.name)).collect();
        Self {
            places: names.iter().cloned().zip(0..).collect(),
            buckets: BTreeMap::new(),
            counted: BTreeMap::new(),
            residents: vec![BTreeMap::new(); settings.handlers.len() + 1],
            left: vec![BTreeMap::new(); settings.handlers.len() + 1],
            armed: BTreeMap::new(),
            unarmed: Vec::new(),
            alarms_are_wrong: false,
            names,
            turn: 0,
            heard: HashMap::new(),
        }
    }

    /// How many timers are resident.
    pub(super) fn len(&self) -> usize {
        self.residents.iter().map(BTreeMap::len).sum()
    }

    /// How many of them are of the handler in this place.
    pub(super) fn len_of(&self, place: usize) -> usize {
        self.residents[place].len()
    }

    /// Whether timers of this handler are left in the store for want of memory.
    pub(super) fn leaves(&self, place: usize) -> bool {
        !self.left[place].is_empty()
    }

    /// How many buckets the node owns.
    pub(super) fn owned(&self) -> usize {
        self.buckets.len()
    }

    /// The epoch in which the node owns the bucket, if it does; perhaps while giving it back.
    pub(super) fn epoch(&self, bucket: BucketNo) -> Option<u32> {
        self.buckets.get(&bucket).map(|bucket| bucket.epoch)
    }

    /// The bucket's epoch, if it may start timers.
    pub(super) fn starts_in(&self, bucket: BucketNo) -> Option<u32> {
        self.buckets
            .get(&bucket)
            .filter(|bucket| bucket.draining.is_none())
            .map(|bucket| bucket.epoch)
    }

    /// The token of the next start in `bucket`: greater than all before it. `None` if nothing may
    /// start there.
    pub(super) fn next_fence(&mut self, bucket: BucketNo) -> Option<Fence> {
        let bucket = self.buckets.get_mut(&bucket).filter(|bucket| bucket.draining.is_none())?;
        bucket.starts = bucket.starts.checked_add(1)?;
        Some(Fence::new(bucket.epoch, bucket.starts))
    }

    /// Whether this node owns the bucket, and has counted all the starts that an epoch has.
    pub(super) fn is_used_up(&self, bucket: BucketNo) -> bool {
        self.buckets.get(&bucket).is_some_and(Bucket::is_used_up)
    }

    /// Begins to give a bucket back that is used up: whoever takes it then has a new epoch. Says
    /// whether that is new.
    pub(super) fn give_back_used_up(&mut self, bucket: BucketNo, now: Mono) -> bool {
        let used_up = self.buckets.get_mut(&bucket).filter(|bucket| bucket.is_used_up());
        used_up.is_some_and(|bucket| bucket.draining.replace(now).is_none())
    }

    /// `bucket` is another's from now on: what was resident of it is that node's to load.
    pub(super) fn disown(&mut self, bucket: BucketNo) {
        if let Some(was) = self.buckets.remove(&bucket) {
            self.counted.insert(bucket, Counted { epoch: was.epoch, starts: was.starts });
            for residents in &mut self.residents {
                residents.retain(|_, resident| resident.bucket != bucket);
            }
            for left in &mut self.left {
                left.remove(&bucket);
            }
            self.heard.retain(|_, heard| heard.bucket != bucket);
        }
    }

    /// The node was declared dead.
    pub(super) fn disown_all(&mut self) {
        while let Some((bucket, _)) = self.buckets.first_key_value() {
            self.disown(*bucket);
        }
    }

    /// Begins to give `count` buckets back: those that are not `busy` first.
    pub(super) fn drain(&mut self, count: usize, busy: &BTreeSet<BucketNo>, now: Mono) {
        let draining = self.draining().count();
        let others = self.buckets.iter_mut().filter(|(_, bucket)| bucket.draining.is_none());
        let (busy, idle): (Vec<_>, Vec<_>) = others.partition(|(number, _)| busy.contains(number));
        let busy = busy.into_iter().filter(|(_, bucket)| bucket.kept_until <= now);
        for (_, bucket) in idle.into_iter().chain(busy).take(count.saturating_sub(draining)) {
            bucket.draining = Some(now);
        }
    }

    /// Buckets that are being given back.
    pub(super) fn draining(&self) -> impl Iterator<Item = BucketNo> {
        let draining = self.buckets.iter().filter(|(_, bucket)| bucket.draining.is_some());
        draining.map(|(number, _)| *number)
    }

    /// When the first of them has been given back for too long.
    pub(super) fn next_kept(&self) -> Mono {
        let kept = self.buckets.values().filter(|bucket| !bucket.is_used_up());
        let since = kept.filter_map(|bucket| bucket.draining).min();
        since.map_or(Mono::NEVER, |since| since + LONGEST_DRAIN)
    }

    /// A bucket for a timer without a key: one of this node's, so that nobody has to be told of it.
    pub(super) fn any_bucket(&mut self) -> Option<BucketNo> {
        self.turn = self.turn.wrapping_add(1);
        let place = self.turn.checked_rem(self.buckets.len())?;
        self.buckets.keys().nth(place).copied()
    }

    /// The store's clock is not where it was when the alarms were set.
    pub(super) fn forget_alarms(&mut self) {
        self.alarms_are_wrong = true;
    }

    /// All slots with a timer that will be due.
    fn slots(&self) -> Vec<i64> {
        let keys = self.residents.iter().flat_map(BTreeMap::keys);
        let keys = keys.filter(|key| key.0 != Timestamp::NEVER);
        let slots: BTreeSet<i64> = keys.map(|key| slot_of(key.0)).collect();
        slots.into_iter().collect()
    }

    /// The name of its handler.
    pub(super) fn name(&self, resident: Resident) -> &Arc<str> {
        &self.names[usize::from(resident.name)]
    }

    /// The place of a name. More names than there are places share the last one, which no handler
    /// has.
    fn place_of(&mut self, name: &Arc<str>) -> u16 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        if self.names.len() < usize::from(u16::MAX) {
            self.names.push(Arc::clone(name));
            self.places.insert(Arc::clone(name), last_place(&self.names));
        }
        last_place(&self.names)
    }

    /// Whether `key` is not beyond what was loaded, or is being loaded, of `bucket`.
    pub(super) fn reaches(&self, bucket: BucketNo, key: Key) -> bool {
        self.buckets.get(&bucket).is_some_and(|bucket| {
            key <= bucket.watermark || bucket.loading.is_some_and(|until| key.0 < until)
        })
    }

    /// The last bucket of this node.
    pub(super) fn last(&self) -> Option<BucketNo> {
        self.buckets.last_key_value().map(|(number, _)| *number)
    }

    /// A load that failed is under way no more, if it is not sent again.
    pub(super) fn load_failed(&mut self, order: &LoadOrder) {
        if order.why == Why::Ahead
            && order.is_from_start()
            && let Some(bucket) = self.buckets.get_mut(&order.bucket)
            && bucket.epoch == order.epoch
        {
            bucket.loading = None;
        }
    }

    /// Where the timers of this one's handler are.
    pub(super) fn place(&self, resident: Resident) -> usize {
        usize::from(resident.name).min(self.residents.len() - 1)
    }

    fn contains(&self, key: Key, resident: Resident) -> bool {
        self.residents[self.place(resident)].contains_key(&key)
    }

    /// Forgets a timer that was cancelled or moved, whosever it is.
    pub(super) fn remove(&mut self, key: Key) {
        self.forget_heard(key);
        for residents in &mut self.residents {
            residents.remove(&key);
        }
    }

    /// What was known of a timer that came here late.
    pub(super) fn forget_heard(&mut self, key: Key) -> Option<Heard> {
        self.heard.remove(&key)
    }

    /// Takes the timers that are due up to `limit`; those of a handler in their order.
    pub(super) fn take_due(&mut self, limit: Timestamp) -> Vec<(Key, Resident)> {
        let mut due = Vec::new();
        for residents in &mut self.residents {
            while let Some(first) = residents.first_entry().filter(|it| it.key().0 <= limit) {
                due.push(first.remove_entry());
            }
        }
        due
    }

    /// The last timer of the handler in this place.
    pub(super) fn last_of(&self, place: usize) -> Option<Key> {
        self.residents[place].keys().next_back().copied()
    }

    /// Takes the last timer of the handler in this place.
    pub(super) fn pop_last(&mut self, place: usize) -> Option<(Key, Resident)> {
        self.residents[place].pop_last()
    }

    /// There is no room for this timer, which is behind all that are here of its handler.
    pub(super) fn leave(&mut self, key: Key, resident: Resident) {
        self.forget_heard(key);
        let place = self.place(resident);
        let from = self.left[place].entry(resident.bucket).or_insert(key);
        *from = key.min(*from);
    }

    /// Whether a timer is among those of its handler that are left in the store.
    fn is_left(&self, key: Key, resident: Resident) -> bool {
        let from = self.left[self.place(resident)].get(&resident.bucket);
        from.is_some_and(|from| *from <= key)
    }

    /// From where on no handler takes anything in this bucket.
    fn all_left_from(&self, bucket: BucketNo) -> Option<Key> {
        let handlers = &self.left[..self.left.len() - 1];
        let from: Option<Vec<Key>> = handlers.iter().map(|it| it.get(&bucket).copied()).collect();
        from?.into_iter().max()
    }
}

/// What has come of a load.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenIn {
    /// Of the window: the watermark says how far it went.
    Load,
    /// Of a sweep that has found all there is.
    Sweep,
    /// Of a sweep that found as much as it may take at a time: more is overdue.
    SweepHasMore,
}

/// What a load was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadOrder {
    pub(super) bucket: BucketNo,
    epoch: u32,
    pub(super) after: Key,
    pub(super) until: Timestamp,
    pub(super) limit: usize,
    why: Why,
}

/// Why something is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The watermark goes on.
    Ahead,
    /// Looks for what was missed, up to the watermark.
    Sweep,
    /// Fetches what was left of the handler in this place.
    Left(usize),
}

impl LoadOrder {
    pub(super) fn sweeps(&self) -> bool {
        self.why == Why::Sweep
    }

    /// Whether it reads a bucket from the start of its index.
    pub(super) fn is_from_start(&self) -> bool {
        self.after == START
    }
}

impl Node {
    /// As if so many starts had been counted.
    #[cfg(test)]
    pub(crate) fn count_starts(&mut self, bucket: BucketNo, starts: u32) {
        self.window.buckets.get_mut(&bucket).expect("it is this node's").starts = starts;
    }

    /// `bucket` is this node's from now on.
    pub(super) fn own(&mut self, bucket: BucketNo, epoch: u32, now: Mono) {
        self.window.disown(bucket);
        if let Some(delays) = &mut self.delays {
            delays.took(bucket, now);
        }
        if self.window.owned() == 0 {
            self.runner.begin(now);
        }
        let counted = self.window.counted.remove(&bucket);
        let starts =
            counted.filter(|counted| counted.epoch == epoch).map_or(0, |counted| counted.starts);
        self.window.buckets.insert(
            bucket,
            Bucket {
                epoch,
                starts,
                watermark: START,
                loading: None,
                swept: None,
                draining: None,
                kept_until: Mono::MIN,
            },
        );
    }

    /// What waits in a bucket that is being given back must not wait for as long as the longest run
    /// in it: the bucket is kept for now, and another one is given back.
    pub(super) fn keep_busy_buckets(&mut self, now: Mono) {
        let since = |bucket: &Bucket| {
            let long = bucket.draining.is_some_and(|since| since + LONGEST_DRAIN <= now);
            // Nothing would start in it.
            long && !bucket.is_used_up()
        };
        let buckets = self.window.buckets.iter().filter(|(_, bucket)| since(bucket));
        let kept: Vec<_> = buckets.map(|(number, bucket)| (*number, bucket.epoch)).collect();
        for (number, epoch) in kept {
            self.own(number, epoch, now);
            if let Some(bucket) = self.window.buckets.get_mut(&number) {
                bucket.kept_until = now + KEPT;
            }
        }
    }

    /// Loads for all buckets whose watermark is less than two thirds of the window ahead, if they
    /// can go with a sweep. A load of its own is made only if it is less than a third ahead. Where
    /// no handler would take anything in, the watermark stands still.
    pub(super) fn loads(&mut self, now: Mono, sweeps: bool) -> Vec<LoadOrder> {
        let clock = self.clock.at_least(now);
        let window = self.settings.window;
        let enough = if sweeps { window * 2 / 3 } else { window / 3 };
        let until = clock + window;
        let behind = |bucket: &Bucket| bucket.watermark.0 <= clock + enough;
        let mut wanted: Vec<(Key, BucketNo)> = (self.window.buckets.iter())
            .filter(|(number, bucket)| behind(bucket) && self.wants_more_of(**number))
            .map(|(number, bucket)| (bucket.watermark, *number))
            .collect();
        wanted.sort_unstable();
        // Even where one handler has filled all memory, there may be others behind its timers.
        let mut rows = self.room().max(self.settings.batch);
        let mut loads = self.loads_of_what_was_left();
        for (after, number) in wanted {
            let limit = rows.min(self.settings.batch);
            let Some(bucket) = self.window.buckets.get_mut(&number).filter(|_| limit > 0) else {
                break;
            };
            if after == START && !self.runner.portion.takes() {
                continue;
            }
            bucket.loading = Some(until);
            let epoch = bucket.epoch;
            loads.push(LoadOrder { bucket: number, epoch, after, until, limit, why: Why::Ahead });
            rows -= limit;
        }
        loads
    }

    /// Whether a handler would take in what is behind the watermark of this bucket.
    fn wants_more_of(&self, bucket: BucketNo) -> bool {
        let wants =
            |place: usize| !self.window.left[place].contains_key(&bucket) && self.is_hungry(place);
        self.window.starts_in(bucket).is_some() && (0..self.settings.handlers.len()).any(wants)
    }

    /// For each handler that has room again, what was left of it, from the first on.
    fn loads_of_what_was_left(&self) -> Vec<LoadOrder> {
        let mut loads = Vec::new();
        for place in (0..self.window.left.len()).filter(|place| self.window.leaves(*place)) {
            if !self.is_hungry(place) {
                continue;
            }
            let left = self.window.left[place].iter().map(|(bucket, from)| (*from, *bucket));
            let mut left: Vec<(Key, BucketNo)> =
                left.filter(|(_, bucket)| self.window.starts_in(*bucket).is_some()).collect();
            left.sort_unstable();
            left.truncate(LEFT_AT_A_TIME);
            let limit = self.settings.batch.div_ceil(left.len().max(1));
            for ((due, id), number) in left {
                let bucket = &self.window.buckets[&number];
                loads.push(LoadOrder {
                    bucket: number,
                    epoch: bucket.epoch,
                    after: (due, id.saturating_sub(1)),
                    // With those at the very watermark.
                    until: bucket.watermark.0 + Micros(1),
                    limit,
                    why: Why::Left(place),
                });
            }
        }
        loads
    }

    /// The next load of its own, if nothing comes in before.
    pub(super) fn next_load(&self, now: Mono) -> Mono {
        let fetches = |place| self.window.leaves(place) && self.is_hungry(place);
        if (0..self.window.left.len()).any(fetches) {
            return now;
        }
        let wanted = self.window.buckets.iter().filter(|(number, _)| self.wants_more_of(**number));
        let first = wanted.map(|(_, bucket)| bucket.watermark.0).min();
        first.map_or(Mono::NEVER, |watermark| {
            self.clock.local(watermark - self.settings.window / 3, now)
        })
    }

    /// Looks for timers that are overdue by `grace`, at most as far `back`, and in some buckets at
    /// all of them; where they are few, one look takes in all.
    pub(super) fn sweeps(&mut self, now: Mono, grace: Micros, back: Micros) -> Vec<LoadOrder> {
        let until = self.clock.at_least(now) - grace;
        let mut sweeps = Vec::new();
        let numbers: Vec<BucketNo> = self.window.buckets.keys().copied().collect();
        for number in numbers {
            let from_start = self.runner.sweeps_from_start(number);
            let left = self.window.all_left_from(number);
            let Some(bucket) = self.window.buckets.get_mut(&number) else { continue };
            if bucket.draining.is_some() {
                continue;
            }
            let from = if from_start { START } else { (until - back, TimerId::MIN) };
            let until = until.min(bucket.watermark.0);
            sweeps.push(LoadOrder {
                bucket: number,
                epoch: bucket.epoch,
                after: bucket.swept.take().unwrap_or(from),
                until: left.map_or(until, |(due, _)| until.min(due + Micros(1))),
                limit: self.settings.batch,
                why: Why::Sweep,
            });
        }
        sweeps
    }

    /// Takes in what was loaded.
    pub(super) fn loaded(&mut self, order: LoadOrder, rows: Vec<Loaded>) -> TakenIn {
        let nothing_left = if order.sweeps() { TakenIn::Sweep } else { TakenIn::Load };
        let bucket = self.window.buckets.get_mut(&order.bucket);
        let Some(bucket) = bucket.filter(|bucket| bucket.epoch == order.epoch) else {
            return nothing_left;
        };
        let full = rows.len() >= order.limit;
        let last = rows.last().map(|row| (row.due, row.id)).filter(|_| full);
        match order.why {
            Why::Sweep => bucket.swept = last,
            Why::Ahead if bucket.loading.take().is_some() => {
                let watermark = last.unwrap_or((order.until, TimerId::MIN));
                bucket.watermark = watermark.max(bucket.watermark);
            }
            Why::Ahead => {}
            Why::Left(place) => {
                // What was left meanwhile, from before this on, is left still.
                let from = self.window.left[place].remove(&order.bucket);
                let first = (order.after.0, order.after.1.saturating_add(1));
                let still = from.filter(|from| *from < first);
                let rest = last.map(|(due, id)| (due, id.saturating_add(1)));
                if let Some(from) = still.or(rest) {
                    self.window.left[place].insert(order.bucket, from);
                }
            }
        }
        for row in rows {
            let resident = self.resident(row.bucket, &row.handler, row.letter.as_deref());
            if !matches!(order.why, Why::Left(place) if place != self.window.place(resident)) {
                self.take_in_as(resident, &row);
            }
        }
        if full && order.sweeps() { TakenIn::SweepHasMore } else { nothing_left }
    }

    /// A timer as it is kept here. `letter` is the beginning of its payload.
    pub(super) fn resident(
        &mut self,
        bucket: BucketNo,
        handler: &Arc<str>,
        letter: Option<&str>,
    ) -> Resident {
        let name = self.window.place_of(handler);
        let of = self.settings.handlers.get(usize::from(name)).and_then(|it| it.recipient);
        let recipient = of.zip(letter).map(|(of, letter)| of(letter)).unwrap_or_default();
        Resident { bucket, name, recipient }
    }

    /// A row of one of this node's buckets: waits, if nobody runs it.
    fn take_in(&mut self, row: &Loaded) {
        let resident = self.resident(row.bucket, &row.handler, row.letter.as_deref());
        self.take_in_as(resident, row);
    }

    fn take_in_as(&mut self, resident: Resident, row: &Loaded) {
        let Some(epoch) = self.window.starts_in(row.bucket) else { return };
        let key = (row.due, row.id);
        if self.runs.holds(row.id) {
            return;
        }
        match row.fence {
            // Of this epoch and not held: its finish is on its way.
            Some(fence) if fence.epoch() >= epoch => {}
            // Its owner died while it ran, and there is nobody here to run it: for another node, or
            // later.
            Some(fence) if usize::from(resident.name) >= self.settings.handlers.len() => {
                let then = Then::GiveBack { after: LEAST_PUT_OFF, ran: false };
                self.runs.finish_foreign(Finish { id: row.id, fence, then });
            }
            // Its owner died while it ran, perhaps because of it.
            Some(_) => {
                self.hear(key, resident, false);
                self.runs.quarantine(key, resident, row.deaths);
            }
            None => self.wait_for(key, resident, false),
        }
    }

    /// A timer that others made. What is not due within the loaded range is loaded later.
    pub(super) fn announced(&mut self, row: &Loaded) {
        if row.fence.is_some() || self.window.reaches(row.bucket, (row.due, row.id)) {
            self.take_in(row);
        }
    }

    /// A timer that was announced to this node: waits here, if its bucket is this node's and it is
    /// due within the loaded range. Otherwise its owner will load it.
    pub(super) fn near(&mut self, key: Key, resident: Resident) {
        if !self.window.reaches(resident.bucket, key) {
            return;
        }
        if !self.runs.holds(key.1) {
            self.wait_for(key, resident, true);
        } else if self.runs.is_finishing(key.1) {
            // The finish is recorded, and its answer, with an earlier time, comes after this one.
            self.runner.announce([key.1]);
        }
    }

    /// Makes a timer resident, unless it is here already. `accepted`: just now.
    fn wait_for(&mut self, key: Key, resident: Resident, accepted: bool) {
        let here = self.window.contains(key, resident) || self.runs.is_due(key, resident);
        if here || self.window.is_left(key, resident) {
            return;
        }
        if self.make_room(key, resident) {
            self.hear(key, resident, accepted);
            let place = self.window.place(resident);
            self.window.residents[place].insert(key, resident);
            let slot = slot_of(key.0);
            if key.0 != Timestamp::NEVER && !self.window.armed.contains_key(&slot) {
                self.window.unarmed.push(slot);
            }
        }
    }

    /// A timer has come. If it is due already, the time until now is not this node's.
    fn hear(&mut self, key: Key, resident: Resident, accepted: bool) {
        let Some(delays) = &self.delays else { return };
        let (bucket, at) = (resident.bucket, delays.now);
        if self.clock.local(key.0, at) < at {
            self.window.heard.insert(key, Heard { bucket, at, accepted });
        }
    }

    /// Whether another node should be told of a timer that is due `due`.
    pub(super) fn is_foreign_and_near(&self, bucket: BucketNo, due: Timestamp, now: Mono) -> bool {
        self.window.epoch(bucket).is_none()
            && due < self.clock.at_least(now) + self.lease.widest_window()
    }

    /// Makes sure that the wheel has an alarm for each slot with a timer, and that the alarm of the
    /// first one is still to come.
    pub(super) fn set_alarms(&mut self, now: Mono) {
        if std::mem::take(&mut self.window.alarms_are_wrong) {
            self.window.armed.clear();
            self.window.unarmed = self.window.slots();
        }
        let due = self.clock.at_least(now) + self.settings.lead;
        self.window.armed = self.window.armed.split_off(&slot_of(due));
        let first = self.window.residents.iter().filter_map(|it| it.keys().next()).min();
        if let Some(key) = first {
            let slot = slot_of(key.0);
            if self.window.armed.get(&slot).is_none_or(|at| *at <= now) {
                self.window.unarmed.push(slot);
            }
        }
        for slot in std::mem::take(&mut self.window.unarmed) {
            let end = Timestamp((slot + 1).saturating_mul(SLOT.0));
            let at = (self.clock.local(end, now) - self.settings.lead).max(now);
            if at < Mono::NEVER - self.settings.lead {
                self.window.armed.insert(slot, at);
                self.out.push(Output::Alarm { at });
            }
        }
    }
}

fn last_place(names: &[Arc<str>]) -> u16 {
    u16::try_from(names.len() - 1).unwrap_or(u16::MAX)
}

/// The alarm that a timer shares.
fn slot_of(due: Timestamp) -> i64 {
    due.0.div_euclid(SLOT.0)
}
