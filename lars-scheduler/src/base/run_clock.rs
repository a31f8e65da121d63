//! When each task of a turn begins, from few readings of the clock, and which task took too long.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::base::clock::Clock;
use crate::base::late::Cause;
use crate::base::late::journal::{History, Journal, View};
use crate::base::late::parts::{Culprit, Parts};
use crate::base::late::report::{Found, Lateness};
use crate::base::panics::Reporter;
use crate::base::raw_task::{RawTask, Whose};
use crate::base::run_times::RunTimes;
use crate::base::runs::PoolThread;
use crate::base::slow::RanOn;
use lars_base::debug_fields;
use lars_base::time::Instant;

/// One reading stands for at most this many tasks. At 25 ns a reading, a task pays 0.8 ns.
const STRIDE: u32 = 32;
/// How many tasks are noted: those of a stride, and one for those that run together.
const NOTED: usize = 2 * STRIDE as usize;
/// If tasks took longer than this since the last reading, in nanoseconds, the clock is read before
/// the next one: beside them a reading costs nothing.
const LONG: u64 = 10_000;
/// For how many tasks after a slow one the clock is read before each.
const CAREFUL: u32 = 1_000;

/// The instant at which a task begins, for the record of its lateness.
///
/// The clock is read again before a task that follows a slow one, and before every 32nd task while
/// tasks are fast. So an instant is too early by no more than the tasks of one such stride took,
/// and only when one of them is slow for the first time.
///
/// What runs between two readings is noted, and reported if too much time lies between them. On a
/// pool, each of them is recorded as having taken an equal part of that time.
pub(crate) struct RunClock {
    /// The thread of a pool, if it is that.
    thread: Option<PoolThread>,
    /// The last reading.
    now: u64,
    /// How many more tasks it stands for.
    left: u32,
    /// How many tasks it stands for in all: twice as many as the reading before it while tasks are
    /// fast, one after a slow task.
    stride: u32,
    /// How many of the next readings stand for a single task, however fast that is.
    careful: u32,
    /// When the tasks that begin now were handed to the pool.
    handed_over: u64,
    /// On a pool: whose reading the last one is, if the next job begins right after it.
    goes_on: Option<(Instant, u64)>,
    /// What has begun since the last reading, and how late: the first `noted` of them.
    tasks: [MaybeUninit<(Whose, u64)>; NOTED],
    noted: usize,
    /// What was noted last does not run here.
    hands_over: bool,
    /// Whether there is an explanation that what is late now counts for: `found` of `why`, of which
    /// this saves a look before each task.
    explained: bool,
    why: Option<Box<Why>>,
    /// The same for other schedulers that this thread of a pool has run tasks of.
    others: Vec<Why>,
}

/// For how many other schedulers a thread of a pool keeps a journal.
const OTHERS: usize = 7;

/// What is kept for a scheduler that explains what is late.
struct Why {
    journal: Journal,
    /// Whose instants the journal has: a pool may serve several schedulers.
    origin: Instant,
    /// The thread of a pool has had no task since the last reading.
    idle: bool,
    /// What the timer thread did before it handed over the tasks that begin now.
    before: Option<Arc<History>>,
    /// An explanation, and all that it stands for before the last reading.
    found: Option<Found>,
}

debug_fields!(|it: RunClock| thread: it.thread, now: it.now);

impl RunClock {
    /// For the thread that turns a driver.
    pub(crate) fn new() -> Self {
        Self {
            thread: None,
            now: 0,
            left: 0,
            stride: 1,
            careful: 0,
            handed_over: 0,
            goes_on: None,
            tasks: [const { MaybeUninit::uninit() }; NOTED],
            noted: 0,
            hands_over: false,
            explained: false,
            why: None,
            others: Vec::new(),
        }
    }

    /// For a thread of a pool.
    pub(crate) fn on_pool(thread: PoolThread) -> Self {
        Self { thread: Some(thread), ..Self::new() }
    }

