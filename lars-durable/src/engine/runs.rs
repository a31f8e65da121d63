//! What has left the window: timers that are due, from then until their finish is recorded.
//!
//! ```text
//!               ┌▶ ready ──────┐
//!   window ─ due┤              ├─ start ─▶ Starting ─ record ─▶ Held ⇄ Running
//!               └▶ unknown     │              │                  │       │
//!   store ─▶ quarantine ───────┘              │ end              └ finish ┘
//!                                             ▼                      ▼
//!                                            gone ◀──── end ──── Finishing
//! ```
//!
//! A handler that runs at most once goes from `Held` by `delete_first` to `Deleting`, and back when
//! its row is gone: it goes before the run. If the answer to that was lost, it is `Doubtful` in
//! between, until a renewal says that nobody else can have deleted it.
//!
//! Two numbers follow from this, and only the verbs here change them: a run counts against its
//! handler's concurrency until it is `Finishing`, and against the memory of the node until it is
//! gone. A finish waits here until the runner sends it; it names the fence of its run, so that one
//! that comes too late changes nothing.
//!
//! The runner starts what is here (`runner`), and what is started is launched and ended by
//! `launches`. Neither looks at a field.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::delays::Past;
use super::quarantine::{Quarantine, Released};
use super::ready::Ready;
use super::settings::HandlerSettings;
use super::window::{Key, Resident};
use crate::model::{BucketNo, CancelReason, Fence, Finish, Recipient, Row, Start, Then, TimerId};
use crate::sync::Arc;
use crate::time::{Micros, Mono};

/// How long after a failed try the finish of a row that somebody holds is tried again.
const HELD: Micros = Micros::MILLISECOND.times(500);

/// See the module's documentation.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Runs {
    /// Waiting for a place: by handler.
    ready: Vec<Ready>,
    /// Due, and without a handler on this node.
    unknown: BTreeMap<Key, Resident>,
    quarantine: Quarantine,
    /// From the request to start until the finish is recorded.
    runs: BTreeMap<TimerId, Run>,
    /// How many of them are not finishing.
    busy: Busy,
    /// To be sent, in this order.
    finishes: VecDeque<Finish>,
    /// Series to be ended, whose rows had gone on when the handler said so.
    ends: Vec<TimerId>,
    /// Finishes that came too late, nobody knows why: the rows tell.
    unsettled: Vec<Finish>,
    held: HeldFinishes,
}

/// How many runs count against a limit.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Busy {
    /// Of each handler.
    handlers: Vec<usize>,
    /// Of each recipient.
    lines: BTreeMap<Resident, usize>,
}

impl Busy {
    fn take(&mut self, resident: Resident) {
        self.handlers[usize::from(resident.name)] += 1;
        if resident.recipient != Recipient::default() {
            *self.lines.entry(resident).or_default() += 1;
        }
    }

    fn free(&mut self, resident: Resident) {
        self.handlers[usize::from(resident.name)] -= 1;
        if let Entry::Occupied(mut line) = self.lines.entry(resident) {
            *line.get_mut() -= 1;
            if *line.get() == 0 {
                line.remove();
            }
        }
    }
}

/// Finishes of rows that a transaction holds which may take long, such as one of a user.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct HeldFinishes {
    finishes: Vec<Finish>,
    ends: Vec<TimerId>,
    /// When they are tried again.
    again: Mono,
}

/// One run.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Run {
    /// Where it was in the window.
    pub(super) key: Key,
    pub(super) resident: Resident,
    pub(super) fence: Fence,
    /// The handler's place in the settings.
    pub(super) handler: usize,
    pub(super) stage: Stage,
    /// The handler has recorded its end itself, perhaps.
    pub(super) acknowledged: bool,
    /// And it has said that this run is the last one of its series.
    pub(super) last: bool,
    /// The handler has returned. Only calls that it has made are still to be answered.
    handled: bool,
    /// The rule that its timer was given while the start was on its way: the lanes of the store
    /// answer in any order.
    rule: Option<Option<String>>,
    /// Why it need not go on: its handler was told, or is when it is launched.
    pub(super) told: Option<CancelReason>,
    /// At which instant it was to begin.
    pub(super) launched: Mono,
    pub(super) past: Past,
}

