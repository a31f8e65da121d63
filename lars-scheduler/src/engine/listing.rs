//! What a listing of the pending timers asks for, and what it has found so far. The walk itself is
//! the driver's: see `driver::walk`.

use std::collections::{BinaryHeap, HashMap};
use std::ptr;
use std::time::Duration;

use futures::channel::oneshot;

use crate::base::identity::TaskIdentity;
use crate::base::tick::{Tick, nanos};
use crate::sync::{AtomicBool, Mutex, Ordering};
use lars_base::panics::quietly;

/// Which of the pending timers a listing has, and how many of them one by one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// A part of the name, or of the type if there is no name.
    pub(crate) label: Option<String>,
    /// A part of the place, which reads `file:line:column`.
    pub(crate) place: Option<String>,
    pub(crate) repeats: Option<bool>,
    pub(crate) due_within: Option<Duration>,
    /// Whether they are also counted by the slots of the wheel.
    pub(crate) levels: bool,
    pub(crate) limit: usize,
}

/// How many timers belong in each slot of a wheel, by their deadlines.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) tick: Tick,
    pub(crate) levels: Vec<Level>,
}

/// One level; neighbouring slots may be counted together.
#[derive(Debug)]
pub(crate) struct Level {
    /// What is counted together spans `1 << shift` ticks.
    pub(crate) shift: u32,
    pub(crate) counts: Vec<u64>,
}

impl Levels {
    /// The levels of a wheel, from the lowest, which spans the least time, to the highest, which
    /// spans all: of each the shift and how many counts it has, a power of two.
    pub(crate) fn new(tick: Tick, levels: impl Iterator<Item = (u32, usize)>) -> Self {
        let levels = levels.map(|(shift, counts)| Level { shift, counts: vec![0; counts] });
        Self { tick, levels: levels.collect() }
    }

    /// Counts a timer on the lowest level that reaches its deadline; one that is due, where the
    /// hand is.
    fn add(&mut self, due: u64, now: u64) {
        let now = self.tick.reached_by(now);
        let tick = self.tick.at_or_after(due).max(now);
        let reaches = |level: &Level| ((tick >> level.shift) - (now >> level.shift)) < level.len();
        let level = self.levels.iter().position(reaches).unwrap_or(self.levels.len() - 1);
        let level = &mut self.levels[level];
        let slot = level.slot_of(tick);
        level.counts[slot] += 1;
    }
}

impl Level {
    fn len(&self) -> u64 {
        self.counts.len() as u64
    }

    /// The count for a tick. That of the tick that has been reached is where the hand is.
    pub(crate) fn slot_of(&self, tick: u64) -> usize {
        ((tick >> self.shift) & (self.len() - 1)) as usize
    }
}

/// One timer that was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) identity: TaskIdentity,
    pub(crate) due: u64,
    pub(crate) repeat: bool,
    pub(crate) inline: bool,
}

/// Ordered by deadline, so that the first to leave a full heap is the last to be due.
#[derive(Debug)]
struct ByDue(Found);

impl PartialEq for ByDue {
    fn eq(&self, other: &Self) -> bool {
        self.0.due == other.0.due
    }
}
impl Eq for ByDue {}
impl PartialOrd for ByDue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ByDue {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.due.cmp(&other.0.due)
    }
}

/// All timers of one identity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) identity: TaskIdentity,
    pub(crate) count: u64,
    pub(crate) earliest: u64,
    /// Whether the filter takes this identity: found out once for all its timers.
    wanted: bool,
}

/// The addresses, with the lengths, that tell identities apart without comparing their texts. (A
/// type name may have several addresses. Such groups are put together at the end.)
type Key = (Option<*const str>, *const str, Option<*const ()>);

fn key(identity: &TaskIdentity) -> Key {
    let place = identity.place().map(|place| ptr::from_ref(place).cast());
    (identity.name().map(ptr::from_ref), ptr::from_ref(identity.type_name()), place)
}

/// What a listing has found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    nearest: BinaryHeap<ByDue>,
    groups: HashMap<Key, Group>,
    /// How many timers the filter takes.
    pub(crate) matched: u64,
    /// How many timers could not be looked at.
    pub(crate) unseen: u64,
    /// If the filter asks for them.
    pub(crate) levels: Option<Levels>,
    /// When the walk ended; `None` if the scheduler had stopped.
    pub(crate) taken_at: Option<u64>,
}

