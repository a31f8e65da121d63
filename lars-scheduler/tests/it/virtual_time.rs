//! Virtual time: deterministic, exact, and nothing happens that the test did not cause.
#![allow(clippy::disallowed_methods, missing_docs)]

use crate::common;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::{ByHand, Notes, Xorshift, assert_same, ms, ns, scaled, secs, ticked, virtual_time};
use lars_scheduler::{
    CloseError, Handle, LightArrayRevolverScheduler, NotIdle, Repeat, VirtualTime,
};

const CENTURY: Duration = Duration::from_secs(100 * 31_557_600);

#[test]
fn tasks_run_in_the_order_of_deadline_and_then_of_the_call() {
    let time = virtual_time();
    let notes = Notes::new();
    let mut random = Xorshift(17);
    let mut expected = Vec::new();
    for number in 0..scaled(5_000, 100) {
        let delay = random.below(50);
        expected.push((delay, number));
        let note = notes.clone();
        let _ = time.schedule_once(ns(delay), move || note.add((delay, number))).unwrap();
    }
    expected.sort();
    assert_eq!(time.advance(ns(50)), expected.len());
    assert_same(notes.take(), expected);
}

#[test]
fn inside_a_tick_too_tasks_run_in_the_order_of_their_deadlines() {
    let time = ticked(ms(10), 8);
    let notes = Notes::new();
    for delay in [9, 3, 7, 3, 1, 12] {
        let note = notes.clone();
        let _ = time.schedule_once(ms(delay), move || note.add(delay)).unwrap();
    }
    assert_eq!(time.advance(ms(10)), 5);
    assert_eq!(notes.take(), [1, 3, 3, 7, 9]);
}

#[test]
fn tasks_read_the_instant_that_they_are_due_at() {
    let time = virtual_time();
    let notes = Notes::new();
    let start = time.now();
    for delay in [5, 1, 3] {
        let (clock, note) = (time.handle(), notes.clone());
        let _ = time.schedule_once(secs(delay), move || note.add(clock.now() - start)).unwrap();
    }
    time.advance(secs(10));
    assert_eq!(notes.take(), [secs(1), secs(3), secs(5)]);
    assert_eq!(time.now() - start, secs(10));
    assert_eq!(time.elapsed(), secs(10));
}

#[test]
fn nested_tasks_inside_the_window_run_in_the_same_movement_and_others_wait() {
    fn chain(timers: Handle, notes: Notes<u32>, left: u32) {
        let (next, note) = (timers.clone(), notes.clone());
        let _ = timers
            .schedule_once(ms(10), move || {
                note.add(left);
                if left > 0 {
                    chain(next, note, left - 1);
                }
            })
            .unwrap();
    }
    let time = virtual_time();
    let notes = Notes::new();
    chain(time.handle(), notes.clone(), 5);
    assert_eq!(time.advance(ms(39)), 3);
    assert_eq!(notes.take(), [5, 4, 3]);
    assert_eq!(time.advance(ms(1)), 1);
    assert_eq!(time.advance(ms(100)), 2);
    assert_eq!(notes.take(), [2, 1, 0]);
}

#[test]
fn a_nested_task_takes_its_turn_among_those_scheduled_before_it() {
    let time = virtual_time();
    let notes = Notes::new();
    let note = |text: &'static str| {
        let notes = notes.clone();
        move || notes.add(text)
    };
    let (timers, inner, outer) = (time.handle(), note("nested at 20"), note("outer at 10"));
    let _ = time
        .schedule_once(ms(10), move || {
            outer();
            let _ = timers.schedule_once(ms(10), inner).unwrap();
        })
        .unwrap();
    let _ = time.schedule_once(ms(20), note("outer at 20")).unwrap();
    let _ = time.schedule_once(ms(15), note("outer at 15")).unwrap();
    time.advance(ms(30));
    assert_eq!(notes.take(), ["outer at 10", "outer at 15", "outer at 20", "nested at 20"]);
}

