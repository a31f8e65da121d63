//! Backpressure, by counts: the clock moves only when a test moves it.

use std::ops::ControlFlow;
use std::sync::mpsc::RecvTimeoutError;

use futures::FutureExt;

use super::*;
use crate::Refusal;
use crate::engine::pace::{CREDIT, LATE};
use crate::extend::Systems;

/// Longer than any of these tests moves its clock.
const NEVER_DUE: Duration = Duration::from_secs(1 << 30);
const MILLISECOND: u64 = 1_000_000;

/// Fails if a call of this test waits for ever.
fn in_time(test: fn()) {
    // (Miri's clock runs faster than its programs.)
    if cfg!(miri) {
        return test();
    }
    let (ended, wait) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let _told_in_any_case = ended;
        test();
    });
    match wait.recv_timeout(Duration::from_secs(100)) {
        Ok(()) | Err(RecvTimeoutError::Disconnected) => thread.join().unwrap(),
        Err(RecvTimeoutError::Timeout) => panic!("a call waits for ever"),
    }
}

fn with(backpressure: Backpressure) -> ByHand {
    by_hand(Options { backpressure, ..Options::default() })
}

/// Threads have no wheels.
fn without_wheels(backpressure: Backpressure) -> ByHand {
    by_hand(Options { backpressure, after: u64::MAX, ..Options::default() })
}

fn by_hand(options: Options) -> ByHand {
    let mut it = ByHand::of(options);
    it.driver.is_turned_in_time();
    it
}

impl ByHand {
    /// The price of an entry, if the timer thread is late.
    fn price(&self) -> Option<u64> {
        price(&self.handle)
    }

    fn credit(&self) -> i64 {
        credit(&self.handle)
    }

    fn accepted_of(&self, calls: u64) -> u64 {
        accepted_of(&self.handle, calls)
    }

    /// Fires a timer that is due this much earlier, on a lane of its own.
    fn be_late(&mut self, by: u64) {
        let handle = self.handle.clone();
        elsewhere(|| drop(handle.schedule_once(Duration::ZERO, || ()).unwrap()));
        assert!(self.turn(self.clock.now() + by) > 0);
    }

    /// The timer thread is late, and this thread has neither credit nor earned any. Returns what an
    /// entry costs.
    fn be_late_to_this_thread(&mut self) -> u64 {
        self.be_late(3 * LATE);
        use_up_credit(&self.handle);
        self.price().expect("it is late")
    }
}

fn price(handle: &Handle) -> Option<u64> {
    let core = handle.core();
    core.pace.price(core.clock.now(), false)
}

/// What the calling thread may still schedule.
fn credit(handle: &Handle) -> i64 {
    handle.core().arena.lanes.of_this_thread().credit()
}

/// The calling thread has neither credit nor earned any after this.
fn use_up_credit(handle: &Handle) {
    let own = handle.core().arena.lanes.of_this_thread();
    own.earn(handle.core().clock.now(), 1, 1);
    own.charge(own.credit().max(0) as u64);
}

fn try_to_schedule(handle: &Handle) -> Result<Cancellable, Refusal> {
    handle.schedule_once(NEVER_DUE, || ()).map_err(Refusal::from)
}

/// How many of so many calls are accepted before one is refused.
fn accepted_of(handle: &Handle, calls: u64) -> u64 {
    (0..calls).find(|_| try_to_schedule(handle).is_err()).unwrap_or(calls)
}

#[test]
fn a_thread_without_a_share_is_refused_while_the_timer_thread_is_late_and_keeps_its_task() {
    let mut it = with(Backpressure::Refuse);
    it.be_late_to_this_thread();
    let (sender, ran) = channel();
    let refused = it.handle.schedule_once(NEVER_DUE, move || sender.send(7).unwrap()).unwrap_err();
    assert_eq!(refused.refusal(), &Refusal::Overloaded);
    refused.into_task()();
    assert_eq!(ran.recv(), Ok(7));
    let batch = [1, 2].map(|_| (NEVER_DUE, || ()));
    let refused = it.handle.schedule_batch(batch).unwrap_err();
    assert_eq!(refused.refusal(), &Refusal::Overloaded);
    assert_eq!(refused.into_task().len(), 2);
    let series = it.handle.schedule_with_fixed_delay(NEVER_DUE, NEVER_DUE, || ());
    assert_eq!(series.unwrap_err().into_refusal(), Refusal::Overloaded);
    assert_eq!(it.handle.metrics().refused, 4);
}

