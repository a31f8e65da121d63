//! What a thread did lately, and what that means for a task that begins late on it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Cause;
use super::machine::{Counted, Machine, What};
use super::parts::{Culprit, Parts, Who, portion};
use crate::base::raw_task::Whose;

/// How many pieces of time a journal keeps. Then it joins the older ones in pairs.
const PIECES: usize = 256;
/// How many waits for gates, and how many counts of the kernel, it keeps.
const FEW: usize = 64;
/// How many tasks one piece tells apart.
const TOLD_APART: usize = 4;
/// How many latenesses are explained one by one after a pause. Then one explanation stands for all
/// of a quarter of the bound: in an overload it takes longer to find out why than to run the task.
const ONE_BY_ONE: u32 = 8;

/// The time of the tasks of one identity in a piece.
#[derive(Debug, Clone, Copy)]
struct Share {
    whose: Whose,
    nanos: u64,
    runs: u64,
}

/// A piece of time, and what its thread did in it. The rest of it went into what nobody has noted:
/// on a timer thread that is housekeeping.
#[derive(Debug, Clone)]
struct Piece {
    from: u64,
    to: u64,
    shares: [Option<Share>; TOLD_APART],
    /// The time of other tasks.
    others: u64,
    slept: u64,
    /// The time that was somebody else's: between two turns of an event loop.
    away: u64,
    /// The time of hooks and of the log.
    hooks: u64,
}

impl Piece {
    fn new(from: u64, to: u64) -> Self {
        Self { from, to, shares: [None; TOLD_APART], others: 0, slept: 0, away: 0, hooks: 0 }
    }

    fn add(&mut self, more: Share) {
        for share in &mut self.shares {
            match share {
                Some(share) if share.whose.key() == more.whose.key() => {
                    share.nanos += more.nanos;
                    share.runs += more.runs;
                    return;
                }
                Some(_) => {}
                None => {
                    *share = Some(more);
                    return;
                }
            }
        }
        self.others += more.nanos;
    }

    /// This piece and a later one, with the time between them.
    fn join(&mut self, later: &Self) {
        self.to = later.to;
        later.shares.iter().flatten().for_each(|&share| self.add(share));
        self.others += later.others;
        self.slept += later.slept;
        self.away += later.away;
        self.hooks += later.hooks;
    }
}

/// A time in which something due could not be reached, because of a thread, if its name is known.
#[derive(Debug, Clone)]
struct Shut {
    from: u64,
    to: u64,
    thread: Option<Arc<str>>,
}

/// What a thread waited for when it had nothing else to do in a time that was not its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View {
    /// The thread that turns the driver.
    Timer,
    /// A thread of a pool, while the task was in the queue.
    Queue,
    /// A thread of a pool, while the task waited for room in the queue.
    Room,
}

/// What a thread did, for its latenesses and those of others to be laid over.
#[derive(Debug, Clone)]
struct Notes {
    /// One after another, with gaps.
    pieces: VecDeque<Piece>,
    gates: VecDeque<Shut>,
    counted: VecDeque<Counted>,
    /// Whether the platform says what the machine takes.
    known: bool,
    /// What was before this is not known.
    since: u64,
    /// A task that takes longer than this is late's cause by itself.
    bound: u64,
}

/// What a thread has done lately. Only that thread writes and reads it.
#[derive(Debug)]
pub(crate) struct Journal {
    notes: Notes,
    /// Pieces that are shorter together than this become one. What takes longer is looked into.
    grain: u64,
    /// `None` in the time of a test.
    machine: Option<Machine>,
    /// How many more latenesses are explained one by one.
    left: u32,
    /// The last explanation, and when it was given.
    last: Option<(u64, Parts)>,
    /// What other threads were told last.
    told: Option<Arc<History>>,
}

impl Journal {
    /// For the calling thread, from `now` on, in `real` time or in that of a test.
    pub(crate) fn new(bound: u64, now: u64, real: bool) -> Self {
        let machine = real.then(|| Machine::new(bound, now));
        let notes = Notes {
            pieces: VecDeque::with_capacity(PIECES),
            gates: VecDeque::new(),
            counted: VecDeque::new(),
            known: machine.as_ref().is_none_or(Machine::is_known),
            since: now,
            bound,
        };
        Self { notes, grain: bound / 16 + 1, machine, left: ONE_BY_ONE, last: None, told: None }
    }