#[test]
fn time_goes_from_deadline_to_deadline() {
    let time = virtual_time();
    assert_eq!(time.advance_to_next(), None);
    for delay in [7, 3, 3] {
        let _ = time.schedule_once(secs(delay), || ()).unwrap();
    }
    let cancelled = time.schedule_once(secs(1), || ()).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(time.advance_to_next(), Some(secs(3)));
    assert_eq!((time.elapsed(), time.pending()), (secs(3), 1));
    let _ = time.schedule_once(Duration::ZERO, || ()).unwrap();
    assert_eq!(time.advance_to_next(), Some(Duration::ZERO), "what is due already");
    assert_eq!(time.advance_to_next(), Some(secs(4)));
    assert_eq!(time.advance_to_next(), None);
    assert_eq!(time.elapsed(), secs(7));
}

#[test]
fn the_next_deadline_is_found_over_any_distance() {
    for wheel in [2, 8, 512] {
        for tick in [ns(1), ms(1)] {
            let time = ticked(tick, wheel);
            for distance in [ms(1), secs(1), secs(100_000), CENTURY, 3 * CENTURY] {
                let _ = time.schedule_once(distance, || ()).unwrap();
                assert_eq!(time.advance_to_next(), Some(distance), "wheel of {wheel}");
            }
        }
    }
}

#[test]
fn time_stands_still_if_nothing_that_is_pending_ever_comes_due() {
    let time = virtual_time();
    let _ = time.schedule_once(Duration::MAX, || ()).unwrap();
    assert_eq!(time.advance_to_next(), None);
    assert_eq!(time.elapsed(), Duration::ZERO);
    let _ = time.schedule_once(secs(1), || ()).unwrap();
    assert_eq!(time.run_until_idle(10), Err(NotIdle { limit: 10, ran: 1, pending: 1 }));
    assert_eq!(time.elapsed(), secs(1));
}

#[test]
fn run_until_idle_runs_everything_and_stops_at_the_last_deadline() {
    let time = virtual_time();
    assert_eq!(time.run_until_idle(0), Ok(0));
    for delay in [1, 50, 100_000] {
        let _ = time.schedule_once(secs(delay), || ()).unwrap();
    }
    assert_eq!(time.run_until_idle(100), Ok(3));
    assert_eq!(time.elapsed(), secs(100_000));
}

#[test]
fn run_until_idle_gives_up_at_its_limit_with_a_repeat_that_nobody_cancels() {
    let time = virtual_time();
    let series = time.schedule_at_fixed_rate(ms(1), ms(1), || ()).unwrap();
    let error = time.run_until_idle(10).unwrap_err();
    assert_eq!(error, NotIdle { limit: 10, ran: 10, pending: 1 });
    assert_eq!(
        error.to_string(),
        "1 timers are pending after 10 tasks have run, with a limit of 10",
    );
    assert_eq!(time.elapsed(), ms(10));
    assert!(series.cancel());
    assert_eq!(time.run_until_idle(0), Ok(0));
}

#[test]
fn run_until_idle_gives_up_at_its_limit_also_when_time_does_not_move() {
    // A task that always schedules itself again without a delay would run forever. This one ends
    // after a while, so that the test does.
    let time = virtual_time();
    let mut left = 1_000;
    let series = time
        .schedule_repeating(Duration::ZERO, move || {
            left -= 1;
            if left == 0 { Repeat::Stop } else { Repeat::After(Duration::ZERO) }
        })
        .unwrap();
    assert_eq!(time.run_until_idle(10), Err(NotIdle { limit: 10, ran: 10, pending: 1 }));
    assert!(series.cancel());
}