/// How far a run has come.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) enum Stage {
    /// The request to start it is on its way.
    Starting,
    /// It is recorded, and waits for the lease.
    Held(Arc<Row>),
    Running(Arc<Row>),
    /// Deleted before it runs: what the finish says does not matter to the run.
    Deleting(Arc<Row>),
    /// It is deleted, by this node or by another one: a renewal that is sent after this says which.
    Doubtful(Arc<Row>, Mono),
    /// It has ended, or was never begun; the finish is on its way. Of one that is given up, or that
    /// its handler has recorded the end of, the row is kept, to say what became of it.
    Finishing(Option<Arc<Row>>),
}

impl Runs {
    pub(super) fn new(handlers: &[HandlerSettings]) -> Self {
        let lines = handlers.iter().map(|handler| handler.recipient.is_some());
        Self {
            ready: lines.map(Ready::new).collect(),
            unknown: BTreeMap::new(),
            quarantine: Quarantine::new(handlers.len()),
            runs: BTreeMap::new(),
            busy: Busy { handlers: vec![0; handlers.len()], lines: BTreeMap::new() },
            finishes: VecDeque::new(),
            ends: Vec::new(),
            unsettled: Vec::new(),
            held: HeldFinishes { finishes: Vec::new(), ends: Vec::new(), again: Mono::NEVER },
        }
    }

    /// How many timers are here and not resident.
    pub(super) fn len(&self) -> usize {
        self.ready() + self.unknown.len() + self.quarantine.len() + self.runs.len()
    }

    /// How many are started, or about to be, and not recorded as ended.
    pub(super) fn in_flight(&self) -> usize {
        self.runs.len()
    }

    /// Whether nothing runs, and no finish is left to be sent.
    pub(super) fn is_idle(&self) -> bool {
        let HeldFinishes { finishes, ends, .. } = &self.held;
        self.runs.is_empty()
            && self.finishes.is_empty()
            && self.ends.is_empty()
            && finishes.is_empty()
            && ends.is_empty()
    }

    /// Buckets in which something runs.
    pub(super) fn buckets(&self) -> BTreeSet<BucketNo> {
        self.runs.values().map(|run| run.resident.bucket).collect()
    }

    // What waits.

    /// A timer has left the window.
    pub(super) fn due(&mut self, key: Key, resident: Resident) {
        match self.ready.get_mut(usize::from(resident.name)) {
            Some(ready) => ready.insert(key, resident),
            None => drop(self.unknown.insert(key, resident)),
        }
    }

    /// A timer that an owner had started which is dead, and how many owners died before.
    pub(super) fn quarantine(&mut self, key: Key, resident: Resident, deaths: u32) {
        self.quarantine.add(key, resident, deaths);
    }

    /// Whether it waits here under this very time.
    pub(super) fn is_due(&self, key: Key, resident: Resident) -> bool {
        match self.ready.get(usize::from(resident.name)) {
            Some(ready) => ready.contains(key),
            None => self.unknown.contains_key(&key),
        }
    }

    /// Forgets a timer that was cancelled or moved before it started.
    pub(super) fn forget(&mut self, key: Key) {
        for ready in &mut self.ready {
            ready.remove(key);
        }
    }

    /// How many wait for a place.
    pub(super) fn ready(&self) -> usize {
        self.ready.iter().map(Ready::len).sum()
    }

    /// How many of them are of this handler.
    pub(super) fn ready_of(&self, place: usize) -> usize {
        self.ready.get(place).map_or(0, Ready::len)
    }

    /// The last one of this handler that waits.
    pub(super) fn last_ready(&self, place: usize) -> Option<Key> {
        self.ready.get(place)?.last()
    }

    /// Takes that one.
    pub(super) fn pop_last_ready(&mut self, place: usize) -> Option<(Key, Resident)> {
        let last = self.last_ready(place)?;
        self.take_ready(last, place)
    }

    /// How many timers of this handler are here and not resident, but for those whose finish is on
    /// its way; in the place behind the handlers, of those that have none.
    pub(super) fn len_of(&self, place: usize) -> usize {
        self.ready.get(place).map_or(self.unknown.len(), |ready| ready.len() + self.busy(place))
    }