    /// Tasks that were handed to the pool at `handed_over` are about to begin, after those before
    /// them have [ended](Self::end). What came before that, if they were late by then.
    #[inline]
    pub(crate) fn begin_job(
        &mut self,
        (handed_over, before): (u64, Option<&Arc<History>>),
        clock: &Clock,
        reporter: &Reporter,
    ) {
        // One job right after another needs no reading in between.
        let key = clock.key();
        if key.is_none() || self.goes_on != key {
            let ended = self.now;
            self.begin_turn(clock.now(), reporter);
            self.goes_on = key;
            self.ends_pause(clock, ended);
        }
        self.handed_over = handed_over;
        if let Some(late) = &reporter.late {
            self.explain_job(clock, before, late);
        }
    }

    #[cold]
    fn explain_job(&mut self, clock: &Clock, before: Option<&Arc<History>>, late: &Lateness) {
        if self.why.as_ref().is_none_or(|why| why.origin != clock.origin()) {
            self.turn_to(clock, late);
        }
        if let Some(why) = &mut self.why {
            why.before = before.cloned();
        }
    }

    /// Another scheduler's tasks begin. What they waited for meanwhile is not in its journal, so
    /// nobody is named for that.
    fn turn_to(&mut self, clock: &Clock, late: &Lateness) {
        let known = self.others.iter().position(|why| why.origin == clock.origin());
        let new = match known {
            Some(place) => Box::new(self.others.remove(place)),
            None => Why::new(late, self.now, clock),
        };
        if let Some(last) = self.why.replace(new) {
            if self.others.len() == OTHERS {
                self.others.remove(0);
            }
            self.others.push(*last);
        }
    }

    /// A job begins that does not follow another at once; the one before ended at `ended`.
    fn ends_pause(&mut self, clock: &Clock, ended: u64) {
        if let Some(why) = &mut self.why
            && std::mem::take(&mut why.idle)
            && why.origin == clock.origin()
        {
            // (How late that was is asked if something turns out to be late.)
            why.journal.slept(ended, self.now, self.now);
        }
    }

    /// The thread of a pool has nothing to do.
    #[inline]
    pub(crate) fn idle(&mut self) {
        self.interrupt();
        if let Some(why) = &mut self.why {
            why.idle = true;
            let ended = self.now;
            why.journal.begin_anew(ended);
        }
    }

    /// This thread, which turns a driver, has slept from `from` to `to`, and had asked to be woken
    /// at `asked`.
    pub(crate) fn slept(&mut self, from: u64, asked: u64, to: u64) {
        if let Some(why) = &mut self.why {
            why.journal.slept(from, asked, to);
        }
    }

    /// The thread that turns a driver did something else.
    pub(crate) fn was_away(&mut self, from: u64, to: u64) {
        if let Some(why) = &mut self.why {
            why.journal.was_away(from, to);
        }
    }

    /// What is due could not be reached in that time, because of a thread.
    pub(crate) fn was_shut_out(&mut self, from: u64, to: u64, thread: Option<Arc<str>>) {
        if let Some(why) = &mut self.why {
            why.journal.was_shut_out(from, to, thread);
        }
    }

    /// From now on what is late is explained, if `reporter` wants it.
    #[inline]
    pub(crate) fn explain(&mut self, clock: &Clock, reporter: &Reporter) {
        if let (None, Some(late)) = (&self.why, &reporter.late) {
            self.why = Some(Why::new(late, clock.now(), clock));
        }
    }

    /// What this thread, which turns a driver, did before it hands over tasks `now` of which the
    /// first was due at `deadline`; `None` if that is not late.
    #[inline]
    pub(crate) fn history(
        &mut self,
        (deadline, now): (u64, u64),
        held_from: Option<u64>,
        reporter: &Reporter,
    ) -> Option<Arc<History>> {
        let late = reporter.late.as_ref()?;
        // (What is late by less may still be late when it begins. That part is small.)
        if now.saturating_sub(deadline) <= late.limit() / 4 {
            return None;
        }
        self.tell_history((late.promised(deadline), now), held_from, reporter)
    }

    #[cold]
    fn tell_history(
        &mut self,
        (from, now): (u64, u64),
        held_from: Option<u64>,
        reporter: &Reporter,
    ) -> Option<Arc<History>> {
        // So that what has just run is in it.
        let now = self.close(now, reporter);
        (self.now, self.left) = (self.now.max(now), 0);
        Some(self.why.as_mut()?.journal.history(from, now, held_from))
    }