#[test]
fn a_timer_thread_in_time_holds_nobody_back() {
    let mut it = with(Backpressure::Refuse);
    assert_eq!(it.accepted_of(20 * CREDIT), 20 * CREDIT);
    it.be_late(LATE);
    assert_eq!(it.accepted_of(20 * CREDIT), 20 * CREDIT);
}

#[test]
fn a_timer_thread_that_is_in_time_again_holds_nobody_back_any_more() {
    let mut it = with(Backpressure::Refuse);
    it.be_late_to_this_thread();
    assert!(try_to_schedule(&it.handle).is_err());
    let _ = it.turn(it.clock.now());
    assert_eq!(it.accepted_of(3 * CREDIT), 3 * CREDIT);
}

#[test]
fn a_thread_earns_its_share_at_the_price_of_an_entry() {
    let mut it = with(Backpressure::Refuse);
    let price = it.be_late_to_this_thread();
    assert_eq!(it.accepted_of(1), 0);
    it.clock.set(it.clock.now() + 10 * price - 1);
    assert_eq!(it.accepted_of(100), 9);
    it.clock.set(it.clock.now() + 1);
    assert_eq!(it.accepted_of(100), 1, "what was left over counts for the next");
    // (Long enough to earn more, although silence makes entries dearer.)
    it.clock.set(it.clock.now() + 50 * CREDIT * price);
    assert_eq!(it.accepted_of(10 * CREDIT), CREDIT, "no more is saved up");
}

#[test]
fn lanes_that_ask_share_the_timer_thread() {
    let mut it = with(Backpressure::Refuse);
    let price = it.be_late_to_this_thread();
    assert_eq!(it.accepted_of(1), 0);
    let (handle, clock) = (it.handle.clone(), it.clock.clone());
    elsewhere(move || {
        use_up_credit(&handle);
        assert_eq!(accepted_of(&handle, 1), 0);
        clock.set(clock.now() + 10 * price);
        assert_eq!(accepted_of(&handle, 100), 5);
    });
    assert_eq!(it.accepted_of(100), 5);
}

#[test]
fn threads_that_ask_while_the_timer_thread_is_in_time_get_no_more_together_than_one_alone() {
    /// What all of them get.
    const ALL: u64 = 8 * CREDIT;
    let it = with(Backpressure::Refuse);
    let gets = |handle: &Handle| {
        use_up_credit(handle);
        try_to_schedule(handle).unwrap();
        (credit(handle) + 1) as u64
    };
    let others = if cfg!(miri) { 2 } else { 40 };
    let mut seen = vec![gets(&it.handle)];
    let mut living = Vec::new();
    for _ in 0..others {
        let ((tell, got), handle) = (channel(), it.handle.clone());
        living.push(Living::that_has(move || tell.send(gets(&handle)).unwrap()));
        seen.push(got.recv().unwrap());
    }
    let expected: Vec<_> = (1..=others + 1).map(|ask| (ALL / ask).min(CREDIT)).collect();
    assert_eq!(seen, expected);
    living.into_iter().for_each(Living::end);
}

#[test]
fn the_later_the_timer_thread_is_the_more_an_entry_costs_up_to_a_limit() {
    let price = |late| {
        let mut it = with(Backpressure::Refuse);
        it.be_late(late);
        it.price()
    };
    let one = price(LATE + 1).unwrap();
    assert_eq!(price(2 * LATE), Some(2 * one));
    assert_eq!(price(100 * LATE), Some(64 * one));
}