    /// The first of those that wait for a handler which is `open`; where it has lines, one that
    /// `goes`.
    pub(super) fn first_ready(
        &self,
        open: impl Fn(usize) -> bool,
        goes: impl Fn(Key, Resident) -> bool,
    ) -> Option<(Key, usize)> {
        let open = (0..self.ready.len()).filter(|place| self.ready_of(*place) > 0 && open(*place));
        let first = |place: usize| Some((self.ready[place].first(&goes)?, place));
        open.filter_map(first).min()
    }

    /// Takes one that waits for this handler.
    pub(super) fn take_ready(&mut self, key: Key, place: usize) -> Option<(Key, Resident)> {
        Some((key, self.ready[place].remove(key)?))
    }

    /// Behind what of quarantine the later timers of a recipient wait, where those are `in_order`.
    pub(super) fn held_up(&self, in_order: impl Fn(Resident) -> bool) -> BTreeMap<Resident, Key> {
        if self.quarantine.len() == 0 {
            return BTreeMap::new();
        }
        let mut first = self.quarantine.first_of_each();
        first.retain(|resident, _| in_order(*resident));
        first
    }

    /// How many wait in quarantine.
    pub(super) fn quarantined(&self) -> usize {
        self.quarantine.len()
    }

    /// The next one of those in quarantine that may start, of a handler that is `open`.
    pub(super) fn next_quarantined(
        &self,
        now: Mono,
        open: impl Fn(usize) -> bool,
    ) -> Option<Released> {
        self.quarantine.next(now, open)
    }

    /// It is about to start.
    pub(super) fn leave_quarantine(&mut self, released: Released) {
        self.quarantine.take(released);
    }

    /// When another one may leave it because of the time alone, at the earliest.
    pub(super) fn next_release(&self, now: Mono) -> Mono {
        self.quarantine.again(now)
    }

    /// Takes those that this node cannot run, `most` of them.
    pub(super) fn take_unknown(&mut self, most: usize) -> Vec<(Key, Resident)> {
        std::iter::from_fn(|| self.unknown.pop_first()).take(most).collect()
    }