    /// The next job will not begin right now.
    #[inline]
    pub(crate) fn interrupt(&mut self) {
        self.goes_on = None;
    }

    /// A turn begins, with a fresh reading.
    pub(crate) fn begin_turn(&mut self, now: u64, reporter: &Reporter) {
        self.now = self.close(now, reporter);
        self.left = 1;
    }

    /// A task that was due at `deadline` begins. Returns how late it is.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        task: &RawTask,
        deadline: u64,
        clock: &Clock,
        reporter: &Reporter,
    ) -> u64 {
        if self.left == 0 {
            self.read(clock, reporter);
        }
        self.left -= 1;
        let late = self.now.saturating_sub(deadline);
        self.note(task.whose(), late);
        if late > reporter.late_limit() && !self.explained {
            self.is_late(task.whose(), deadline, reporter);
        }
        late
    }

    /// A task begins later than the tick of its deadline and the bound allow, perhaps: then it is
    /// explained now. It is counted when the clock is read again, with those that follow.
    #[cold]
    fn is_late(&mut self, whose: Whose, deadline: u64, reporter: &Reporter) {
        let Some(late) = &reporter.late else { return };
        let (from, now) = (late.promised(deadline), self.now);
        let nanos = now.saturating_sub(from);
        if nanos <= late.bound {
            return;
        }
        let Some(why) = &mut self.why else { return };
        let handed_over = self.thread.map(|_| self.handed_over.clamp(from, now));
        let parts = why.explain(from, handed_over, now);
        why.found = Some(Found::explained(Culprit::Task(whose), nanos, parts));
        self.explained = true;
    }

    /// Like [`begin`](Self::begin), for a task that is handed to an executor now, and runs there.
    pub(crate) fn begin_hand_over(
        &mut self,
        task: &RawTask,
        deadline: u64,
        clock: &Clock,
        reporter: &Reporter,
    ) {
        self.begin(task, deadline, clock, reporter);
        self.hands_over = true;
    }

    #[inline]
    fn note(&mut self, whose: Whose, late: u64) {
        // There are no more than `STRIDE` between two readings; more would overwrite the first.
        self.tasks[self.noted % NOTED].write((whose, late));
        self.noted += 1;
    }

    /// Much has happened since the last reading.
    pub(crate) fn many_ran(&mut self) {
        self.left = 0;
    }

    /// Tasks that were noted before are about to run. If a reading has come in between, the first
    /// of them is noted again.
    pub(crate) fn run_now(&mut self, first: Option<Whose>) {
        if let Some(first) = first
            && self.noted == 0
        {
            self.note(first, 0);
        }
    }

    /// No task runs from now on, although time passes.
    #[inline]
    pub(crate) fn pause(&mut self, clock: &Clock, reporter: &Reporter) {
        if self.noted > 0 {
            self.read(clock, reporter);
            self.left = 0;
        }
        self.tell_found(reporter);
        if let Some(why) = &mut self.why {
            why.journal.begin_anew(clock.now());
        }
    }

    /// The tasks of the job that this reporter belongs to are over.
    pub(crate) fn end(&mut self, reporter: &Reporter) {
        if self.noted > 0
            && let Some(clock) = &reporter.clock
        {
            self.read(clock, reporter);
        }
        self.tell_found(reporter);
    }

    /// Tells what was late and not told yet, because there might have been more.
    #[inline]
    fn tell_found(&mut self, reporter: &Reporter) {
        if std::mem::take(&mut self.explained)
            && let (Some(why), Some(late)) = (&mut self.why, &reporter.late)
            && let Some(found) = why.found.take()
        {
            late.record.add(&found, self.now);
            self.now = self.hooks_ran(self.now, reporter);
        }
    }

    /// No task has taken any time, because time stood still.
    pub(crate) fn forget(&mut self) {
        self.noted = 0;
        if std::mem::take(&mut self.explained)
            && let Some(why) = &mut self.why
        {
            why.found = None;
        }
    }

    /// The last reading.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    fn read(&mut self, clock: &Clock, reporter: &Reporter) {
        let before = self.now;
        let now = before.max(clock.now());
        self.now = self.close(now, reporter);
        let each = self.careful > 0 || reporter.times.is_some();
        let slow = now - before > LONG || each;
        self.careful = self.careful.saturating_sub(1);
        self.stride = if slow { 1 } else { (2 * self.stride).min(STRIDE) };
        self.left = self.stride;
    }

    /// What has begun since the last reading was over by `now`. Returns when the next may begin:
    /// later than that, if hooks or the log were told of it.
    #[inline]
    fn close(&mut self, now: u64, reporter: &Reporter) -> u64 {
        if self.noted == 0 {
            if self.explained && !self.still_stands(now) {
                self.now = self.now.max(now);
                self.tell_found(reporter);
                return self.now;
            }
            return now;
        }
        let took = now.saturating_sub(self.now);
        let on = match self.thread {
            Some(thread) => {
                let (runs, tasks) = (reporter.runs.at(thread), self.noted as u64);
                runs.waited(self.now.saturating_sub(self.handed_over), tasks);
                runs.took(took / tasks, tasks);
                RanOn::Pool
            }
            None => RanOn::TimerThread,
        };
        if let Some(times) = &reporter.times {
            self.add_to(times, took);
            self.hands_over = false;
        }
        let mut told = false;
        if let Some(late) = &reporter.late {
            told = self.write_down(now, late);
        }
        if took > reporter.slow.limit(on) {
            self.report(on, took, reporter);
            told = true;
        }
        self.noted = 0;
        if told { self.hooks_ran(now, reporter) } else { now }
    }

    /// What hooks and the log took is no fault of the next task.
    #[cold]
    fn hooks_ran(&mut self, from: u64, reporter: &Reporter) -> u64 {
        let to = reporter.clock.as_ref().map_or(from, |clock| clock.now().max(from));
        if let Some(why) = &mut self.why {
            why.journal.hooks_ran(from, to);
        }
        to
    }

    /// What was noted since the last reading.
    fn those_noted(&self) -> impl ExactSizeIterator<Item = (Whose, u64)> {
        // SAFETY: `note` has written the first `noted` of them.
        self.tasks[..self.noted.min(NOTED)].iter().map(|task| unsafe { task.assume_init() })
    }

    /// The clock is read for each task, so there is one; or there are several that run together.
    #[cold]
    fn add_to(&self, times: &RunTimes, took: u64) {
        let tasks = self.those_noted();
        let each = took / tasks.len() as u64;
        // (Tasks that are handed over are counted where they run.)
        let here = tasks.filter(|(whose, _)| !self.hands_over && !whose.hands_over());
        here.for_each(|(whose, _)| times.add(whose, each));
    }

    /// Whether what was explained last stands for what begins now.
    fn still_stands(&self, now: u64) -> bool {
        self.why.as_ref().is_some_and(|why| why.journal.stands(now).is_some())
    }

    /// What ran since the last reading goes into the journal, and what of it was late is counted.
    /// That is told, unless its explanation stands for what comes as well: to tell it takes longer
    /// than to run it. True if something was told.
    #[cold]
    fn write_down(&mut self, now: u64, late: &Lateness) -> bool {
        let began = self.now;
        let tasks = self.tasks[..self.noted.min(NOTED)].iter();
        // SAFETY: `note` has written the first `noted` of them.
        let tasks = tasks.map(|task| unsafe { task.assume_init() });
        let Some(why) = &mut self.why else { return false };
        why.journal.ran((began, now), tasks.clone().map(|(whose, _)| whose));
        let Some(found) = &mut why.found else { return false };
        late.count(began, tasks.map(|(_, nanos)| nanos), found);
        if why.journal.stands(now).is_some() {
            return false;
        }
        late.record.add(found, now);
        (why.found, self.explained) = (None, false);
        true
    }

    #[cold]
    fn report(&mut self, on: RanOn, took: u64, reporter: &Reporter) {
        self.careful = CAREFUL;
        let tasks: Vec<_> = self.those_noted().collect();
        reporter.slow_task(on, took, &tasks);
    }
}