#[test]
fn moving_time_from_inside_a_task_is_a_panic_that_says_so() {
    type Move = fn(&VirtualTime);
    let moves: [Move; 3] = [
        |time| {
            time.advance(ms(1));
        },
        |time| {
            time.advance_to_next();
        },
        |time| {
            let _ = time.run_until_idle(1);
        },
    ];
    for movement in moves {
        let messages = Notes::new();
        let note = messages.clone();
        let builder = LightArrayRevolverScheduler::builder();
        let builder = builder.on_panic(move |report| note.add(report.message.to_owned()));
        let time = Arc::new(builder.build_virtual().unwrap());
        let inside = Arc::downgrade(&time);
        let run = move || movement(&inside.upgrade().unwrap());
        let _ = time.schedule_once(ms(1), run).unwrap();
        assert_eq!(time.advance(ms(5)), 1);
        assert_eq!(messages.take(), ["virtual time was moved from inside one of its own tasks"]);
        assert_eq!(time.elapsed(), ms(5), "and time goes on");
        let _ = time.schedule_once(ms(1), || ()).unwrap();
        assert_eq!(time.advance(ms(1)), 1);
    }
}

#[test]
fn a_stop_from_inside_a_task_hands_back_the_rest_when_the_movement_ends() {
    let time = Arc::new(virtual_time());
    let (sender, receiver) = mpsc::channel();
    let notes = Notes::new();
    let inside = Arc::downgrade(&time);
    let run = move || sender.send(inside.upgrade().unwrap().stop()).unwrap();
    let _ = time.schedule_once(ms(1), run).unwrap();
    let note = notes.clone();
    let _ = time.schedule_once(ms(2), move || note.add(())).unwrap();
    assert_eq!(time.advance(ms(10)), 1);
    let pending = receiver.try_recv().unwrap().wait();
    assert_eq!((pending.len(), notes.len()), (1, 0));
    assert!(time.is_stopped());
    assert_eq!(time.advance(ms(10)), 0);
}

#[test]
fn a_close_from_inside_a_task_is_refused() {
    let time = Arc::new(virtual_time());
    let notes = Notes::new();
    let (inside, note) = (Arc::downgrade(&time), notes.clone());
    let run = move || {
        let result = inside.upgrade().unwrap().close();
        note.add(matches!(result, Err(CloseError::OnTimerThread)));
    };
    let _ = time.schedule_once(ms(1), run).unwrap();
    time.advance(ms(1));
    assert_eq!(notes.take(), [true]);
    assert!(!time.is_stopped());
}

#[test]
fn time_ends_after_584_years_and_does_not_move_beyond() {
    let time = virtual_time();
    let last = ns(u64::MAX - 2);
    assert_eq!(time.advance(Duration::MAX), 0);
    assert_eq!(time.elapsed(), last);
    time.advance(secs(1));
    assert_eq!(time.elapsed(), last);
    // What is due now still runs; what is due later never does.
    let _ = time.schedule_once(Duration::ZERO, || ()).unwrap();
    let _ = time.schedule_once(ns(1), || ()).unwrap();
    assert_eq!(time.advance(secs(1)), 1);
    assert_eq!(time.pending(), 1);
}

#[test]
fn the_last_instant_of_all_is_an_instant_like_any_other() {
    for wheel in [2, 512] {
        let time = ticked(ns(1), wheel);
        let _ = time.schedule_once(ns(u64::MAX - 2), || ()).unwrap();
        let _ = time.schedule_once(ns(u64::MAX - 1), || ()).unwrap();
        assert_eq!(time.advance(ns(u64::MAX - 3)), 0);
        assert_eq!(time.advance(ns(1)), 1);
        assert_eq!(time.advance(Duration::MAX), 0);
        assert_eq!(time.pending(), 1);
    }
}

#[test]
fn tasks_with_an_executor_run_when_that_runs_them_and_time_does_not_wait() {
    let by_hand = ByHand::default();
    let time =
        LightArrayRevolverScheduler::builder().executor(by_hand.clone()).build_virtual().unwrap();
    for _ in 0..3 {
        let _ = time.schedule_once(ms(1), || ()).unwrap();
    }
    assert_eq!(time.advance(ms(1)), 3, "handed over");
    assert_eq!(by_hand.waiting(), 3);
}