    /// Whether there are such.
    pub(super) fn has_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }

    // From the request to start until the finish is recorded.

    /// How many runs count against the limit of the node.
    pub(super) fn active(&self) -> usize {
        self.busy.handlers.iter().sum()
    }

    /// How many of them this handler has.
    pub(super) fn busy(&self, place: usize) -> usize {
        self.busy.handlers[place]
    }

    /// How many of them its recipient has; none, if nobody knows whose it is.
    pub(super) fn busy_with(&self, resident: Resident) -> usize {
        self.busy.lines.get(&resident).copied().unwrap_or(0)
    }

    /// Whether a timer is started, or about to be. One that was moved nearer by another node is in
    /// the window under its new time as well: its finish says when it is due again.
    pub(super) fn holds(&self, id: TimerId) -> bool {
        self.runs.contains_key(&id)
    }

    /// Whether its finish is on its way.
    pub(super) fn is_finishing(&self, id: TimerId) -> bool {
        self.runs.get(&id).is_some_and(|run| matches!(run.stage, Stage::Finishing(_)))
    }

    pub(super) fn get(&self, id: TimerId) -> Option<&Run> {
        self.runs.get(&id)
    }

    /// The start is about to be sent.
    pub(super) fn start(
        &mut self,
        key: Key,
        resident: Resident,
        fence: Fence,
        past: Past,
    ) -> Start {
        let (id, handler) = (key.1, usize::from(resident.name));
        self.busy.take(resident);
        let run = Run {
            key,
            resident,
            fence,
            handler,
            stage: Stage::Starting,
            acknowledged: false,
            last: false,
            handled: false,
            rule: None,
            told: None,
            launched: Mono(0),
            past,
        };
        self.runs.insert(id, run);
        Start { id, bucket: resident.bucket, fence }
    }

    /// One from quarantine is about to start.
    pub(super) fn isolate(&mut self, now: Mono, released: Released) {
        self.quarantine.begin(now, released);
    }

    /// The store has answered what has to come before the run.
    pub(super) fn recorded(&mut self, id: TimerId, now: Mono) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.past.recorded = now;
        }
    }

    /// The start is recorded, or has to wait for the lease again.
    pub(super) fn hold(&mut self, id: TimerId, row: Arc<Row>) {
        self.set_stage(id, Stage::Held(row));
    }

    /// It is launched.
    pub(super) fn launch(&mut self, id: TimerId, row: Arc<Row>, at: Mono) {
        self.set_stage(id, Stage::Running(row));
        if let Some(run) = self.runs.get_mut(&id) {
            run.launched = at;
        }
    }

    /// Those that are recorded and not launched, in the order in which they start.
    pub(super) fn held(&self) -> Vec<(Key, TimerId)> {
        let held = self.runs.iter().filter(|(_, run)| matches!(run.stage, Stage::Held(_)));
        let mut held: Vec<(Key, TimerId)> = held.map(|(id, run)| (run.key, *id)).collect();
        held.sort_unstable();
        held
    }

    /// The handler has recorded the end itself, if its transaction commits.
    pub(super) fn acknowledge(&mut self, id: TimerId, fence: Fence) {
        if let Some(run) = self.runs.get_mut(&id).filter(|run| run.fence == fence) {
            run.acknowledged = true;
        }
    }

    /// That run is the last one of its series.
    pub(super) fn say_last(&mut self, id: TimerId) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.last = true;
        }
    }

    /// It need not go on. Returns it if its handler is at work and was told nothing before.
    #[must_use]
    pub(super) fn tell(&mut self, id: TimerId, reason: CancelReason) -> Option<&Run> {
        let run = self.runs.get_mut(&id).filter(|run| run.told.is_none())?;
        run.told = Some(reason);
        matches!(run.stage, Stage::Running(_)).then_some(run)
    }

    /// Those whose handlers are at work and were told nothing, from behind this one on.
    pub(super) fn untold(&self, after: TimerId) -> impl Iterator<Item = (TimerId, &Run)> {
        let untold = |run: &Run| run.told.is_none() && matches!(run.stage, Stage::Running(_));
        let behind = self.runs.range(after.saturating_add(1)..);
        behind.filter(move |(_, run)| untold(run)).map(|(id, run)| (*id, run))
    }

    /// The timer has another rule now: the run that follows this one is planned by that.
    pub(super) fn follow(&mut self, id: TimerId, series: Option<&str>) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        match &mut run.stage {
            Stage::Starting => run.rule = Some(series.map(str::to_owned)),
            Stage::Held(row) | Stage::Running(row) => {
                *row = Arc::new(Row { series: series.map(str::to_owned), ..Row::clone(row) });
            }
            Stage::Deleting(_) | Stage::Doubtful(..) | Stage::Finishing(_) => {}
        }
    }

    /// The row of a run whose start is recorded, with the rule that its timer has now.
    pub(super) fn up_to_date(&mut self, row: Row) -> Row {
        match self.runs.get_mut(&row.id).and_then(|run| run.rule.take()) {
            Some(series) => Row { series, ..row },
            None => row,
        }
    }

    /// The handler has returned: the run ends when its calls are answered, and is not given up.
    pub(super) fn handle(&mut self, id: TimerId, fence: Fence) {
        if let Some(run) = self.runs.get_mut(&id).filter(|run| run.fence == fence) {
            run.handled = true;
        }
    }

    /// The row goes before the run: nobody can run it a second time.
    pub(super) fn delete_first(&mut self, id: TimerId, row: Arc<Row>, then: Then) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.stage = Stage::Deleting(row);
            self.finishes.push_back(Finish { id, fence: run.fence, then });
        }
    }

    /// The row that was to go before the run is gone, and nobody knows through whom.
    pub(super) fn doubt(&mut self, id: TimerId, row: Arc<Row>, now: Mono) {
        self.set_stage(id, Stage::Doubtful(row, now));
    }

    /// Those of which that is not known, and since when.
    pub(super) fn doubtful(&self) -> Vec<(TimerId, Arc<Row>, Mono)> {
        let doubtful = self.runs.iter().filter_map(|(id, run)| match &run.stage {
            Stage::Doubtful(row, since) => Some((run.key, *id, Arc::clone(row), *since)),
            _ => None,
        });
        let mut doubtful: Vec<_> = doubtful.collect();
        doubtful.sort_unstable_by_key(|(key, ..)| *key);
        doubtful.into_iter().map(|(_, id, row, since)| (id, row, since)).collect()
    }

    /// The run is over, or never begins. It leaves its handler's place to another one; the timer
    /// stays here until its finish is recorded.
    pub(super) fn finish(&mut self, id: TimerId, then: Then) {
        if let Some(run) = self.runs.get_mut(&id) {
            self.busy.free(run.resident);
            let given_up = matches!(then, Then::Park { .. } | Then::ParkRun { .. });
            let row = match &run.stage {
                Stage::Held(row) | Stage::Running(row) if given_up || run.acknowledged => {
                    Some(Arc::clone(row))
                }
                _ => None,
            };
            run.stage = Stage::Finishing(row);
            self.finishes.push_back(Finish { id, fence: run.fence, then });
        }
    }

    /// Nothing is left to be done about it.
    pub(super) fn end(&mut self, id: TimerId) -> Option<Run> {
        let run = self.runs.remove(&id)?;
        if !matches!(run.stage, Stage::Finishing(_)) {
            self.busy.free(run.resident);
        }
        self.quarantine.end(id);
        Some(run)
    }

    /// Gives up all runs whose handlers have not returned, and gives their timers back; says how
    /// many. The rows of some handlers go before their runs, as `is_gone` says.
    pub(super) fn abandon(&mut self, is_gone: impl Fn(usize) -> bool) -> usize {
        let mut abandoned = Vec::new();
        for (id, run) in &self.runs {
            match run.stage {
                // Nobody has to be waited for but the store, and that has a limit of its own.
                Stage::Running(_) if run.handled => {}
                Stage::Held(_) | Stage::Running(_) => abandoned.push((*id, is_gone(run.handler))),
                // Its answer says what is to be done about it.
                Stage::Starting
                | Stage::Deleting(_)
                | Stage::Doubtful(..)
                | Stage::Finishing(_) => {}
            }
        }
        for (id, is_gone) in &abandoned {
            if *is_gone {
                self.end(*id);
            } else {
                self.finish(*id, Then::GiveBack { after: Micros::ZERO, ran: false });
            }
        }
        abandoned.len()
    }

    fn set_stage(&mut self, id: TimerId, stage: Stage) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.stage = stage;
        }
    }

    // Finishes on their way.

    /// A finish for a run that is not one of this node.
    pub(super) fn finish_foreign(&mut self, finish: Finish) {
        self.finishes.push_back(finish);
    }

    /// A row is held: its finish is to be sent again, but not at once.
    pub(super) fn retry_finish(&mut self, now: Mono, finish: Finish) {
        self.held.finishes.push(finish);
        self.held.again = self.held.again.min(now + HELD);
    }

    /// A series is over, although its row has gone on.
    pub(super) fn end_series(&mut self, id: TimerId) {
        self.ends.push(id);
    }

    /// Whether this finish came too late because of an earlier try of it is to be looked for.
    pub(super) fn unsettle(&mut self, finish: Finish) {
        self.unsettled.push(finish);
    }

    /// Takes all of which that is to be looked for.
    pub(super) fn take_unsettled(&mut self) -> Vec<Finish> {
        std::mem::take(&mut self.unsettled)
    }

    /// The row is held: it is to be ended again, but not at once.
    pub(super) fn retry_end(&mut self, now: Mono, id: TimerId) {
        self.held.ends.push(id);
        self.held.again = self.held.again.min(now + HELD);
    }

    /// Whether there is one to be sent now.
    pub(super) fn has_finishes(&self) -> bool {
        !self.finishes.is_empty() || !self.ends.is_empty() || !self.unsettled.is_empty()
    }

    /// When those of rows that were held are to be sent.
    pub(super) fn next_retry(&self) -> Mono {
        self.held.again
    }

    /// Takes those that are to be sent, `most` of them.
    pub(super) fn take_finishes(&mut self, now: Mono, most: usize) -> Vec<Finish> {
        if self.held.again <= now {
            self.held.again = Mono::NEVER;
            self.finishes.extend(self.held.finishes.drain(..));
            self.ends.append(&mut self.held.ends);
        }
        let count = self.finishes.len().min(most);
        self.finishes.drain(..count).collect()
    }

    /// Takes the series that are to be ended, `most` of them.
    pub(super) fn take_ends(&mut self, most: usize) -> Vec<TimerId> {
        let count = self.ends.len().min(most);
        self.ends.drain(..count).collect()
    }
}
