//! Where two threads meet, step by step. A test plays the timer thread: it does what that thread
//! does between two steps of another. So steps that matter only in a race matter in these tests.

mod backpressure;
mod late;
mod wheels;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use futures::FutureExt;

use crate::api::handle::Handle;
use crate::api::listing::TimerQuery;
use crate::api::pending::StopFuture;
use crate::base::backpressure::Backpressure;
use crate::base::clock::Clock;
use crate::base::late::report::Lateness;
use crate::base::panics::Reporter;
use crate::base::tick::Tick;
use crate::engine::driver::walk::Walked;
use crate::engine::driver::{Driver, Next};
use crate::engine::entry::Entry;
use crate::engine::gate::Gate;
use crate::engine::lane::LOOK;
use crate::engine::lanes::{LaneSettings, MOST_WHEELS};
use crate::engine::schedule::BACKLOG;
use crate::engine::shared::{DefaultExecutor, Executors, Live, Settings};
use crate::engine::sleep_word::{AfterPush, Alarm, FOREVER};
use crate::executor::pool::Pool;
use crate::sync::{Arc, AtomicUsize, FAILURES, Mutex, Ordering, yield_now};
use crate::{Cancellable, Task};

/// One tick. It is longer than the steps of these tests.
const TICK: u64 = 100;
const SECOND: u64 = 1_000_000_000;

/// More tasks than the driver deals with in one step; fewer under Miri, where each takes a
/// millisecond.
const fn many(number: usize) -> usize {
    if cfg!(miri) { number / 100 } else { number }
}

/// A scheduler whose driver the test turns. Each thread has a wheel of its own.
struct ByHand {
    handle: Handle,
    driver: Driver,
    clock: Clock,
    wake_ups: Arc<AtomicUsize>,
    on_wake_up: OnWakeUp,
}

/// What may differ between two of them.
struct Options {
    default: DefaultExecutor,
    /// After how many timers a thread gets a wheel of its own.
    after: u64,
    most_wheels: usize,
    tick: u64,
    coalesce: u64,
    backpressure: Backpressure,
    /// From which lateness on it is explained, in nanoseconds.
    explain: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            default: DefaultExecutor::Inline,
            after: 0,
            most_wheels: MOST_WHEELS,
            tick: TICK,
            coalesce: 0,
            backpressure: Backpressure::Off,
            explain: None,
        }
    }
}

/// What a wake-up calls, on the thread that wakes the driver.
type OnWakeUp = Arc<Mutex<Option<Box<dyn FnMut() + Send>>>>;

impl ByHand {
    fn new() -> Self {
        Self::of(Options::default())
    }

    /// There are this many wheels at most.
    fn with_wheels(most_wheels: usize) -> Self {
        Self::of(Options { most_wheels, ..Options::default() })
    }

    /// Tasks run on this pool.
    fn on(pool: &Pool) -> Self {
        Self::of(Options { default: DefaultExecutor::Pool(pool.clone()), ..Options::default() })
    }

    /// Threads get wheels of their own after this many timers.
    fn with_wheel_after(after: u64) -> Self {
        Self::of(Options { after, ..Options::default() })
    }