#[test]
fn a_thread_with_a_timer_in_twenty_milliseconds_is_never_held_back_beside_a_flood() {
    let mut it = with(Backpressure::Refuse);
    it.be_late_to_this_thread();
    assert_eq!(it.accepted_of(1), 0);
    let (bystander, clock) = (it.handle.clone(), it.clock.clone());
    let (go_on, turns) = channel();
    let (done, calls) = channel();
    let other = std::thread::spawn(move || {
        use_up_credit(&bystander);
        done.send(()).unwrap();
        for () in turns {
            try_to_schedule(&bystander).unwrap();
            done.send(()).unwrap();
        }
    });
    calls.recv().unwrap();
    for _ in 0..many(200) {
        assert!(it.accepted_of(2 * CREDIT) < 2 * CREDIT, "the flood is held back");
        clock.set(clock.now() + 20 * MILLISECOND);
        go_on.send(()).unwrap();
        calls.recv().unwrap();
    }
    drop(go_on);
    other.join().unwrap();
    assert!(it.price().is_some(), "the timer thread is late throughout");
}

#[test]
fn every_way_in_is_charged_to_the_thread_that_takes_it() {
    type Way = fn(&ByHand);
    let single: Way = |it| drop(try_to_schedule(&it.handle));
    let batch: Way =
        |it| drop(it.handle.schedule_batch((0..5).map(|_| (NEVER_DUE, || ()))).unwrap());
    let series: Way = |it| {
        drop(it.handle.schedule_with_fixed_delay(NEVER_DUE, NEVER_DUE, || ()).unwrap());
    };
    let sleep: Way = |it| {
        let mut sleep = Box::pin(it.handle.sleep(NEVER_DUE));
        assert!(sleep.as_mut().now_or_never().is_none());
        std::mem::forget(sleep);
    };
    let with_gate_shut: Way = |it| it.with_gate_shut(|it| drop(try_to_schedule(&it.handle)));
    for (name, it) in [
        ("with a wheel", with(Backpressure::Refuse)),
        ("without a wheel", without_wheels(Backpressure::Refuse)),
    ] {
        let ways =
            [(single, 1), (batch, 5), (series, 1), (sleep, 1), (with_gate_shut, 1)].into_iter();
        for (number, (way, entries)) in ways.enumerate() {
            let before = it.credit();
            way(&it);
            assert_eq!(before - it.credit(), entries, "way {number} of a thread {name}");
        }
    }
}

#[test]
fn a_move_nearer_of_another_thread_s_timer_is_charged_and_one_of_its_own_is_not() {
    let it = with(Backpressure::Refuse);
    let timer = try_to_schedule(&it.handle).unwrap();
    let before = it.credit();
    assert!(timer.reset(NEVER_DUE / 2));
    assert_eq!(it.credit(), before);
    let handle = it.handle.clone();
    elsewhere(|| {
        let before = credit(&handle);
        assert!(timer.reset(NEVER_DUE / 4));
        assert_eq!(before - credit(&handle), 1);
        assert!(timer.reset(NEVER_DUE / 8), "its carrier is on its way already");
        assert_eq!(before - credit(&handle), 1);
    });
}

#[test]
fn what_a_thread_cancels_in_its_own_wheel_costs_it_nothing() {
    let mut it = with(Backpressure::Refuse);
    it.be_late_to_this_thread();
    it.clock.set(it.clock.now() + 10 * MILLISECOND);
    for _ in 0..5 * CREDIT {
        assert!(try_to_schedule(&it.handle).unwrap().cancel());
    }
}

#[test]
fn what_is_cancelled_in_a_channel_costs_as_much_as_what_stays() {
    let mut it = without_wheels(Backpressure::Refuse);
    it.be_late_to_this_thread();
    it.clock.set(it.clock.now() + 10 * MILLISECOND);
    let refused = (0..5 * CREDIT).any(|_| match try_to_schedule(&it.handle) {
        Ok(timer) => !timer.cancel(),
        Err(_) => true,
    });
    assert!(refused, "the timer thread has to take all of it in");
}

#[test]
fn futures_are_charged_and_neither_wait_nor_are_refused() {
    for backpressure in [Backpressure::Wait, Backpressure::Refuse] {
        let mut it = with(backpressure);
        it.be_late_to_this_thread();
        let mut sleeps: Vec<_> = (0..10).map(|_| Box::pin(it.handle.sleep(NEVER_DUE))).collect();
        for sleep in &mut sleeps {
            assert!(sleep.as_mut().now_or_never().is_none(), "it waits for its time");
        }
        assert_eq!((it.credit(), it.handle.metrics().backpressure_waits), (0, 0));
    }
}

