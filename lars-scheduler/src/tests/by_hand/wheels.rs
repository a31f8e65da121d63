//! Wheels of threads that have ended, and who gets them.

use super::*;
use crate::engine::lanes::SOUGHT;
use crate::sync::LOOKS;

impl ByHand {
    /// Calls until the thread has the wheel of one that has ended. (A thread of another test may
    /// have that one's number for a while.)
    fn wait_for_wheel(&mut self) {
        while !self.has_wheel() {
            self.schedule(TICK).cancel();
            // A turn takes in so many only.
            let _ = self.driver.take_in();
        }
    }

    /// No two threads use one lane, now or when the numbers that are free are given out again. (No
    /// thread seeks a wheel meanwhile.)
    fn assert_that_each_lane_has_one_user(&self) {
        let lanes = self.handle.core().arena.lanes.iter();
        for lane in lanes.filter(|lane| !lane.is_for_guests()) {
            // SAFETY: lanes live as long as the scheduler.
            let used = unsafe { lane.traded_for().as_ref() }.unwrap_or(lane);
            assert_eq!(used.user(), lane.number());
        }
    }
}

#[test]
fn a_thread_gets_the_wheel_of_one_that_has_ended_with_the_timers_in_it() {
    let mut by_hand = ByHand::with_wheels(1);
    // Before the other thread, so that it has another number.
    assert!(!by_hand.has_wheel());
    let handle = by_hand.handle.clone();
    let ran = Notes::default();
    let note = |number: usize| {
        let ran = Arc::clone(&ran);
        move || ran.lock().push(number)
    };
    let (first, second) = (note(1), note(2));
    let left = std::thread::spawn(move || {
        let left = handle.schedule_once(at(5 * TICK), first).unwrap();
        drop(handle.schedule_once(at(3 * TICK), second).unwrap());
        left
    });
    let left = left.join().unwrap();
    // The one wheel is taken: the call goes through the channel, and gets the wheel at its end.
    drop(by_hand.handle.schedule_once(at(2 * TICK), note(3)).unwrap());
    by_hand.wait_for_wheel();
    drop(by_hand.handle.schedule_once(at(4 * TICK), note(4)).unwrap());
    assert_eq!(by_hand.turn(3 * TICK), 2);
    assert!(left.cancel());
    assert_eq!(by_hand.turn(6 * TICK), 1);
    assert_eq!(*ran.lock(), [3, 2, 4]);
    assert_eq!(by_hand.handle.pending(), 0);
    by_hand.assert_that_each_lane_has_one_user();
}

#[test]
fn no_thread_takes_the_wheel_of_one_that_is_alive() {
    let mut by_hand = ByHand::with_wheels(1);
    let (others_turn, go_on) = channel::<()>();
    let (ready, is_ready) = channel();
    let handle = by_hand.handle.clone();
    let other = std::thread::spawn(move || {
        drop(handle.schedule_once(Duration::from_secs(1), || ()).unwrap());
        ready.send(()).unwrap();
        go_on.recv().unwrap_err();
    });
    is_ready.recv().unwrap();
    for _ in 0..many(5_000) {
        by_hand.schedule(TICK).cancel();
    }
    assert!(!by_hand.has_wheel());
    drop(others_turn);
    other.join().unwrap();
    by_hand.wait_for_wheel();
}

#[test]
fn a_thread_that_seeks_a_wheel_looks_at_a_few_at_a_time_and_comes_to_each_in_turn() {
    let (wheels, others) = if cfg!(miri) { (3, 3) } else { (2 * SOUGHT + 1, 200) };
    let it = ByHand::with_wheels(wheels);
    // Before the other threads, so that it has another number.
    assert!(!it.has_wheel());
    let schedules = || {
        let handle = it.handle.clone();
        Living::that_has(move || drop(handle.schedule_once(at(TICK), || ()).unwrap()))
    };
    // The first to come has the oldest wheel, which is the last to be looked at.
    let (first, owners) = (schedules(), (1..wheels).map(|_| schedules()).collect::<Vec<_>>());
    // The numbers of these are free after that, and lead to no wheel.
    let ended: Vec<_> = (0..others).map(|_| schedules()).collect();
    ended.into_iter().for_each(Living::end);
    let mut most = 0;
    let mut seek = || {
        LOOKS.set(0);
        it.schedule(TICK).cancel();
        most = most.max(LOOKS.get());
    };
    for _ in 0..many(5_000) {
        seek();
        assert!(!it.has_wheel(), "it is that of a thread which lives");
    }
    first.end();
    // (A thread of another test may have that one's number for a while.)
    while !it.has_wheel() {
        seek();
    }
    assert!((1..=SOUGHT).contains(&most), "nobody could begin or end during {most} looks");
    it.assert_that_each_lane_has_one_user();
    owners.into_iter().for_each(Living::end);
}

#[test]
fn a_first_batch_that_is_large_enough_is_placed_in_a_wheel_of_its_thread() {
    for (tasks, is_enough) in [(99, false), (100, true)] {
        let it = ByHand::with_wheel_after(100);
        drop(it.handle.schedule_batch((0..tasks).map(|_| (at(TICK), || ()))).unwrap());
        let nothing_waits = it.driver.nothing_to_take_in();
        assert_eq!((it.has_wheel(), nothing_waits), (is_enough, is_enough), "{tasks} tasks");
    }
}
