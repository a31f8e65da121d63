//! Why a task began late: what its thread did in the time between.
//!
//! Each thread that begins tasks keeps a [`Journal`] of what it has done lately: which tasks it
//! ran, when it slept, which gates it found shut. When a task begins late, the time between the
//! instant that was promised for it and its begin is laid over the journal, and each piece of it
//! is charged to what the thread did then. So the shares add up to the lateness, by construction.
//!
//! A task that goes to a pool is late for what happened on two threads. The timer thread explains
//! its part when it hands the task over ([`History`]), and the thread of the pool explains the
//! rest: what it did itself while the task was in the queue. (The first thread of the pool that
//! became free took the task, so all the others were busy for at least as long.)
//!
//! What the machine did (a thread that waits for a core, a control group over its quota, a
//! hypervisor that runs somebody else) leaves no trace in a journal but a sleep, or a task, that
//! took longer than it should have. [`machine`] asks the kernel about that, if something is late.

pub(crate) mod machine;
pub(crate) mod report;

use std::collections::VecDeque;
use std::sync::Arc;

use self::machine::{Machine, Stolen};
use self::report::Who;
use crate::base::raw_task::Whose;

/// Why a task began late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// A task ran on the timer thread that took longer by itself than the bound for lateness.
    InlineTask,
    /// Tasks that take less, of the same or of earlier ticks, stood before it on the timer thread.
    TasksBefore,
    /// All threads of the pool were in tasks.
    PoolBusy,
    /// The queue of the pool was full
    /// ([`PoolBuilder::queue`](crate::executor::PoolBuilder::queue)).
    PoolFull,
    /// It waited in an executor that is not ours.
    OtherExecutor,
    /// A thread was interrupted in the middle of a call that schedules something, so that the timer
    /// thread could not look at what that thread had scheduled before.
    Gate,
    /// The timer thread moved entries between levels of its wheels, took in what other threads had
    /// scheduled or cancelled, or made a listing.
    Housekeeping,
    /// The event loop that turns a [`TimerDriver`](crate::TimerDriver) did something else.
    EventLoop,
    /// The thread was ready to run, and had no processor: the machine was busy.
    Processor,
    /// The thread was ready to run, and its control group had used up its quota.
    Throttled,
    /// The hypervisor gave the processor to another guest.
    Stolen,
    /// The machine was suspended
    /// ([`Builder::count_suspend`](crate::Builder::count_suspend) is on).
    Suspended,
    /// The thread slept for longer than it had asked for, and the kernel says of none of these that
    /// it was the reason. A process that is stopped, by a signal or a debugger, looks like this.
    Overslept,
    /// The actor was in another message.
    ActorBusy,
    /// Other messages were in its mailbox before it.
    MessagesBefore,
    /// All threads of the actor's dispatcher were with other actors.
    DispatcherBusy,
    /// The store of the durable timers answered late.
    Store,
    /// As many runs of the durable timer's handler were under way as it may have.
    HandlerFull,
    /// As many runs were under way as the node may have.
    NodeFull,
    /// No node owned the bucket of the durable timer: its owner had stopped, or had been declared
    /// dead.
    NoOwner,
    /// The timer behind it was late itself. That is in the table of its scheduler.
    Timer,
    /// The platform does not say, or it was too long ago.
    Unknown,
}

impl Cause {
    /// In a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InlineTask => "an inline task ran",
            Self::TasksBefore => "tasks stood before it",
            Self::PoolBusy => "all threads of the pool were busy",
            Self::PoolFull => "the queue of the pool was full",
            Self::OtherExecutor => "it waited in another executor",
            Self::Gate => "a thread was interrupted while it scheduled",
            Self::Housekeeping => "the timer thread kept house",
            Self::EventLoop => "the event loop was elsewhere",
            Self::Processor => "no processor was free",
            Self::Throttled => "the control group was over its quota",
            Self::Stolen => "the hypervisor ran somebody else",
            Self::Suspended => "the machine was suspended",
            Self::Overslept => "the thread overslept",
            Self::ActorBusy => "the actor was in another message",
            Self::MessagesBefore => "messages stood before it in the mailbox",
            Self::DispatcherBusy => "all threads of the dispatcher were busy",
            Self::Store => "the store answered late",
            Self::HandlerFull => "the handler was at its limit",
            Self::NodeFull => "the node was at its limit",
            Self::NoOwner => "no node owned its bucket",
            Self::Timer => "its timer was late",
            Self::Unknown => "unknown",
        }
    }

    /// In one word of small letters and `_`, as the label of a metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::InlineTask => "inline_task",
            Self::TasksBefore => "tasks_before",
            Self::PoolBusy => "pool_busy",
            Self::PoolFull => "pool_full",
            Self::OtherExecutor => "other_executor",
            Self::Gate => "gate",
            Self::Housekeeping => "housekeeping",
            Self::EventLoop => "event_loop",
            Self::Processor => "processor",
            Self::Throttled => "throttled",
            Self::Stolen => "stolen",
            Self::Suspended => "suspended",
            Self::Overslept => "overslept",
            Self::ActorBusy => "actor_busy",
            Self::MessagesBefore => "messages_before",
            Self::DispatcherBusy => "dispatcher_busy",
            Self::Store => "store",
            Self::HandlerFull => "handler_full",
            Self::NodeFull => "node_full",
            Self::NoOwner => "no_owner",
            Self::Timer => "timer",
            Self::Unknown => "unknown",
        }
    }
}