#[test]
fn a_series_that_was_accepted_goes_on_although_the_timer_thread_is_late() {
    let mut it = with(Backpressure::Refuse);
    let (sender, runs) = channel();
    let run = move || sender.send(()).map_or(ControlFlow::Break(()), ControlFlow::Continue);
    let series = it.handle.schedule_with_fixed_delay(at(TICK), at(TICK), run).unwrap();
    for _ in 0..20 {
        it.be_late_to_this_thread();
        let _ = it.turn(it.clock.now() + 3 * LATE);
    }
    assert!(series.is_pending());
    assert!(runs.try_iter().count() >= 20);
}

#[test]
fn the_timer_thread_does_not_wait_for_itself_nor_refuse_what_its_tasks_schedule() {
    in_time(|| {
        for backpressure in [Backpressure::Wait, Backpressure::Refuse] {
            let mut it = with(backpressure);
            *it.handle.core().driven_by.lock() = Some(crate::sync::thread::current().id());
            it.be_late_to_this_thread();
            let handle = it.handle.clone();
            let accepted = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&accepted);
            let task = move || {
                let one = |_: &u64| handle.schedule_once(NEVER_DUE, || ()).is_ok();
                counted.store((0..5 * CREDIT).filter(one).count(), Ordering::Relaxed);
            };
            it.handle.schedule_once(Duration::ZERO, task).unwrap();
            let _ = it.turn(it.clock.now() + 3 * LATE);
            assert_eq!(accepted.load(Ordering::Relaxed) as u64, 5 * CREDIT);
            assert_eq!(it.handle.metrics().backpressure_waits, 0);
        }
    });
}

#[test]
fn a_turn_of_tasks_that_take_long_tells_that_it_is_late_before_it_ends() {
    const TAKES: u64 = 40_000;
    let mut it = with(Backpressure::Refuse);
    let tasks = 4 * LATE / TAKES;
    for number in 0..tasks {
        let (clock, handle) = (it.clock.clone(), it.handle.clone());
        let task = move || {
            clock.set(clock.now() + TAKES);
            let late = number * TAKES > LATE + TICK;
            assert_eq!(price(&handle).is_some(), late, "task {number}");
        };
        it.handle.schedule_once(at(TICK), task).unwrap();
    }
    assert_eq!(it.turn(TICK), tasks as usize);
    assert_eq!(it.handle.metrics().panicked, 0);
    let price = it.price().unwrap();
    assert!((TAKES..5 * TAKES).contains(&price), "an entry costs {price} ns");
}

#[test]
fn a_turn_that_cannot_enter_a_lane_does_not_say_that_the_timer_thread_is_in_time() {
    let mut it = with(Backpressure::Refuse);
    it.schedule(TICK);
    it.be_late(3 * LATE);
    it.schedule(0);
    assert!(it.price().is_some());
    assert!(it.own_gate().enter());
    let (fired, price) = (it.turn(it.clock.now()), it.price());
    it.own_gate().leave();
    assert_eq!(fired, 0);
    assert!(price.is_some(), "what is behind the gate has not been seen");
    let _ = it.turn(it.clock.now());
    let _ = it.turn(it.clock.now());
    assert_eq!(it.price(), None);
}

#[test]
fn a_lane_that_waits_to_be_entered_makes_the_timer_thread_late() {
    let mut it = with(Backpressure::Refuse);
    it.schedule(TICK);
    assert!(it.own_gate().enter());
    let seen = [TICK, TICK + LATE, TICK + LATE + 1].map(|now| (it.turn(now), it.price().is_some()));
    it.own_gate().leave();
    assert_eq!(seen, [(0, false), (0, false), (0, true)]);
}

#[test]
fn what_waits_in_a_channel_makes_the_timer_thread_late() {
    let it = &mut without_wheels(Backpressure::Off);
    let entries = many(10_000);
    for _ in 0..entries {
        it.schedule(3_600 * 1_000 * MILLISECOND);
    }
    // The first look marks the end as it is then, which is reached in the third.
    assert_eq!(it.turn(5 * MILLISECOND), 0);
    assert_eq!(it.price().is_some(), !cfg!(miri), "nothing says that all of the last 5 ms is in");
    for _ in 0..3 {
        let _ = it.turn(5 * MILLISECOND);
    }
    assert_eq!(it.price(), None);
}