    fn of(options: Options) -> Self {
        let Options { default, after, most_wheels, tick, coalesce, backpressure, explain } =
            options;
        let tick = Tick::new(Duration::from_nanos(tick)).unwrap();
        let mut reporter = Reporter::default();
        let lateness = |bound| Box::new(Lateness::new(bound, tick, coalesce, None));
        reporter.late = explain.map(lateness);
        let settings = Settings {
            tick,
            coalesce,
            lanes: LaneSettings {
                channels: 1,
                wheel_after: Some(after),
                most_wheels,
                tick,
                wheel_size: 64,
            },
            limit: None,
            backpressure,
            capture_spans: false,
            reporter,
        };
        let pool = match &default {
            DefaultExecutor::Pool(pool) => pool.clone(),
            _ => Pool::new("by-hand", 1).unwrap(),
        };
        let executors = Executors { default, pool };
        let clock = Clock::manual(0);
        let wake_ups = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wake_ups);
        let on_wake_up = OnWakeUp::default();
        let called = Arc::clone(&on_wake_up);
        let alarm = Alarm::Call(Box::new(move || {
            // Relaxed: read when the thread that adds has been joined.
            counted.fetch_add(1, Ordering::Relaxed);
            if let Some(call) = &mut *called.lock() {
                call();
            }
        }));
        let live = Live::new(settings, executors, clock.clone(), alarm);
        let driver = Driver::new(Arc::clone(&live), 64, false);
        Self { handle: Handle::new(live), driver, clock, wake_ups, on_wake_up }
    }

    fn schedule(&self, at: u64) -> Cancellable {
        self.handle.schedule_once(Duration::from_nanos(at), || ()).unwrap()
    }

    /// The gate of the calling thread's lane.
    fn own_gate(&self) -> &Gate {
        self.driver.core().arena.lanes.of_this_thread().lane.gate()
    }

    /// Whether the calling thread has a wheel.
    fn has_wheel(&self) -> bool {
        self.driver.core().arena.lanes.of_this_thread().wheel().is_some()
    }

    /// What the timer thread does when it wakes up at `now`. Returns how many tasks have run.
    fn turn(&mut self, now: u64) -> usize {
        self.clock.set(now);
        let _ = self.driver.take_in();
        self.driver.turn(now).fired
    }

    /// What the timer thread does before it sleeps: it announces until when, which is returned.
    fn sleep(&mut self) -> u64 {
        for _ in 0..1_000 {
            let until = match self.driver.turn(self.clock.now()).next {
                Next::At(instant) => instant,
                Next::Idle => FOREVER,
                Next::Now | Next::Soon => continue,
            };
            self.driver.core().sleep.announce_sleep(until);
            return until;
        }
        panic!("it never sleeps");
    }

    /// Schedules tasks for one instant. Each of them notes its number.
    fn schedule_numbers(&self, at: u64, numbers: std::ops::Range<usize>, notes: &Notes) {
        for number in numbers {
            let notes = Arc::clone(notes);
            let task = move || notes.lock().push(number);
            drop(self.handle.schedule_once(Duration::from_nanos(at), task).unwrap());
        }
    }

    /// Runs `code` while the gate of this thread is shut: what the thread schedules goes into its
    /// intake.
    fn with_gate_shut(&self, code: impl FnOnce(&Self)) {
        let gate = self.handle.core().arena.lanes.of_this_thread().lane.gate();
        gate.knock();
        code(self);
        gate.open();
    }

    /// How many of the entries that have been made are like this.
    fn entries_that(&self, are: impl Fn(&Entry) -> bool) -> usize {
        let blocks = self.handle.core().arena.blocks();
        // SAFETY: blocks live as long as the arena.
        let entries = blocks.iter().flat_map(|block| unsafe { block.as_ref() }.entries());
        entries.filter(|&entry| are(entry)).count()
    }

    /// How often the timer thread has been woken since the last call.
    fn wake_ups(&self) -> usize {
        self.wake_ups.swap(0, Ordering::Relaxed)
    }

    /// Looks at the entries, between two turns, as long as a listing is under way. Says whether the
    /// listing has ended; it gets far more looks than it may take.
    fn walk(&mut self) -> bool {
        (0..10_000).any(|_| {
            let _ = self.driver.take_in();
            self.driver.walk(false) == Walked::Idle
        })
    }
}

/// The numbers of the tasks that have run, in the order in which they ran.
/// A delay.
fn at(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

type Notes = Arc<Mutex<Vec<usize>>>;

/// Whether that is every number below `count`, in order; there are too many of them to print.
#[track_caller]
fn assert_counts_to(count: usize, ran: &[usize]) {
    let wrong = ran.iter().enumerate().find(|&(place, &number)| place != number);
    assert!(ran.len() == count && wrong.is_none(), "{} of {count} ran, {wrong:?}", ran.len());
}

/// Runs `code` on a thread of its own, which has a lane of its own.
fn elsewhere<T: Send>(code: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(code).join().unwrap())
}