impl Why {
    fn new(late: &Lateness, now: u64, clock: &Clock) -> Box<Self> {
        let journal = Journal::new(late.bound, now, !clock.is_manual());
        Box::new(Self { journal, origin: clock.origin(), idle: false, before: None, found: None })
    }

    /// Why a task is late that begins `now`. On a thread of a pool: that was handed over then.
    fn explain(&mut self, from: u64, handed_over: Option<u64>, now: u64) -> Parts {
        let Self { journal, before, .. } = self;
        journal.explain_by(now - from, now, |journal| match handed_over {
            None => journal.explain(from, now, View::Timer),
            Some(handed_over) => {
                let mut parts = journal.explain(handed_over, now, View::Queue);
                let Some(before) = before else {
                    return parts.and(Cause::Housekeeping, handed_over - from);
                };
                let held = before.waited_for_room_from(from, handed_over);
                parts.add_all(journal.explain_earlier(held, handed_over, View::Room));
                parts.add_all(before.explain(from, held));
                parts
            }
        })
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;
    use crate::base::identity::Label;
    use crate::base::late::report::{Late, LateHook};
    use crate::base::slow::{SlowTask, SlowTasks};
    use crate::base::tick::Tick;
    use crate::sync::{AtomicU64, Ordering};
    use std::time::Duration;

    /// The latenesses of tasks that take so long, in nanoseconds, due at zero.
    fn latenesses(tasks: &[u64]) -> Vec<u64> {
        let clock = Clock::manual(0);
        let reporter = Reporter::default();
        let mut runs = RunClock::new();
        runs.begin_turn(0, &reporter);
        let task = RawTask::new(|| (), Label::default());
        let run = |&takes: &u64| {
            let late = runs.begin(&task, 0, &clock, &reporter);
            clock.set(clock.now() + takes);
            late
        };
        tasks.iter().map(run).collect()
    }

    #[test]
    fn what_waits_behind_slow_tasks_of_the_same_turn_is_late_by_what_they_take() {
        assert_eq!(latenesses(&[20_000; 5]), [0, 20_000, 40_000, 60_000, 80_000]);
    }

    #[test]
    fn a_thread_that_serves_several_schedulers_finds_the_journal_of_each_again() {
        let late = Lateness::new(100, Tick::new(Duration::from_nanos(1)).unwrap(), 0, None);
        let mut runs = RunClock::new();
        let clock = || {
            // So that no two have the same origin.
            std::thread::sleep(Duration::from_micros(1));
            Clock::manual(0)
        };
        // Whether this scheduler had tasks on this thread before.
        let mut is_known = |clock: &Clock| {
            runs.explain_job(clock, None, &late);
            let why = runs.why.as_mut().unwrap();
            assert!(why.origin == clock.origin() && runs.others.len() <= OTHERS);
            std::mem::replace(&mut why.idle, true)
        };
        let (one, other) = (clock(), clock());
        assert!(!is_known(&one) && !is_known(&other));
        for _ in 0..3 {
            assert!(is_known(&one) && is_known(&one) && is_known(&other));
        }
        assert!((0..OTHERS).all(|_| !is_known(&clock())), "those are new");
        assert!(is_known(&other) && !is_known(&one), "only so many are kept");
    }

    #[test]
    fn what_a_hook_takes_is_its_own_and_no_fault_of_the_next_task() {
        let clock = Clock::manual(0);
        let hook = clock.clone();
        // It takes far longer than what it is told of.
        let takes = move |_: &SlowTask<'_>| hook.set(hook.now() + 50_000_000);
        let slow =
            SlowTasks { inline: 1_000_000, hook: Some(Box::new(takes)), ..SlowTasks::default() };
        let mut reporter = Reporter::new(None, slow);
        reporter.clock = Some(clock.clone());
        let tick = Tick::new(Duration::from_nanos(1)).unwrap();
        reporter.late = Some(Box::new(Lateness::new(1_000_000, tick, 0, None)));
        let mut runs = RunClock::new();
        runs.explain(&clock, &reporter);
        runs.begin_turn(0, &reporter);
        let task = RawTask::new(|| (), Label::default());
        let mut run = |takes: u64| {
            let late = runs.begin(&task, 0, &clock, &reporter);
            clock.set(clock.now() + takes);
            late
        };
        assert_eq!([run(2_000_000), run(10), run(10)], [0, 52_000_000, 52_000_010]);
        runs.pause(&clock, &reporter);
        assert_eq!(
            reporter.slow.count.load(Ordering::Relaxed),
            1,
            "the second took ten nanoseconds"
        );
        let sum = reporter.late.as_ref().unwrap().record.all();
        let of = |cause: Cause| -> u64 {
            sum.rows.iter().filter(|row| row.cause == cause).map(|row| row.time).sum()
        };
        assert_eq!(of(Cause::Hook), 2 * 50_000_000);
        assert_eq!(of(Cause::InlineTask), 2 * 2_000_000);
    }

    /// A reporter that explains what is late by more than this bound, with a tick of a nanosecond.
    fn explains(bound: u64, clock: &Clock, hook: Option<LateHook>) -> Reporter {
        let tick = Tick::new(Duration::from_nanos(1)).unwrap();
        let mut reporter = Reporter::default();
        reporter.clock = Some(clock.clone());
        reporter.late = Some(Box::new(Lateness::new(bound, tick, 0, hook)));
        reporter
    }

    #[test]
    fn in_an_overload_what_one_explanation_stands_for_is_told_at_once_and_adds_up() {
        const BOUND: u64 = 400_000;
        let clock = Clock::manual(0);
        let told = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let counted = Arc::clone(&told);
        let hook = move |late: &Late<'_>| {
            counted.0.fetch_add(1, Ordering::Relaxed);
            counted.1.fetch_add(late.count, Ordering::Relaxed);
        };
        let reporter = explains(BOUND, &clock, Some(Box::new(hook)));
        let mut runs = RunClock::new();
        runs.explain(&clock, &reporter);
        runs.begin_turn(0, &reporter);
        let task = RawTask::new(|| (), Label::default());
        let (mut late, mut longest) = (Vec::new(), 0);
        for _ in 0..10_000 {
            longest = runs.begin(&task, 0, &clock, &reporter);
            late.extend((longest > BOUND).then_some(longest));
            clock.set(clock.now() + 100);
        }
        runs.pause(&clock, &reporter);
        let sum = reporter.late.as_ref().unwrap().record.all();
        assert_eq!((sum.count, sum.time), (late.len() as u64, late.iter().sum()));
        assert_eq!(sum.rows.iter().map(|row| row.time).sum::<u64>(), sum.time);
        assert_eq!(sum.longest, longest);
        // Eight are told by themselves, and then one in each quarter of the bound.
        let (calls, of) = (told.0.load(Ordering::Relaxed), told.1.load(Ordering::Relaxed));
        assert_eq!(of, sum.count);
        assert!(calls <= 8 + 600_000 / (BOUND / 4) + 1, "{calls} times for {of}");
    }