#[test]
fn a_long_tick_and_a_window_for_wake_ups_are_no_lateness() {
    let (tick, coalesce) = (20 * MILLISECOND, 5 * MILLISECOND);
    for earlier in [1, tick / 2, tick - 1] {
        for (late, counts) in [(LATE, false), (LATE + 1, true)] {
            let backpressure = Backpressure::Refuse;
            let mut it = by_hand(Options { backpressure, tick, coalesce, ..Options::default() });
            it.schedule(tick - earlier);
            assert_eq!(it.turn(tick + coalesce + late), 1);
            assert_eq!(it.price().is_some(), counts, "{earlier} before its tick, {late} late");
        }
    }
}

#[test]
fn nothing_is_accepted_without_end_from_a_thread_that_hears_nothing_of_an_awake_timer_thread() {
    let it = with(Backpressure::Refuse);
    assert_eq!(it.accepted_of(3 * CREDIT), 3 * CREDIT, "it has just been heard of");
    it.clock.set(11 * MILLISECOND);
    assert!(it.accepted_of(10 * CREDIT) <= 3 * CREDIT);
    let mut it = it;
    let _ = it.turn(it.clock.now());
    assert_eq!(it.accepted_of(3 * CREDIT), 3 * CREDIT, "it is heard of again");
    let until = it.sleep();
    it.driver.pause();
    for before in [20 * MILLISECOND, 0] {
        it.clock.set(until - before);
        assert_eq!(it.accepted_of(10 * CREDIT), 10 * CREDIT, "it sleeps, as it has said");
    }
    it.driver.core().sleep.announce_awake();
    let _ = it.turn(until);
    // Here its last sign of life before it sleeps is seen.
    assert_eq!(it.accepted_of(3 * CREDIT), 3 * CREDIT);
    it.driver.core().sleep.announce_sleep(FOREVER);
    it.driver.pause();
    it.clock.set(until + 20 * MILLISECOND);
    it.driver.core().sleep.announce_awake();
    assert_eq!(it.accepted_of(3 * CREDIT), 3 * CREDIT, "it has only just woken up");
}

#[test]
fn a_task_that_begins_after_a_sleep_was_announced_and_takes_long_holds_back_like_any_other() {
    let mut it = with(Backpressure::Refuse);
    let (handle, clock) = (it.handle.clone(), it.clock.clone());
    let is_up = |handle: &Handle| handle.core().sleep.is_up(handle.core().clock.now());
    let accepted = Arc::new(AtomicUsize::new(usize::MAX));
    let counted = Arc::clone(&accepted);
    let task = move || {
        assert!(is_up(&handle), "the timer thread runs a task");
        let flood = || {
            use_up_credit(&handle);
            let _ = accepted_of(&handle, 1);
            clock.set(clock.now() + 11 * MILLISECOND);
            accepted_of(&handle, 10 * CREDIT) as usize
        };
        counted.store(elsewhere(flood), Ordering::Relaxed);
    };
    let _woken = it.handle.schedule_once(Duration::ZERO, task).unwrap();
    // As if the notice had been found, and the thread that gave it had not looked at the word yet.
    it.driver.core().sleep.announce_sleep(FOREVER);
    assert_eq!((it.turn(TICK), it.handle.metrics().panicked), (1, 0));
    let accepted = accepted.load(Ordering::Relaxed) as u64;
    assert!(accepted <= 3 * CREDIT, "{accepted} were accepted from a thread that hears nothing");
}