/// How many pieces of time a journal keeps. A busy thread has one for each sixteenth of the bound.
const PIECES: usize = 512;
/// How many waits for gates it keeps.
const GATES: usize = 16;
/// How many tasks one piece tells apart.
const TOLD_APART: usize = 4;

/// The time of the tasks of one identity in a piece.
#[derive(Debug, Clone, Copy)]
struct Share {
    whose: Whose,
    nanos: u64,
    runs: u32,
}

/// The tasks that ran in a piece of time, one after another.
#[derive(Debug, Clone)]
struct Tasks {
    shares: [Option<Share>; TOLD_APART],
    /// The time of others.
    rest: u64,
}

impl Tasks {
    fn add(&mut self, whose: Whose, nanos: u64) {
        for share in &mut self.shares {
            match share {
                Some(share) if share.whose.key() == whose.key() => {
                    share.nanos += nanos;
                    share.runs += 1;
                    return;
                }
                Some(_) => {}
                None => {
                    *share = Some(Share { whose, nanos, runs: 1 });
                    return;
                }
            }
        }
        self.rest += nanos;
    }
}

/// What a thread did in a piece of time.
#[derive(Debug, Clone)]
enum Doing {
    Tasks(Tasks),
    Slept,
    /// It was somebody else's: the time between two turns of an event loop.
    Away,
}

#[derive(Debug, Clone)]
struct Piece {
    from: u64,
    to: u64,
    doing: Doing,
}

/// A time in which something due could not be reached, because of a thread, if its name is known.
#[derive(Debug, Clone)]
struct Shut {
    from: u64,
    to: u64,
    thread: Option<Arc<str>>,
}

/// A part of a lateness.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) cause: Cause,
    pub(crate) culprit: Culprit,
    pub(crate) nanos: u64,
}

/// Who was at fault, if it can be named.
#[derive(Debug, Clone)]
pub(crate) enum Culprit {
    /// Named only when somebody reads the table.
    Task(Whose),
    Who(Who),
    Nobody,
}

impl Culprit {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task(one), Self::Task(other)) => one.key() == other.key(),
            (Self::Who(one), Self::Who(other)) => one == other,
            (Self::Nobody, Self::Nobody) => true,
            _ => false,
        }
    }
}

/// The parts of a lateness, which add up to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts(pub(crate) Vec<Part>);

impl Parts {
    pub(crate) fn add(&mut self, cause: Cause, culprit: Culprit, nanos: u64) {
        if nanos == 0 {
            return;
        }
        let same = |part: &&mut Part| part.cause == cause && part.culprit.is(&culprit);
        match self.0.iter_mut().find(same) {
            Some(part) => part.nanos += nanos,
            None => self.0.push(Part { cause, culprit, nanos }),
        }
    }

    pub(crate) fn and(mut self, cause: Cause, nanos: u64) -> Self {
        self.add(cause, Culprit::Nobody, nanos);
        self
    }

    /// Takes up to so much from the parts with this cause, in proportion. Says how much.
    fn take(&mut self, of: impl Fn(Cause) -> bool, nanos: u64) -> u64 {
        let all: u64 = self.0.iter().filter(|part| of(part.cause)).map(|part| part.nanos).sum();
        let taken = nanos.min(all);
        let mut left = taken;
        for part in self.0.iter_mut().filter(|part| of(part.cause)) {
            let own = portion(part.nanos, taken, all).min(left);
            part.nanos -= own;
            left -= own;
        }
        // What rounding has left.
        for part in self.0.iter_mut().filter(|part| of(part.cause)) {
            let own = left.min(part.nanos);
            part.nanos -= own;
            left -= own;
        }
        self.0.retain(|part| part.nanos > 0);
        taken
    }
}

/// `nanos * part / whole`, rounded down.
fn portion(nanos: u64, part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        whole => (u128::from(nanos) * u128::from(part) / u128::from(whole)) as u64,
    }
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