    #[test]
    fn what_stood_before_a_gap_does_not_explain_what_is_late_after_it() {
        let clock = Clock::manual(0);
        let reporter = explains(40_000, &clock, None);
        let mut runs = RunClock::new();
        runs.explain(&clock, &reporter);
        runs.begin_turn(0, &reporter);
        let task = RawTask::new(|| (), Label::default());
        // Until an explanation has just been given that stands for others.
        while !runs.still_stands(clock.now()) {
            clock.set(clock.now() + 100);
            runs.begin(&task, 0, &clock, &reporter);
        }
        // Two turns without a task, between which the event loop takes a second.
        let from = clock.now();
        runs.begin_turn(from, &reporter);
        assert!(runs.explained, "it still stands");
        clock.set(from + 1_000_000_000);
        runs.was_away(from, clock.now());
        runs.begin_turn(clock.now(), &reporter);
        runs.begin(&task, from, &clock, &reporter);
        clock.set(clock.now() + 100);
        runs.pause(&clock, &reporter);
        let rows = reporter.late.as_ref().unwrap().record.all().rows;
        let away = rows.iter().filter(|row| row.cause == Cause::EventLoop);
        assert_eq!(away.map(|row| row.time).sum::<u64>(), 1_000_000_000);
    }

    #[test]
    fn a_slow_task_among_fast_ones_is_missed_by_less_than_a_stride() {
        let mut tasks = [10; 100];
        tasks[50] = 1_000_000;
        let late = latenesses(&tasks);
        assert!(late[50] < 1_000 && late[51 + STRIDE as usize] > 1_000_000);
        assert!(late.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn fast_tasks_share_their_readings() {
        let mut late = latenesses(&[1; 1_600]);
        late.dedup();
        assert!(late.len() < 60, "{} readings", late.len());
    }
}