/// A thread that lives until it is told to end.
struct Living {
    goes_on: Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Living {
    /// Returns when the thread has done this.
    fn that_has(done: impl FnOnce() + Send + 'static) -> Self {
        let ((goes_on, end), (tells, ready)) = (channel::<()>(), channel());
        let thread = std::thread::spawn(move || {
            done();
            tells.send(()).unwrap();
            let _told = end.recv();
        });
        ready.recv().unwrap();
        Self { goes_on, thread }
    }

    fn end(self) {
        drop(self.goes_on);
        self.thread.join().unwrap();
    }
}

#[test]
fn a_call_sets_a_few_of_the_entries_free_whose_handles_others_dropped_and_all_are_used_again() {
    const AT_MOST: usize = 64;
    let timers = many(20_000);
    let mut it = ByHand::new();
    let fired: Vec<_> = (0..timers).map(|_| it.schedule(TICK)).collect();
    while it.handle.pending() > 0 {
        let _ = it.turn(TICK);
    }
    elsewhere(move || drop(fired));
    let memory = it.handle.metrics().timer_memory;
    let unfreed = || it.entries_that(|entry| entry.state.has_handle());
    let mut before = unfreed();
    assert_eq!(before, timers);
    for call in 1..=timers {
        drop(it.schedule(9 * TICK));
        if call <= 2 * AT_MOST {
            let now = unfreed();
            assert!(before - now <= AT_MOST, "call {call} set {} free", before - now);
            before = now;
        }
    }
    assert_eq!((unfreed(), it.handle.metrics().timer_memory), (0, memory));
}

#[test]
fn what_another_thread_cancels_between_its_wheel_and_its_run_is_set_free() {
    let timers = many(20_000);
    let mut it = ByHand::new();
    let cancelled: Vec<_> = (0..timers).map(|_| it.schedule(TICK)).collect();
    // Some run, and others have left the wheel to do so.
    let ran = it.turn(TICK);
    let cancel = || cancelled.into_iter().filter(|timer| timer.cancel()).count();
    assert_eq!((elsewhere(cancel) + ran, ran > 0), (timers, true));
    // The owner comes, so it is the owner who finds them.
    for _ in 0..timers {
        assert!(it.schedule(9 * TICK).cancel());
    }
    while it.sleep() != FOREVER {
        let _ = it.turn(it.clock.now() + TICK);
    }
    assert_eq!(it.entries_that(|entry| entry.state.is_cancelled()), 0);
}

#[test]
fn in_the_middle_of_a_batch_its_lane_is_as_ready_as_between_two_calls() {
    let mut it = ByHand::new();
    drop(it.schedule(9 * TICK));
    let _ = it.turn(0);
    let _ = it.sleep();
    let looks = Arc::new(Mutex::new(Vec::new()));
    let (handle, seen) = (it.handle.clone(), Arc::clone(&looks));
    *it.on_wake_up.lock() = Some(Box::new(move || {
        let own = handle.core().arena.lanes.of_this_thread();
        // SAFETY: the owner, this thread, is not behind its gate, and the driver is not turned.
        let nothing_waits = unsafe { own.wheel().unwrap().intake.is_empty() };
        seen.lock().push((own.lane.gate().is_free(), nothing_waits));
    }));
    // The first of them wakes the driver, while nearly all others are still to be placed.
    let half = if cfg!(miri) { 150 } else { 500 };
    let timers = it.handle.schedule_batch((1..=2 * half).map(|n| (at(n * TICK), || ()))).unwrap();
    assert_eq!(*looks.lock(), [(true, true)]);
    *it.on_wake_up.lock() = None;
    assert_eq!(it.turn(half * TICK) as u64, half + 1);
    assert_eq!(timers.iter().filter(|timer| timer.cancel()).count() as u64, half);
}

#[test]
fn a_batch_whose_thread_finds_its_gate_shut_comes_in_whole_and_in_its_order() {
    let (mut it, notes) = (ByHand::new(), Notes::default());
    drop(it.schedule(TICK));
    let note = |number: usize| {
        let notes = Arc::clone(&notes);
        (at(TICK), move || notes.lock().push(number))
    };
    // As if the driver were inside all the time.
    it.own_gate().knock();
    let first = it.handle.schedule_batch((0..300).map(note)).unwrap();
    it.own_gate().open();
    let second = it.handle.schedule_batch((300..600).map(note)).unwrap();
    // Some of these turns only take in what the batches have left in the intake.
    for _ in 0..100 {
        let _ = it.turn(TICK);
    }
    assert!(notes.lock().iter().copied().eq(0..600));
    assert!(first.iter().chain(&second).all(|timer| !timer.is_pending()));
}

#[test]
fn a_thread_s_timers_fire_however_many_of_its_deadlines_others_move_nearer_all_the_time() {
    let (mut it, ran) = (ByHand::new(), Arc::new(AtomicUsize::new(0)));
    // More of them than a visit takes in.
    let moved: Vec<_> = (0..many(700)).map(|_| it.schedule(u64::from(u32::MAX))).collect();
    let note = Arc::clone(&ran);
    // Relaxed, here and below: one thread adds and reads.
    let probe = move || _ = note.fetch_add(1, Ordering::Relaxed);
    drop(it.handle.schedule_once(at(5 * TICK), probe).unwrap());
    for turn in 1..=20 {
        std::thread::scope(|scope| {
            scope.spawn(|| moved.iter().for_each(|timer| _ = timer.reset(at(1 << (31 - turn)))));
        });
        let _ = it.turn(turn * TICK);
    }
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[test]
fn an_owner_that_moves_a_deadline_nearer_wakes_the_timer_thread_which_comes_to_its_lane() {
    let mut it = ByHand::new();
    let timer = it.schedule(50 * TICK);
    assert_eq!((it.sleep(), it.wake_ups()), (50 * TICK, 0));
    assert!(timer.reset(Duration::from_nanos(5 * TICK)));
    assert_eq!(it.wake_ups(), 1);
    assert_eq!(it.sleep(), 5 * TICK, "it plans to visit the lane by then");
    assert_eq!((it.turn(5 * TICK - 1), it.turn(5 * TICK)), (0, 1));
}

#[test]
fn a_deadline_that_another_thread_moves_nearer_wakes_the_timer_thread_which_comes_to_the_lane() {
    let mut it = ByHand::new();
    let timer = it.schedule(50 * TICK);
    assert_eq!(it.sleep(), 50 * TICK);
    elsewhere(|| assert!(timer.reset(Duration::from_nanos(5 * TICK))));
    assert_eq!(it.wake_ups(), 1);
    assert_eq!(it.sleep(), 5 * TICK, "it plans to visit the lane by then");
    assert_eq!((it.turn(5 * TICK - 1), it.turn(5 * TICK)), (0, 1));
}

#[test]
fn a_deadline_moved_nearer_twice_before_the_timer_thread_comes_is_met_at_the_second() {
    let mut it = ByHand::new();
    let timer = it.schedule(50 * TICK);
    assert_eq!(it.sleep(), 50 * TICK);
    elsewhere(|| assert!(timer.reset(Duration::from_nanos(20 * TICK))));
    // The timer thread need not come before 20, so the carrier stays where it is.
    assert_eq!((it.wake_ups(), it.sleep()), (1, 20 * TICK));
    elsewhere(|| assert!(timer.reset(Duration::from_nanos(5 * TICK))));
    assert_eq!(it.wake_ups(), 1);
    assert_eq!(it.sleep(), 5 * TICK, "it plans to visit the lane by then");
    assert_eq!((it.turn(5 * TICK - 1), it.turn(5 * TICK)), (0, 1));
}

#[test]
fn a_deadline_moved_to_at_once_does_not_wait_for_the_end_of_the_tick() {
    for by_owner in [true, false] {
        let mut it = ByHand::new();
        let timer = it.schedule(50 * TICK);
        let _ = it.turn(5 * TICK + 1);
        if by_owner {
            assert!(timer.reset(Duration::ZERO));
        } else {
            elsewhere(|| assert!(timer.reset(Duration::ZERO)));
        }
        assert_eq!(it.turn(5 * TICK + 1), 1);
    }
}

#[test]
fn a_deadline_that_is_moved_nearer_while_its_timer_is_in_the_intake_is_met() {
    let mut it = ByHand::new();
    let mut timer = None;
    it.with_gate_shut(|it| timer = Some(it.schedule(50 * TICK)));
    let timer = timer.unwrap();
    assert_eq!(it.sleep(), 50 * TICK);
    assert!(timer.reset(Duration::from_nanos(5 * TICK)));
    assert_eq!((it.wake_ups(), it.sleep()), (1, 5 * TICK));
    assert_eq!((it.turn(5 * TICK - 1), it.turn(5 * TICK)), (0, 1));
}

#[test]
#[cfg_attr(miri, ignore = "needs 16,384 carriers")]
fn carriers_do_not_pile_up_in_a_lane_while_the_timer_thread_sleeps() {
    let mut it = ByHand::new();
    let timers: Vec<_> = (0..BACKLOG).map(|_| it.schedule(100 * TICK)).collect();
    // (The timer thread wakes up early for so many timers.)
    assert!(it.sleep() < 99 * TICK);
    assert_eq!(it.wake_ups(), 0);
    let (last, others) = timers.split_last().unwrap();
    let move_nearer = |timer: &Cancellable| assert!(timer.reset(Duration::from_nanos(99 * TICK)));
    let wake_ups = &it.wake_ups;
    elsewhere(|| {
        others.iter().for_each(move_nearer);
        assert_eq!(wake_ups.load(Ordering::Relaxed), 0);
        move_nearer(last);
    });
    assert_eq!(it.wake_ups(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "needs 16,384 timers")]
fn timers_do_not_pile_up_in_a_channel_while_the_timer_thread_sleeps() {
    let mut it = ByHand::with_wheel_after(u64::MAX);
    drop(it.schedule(50 * TICK));
    assert_eq!((it.turn(0), it.sleep()), (0, 50 * TICK));
    // (The first one counts.)
    for _ in 1..BACKLOG - 1 {
        drop(it.schedule(60 * TICK));
    }
    assert_eq!(it.wake_ups(), 0);
    drop(it.schedule(60 * TICK));
    assert_eq!(it.wake_ups(), 1);
}

#[test]
fn a_lane_is_visited_when_its_next_timer_is_due_and_its_gate_is_open_in_between() {
    let mut it = ByHand::new();
    let gate_is_open = |it: &ByHand| {
        let gate = it.handle.core().arena.lanes.of_this_thread().lane.gate();
        gate.enter().then(|| gate.leave()).is_some()
    };
    for at in [5, 20, 20] {
        drop(it.schedule(at * TICK));
    }
    assert_eq!(it.sleep(), 5 * TICK);
    assert_eq!((it.turn(5 * TICK), it.sleep()), (1, 20 * TICK));
    assert!(gate_is_open(&it));
    assert_eq!((it.turn(20 * TICK), it.sleep()), (2, FOREVER));
    assert!(gate_is_open(&it));
}

#[test]
fn a_burst_of_one_tick_and_one_of_tasks_without_a_delay_run_to_their_ends() {
    for at in [0, 5 * TICK] {
        let (mut it, notes) = (ByHand::new(), Notes::default());
        it.schedule_numbers(at, 0..many(3_000), &notes);
        let _ = it.turn(at);
        assert_eq!(it.sleep(), FOREVER, "nothing is left");
        assert_counts_to(many(3_000), &notes.lock());
    }
}

#[test]
fn what_is_in_a_long_intake_runs_before_what_is_due_later() {
    let (mut it, notes) = (ByHand::new(), Notes::default());
    let last = many(2_000);
    it.schedule_numbers(7 * TICK, last..last + 1, &notes);
    it.with_gate_shut(|it| it.schedule_numbers(5 * TICK, 0..last, &notes));
    let _ = it.turn(9 * TICK);
    assert_eq!(it.sleep(), FOREVER, "nothing is left");
    assert_counts_to(last + 1, &notes.lock());
}

#[test]
fn what_is_last_in_a_long_intake_and_due_first_is_met() {
    let (mut it, notes) = (ByHand::new(), Notes::default());
    it.with_gate_shut(|it| {
        it.schedule_numbers(50 * TICK, 0..many(400), &notes);
        it.schedule_numbers(5 * TICK, 777..778, &notes);
    });
    assert_eq!(it.sleep(), 5 * TICK);
    let _ = it.turn(5 * TICK);
    assert_eq!(it.sleep(), 50 * TICK);
    assert_eq!(*notes.lock(), [777]);
}

#[test]
fn a_crowded_slot_of_a_lane_comes_down_in_several_turns_and_in_its_order() {
    let (mut it, notes) = (ByHand::new(), Notes::default());
    it.schedule_numbers(1_000 * TICK, 0..many(10_000), &notes);
    let _ = it.turn(1_000 * TICK);
    assert_eq!(it.sleep(), FOREVER, "nothing is left");
    assert_counts_to(many(10_000), &notes.lock());
}

#[test]
fn a_long_intake_is_handed_back_whole() {
    let (mut it, notes) = (ByHand::new(), Notes::default());
    it.with_gate_shut(|it| it.schedule_numbers(5 * TICK, 0..many(2_000), &notes));
    let stopped = StopFuture::new(it.handle.core().stop.request(true));
    it.driver.finish();
    assert_eq!(stopped.wait().len(), many(2_000));
}

#[test]
fn a_stop_that_has_to_wait_leaves_the_processor_to_the_thread_that_it_waits_for() {
    let mut it = ByHand::new();
    drop(it.schedule(TICK));
    // As if a thread with a lower priority were behind its gate for so long.
    FAILURES.set(1_000);
    let begin = crate::sync::real_now();
    it.driver.finish();
    assert_eq!(FAILURES.get(), 0);
    // All but the first looks came after a sleep, which may take longer, but not less.
    assert!(begin.elapsed() >= Duration::from_micros(50) * 800, "{:?}", begin.elapsed());
}

#[test]
fn a_stop_waits_for_an_owner_that_is_behind_its_gate() {
    let it = ByHand::new();
    drop(it.schedule(5 * TICK));
    let ByHand { handle, mut driver, .. } = it;
    let core = handle.core();
    let gate = core.arena.lanes.of_this_thread().lane.gate();
    assert!(gate.enter());
    let stopped = StopFuture::new(core.stop.request(true));
    std::thread::scope(|scope| {
        scope.spawn(move || driver.finish());
        while core.sleep.after_push(0) != AfterPush::Stopped {
            yield_now();
        }
        // More than enough for a driver that does not wait.
        (0..many(10_000)).for_each(|_| yield_now());
        let early = core.stop.is_resolved();
        gate.leave();
        assert!(!early);
    });
    assert_eq!(stopped.wait().len(), 1);
}

#[test]
fn a_lane_is_not_entered_before_a_fence_that_has_failed_is_made_up_for() {
    let mut it = ByHand::new();
    drop(it.schedule(5 * TICK));
    FAILURES.set(2);
    assert_eq!((it.turn(5 * TICK), it.turn(5 * TICK)), (0, 0));
    assert_eq!(it.turn(5 * TICK), 1);
    assert_eq!(it.sleep(), FOREVER);
}

#[test]
fn what_others_cancel_in_the_lane_of_a_thread_that_has_gone_is_collected_once() {
    let mut it = ByHand::new();
    // (With a lane of its own, this thread does not get the other's number.)
    drop(it.schedule(60 * TICK));
    let (handle, far) = (it.handle.clone(), Duration::from_nanos(50 * TICK));
    let schedule = move |_| handle.schedule_once(far, || ()).unwrap();
    let timers: Vec<_> = elsewhere(|| (0..many(1_000)).map(schedule).collect());
    for timer in &timers {
        assert!(timer.cancel());
    }
    // The lane's owner does not come between these two.
    it.handle.core().have_collected();
    it.handle.core().have_collected();
    assert_eq!(it.sleep(), 60 * TICK, "nothing is left in the other's wheel");
}

#[test]
fn the_driver_looks_again_after_a_second_at_a_lane_whose_owner_has_something_to_collect() {
    let mut it = ByHand::new();
    let timers: Vec<_> = (0..100).map(|_| it.schedule(50 * SECOND)).collect();
    elsewhere(|| timers.iter().for_each(|timer| assert!(timer.cancel())));
    // Up to now the owner has come.
    it.handle.core().have_collected();
    assert_eq!(it.sleep(), SECOND);
    let _ = it.turn(SECOND);
    assert_eq!(it.sleep(), FOREVER, "nothing is left in the wheel");
}

#[test]
#[cfg_attr(miri, ignore = "needs thousands of timers")]
fn the_driver_collects_in_a_lane_whose_owner_comes_and_collects_less_than_others_cancel() {
    let mut it = ByHand::new();
    let timers: Vec<_> = (0..10_000).map(|_| it.schedule(50 * SECOND)).collect();
    elsewhere(|| timers.iter().for_each(|timer| assert!(timer.cancel())));
    it.handle.core().have_collected();
    for second in 1..=3 {
        // It comes, so the driver has no reason to think that it has gone.
        for _ in 0..LOOK {
            drop(it.schedule(500 * SECOND));
        }
        let _ = it.turn(second * SECOND);
    }
    assert!(it.sleep() > 50 * SECOND, "nothing is left of what was cancelled");
}

#[test]
fn the_driver_is_asked_to_watch_an_owner_before_it_is_woken() {
    let mut it = ByHand::new();
    let timers: Vec<_> = (0..100).map(|_| it.schedule(50 * TICK)).collect();
    elsewhere(|| timers.iter().for_each(|timer| assert!(timer.cancel())));
    let _ = it.sleep();
    let (handle, asked) = (it.handle.clone(), Arc::new(Mutex::new(Vec::new())));
    let note = Arc::clone(&asked);
    *it.on_wake_up.lock() = Some(Box::new(move || {
        note.lock().push(handle.core().arena.lanes.take_watch_request());
    }));
    elsewhere(|| {
        let core = it.handle.core();
        core.count_backlog(core.arena.lanes.of_this_thread(), BACKLOG);
    });
    assert_eq!(*asked.lock(), [true]);
}

#[test]
#[cfg_attr(miri, ignore = "looks thousands of times in vain")]
fn a_listing_gives_up_on_timers_behind_a_shut_gate_and_says_how_many_they_are() {
    // More entries than may be put aside at a time.
    let timers: u64 = (1 << 16) + 3;
    let mut it = ByHand::new();
    for _ in 0..timers {
        drop(it.schedule(50 * TICK));
    }
    let handle = it.handle.clone();
    let lane = handle.core().arena.lanes.of_this_thread().lane;
    // The owner was interrupted behind its gate.
    assert!(lane.gate().enter());
    let listing = it.handle.list(TimerQuery::new());
    let ended = it.walk();
    lane.gate().leave();
    assert!(ended);
    let listing = listing.now_or_never().expect("the walk has ended");
    assert_eq!((listing.matched, listing.unseen), (0, timers));
}

#[test]
fn a_listing_that_a_stop_interrupts_is_empty() {
    // More than one step visits.
    let timers = 2_000;
    let mut it = ByHand::new();
    for _ in 0..timers {
        drop(it.schedule(50 * TICK));
    }
    let listing = it.handle.list(TimerQuery::new());
    let _ = it.driver.take_in();
    assert_eq!([it.driver.walk(false), it.driver.walk(false)], [Walked::More, Walked::More]);
    let stopped = StopFuture::new(it.handle.core().stop.request(true));
    it.driver.finish();
    assert_eq!(stopped.wait().len(), timers);
    let listing = listing.now_or_never().expect("the scheduler has stopped");
    assert_eq!((listing.matched, listing.taken_at), (0, None));
}

/// Tasks on a pool with one thread and a limited queue. Each task waits for a permit, and then
/// notes its number.
struct Tasks {
    /// Dropped before the pool, so that the pool does not wait for tasks that wait for a permit.
    permits: Sender<()>,
    pool: Pool,
    waits: Arc<Mutex<Receiver<()>>>,
    ran: Notes,
}

impl Tasks {
    fn new(queue: usize) -> Self {
        let pool = Pool::builder("limited").threads(1).queue(queue).build().unwrap();
        let (permits, waits) = channel();
        let (waits, ran) = (Arc::new(Mutex::new(waits)), Notes::default());
        Self { permits, pool, waits, ran }
    }

    /// Schedules tasks that are due now.
    fn schedule(&self, it: &ByHand, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            let (waits, ran) = (Arc::clone(&self.waits), Arc::clone(&self.ran));
            let task = move || {
                waits.lock().recv().unwrap();
                ran.lock().push(number);
            };
            drop(it.handle.schedule_once(Duration::ZERO, task).unwrap());
        }
    }

    /// Lets this many tasks finish, and waits until the timer thread has been woken because there
    /// is room.
    fn make_room(&self, it: &mut ByHand, tasks: usize) {
        let _ = it.sleep();
        let _ = it.wake_ups();
        (0..tasks).for_each(|_| self.permits.send(()).unwrap());
        while it.wake_ups() == 0 {
            yield_now();
        }
    }

    /// Lets all tasks run, and returns their numbers in the order in which they ran.
    fn finish(&self, it: &mut ByHand) -> Vec<usize> {
        (0..many(10_000)).for_each(|_| self.permits.send(()).unwrap());
        while it.handle.pending() > 0 {
            let _ = it.turn(0);
        }
        self.pool.wait();
        std::mem::take(&mut *self.ran.lock())
    }
}

#[test]
fn a_pool_is_stalled_if_all_of_it_has_been_busy_for_more_than_a_second_while_tasks_wait() {
    let tasks = Tasks::new(10);
    let mut it = ByHand::on(&tasks.pool);
    tasks.schedule(&it, [0]);
    assert_eq!((it.turn(0), it.sleep()), (1, FOREVER), "nothing waits for the thread");
    tasks.schedule(&it, 1..3);
    assert_eq!((it.turn(0), it.sleep()), (2, SECOND));
    while tasks.pool.all_busy_since() != Some(0) {
        yield_now();
    }
    let look = |it: &mut ByHand, now| {
        let _ = it.turn(now);
        (it.handle.metrics().pool_stalls, it.sleep())
    };
    assert_eq!(look(&mut it, SECOND - 1), (0, SECOND), "it is not time");
    assert_eq!(look(&mut it, SECOND), (0, 2 * SECOND), "busy for a second, and not for more");
    assert_eq!(look(&mut it, 2 * SECOND), (1, 12 * SECOND));
    assert_eq!(look(&mut it, 12 * SECOND), (2, 22 * SECOND), "said again, but not all the time");
    assert_eq!(tasks.finish(&mut it), [0, 1, 2]);
    assert_eq!(look(&mut it, 22 * SECOND), (2, FOREVER));
}

#[test]
fn what_comes_due_as_there_is_room_again_does_not_pass_those_that_wait_for_it() {
    let tasks = Tasks::new(1);
    let mut it = ByHand::on(&tasks.pool);
    // One runs, one is in the queue, and one waits.
    tasks.schedule(&it, 0..3);
    let (pool, permits) = (tasks.pool.clone(), tasks.permits.clone());
    let makes_room = Task::new(move || {
        (0..100).for_each(|_| permits.send(()).unwrap());
        pool.wait();
    });
    drop(it.handle.schedule_once(Duration::ZERO, makes_room.inline()).unwrap());
    tasks.schedule(&it, [3]);
    // The pool is idle, so none of its threads would wake the timer thread.
    assert_eq!(it.driver.turn(0).next, Next::Now);
    assert_eq!(it.handle.pending(), 2);
    assert_eq!(tasks.finish(&mut it), [0, 1, 2, 3]);
}

#[test]
fn of_those_that_wait_for_room_as_many_go_as_there_is_and_what_is_due_then_waits_behind_them() {
    let tasks = Tasks::new(2);
    let mut it = ByHand::on(&tasks.pool);
    tasks.schedule(&it, 0..6);
    let _ = it.turn(0);
    assert_eq!(it.handle.pending(), 3);
    tasks.make_room(&mut it, 1);
    tasks.schedule(&it, 6..9);
    let _ = it.turn(0);
    assert_eq!(it.handle.pending(), 5, "there was room for one");
    assert_eq!(tasks.finish(&mut it), (0..9).collect::<Vec<_>>());
}

#[test]
fn those_that_wait_for_room_keep_their_order_although_more_find_some_than_fit_into_a_turn() {
    let (queue, all) = (many(1_200), many(1_900));
    let tasks = Tasks::new(queue);
    let mut it = ByHand::on(&tasks.pool);
    tasks.schedule(&it, 0..all);
    let _ = it.sleep();
    assert_eq!(it.handle.pending(), (all - queue - 1) as u64);
    tasks.make_room(&mut it, queue / 2);
    assert_counts_to(all, &tasks.finish(&mut it));
}

#[test]
fn the_room_that_those_take_who_have_waited_is_not_there_for_others() {
    let tasks = Tasks::new(4);
    let mut it = ByHand::on(&tasks.pool);
    tasks.schedule(&it, 0..6);
    let _ = it.turn(0);
    assert_eq!(it.handle.pending(), 1);
    tasks.make_room(&mut it, 2);
    tasks.schedule(&it, 6..8);
    let _ = it.turn(0);
    assert_eq!(it.handle.pending(), 1, "there was room for two");
    assert_eq!(tasks.finish(&mut it), (0..8).collect::<Vec<_>>());
}

#[test]
fn room_that_a_turn_has_left_may_be_gone_in_the_next() {
    let tasks = Tasks::new(2);
    let (mut it, mut other) = (ByHand::on(&tasks.pool), ByHand::on(&tasks.pool));
    tasks.schedule(&it, [0]);
    let _ = it.turn(0);
    tasks.schedule(&other, 1..3);
    let _ = other.turn(0);
    tasks.schedule(&it, 3..5);
    let _ = it.turn(0);
    assert_eq!((it.handle.pending(), other.handle.pending()), (2, 0));
    assert_eq!(tasks.finish(&mut it), (0..5).collect::<Vec<_>>());
}

#[test]
fn later_timers_of_a_thread_do_not_overtake_the_first_ones_while_those_are_moved_down() {
    let first = many(5_000);
    let mut scheduler = ByHand::with_wheel_after(first as u64 + 1);
    let notes = Notes::default();
    // The first tick of an upper slot, which holds more than is moved down in one turn.
    let due = 320 * TICK;
    scheduler.schedule_numbers(due, 0..first, &notes);
    let _ = scheduler.driver.take_in();
    // In the thread's own wheel, at its lowest level.
    scheduler.clock.set(due - 10 * TICK);
    let all = first + 100;
    scheduler.schedule_numbers(10 * TICK, first..all, &notes);
    while notes.lock().len() < all {
        scheduler.turn(due);
    }
    assert_counts_to(all, &notes.lock());
}