/// What a thread has done lately. Only that thread writes and reads it.
#[derive(Debug)]
pub(crate) struct Journal {
    /// A piece of this length is not made longer.
    grain: u64,
    /// A task that takes longer than this is late's cause by itself.
    bound: u64,
    pieces: VecDeque<Piece>,
    /// What was before this is forgotten.
    since: u64,
    gates: VecDeque<Shut>,
    machine: Machine,
}

impl Journal {
    /// For the calling thread, from `now` on.
    pub(crate) fn new(bound: u64, now: u64) -> Self {
        Self {
            grain: bound / 16 + 1,
            bound,
            pieces: VecDeque::with_capacity(PIECES),
            since: now,
            gates: VecDeque::new(),
            machine: Machine::of_this_thread(now),
        }
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
        let continues = |piece: &Piece| {
            piece.to == from
                && to - piece.from <= self.grain
                && matches!(piece.doing, Doing::Tasks(_))
        };
        if !self.pieces.back().is_some_and(continues) {
            let none = Tasks { shares: [None; TOLD_APART], rest: 0 };
            self.push(Piece { from, to, doing: Doing::Tasks(none) });
        }
        let Some(Piece { to: end, doing: Doing::Tasks(piece), .. }) = self.pieces.back_mut() else {
            return;
        };
        *end = to;
        let each = (to - from) / count;
        tasks.for_each(|whose| piece.add(whose, each));
    }

    /// The thread slept.
    pub(crate) fn slept(&mut self, from: u64, to: u64) {
        self.push(Piece { from, to, doing: Doing::Slept });
    }

    /// The thread did what is not ours.
    pub(crate) fn was_away(&mut self, from: u64, to: u64) {
        self.push(Piece { from, to, doing: Doing::Away });
    }

    fn push(&mut self, piece: Piece) {
        if piece.to <= piece.from {
            return;
        }
        if self.pieces.len() == PIECES
            && let Some(oldest) = self.pieces.pop_front()
        {
            self.since = oldest.to;
        }
        self.pieces.push_back(piece);
    }

    /// What was due in that time could not be reached, because of a thread.
    pub(crate) fn was_shut_out(&mut self, from: u64, to: u64, thread: Option<Arc<str>>) {
        if self.gates.len() == GATES {
            self.gates.pop_front();
        }
        self.gates.push_back(Shut { from, to, thread });
    }

    /// A moment in which nothing is late: what the kernel has counted up to now explains nothing
    /// that comes.
    pub(crate) fn begin_anew(&mut self, now: u64) {
        self.machine.begin_anew(now);
    }

    /// The part of a lateness that lies between two instants, by what this thread did in it.
    pub(crate) fn explain(&mut self, from: u64, to: u64, view: View) -> Parts {
        let stolen = self.machine.since_last(to);
        let mut parts = Parts::default();
        lay_over(&self.pieces, &self.gates, self.since, self.bound, (from, to), view, &mut parts);
        charge_machine(&mut parts, stolen, view);
        parts
    }

    /// What happened from `from` to `to`, for other threads to lay latenesses over.
    pub(crate) fn history(&mut self, from: u64, to: u64) -> History {
        let in_it = |its_from: u64, its_to: u64| its_to > from && its_from < to;
        let pieces = self.pieces.iter().filter(|piece| in_it(piece.from, piece.to));
        let gates = self.gates.iter().filter(|shut| in_it(shut.from, shut.to));
        History {
            pieces: pieces.cloned().collect(),
            gates: gates.cloned().collect(),
            since: self.since,
            bound: self.bound,
            to,
            held_from: None,
            stolen: self.machine.since_last(to),
        }
    }
}

/// What the timer thread did before it handed tasks over.
#[derive(Debug)]
pub(crate) struct History {
    pieces: VecDeque<Piece>,
    gates: VecDeque<Shut>,
    since: u64,
    bound: u64,
    to: u64,
    /// Since when due tasks have been waiting for room in the queue of the pool, if they have.
    pub(crate) held_from: Option<u64>,
    stolen: Stolen,
}

impl History {
    /// From when on a task waited for room that was promised for `from` and handed over at `to`.
    pub(crate) fn waited_for_room_from(&self, from: u64, to: u64) -> u64 {
        self.held_from.map_or(to, |held| held.clamp(from, to))
    }

    /// The part of a lateness that lies between two instants.
    pub(crate) fn explain(&self, from: u64, to: u64) -> Parts {
        let mut parts = Parts::default();
        let known = (from, to.min(self.to).max(from));
        let of = (&self.pieces, &self.gates);
        lay_over(of.0, of.1, self.since, self.bound, known, View::Timer, &mut parts);
        charge_machine(&mut parts, self.stolen, View::Timer);
        parts.add(Cause::Housekeeping, Culprit::Nobody, to - known.1);
        parts
    }
}