    /// Tasks ran from `from` to `to`, and each had an equal part of that time.
    pub(crate) fn ran(
        &mut self,
        (from, to): (u64, u64),
        tasks: impl ExactSizeIterator<Item = Whose>,
    ) {
        let count = tasks.len() as u64;
        if count == 0 || to <= from {
            return;
        }
        self.look_into(from, to);
        let (each, mut rest) = ((to - from) / count, (to - from) % count);
        let piece = self.piece(from, to);
        // In a burst those that follow each other are often alike.
        let mut alike: Option<((usize, usize), Share)> = None;
        for whose in tasks {
            let (key, nanos) = (whose.key(), each + std::mem::take(&mut rest));
            match &mut alike {
                Some((same, share)) if *same == key => {
                    share.nanos += nanos;
                    share.runs += 1;
                }
                _ => {
                    let new = (key, Share { whose, nanos, runs: 1 });
                    if let Some((_, done)) = alike.replace(new) {
                        piece.add(done);
                    }
                }
            }
        }
        if let Some((_, last)) = alike {
            piece.add(last);
        }
    }

    /// The thread slept until `to`, although it had to be awake by `asked`.
    pub(crate) fn slept(&mut self, from: u64, asked: u64, to: u64) {
        if to > from {
            self.look_into(asked.max(from), to);
            self.piece(from, to).slept += to - from;
        }
    }

    /// The thread did what is not ours.
    pub(crate) fn was_away(&mut self, from: u64, to: u64) {
        if to > from {
            self.piece(from, to).away += to - from;
        }
    }

    /// Hooks and the log were told of something.
    pub(crate) fn hooks_ran(&mut self, from: u64, to: u64) {
        if to > from {
            self.look_into(from, to);
            self.piece(from, to).hooks += to - from;
        }
    }

    /// The piece for a time that begins when the last one has ended, or later.
    fn piece(&mut self, from: u64, to: u64) -> &mut Piece {
        let pieces = &mut self.notes.pieces;
        let continues = |last: &Piece| last.to == from && to - last.from <= self.grain;
        if pieces.back().is_some_and(continues) {
            let last = pieces.len() - 1;
            pieces[last].to = to;
            return &mut pieces[last];
        }
        if pieces.len() == PIECES {
            join_older(pieces);
        }
        pieces.push_back(Piece::new(from, to));
        let last = pieces.len() - 1;
        &mut pieces[last]
    }

    /// Asks the machine about a time that was longer than it should have been.
    fn look_into(&mut self, from: u64, to: u64) {
        if to.saturating_sub(from) > self.grain
            && let Some(machine) = &mut self.machine
        {
            let counted = &mut self.notes.counted;
            machine.look(to, |new| {
                if new.nanos > 0 || new.what == What::Ran {
                    keep_count(counted, new);
                }
            });
        }
    }

    fn look_since_last(&mut self, now: u64) {
        let last = self.machine.as_ref().map_or(now, Machine::looked_at);
        self.look_into(last, now);
    }

    /// What was due in that time could not be reached, because of a thread.
    pub(crate) fn was_shut_out(&mut self, from: u64, to: u64, thread: Option<Arc<str>>) {
        let gates = &mut self.notes.gates;
        // In the order of their ends, although one may come with a slightly older reading.
        let to = gates.back().map_or(to, |last| to.max(last.to));
        keep(gates, Shut { from, to, thread });
    }

    /// A moment in which nothing is late: what the kernel has counted up to now explains nothing
    /// that comes.
    pub(crate) fn begin_anew(&mut self, now: u64) {
        if let Some(machine) = &mut self.machine {
            machine.begin_anew(now);
        }
        (self.left, self.last, self.told) = (ONE_BY_ONE, None, None);
    }

    /// The explanation that stands for what is late now, if one does.
    pub(crate) fn stands(&self, now: u64) -> Option<&Parts> {
        let (then, parts) = self.last.as_ref()?;
        (now.saturating_sub(*then) <= self.notes.bound / 4).then_some(parts)
    }

    /// What explains a lateness of so many nanoseconds: `explain`, or what that said last, if there
    /// have been many.
    pub(crate) fn explain_by(
        &mut self,
        late: u64,
        now: u64,
        explain: impl FnOnce(&mut Self) -> Parts,
    ) -> Parts {
        if let Some(parts) = self.stands(now) {
            return parts.scaled_to(late);
        }
        self.left = self.left.saturating_sub(1);
        let parts = explain(self);
        if self.left == 0 {
            self.last = Some((now, parts.clone()));
        }
        parts
    }