#[test]
fn time_may_be_moved_from_several_threads_and_everything_runs_once() {
    let time = virtual_time();
    let tasks = scaled(1_000, 40);
    let notes = Notes::new();
    for number in 0..tasks {
        let note = notes.clone();
        let _ = time.schedule_once(ms(number as u64 % 40), move || note.add(number)).unwrap();
    }
    let ran: usize = thread::scope(|scope| {
        let mover = || (0..20).map(|_| time.advance(ms(1))).sum::<usize>();
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(mover)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let rest = time.advance(ms(40));
    assert_eq!(ran + rest, tasks);
    let mut seen = notes.take();
    seen.sort();
    assert_same(seen, 0..tasks);
}

// What follows are the scenarios with a fake clock from the specification of the original, at a
// step of 10 ms; there a request counts from the next drain, here from the call.

const STEP: Duration = Duration::from_millis(10);

/// Schedules at a half, one and a half, two and a half and three and a half steps.
fn half_steps(time: &VirtualTime) -> Notes<u32> {
    let notes = Notes::new();
    for number in 0..4 {
        let note = notes.clone();
        let _ = time.schedule_once(STEP / 2 + STEP * number, move || note.add(number)).unwrap();
    }
    notes
}

#[test]
fn a_late_wake_up_runs_everything_that_is_due_and_nothing_was_early() {
    let time = ticked(STEP, 32);
    let notes = half_steps(&time);
    assert_eq!(time.advance(STEP / 2), 0, "half a step is rounded up to one");
    assert_eq!(time.advance(STEP / 2), 1);
    // Oversleeps three and a half steps.
    assert_eq!(time.advance(STEP * 7 / 2), 3);
    assert_eq!(notes.take(), [0, 1, 2, 3]);
    assert!(time.metrics().lateness.max < STEP);
}

#[test]
fn a_deadline_counts_from_the_call_also_when_the_clock_oversleeps() {
    let time = ticked(STEP, 32);
    time.advance(STEP * 5 + STEP / 10);
    let notes = Notes::new();
    let note = notes.clone();
    let _ = time.schedule_once(STEP * 3, move || note.add(())).unwrap();
    assert_eq!(time.advance(STEP * 2), 0);
    assert_eq!(time.advance(STEP - ns(1)), 0);
    // The end of the step in which the deadline lies: one rounding up, and no second one.
    assert_eq!(time.advance(STEP * 9 / 10 + ns(1)), 1);
    assert_eq!(time.elapsed(), STEP * 9);
    assert_eq!(notes.len(), 1);
}

#[test]
fn a_wheel_of_two_turns_as_often_as_it_takes() {
    let time = ticked(STEP, 2);
    let notes = half_steps(&time);
    for expected in 0..4 {
        assert_eq!(time.advance(STEP), 1);
        assert_eq!(notes.take(), [expected]);
    }
    assert_eq!(time.advance(STEP), 0);
}

#[test]
fn ten_revolutions_are_ten_revolutions() {
    for wheel in [2, 32, 512] {
        let time = ticked(STEP, wheel);
        let revolutions = STEP * wheel as u32 * 10;
        let _ = time.schedule_once(revolutions, || ()).unwrap();
        assert_eq!(time.advance(revolutions - ns(1)), 0);
        assert_eq!(time.advance(ns(1)), 1);
    }
}

#[test]
fn a_jump_of_centuries_runs_everything_on_the_way_in_order() {
    for wheel in [2, 8, 512] {
        let time = ticked(ms(1), wheel);
        let notes = Notes::new();
        let mut random = Xorshift(23);
        let mut expected = Vec::new();
        for number in 0..scaled(500, 30) {
            let delay = random.next() >> random.below(63) >> 1;
            expected.push((delay, number));
            let note = notes.clone();
            let _ = time.schedule_once(ns(delay), move || note.add((delay, number))).unwrap();
        }
        // The zero delays do not wait for their tick, so they come first in any case.
        expected.sort();
        time.advance(3 * CENTURY);
        time.advance(2 * CENTURY);
        assert_eq!(time.pending(), 0);
        assert_same(notes.take(), expected);
    }
}

/// Runs the same mix of one-shots, repeats, nested tasks and cancels, and returns what ran and
/// when.
fn history(wheel: usize) -> Vec<(u128, u64)> {
    let time = ticked(ms(1), wheel);
    let notes = Notes::new();
    let start = time.now();
    let mut random = Xorshift(31);
    let mut timers = Vec::new();
    for number in 0..scaled(400, 20) as u64 {
        let (clock, note) = (time.handle(), notes.clone());
        let nested = ns(random.magnitude(45));
        let run = move || {
            note.add(((clock.now() - start).as_nanos(), number));
            let (clock, note) = (clock.clone(), note.clone());
            let inner = clock.clone();
            let run = move || note.add(((inner.now() - start).as_nanos(), number | 1 << 32));
            let _ = clock.schedule_once(nested, run).unwrap();
        };
        let delay = ns(random.magnitude(50));
        timers.push(time.schedule_once(delay, run).unwrap());
        if random.below(4) == 0 {
            let victim = random.below(timers.len() as u64) as usize;
            timers.swap_remove(victim).cancel();
        }
        time.advance(ns(random.magnitude(40)));
    }
    let (clock, note) = (time.handle(), notes.clone());
    let beat = move || note.add(((clock.now() - start).as_nanos(), u64::MAX));
    let _ = time.schedule_at_fixed_rate(ms(3), secs(40_001), beat).unwrap();
    time.advance(secs(2_000_000));
    notes.take()
}

#[test]
fn the_size_of_the_wheel_changes_nothing_but_the_speed() {
    let reference = history(512);
    assert!(reference.len() > 40);
    for wheel in [2, 8, 1 << 16] {
        assert!(history(wheel) == reference, "wheel of {wheel}");
    }
}

#[test]
fn the_same_program_has_the_same_history_every_time() {
    assert!(history(512) == history(512));
}

#[test]
fn movements_of_several_threads_add_up() {
    for _ in 0..common::scaled(500, 5) {
        let time = virtual_time();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| time.advance(secs(1)));
            }
        });
        assert_eq!(time.elapsed(), secs(2));
    }
}