#[test]
#[cfg_attr(miri, ignore = "20,000 calls, and Miri takes half an hour")]
fn a_scheduler_without_backpressure_holds_nobody_back_however_late_it_is() {
    let mut it = with(Backpressure::Off);
    it.be_late(100 * LATE);
    assert!(it.price().is_some());
    assert_eq!(it.accepted_of(20 * CREDIT), 20 * CREDIT);
    assert_eq!(it.handle.metrics().backpressure_waits, 0);
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn a_call_waits_for_a_second_at_most_although_it_has_earned_nothing() {
    in_time(|| {
        let mut it = with(Backpressure::Wait);
        for _ in 0..10 {
            let clock = it.clock.clone();
            let task = move || clock.set(clock.now() + 50 * MILLISECOND);
            it.handle.schedule_once(at(TICK), task).unwrap();
        }
        assert_eq!(it.turn(TICK), 10);
        assert!(it.price() > Some(2_000 * MILLISECOND), "{:?}", it.price());
        let handle = it.handle.clone();
        let other = std::thread::spawn(move || {
            use_up_credit(&handle);
            drop(try_to_schedule(&handle).unwrap());
            credit(&handle)
        });
        while it.handle.metrics().backpressure_waits == 0 {
            assert!(!other.is_finished(), "it did not wait");
            yield_now();
        }
        it.clock.set(it.clock.now() + 1_000 * MILLISECOND);
        assert_eq!(other.join().unwrap(), 0, "it owes nothing, and has nothing");
        assert_eq!(it.handle.metrics().backpressure_waited, Duration::from_secs(1));
    });
}

#[test]
fn a_thread_that_waits_goes_on_when_the_timer_thread_is_in_time_again() {
    let waits = 5 * MILLISECOND;
    type Way = fn(&Handle);
    let single: Way = |handle| drop(handle.schedule_once(NEVER_DUE, || ()).unwrap());
    let batch: Way = |handle| {
        drop(handle.schedule_batch((0..2 * CREDIT).map(|_| (NEVER_DUE, || ()))).unwrap());
    };
    for (way, entries) in [(single, 1), (batch, 2 * CREDIT)] {
        for mut it in [with(Backpressure::Wait), without_wheels(Backpressure::Wait)] {
            it.be_late(3 * LATE);
            let handle = it.handle.clone();
            let other = std::thread::spawn(move || {
                use_up_credit(&handle);
                way(&handle);
            });
            while it.handle.metrics().backpressure_waits == 0 {
                assert!(!other.is_finished(), "it did not wait");
                yield_now();
            }
            let before = it.handle.metrics();
            assert_eq!((before.fired, before.backpressure_waited), (1, Duration::ZERO));
            let _ = it.turn(it.clock.now() + waits);
            other.join().unwrap();
            let after = it.handle.metrics();
            assert_eq!(after.scheduled, 1 + entries);
            // (Between the clock and the turn, a batch goes on with what it has earned by then. The
            // clock stands after that.)
            assert!((1..=entries.min(2)).contains(&after.backpressure_waits), "{after:?}");
            assert_eq!(after.backpressure_waited, Duration::from_nanos(waits));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn the_delay_of_a_series_counts_from_the_end_of_the_wait_as_that_of_a_timer_does() {
    let (waits, delay) = (5 * MILLISECOND, 7 * MILLISECOND);
    type Way = fn(&Handle, Duration) -> Cancellable;
    let single: Way = |handle, delay| handle.schedule_once(delay, || ()).unwrap();
    let series: Way =
        |handle, delay| handle.schedule_with_fixed_delay(delay, NEVER_DUE, || ()).unwrap();
    for way in [single, series] {
        let mut it = with(Backpressure::Wait);
        it.be_late(3 * LATE);
        let handle = it.handle.clone();
        let other = std::thread::spawn(move || {
            use_up_credit(&handle);
            way(&handle, at(delay))
        });
        while it.handle.metrics().backpressure_waits == 0 {
            assert!(!other.is_finished(), "it did not wait");
            yield_now();
        }
        let _ = it.turn(it.clock.now() + waits);
        let scheduled = other.join().unwrap();
        assert_eq!(scheduled.remaining(), Some(at(delay)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn what_is_scheduled_under_wait_later_is_owed_and_the_next_call_waits_for_it() {
    let mut it = with(Backpressure::Wait);
    it.be_late(3 * LATE);
    let handle = it.handle.clone();
    let (tell, told) = channel();
    let other = std::thread::spawn(move || {
        use_up_credit(&handle);
        {
            let _later = handle.wait_later();
            drop(handle.wait_later()); // the outer one goes on
            for _ in 0..4 {
                handle.schedule_once(NEVER_DUE, || ()).unwrap();
            }
            handle.wait_for_share();
        }
        tell.send((credit(&handle), handle.metrics().backpressure_waits)).unwrap();
        handle.wait_for_share();
        credit(&handle)
    });
    assert_eq!(told.recv(), Ok((-4, 0)));
    while it.handle.metrics().backpressure_waits == 0 {
        assert!(!other.is_finished(), "it did not wait");
        yield_now();
    }
    it.clock.set(it.clock.now() + 1_000 * MILLISECOND);
    assert!(other.join().unwrap() > 0);

    let mut it = with(Backpressure::Refuse);
    it.be_late_to_this_thread();
    let _later = it.handle.wait_later();
    assert_eq!(try_to_schedule(&it.handle).unwrap_err(), Refusal::Overloaded);
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn a_wait_is_counted_to_the_name_of_its_thread_while_it_lasts_and_after_it() {
    let mut it = with(Backpressure::Wait);
    assert_eq!(it.handle.waits(), []);
    it.be_late(3 * LATE);
    let handle = it.handle.clone();
    let flood = move || {
        use_up_credit(&handle);
        handle.schedule_once(NEVER_DUE, || ()).unwrap();
    };
    let flood = std::thread::Builder::new().name("flood".to_owned()).spawn(flood).unwrap();
    let seen = |it: &ByHand| {
        let all = it.handle.waits().into_iter();
        all.map(|it| (it.thread, it.waiting, it.waits, it.waited)).collect::<Vec<_>>()
    };
    while seen(&it).is_empty() {
        assert!(!flood.is_finished(), "it did not wait");
        yield_now();
    }
    let name = || Some("flood".to_owned());
    assert_eq!(seen(&it), [(name(), 1, 1, Duration::ZERO)]);
    let _ = it.turn(it.clock.now() + MILLISECOND);
    flood.join().unwrap();
    assert_eq!(seen(&it), [(name(), 0, 1, at(MILLISECOND))]);
}

#[test]
#[cfg_attr(miri, ignore = "a thread waits in real time, and Miri takes minutes")]
fn a_batch_that_waits_in_the_middle_ends_when_the_scheduler_stops() {
    in_time(|| {
        let wait = Backpressure::Wait;
        let all = [with(wait), without_wheels(wait), with(wait), without_wheels(wait)];
        // In the last two the timer thread ends first, and does not miss what is on its way.
        for (mut it, ends_first) in all.into_iter().zip([false, false, true, true]) {
            it.be_late(3 * LATE);
            let handle = it.handle.clone();
            let other = std::thread::spawn(move || {
                // More than the thread's credit, and what it has earned since the clock began.
                let batch = (0..5 * CREDIT).map(|_| (NEVER_DUE, || ()));
                handle.schedule_batch(batch).map(|timers| timers.len())
            });
            while it.handle.metrics().backpressure_waits == 0 {
                assert!(!other.is_finished(), "it did not wait");
                yield_now();
            }
            let stopped = StopFuture::new(it.handle.core().stop.request(true));
            while !ends_first && !other.is_finished() {
                yield_now();
            }
            it.driver.finish();
            let accepted = other.join().unwrap().unwrap();
            assert_eq!(stopped.wait().len(), accepted, "all of it was accepted, and handed back");
        }
    });
}

#[test]
fn a_turn_takes_a_bounded_number_out_of_a_channel_and_fires_no_later_tick_before_the_rest_is_in() {
    let (first, all) = (many(10_000), many(10_000) + 10);
    let mut it = ByHand::with_wheel_after(first as u64 + 1);
    let notes = Notes::default();
    it.schedule_numbers(TICK, 0..all, &notes);
    assert!(it.has_wheel(), "the last of them are in the thread's own wheel");
    if !cfg!(miri) {
        assert_eq!(it.turn(TICK), 0, "some of the tick are still in the channel");
    }
    while notes.lock().len() < all {
        let _ = it.turn(TICK);
    }
    assert_counts_to(all, &notes.lock());
}