    /// The part of a lateness that lies between two instants, of which the later is now.
    pub(crate) fn explain(&mut self, from: u64, to: u64, view: View) -> Parts {
        self.look_since_last(to);
        self.notes.explain(from, to, view)
    }

    /// The part of a lateness that lies between two instants, of which both are over.
    pub(crate) fn explain_earlier(&self, from: u64, to: u64, view: View) -> Parts {
        self.notes.explain(from, to, view)
    }

    /// What happened from `from` to `now`, for other threads to lay latenesses over. Tasks have
    /// been waiting for room in the queue of the pool since `held_from`, if they have.
    pub(crate) fn history(&mut self, from: u64, now: u64, held_from: Option<u64>) -> Arc<History> {
        if let Some(told) = &self.told
            && told.from <= from
            && now.saturating_sub(told.to) <= self.notes.bound / 4
            && told.held_from == held_from
        {
            return Arc::clone(told);
        }
        self.look_since_last(now);
        let notes = self.notes.between(from, now);
        let new = Arc::new(History { notes, from, to: now, held_from });
        self.told = Some(Arc::clone(&new));
        new
    }
}

/// Joins the older half in pairs, so that there is room, and what was long ago is still known.
fn join_older(pieces: &mut VecDeque<Piece>) {
    for pair in 0..PIECES / 4 {
        let later = pieces[2 * pair + 1].clone();
        pieces[2 * pair].join(&later);
        pieces.swap(pair, 2 * pair);
    }
    pieces.drain(PIECES / 4..PIECES / 2);
}

fn keep<T>(few: &mut VecDeque<T>, new: T) {
    if few.len() == FEW {
        few.pop_front();
    }
    few.push_back(new);
}

/// Keeps a count of the kernel. When there are many, the oldest two of a kind become one.
fn keep_count(counted: &mut VecDeque<Counted>, new: Counted) {
    if counted.len() == FEW {
        let same =
            |place: &usize| counted.range(place + 1..).any(|it| it.what == counted[*place].what);
        let oldest = (0..FEW).find(same).unwrap_or(0);
        if let Some(old) = counted.remove(oldest)
            && let Some(next) = counted.iter_mut().skip(oldest).find(|it| it.what == old.what)
        {
            next.nanos += old.nanos;
            if old.what == What::Ran {
                // Nobody has counted in between: it may have run.
                next.nanos += next.from.saturating_sub(old.to);
            }
            next.from = old.from;
        }
    }
    counted.push_back(new);
}

/// What the timer thread did before it handed tasks over.
#[derive(Debug)]
pub(crate) struct History {
    notes: Notes,
    from: u64,
    to: u64,
    held_from: Option<u64>,
}

impl History {
    /// From when on a task waited for room that was promised for `from` and handed over at `to`.
    pub(crate) fn waited_for_room_from(&self, from: u64, to: u64) -> u64 {
        self.held_from.map_or(to, |held| held.clamp(from, to))
    }

    /// The part of a lateness that lies between two instants. What came after this was written
    /// down is like what came before.
    pub(crate) fn explain(&self, from: u64, to: u64) -> Parts {
        let known = self.to.clamp(from, to);
        if known == from {
            return Parts::default().and(Cause::Housekeeping, to - from);
        }
        self.notes.explain(from, known, View::Timer).scaled_to(to - from)
    }
}

impl Notes {
    fn between(&self, from: u64, to: u64) -> Self {
        let in_it = |its_from: u64, its_to: u64| its_to > from && its_from < to;
        let pieces = self.pieces.iter().filter(|piece| in_it(piece.from, piece.to));
        let gates = self.gates.iter().filter(|shut| in_it(shut.from, shut.to));
        let counted = self.counted.iter().filter(|it| in_it(it.from, it.to));
        Self {
            pieces: pieces.cloned().collect(),
            gates: gates.cloned().collect(),
            counted: counted.cloned().collect(),
            ..*self
        }
    }

