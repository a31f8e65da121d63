//! Where two threads meet, step by step: a test takes the part of the timer thread and does what
//! that does between two steps of another. So each step that only a race needs is needed here.

use std::time::Duration;

use futures::FutureExt;

use crate::Cancellable;
use crate::api::handle::Handle;
use crate::api::listing::TimerQuery;
use crate::base::clock::Clock;
use crate::base::panics::Reporter;
use crate::base::tick::Tick;
use crate::engine::driver::walk::Walked;
use crate::engine::driver::{Driver, Next};
use crate::engine::lanes::LaneSettings;
use crate::engine::schedule::BACKLOG;
use crate::engine::shared::{DefaultExecutor, Executors, Live, Settings};
use crate::engine::sleep_word::{Alarm, FOREVER};
use crate::executor::pool::Pool;
use crate::sync::{Arc, AtomicUsize, Ordering};

/// One tick, which is longer than the steps of these tests.
const TICK: u64 = 100;

/// A scheduler whose driver is turned by the test, in which each thread has a wheel of its own.
struct ByHand {
    handle: Handle,
    driver: Driver,
    clock: Clock,
    wake_ups: Arc<AtomicUsize>,
}

impl ByHand {
    fn new() -> Self {
        let tick = Tick::new(Duration::from_nanos(TICK)).unwrap();
        let settings = Settings {
            tick,
            coalesce: 0,
            lanes: LaneSettings { channels: 1, wheel_after: Some(0), tick, wheel_size: 64 },
            limit: None,
            capture_spans: false,
            reporter: Reporter::default(),
        };
        let pool = Pool::new("by-hand", 1).unwrap();
        let executors = Executors { default: DefaultExecutor::Inline, pool };
        let clock = Clock::manual(0);
        let wake_ups = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wake_ups);
        let alarm = Alarm::Call(Box::new(move || {
            // Relaxed: read when the thread that adds has been joined.
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        let live = Live::new(settings, executors, clock.clone(), alarm);
        let driver = Driver::new(Arc::clone(&live), 64, false);
        Self { handle: Handle::new(live), driver, clock, wake_ups }
    }

    fn schedule(&self, at: u64) -> Cancellable {
        self.handle.schedule_once(Duration::from_nanos(at), || ()).unwrap()
    }

    /// What the timer thread does when it wakes up at `now`. Returns how many tasks have run.
    fn turn(&mut self, now: u64) -> usize {
        self.clock.set(now);
        let _ = self.driver.take_in();
        self.driver.turn(now).fired
    }

    /// What the timer thread does before it sleeps: it says until when.
    fn sleep(&mut self) -> u64 {
        loop {
            let until = match self.driver.turn(self.clock.now()).next {
                Next::At(instant) => instant,
                Next::Idle => FOREVER,
                Next::Now | Next::Soon => continue,
            };
            self.driver.core().sleep.announce_sleep(until);
            return until;
        }
    }

    /// How often the timer thread has been woken since the last call.
    fn wake_ups(&self) -> usize {
        self.wake_ups.swap(0, Ordering::Relaxed)
    }

    /// Looks at the entries, between two turns, for as long as a listing is under way.
    fn walk(&mut self) {
        // Without this limit a walk that does not end would hold the test up, not fail it.
        for _ in 0..1 << 20 {
            let _ = self.driver.take_in();
            if self.driver.walk(false) == Walked::Idle {
                return;
            }
        }
        panic!("the walk does not end");
    }
}

/// On a thread of its own, which has a lane of its own.
fn elsewhere<T: Send>(code: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(code).join().unwrap())
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
    // It need not come before 20, so the carrier stays where it is.
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
    // The gate is shut to the owner, so its timer goes into the intake.
    let handle = it.handle.clone();
    drop(it.schedule(90 * TICK));
    let lane = handle.core().arena.lanes.of_this_thread().lane;
    lane.gate().knock();
    let timer = it.schedule(50 * TICK);
    lane.gate().open();
    assert_eq!(it.sleep(), 50 * TICK);
    assert!(timer.reset(Duration::from_nanos(5 * TICK)));
    assert_eq!((it.wake_ups(), it.sleep()), (1, 5 * TICK));
    assert_eq!((it.turn(5 * TICK - 1), it.turn(5 * TICK)), (0, 1));
}

#[test]
fn carriers_do_not_pile_up_in_a_lane_while_the_timer_thread_sleeps() {
    let mut it = ByHand::new();
    let timers: Vec<_> = (0..BACKLOG).map(|_| it.schedule(100 * TICK)).collect();
    // (It wakes up early for so many.)
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
fn a_listing_gives_up_on_timers_behind_a_shut_gate_and_says_how_many_they_are() {
    // More than may be put aside at a time.
    let many = if cfg!(miri) { 3 } else { (1 << 16) + 3 };
    let mut it = ByHand::new();
    for _ in 0..many {
        drop(it.schedule(50 * TICK));
    }
    let handle = it.handle.clone();
    let lane = handle.core().arena.lanes.of_this_thread().lane;
    // The owner was interrupted behind its gate.
    assert!(lane.gate().enter());
    let listing = it.handle.list(TimerQuery::new());
    it.walk();
    lane.gate().leave();
    let listing = listing.now_or_never().expect("the walk has ended");
    assert_eq!((listing.matched, listing.unseen), (0, many));
}