// SAFETY: the addresses in the keys are of what lives forever and does not change, and only
// compared.
unsafe impl Send for Findings {}

impl Findings {
    /// Adds a timer, if the filter takes it.
    pub(crate) fn add(&mut self, found: Found, filter: &Filter, now: u64) {
        let group = self.groups.entry(key(&found.identity)).or_insert_with(|| Group {
            identity: found.identity,
            count: 0,
            earliest: u64::MAX,
            wanted: filter.takes(&found.identity),
        });
        let near =
            filter.due_within.is_none_or(|within| found.due <= now.saturating_add(nanos(within)));
        if !group.wanted || !near || filter.repeats.is_some_and(|wanted| wanted != found.repeat) {
            return;
        }
        group.count += 1;
        group.earliest = group.earliest.min(found.due);
        self.matched += 1;
        if let Some(levels) = &mut self.levels {
            levels.add(found.due, now);
        }
        if self.nearest.len() < filter.limit {
            self.nearest.push(ByDue(found));
        } else if let Some(mut last) = self.nearest.peek_mut()
            && found.due < last.0.due
        {
            *last = ByDue(found);
        }
    }

    /// The timers that are due next, in order, and all groups that have any, the largest first.
    pub(crate) fn into_parts(self) -> (Vec<Found>, Vec<Group>) {
        let timers = self.nearest.into_sorted_vec().into_iter().map(|by_due| by_due.0).collect();
        let mut groups = HashMap::new();
        for group in self.groups.into_values().filter(|group| group.count > 0) {
            groups
                .entry(group.identity)
                .and_modify(|same: &mut Group| {
                    same.count += group.count;
                    same.earliest = same.earliest.min(group.earliest);
                })
                .or_insert(group);
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.count), group.earliest));
        (timers, groups)
    }
}

impl Filter {
    fn takes(&self, identity: &TaskIdentity) -> bool {
        let place = || identity.place().map(ToString::to_string).unwrap_or_default();
        self.label.as_ref().is_none_or(|label| identity.label().contains(label))
            && self.place.as_ref().is_none_or(|wanted| place().contains(wanted))
    }
}

/// A listing that somebody waits for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) filter: Filter,
    pub(crate) findings: Findings,
    sender: oneshot::Sender<Findings>,
}

impl Request {
    pub(crate) fn resolve(self) {
        // Wakers are foreign code. Perhaps nobody waits any more, which does no harm.
        quietly(|| drop(self.sender.send(self.findings)));
    }

    /// Resolves with what is pending when the scheduler has stopped.
    pub(crate) fn resolve_empty(self) {
        Self { findings: Findings::default(), ..self }.resolve();
    }

    /// Whether nobody waits for it any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.sender.is_canceled()
    }
}

/// The listings that the driver has not begun. `None` once it has stopped.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Whether there is one: a notice of `sleep_word`, beside the stop word.
    asked: AtomicBool,
    waiting: Mutex<Option<Vec<Request>>>,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self { asked: AtomicBool::new(false), waiting: Mutex::new(Some(Vec::new())) }
    }

    /// Asks for a listing. The caller wakes the timer thread after this. When the scheduler has
    /// stopped nothing is pending.
    pub(crate) fn ask(&self, filter: Filter) -> oneshot::Receiver<Findings> {
        let (sender, receiver) = oneshot::channel();
        let request = Request { filter, findings: Findings::default(), sender };
        let mut waiting = self.waiting.lock();
        match &mut *waiting {
            Some(waiting) => {
                waiting.push(request);
                // SeqCst: (1) of `sleep_word`.
                self.asked.store(true, Ordering::SeqCst);
            }
            None => {
                drop(waiting);
                request.resolve();
            }
        }
        receiver
    }

    /// Whether somebody has asked. Looked at by the driver once a turn.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        // SeqCst: (4) of `sleep_word`, like the stop word.
        self.asked.load(Ordering::SeqCst)
    }

    /// What has been asked for.
    pub(crate) fn take(&self) -> Vec<Request> {
        let mut waiting = self.waiting.lock();
        // SeqCst: every write is, as of the sleep word. (The lock orders what was pushed.)
        self.asked.store(false, Ordering::SeqCst);
        waiting.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The scheduler has stopped: nothing is pending.
    pub(crate) fn close(&self) {
        let waiting = self.waiting.lock().take();
        waiting.into_iter().flatten().for_each(Request::resolve);
    }
}