    /// Charges each moment of a time to what was done in it, and then to the machine what it took.
    fn explain(&self, from: u64, to: u64, view: View) -> Parts {
        let mut parts = Parts::default();
        if from >= to {
            return parts;
        }
        let begin = self.since.clamp(from, to);
        parts.add(Cause::Unknown, Culprit::Nobody, begin - from);
        // From the end back to the beginning; `left` is not charged yet.
        let mut left = to;
        for piece in self.pieces.iter().rev() {
            let (its_begin, its_end) = (piece.from.max(begin), piece.to.min(left));
            if piece.to <= begin {
                break;
            }
            if its_begin < its_end {
                self.charge_unnoted((its_end, left), left - its_end, view, &mut parts);
                self.charge(piece, (its_begin, its_end), view, &mut parts);
                left = its_begin;
            }
        }
        self.charge_unnoted((begin, left), left - begin, view, &mut parts);
        self.charge_machine((begin, to), view, &mut parts);
        parts
    }

    /// Charges the part of a piece that lies between two instants.
    fn charge(&self, piece: &Piece, (from, to): (u64, u64), view: View, parts: &mut Parts) {
        let cause = cause_of_tasks(view);
        let mut noted = vec![
            (Cause::Overslept, Culprit::Nobody, piece.slept),
            (Cause::EventLoop, Culprit::Nobody, piece.away),
            (Cause::Hook, Culprit::Nobody, piece.hooks),
            (cause, Culprit::Nobody, piece.others),
        ];
        for share in piece.shares.iter().flatten() {
            let long = matches!(view, View::Timer) && share.nanos / share.runs > self.bound;
            let cause = if long { Cause::InlineTask } else { cause };
            noted.push((cause, Culprit::Task(share.whose), share.nanos));
        }
        let (nanos, whole) = (to - from, piece.to - piece.from);
        let all: u64 = noted.iter().map(|noted| noted.2).sum();
        // Of what was noted, this lies between the two instants; what is left over by rounding is
        // added to the last that is not nothing.
        let mut left = nanos - portion(nanos, whole - all.min(whole), whole);
        self.charge_unnoted((from, to), nanos - left, view, parts);
        noted.retain(|noted| noted.2 > 0);
        let last = noted.len().wrapping_sub(1);
        for (number, (cause, culprit, its_nanos)) in noted.into_iter().enumerate() {
            let own =
                if number == last { left } else { portion(nanos, its_nanos, whole).min(left) };
            parts.add(cause, culprit, own);
            left -= own;
        }
    }

    /// Charges so much of a time, in which the thread did something that nobody has noted.
    fn charge_unnoted(&self, (from, to): (u64, u64), nanos: u64, view: View, parts: &mut Parts) {
        let mut left = nanos;
        if matches!(view, View::Timer) {
            // (They are in the order of their ends. This is asked for each piece.)
            for shut in self.gates.iter().rev().take_while(|shut| shut.to > from) {
                let both = shut.to.min(to).saturating_sub(shut.from.max(from)).min(left);
                if both > 0 {
                    let thread = shut.thread.clone().map(|name| Culprit::Who(Who::Thread(name)));
                    parts.add(Cause::Gate, thread.unwrap_or(Culprit::Nobody), both);
                    left -= both;
                }
            }
        }
        let cause = match view {
            View::Timer => Cause::Housekeeping,
            // With what does not belong to this scheduler.
            View::Queue | View::Room => cause_of_tasks(view),
        };
        parts.add(cause, Culprit::Nobody, left);
    }

    /// What the machine took is no fault of whoever had it taken from him: first of sleeps, then of
    /// what we did ourselves, and then of tasks and of what an event loop does.
    fn charge_machine(&self, (from, to): (u64, u64), view: View, parts: &mut Parts) {
        let asleep = |cause: Cause| cause == Cause::Overslept;
        let awake = |cause: Cause| matches!(cause, Cause::Housekeeping | Cause::Gate);
        let tasks = |cause: Cause| {
            let on_pool = matches!(view, View::Queue | View::Room);
            match cause {
                Cause::InlineTask | Cause::TasksBefore | Cause::Hook | Cause::EventLoop => true,
                Cause::PoolBusy | Cause::PoolFull => on_pool,
                _ => false,
            }
        };
        // How long the thread may have run by itself: what was counted, and all of the rest.
        let mut ran = to - from;
        for counted in &self.counted {
            let both = counted.to.min(to).saturating_sub(counted.from.max(from));
            let nanos = counted.nanos.min(both);
            match counted.what {
                What::Ran => ran -= (both - nanos).min(ran),
                What::Taken(cause) => {
                    let mut left = nanos;
                    left -= parts.take(asleep, left);
                    left -= parts.take(awake, left);
                    left -= parts.take(tasks, left);
                    parts.add(cause, Culprit::Nobody, nanos - left);
                }
            }
        }
        // What did not run and was not ready either slept in the kernel, or was stopped.
        let own = |cause: Cause| cause == Cause::Housekeeping;
        let kept_house = parts.take(own, u64::MAX);
        parts.add(Cause::Housekeeping, Culprit::Nobody, kept_house.min(ran));
        parts.add(Cause::Overslept, Culprit::Nobody, kept_house.saturating_sub(ran));
        if !self.known {
            let slept = parts.take(asleep, u64::MAX);
            parts.add(Cause::Unknown, Culprit::Nobody, slept);
        }
    }
}