/// Charges each moment of a time to what was done in it.
fn lay_over(
    pieces: &VecDeque<Piece>,
    gates: &VecDeque<Shut>,
    since: u64,
    bound: u64,
    (from, to): (u64, u64),
    view: View,
    parts: &mut Parts,
) {
    // From the end back to the beginning; `left` is not charged yet.
    let mut left = to;
    for piece in pieces.iter().rev() {
        if piece.to <= from {
            break;
        }
        let (begin, end) = (piece.from.max(from), piece.to.min(left));
        if begin >= end {
            continue;
        }
        charge_gap(gates, since, (end, left), view, parts);
        charge(piece, end - begin, bound, view, parts);
        left = begin;
    }
    charge_gap(gates, since, (from, left), view, parts);
}

/// Charges so much of the time of a piece.
fn charge(piece: &Piece, nanos: u64, bound: u64, view: View, parts: &mut Parts) {
    let tasks = match &piece.doing {
        Doing::Slept => return parts.add(Cause::Overslept, Culprit::Nobody, nanos),
        Doing::Away => return parts.add(Cause::EventLoop, Culprit::Nobody, nanos),
        Doing::Tasks(tasks) => tasks,
    };
    let whole = piece.to - piece.from;
    let mut left = nanos;
    for share in tasks.shares.iter().flatten() {
        let own = portion(share.nanos, nanos, whole).min(left);
        let cause = match view {
            View::Timer if share.nanos / u64::from(share.runs) > bound => Cause::InlineTask,
            View::Timer => Cause::TasksBefore,
            View::Queue => Cause::PoolBusy,
            View::Room => Cause::PoolFull,
        };
        parts.add(cause, Culprit::Task(share.whose), own);
        left -= own;
    }
    // Of those that are not told apart, and what rounding has left.
    let cause = match view {
        View::Timer => Cause::TasksBefore,
        View::Queue => Cause::PoolBusy,
        View::Room => Cause::PoolFull,
    };
    match tasks.shares[0] {
        Some(first) if tasks.rest == 0 => parts.add(cause, Culprit::Task(first.whose), left),
        _ => parts.add(cause, Culprit::Nobody, left),
    }
}

/// Charges a time in which the thread neither ran tasks nor slept.
fn charge_gap(
    gates: &VecDeque<Shut>,
    since: u64,
    (from, to): (u64, u64),
    view: View,
    parts: &mut Parts,
) {
    if from >= to {
        return;
    }
    let forgotten = since.clamp(from, to);
    parts.add(Cause::Unknown, Culprit::Nobody, forgotten - from);
    let mut left = to;
    for shut in gates.iter().rev() {
        let (begin, end) = (shut.from.max(forgotten), shut.to.min(left));
        if begin < end {
            charge_own(left - end, view, parts);
            let culprit =
                shut.thread.clone().map_or(Culprit::Nobody, |name| Culprit::Who(Who::Thread(name)));
            parts.add(Cause::Gate, culprit, end - begin);
            left = begin;
        }
    }
    charge_own(left - forgotten, view, parts);
}

fn charge_own(nanos: u64, view: View, parts: &mut Parts) {
    let cause = match view {
        View::Timer => Cause::Housekeeping,
        // With what does not belong to this scheduler.
        View::Queue => Cause::PoolBusy,
        View::Room => Cause::PoolFull,
    };
    parts.add(cause, Culprit::Nobody, nanos);
}

/// What the machine took is no fault of whoever had it taken from him: first of sleeps, then of
/// what we did ourselves, and then of tasks.
fn charge_machine(parts: &mut Parts, stolen: Stolen, view: View) {
    let asleep = |cause: Cause| cause == Cause::Overslept;
    let awake = |cause: Cause| matches!(cause, Cause::Housekeeping | Cause::Gate);
    let tasks = |cause: Cause| {
        let on_pool = matches!(view, View::Queue | View::Room);
        match cause {
            Cause::InlineTask | Cause::TasksBefore => true,
            Cause::PoolBusy | Cause::PoolFull => on_pool,
            _ => false,
        }
    };
    for (cause, nanos) in stolen.by_cause() {
        let mut left = nanos;
        left -= parts.take(asleep, left);
        left -= parts.take(awake, left);
        left -= parts.take(tasks, left);
        parts.add(cause, Culprit::Nobody, nanos - left);
    }
    if !stolen.is_known() {
        let slept = parts.take(asleep, u64::MAX);
        parts.add(Cause::Unknown, Culprit::Nobody, slept);
    }
}