#[test]
fn time_does_not_go_to_a_timeout_that_was_cancelled_on_the_way() {
    let time = virtual_time();
    let timeout = time.schedule_once(secs(30), || ()).unwrap();
    let _ = time.schedule_once(secs(5), move || assert!(timeout.cancel())).unwrap();
    time.advance(secs(1)); // both have been taken in
    assert_eq!(time.run_until_idle(100), Ok(1));
    assert_eq!(time.elapsed(), secs(5));
    assert_eq!(time.metrics().panicked, 0);
}

#[test]
fn a_run_until_idle_runs_no_more_than_its_limit() {
    let time = virtual_time();
    for _ in 0..100 {
        let _ = time.schedule_once(secs(1), || ()).unwrap();
    }
    let error = time.run_until_idle(10).unwrap_err();
    assert_eq!((error.limit, error.ran, error.pending), (10, 10, 90));
    assert_eq!(time.run_until_idle(90), Ok(90));
}

#[test]
fn nothing_runs_when_time_is_moved_after_a_stop() {
    let time = virtual_time();
    let notes = Notes::new();
    let note = notes.clone();
    let _ = time.schedule_once(secs(1), move || note.add(())).unwrap();
    let pending = time.stop().wait();
    assert_eq!(time.advance(secs(2)), 0);
    assert_eq!(time.advance_to_next(), None);
    assert_eq!(time.run_until_idle(10), Ok(0));
    assert_eq!(notes.len(), 0);
    assert_eq!(pending.len(), 1);
}