fn cause_of_tasks(view: View) -> Cause {
    match view {
        View::Timer => Cause::TasksBefore,
        View::Queue => Cause::PoolBusy,
        View::Room => Cause::PoolFull,
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::identity::Label;
    use crate::base::raw_task::RawTask;

    const BOUND: u64 = 1_600;

    fn journal() -> Journal {
        Journal::new(BOUND, 0, false)
    }

    fn whose() -> Whose {
        RawTask::new(|| (), Label::default()).whose()
    }

    /// How much each cause has of the time between two instants.
    fn said(journal: &Journal, from: u64, to: u64) -> Vec<(Cause, u64)> {
        let parts = journal.notes.explain(from, to, View::Timer);
        assert_eq!(parts.0.iter().map(|part| part.nanos).sum::<u64>(), to - from);
        let mut said = BTreeMap::new();
        for part in parts.0 {
            *said.entry(part.cause).or_default() += part.nanos;
        }
        said.into_iter().collect()
    }

    fn counted(journal: &mut Journal, from: u64, to: u64, what: What, nanos: u64) {
        keep_count(&mut journal.notes.counted, Counted { from, to, what, nanos });
    }

    #[test]
    fn what_is_long_ago_is_still_known() {
        let mut journal = journal();
        let pieces = if cfg!(miri) { 2 } else { 100 } * PIECES as u64;
        for time in 0..pieces {
            let from = 1_000 * time;
            journal.ran((from, from + 900), std::iter::once(whose()));
        }
        let end = 1_000 * pieces;
        assert!(journal.notes.pieces.len() <= PIECES);
        let nine_tenths = [(Cause::TasksBefore, end / 10 * 9), (Cause::Housekeeping, end / 10)];
        assert_eq!(said(&journal, 0, end), nine_tenths);
    }

    #[test]
    fn tasks_of_one_identity_are_added_up_however_they_alternate() {
        let mut journal = journal();
        let one = whose();
        let kept = [1];
        let other = RawTask::new(move || assert_eq!(kept, [1]), Label::default()).whose();
        journal.ran((0, 605), [one, one, other, one, other, other].into_iter());
        let [Some(first), Some(second), None, None] = journal.notes.pieces[0].shares else {
            panic!("{:?}", journal.notes.pieces);
        };
        // (What rounding leaves belongs to the first.)
        assert_eq!((first.whose.key(), first.nanos, first.runs), (one.key(), 305, 3));
        assert_eq!((second.whose.key(), second.nanos, second.runs), (other.key(), 300, 3));
    }

    #[test]
    fn the_machine_takes_from_sleeps_first_and_never_more_than_there_is() {
        let mut journal = journal();
        journal.slept(0, 1_000, 3_000);
        journal.ran((3_000, 4_000), std::iter::once(whose()));
        counted(&mut journal, 0, 3_000, What::Taken(Cause::Processor), 500);
        let said_now = said(&journal, 1_000, 4_000);
        assert_eq!(
            said_now,
            [(Cause::TasksBefore, 1_000), (Cause::Processor, 500), (Cause::Overslept, 1_500)]
        );
        counted(&mut journal, 0, 3_000, What::Taken(Cause::Throttled), 1_000_000);
        let said_now = said(&journal, 1_000, 4_000);
        assert_eq!(
            said_now,
            [(Cause::TasksBefore, 500), (Cause::Processor, 500), (Cause::Throttled, 2_000)]
        );
    }

    #[test]
    fn what_the_kernel_counted_long_ago_is_still_known() {
        let times = if cfg!(miri) { 3 } else { 20 } * FEW as u64;
        let mut journal = journal();
        journal.slept(0, 0, 1_000);
        counted(&mut journal, 0, 1_000, What::Taken(Cause::Processor), 600);
        for time in 1..times {
            let (from, to) = (1_000 * time, 1_000 * (time + 1));
            journal.ran((from, to), std::iter::once(whose()));
            counted(&mut journal, from, to, What::Taken(Cause::Throttled), 10);
            counted(&mut journal, from, to, What::Ran, 990);
        }
        assert_eq!(journal.notes.counted.len(), FEW);
        let throttled = 10 * (times - 1);
        let said = said(&journal, 0, 1_000 * times);
        let of = |cause| said.iter().find(|it| it.0 == cause).map_or(0, |it| it.1);
        assert_eq!((of(Cause::Processor), of(Cause::Throttled)), (600, throttled));
    }

    #[test]
    fn an_event_loop_that_had_no_processor_is_not_to_blame() {
        let mut journal = journal();
        journal.was_away(0, 5_000);
        counted(&mut journal, 0, 5_000, What::Taken(Cause::Processor), 2_000);
        assert_eq!(
            said(&journal, 0, 5_000),
            [(Cause::EventLoop, 3_000), (Cause::Processor, 2_000)]
        );
    }

    #[test]
    fn a_thread_that_neither_ran_nor_was_ready_did_not_keep_house() {
        let mut journal = journal();
        counted(&mut journal, 0, 10_000, What::Ran, 100);
        assert_eq!(
            said(&journal, 0, 10_000),
            [(Cause::Housekeeping, 100), (Cause::Overslept, 9_900)]
        );
    }

    #[test]
    fn what_a_shut_gate_took_is_no_housekeeping() {
        let mut journal = journal();
        journal.ran((1_000, 2_000), std::iter::once(whose()));
        journal.was_shut_out(500, 3_000, None);
        assert_eq!(
            said(&journal, 0, 4_000),
            [(Cause::TasksBefore, 1_000), (Cause::Gate, 1_500), (Cause::Housekeeping, 1_500)]
        );
    }

    #[test]
    fn of_several_shut_gates_each_takes_its_own_time() {
        let mut journal = journal();
        // (The clock is read anew for some of them, so one may end a moment before the last did.)
        for (from, to) in [(100, 300), (900, 1_200), (1_200, 3_000), (2_990, 2_999), (3_500, 3_600)]
        {
            journal.was_shut_out(from, to, None);
        }
        journal.ran((2_000, 2_400), std::iter::once(whose()));
        assert!(journal.notes.gates.iter().is_sorted_by_key(|shut| shut.to));
        assert_eq!(
            said(&journal, 0, 2_900),
            [(Cause::TasksBefore, 400), (Cause::Gate, 1_800), (Cause::Housekeeping, 700)]
        );
        assert_eq!(said(&journal, 3_100, 4_000), [(Cause::Gate, 100), (Cause::Housekeeping, 800)]);
    }

    #[test]
    fn in_an_overload_one_explanation_stands_for_many_and_adds_up_for_each() {
        let mut journal = journal();
        journal.ran((0, 10_000), std::iter::once(whose()));
        let mut explained = 0;
        for late in 1_000..1_100 {
            let parts = journal.explain_by(late, 10_000, |journal| {
                explained += 1;
                journal.explain(10_000 - late, 10_000, View::Timer)
            });
            assert_eq!(parts.0.iter().map(|part| part.nanos).sum::<u64>(), late);
        }
        assert_eq!(explained, ONE_BY_ONE);
    }

    #[test]
    fn what_was_told_to_a_pool_is_told_again_for_a_moment_only() {
        let mut journal = journal();
        let first = journal.history(0, 1_000, None);
        let again = journal.history(500, 1_000 + BOUND / 4, None);
        assert!(Arc::ptr_eq(&first, &again));
        // It reaches to where the task was handed over.
        assert_eq!(again.explain(500, 2_000).0.iter().map(|part| part.nanos).sum::<u64>(), 1_500);
        let later = journal.history(500, 1_001 + BOUND / 4, None);
        assert!(!Arc::ptr_eq(&first, &later));
        let full = journal.history(500, 1_001 + BOUND / 4, Some(700));
        assert!(!Arc::ptr_eq(&later, &full));
    }
}
