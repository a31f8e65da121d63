//! Series that end by themselves, and series whose runs are spread.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{ByHand, Notes, secs, virtual_time};
use lars_scheduler::extend::EndOfSeries;
use lars_scheduler::{
    LightArrayRevolverScheduler, MissedTickBehavior, Periodic, Refusal, Repeat, VirtualTime,
};

/// Notes the whole seconds that have passed at each run.
fn noting(time: &VirtualTime, notes: &Notes<u64>) -> impl FnMut() + Send + 'static {
    let (clock, start, notes) = (time.handle(), time.now(), notes.clone());
    move || notes.add((clock.now() - start).as_secs())
}

#[test]
fn a_series_with_a_count_has_as_many_runs_whatever_its_kind() {
    for runs in [1, 2, 10] {
        let time = virtual_time();
        let count = Arc::new(AtomicU32::new(0));
        let counting = || {
            let count = Arc::clone(&count);
            move || {
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let limited = |run| Periodic::new(run).times(runs);
        let delay = limited(counting());
        let delay = time.schedule_with_fixed_delay(secs(1), secs(1), delay).unwrap();
        let rate = limited(counting());
        let rate = time.schedule_at_fixed_rate(Duration::ZERO, secs(1), rate).unwrap();
        let run = counting();
        let asked = Periodic::new(move || {
            run();
            Repeat::After(secs(1))
        });
        let asked = time.schedule_repeating(secs(1), asked.times(runs)).unwrap();
        time.advance(secs(60));
        assert_eq!(u64::from(count.load(Ordering::Relaxed)), 3 * runs);
        // The captures are dropped with the last run, not with the cancellables.
        assert_eq!((Arc::strong_count(&count), time.pending()), (1, 0));
        for series in [delay, rate, asked] {
            assert!(!series.is_pending() && !series.cancel());
        }
    }
}

#[test]
fn a_series_that_has_ended_by_itself_was_not_cancelled_and_leaves_its_place() {
    let builder = LightArrayRevolverScheduler::builder().max_pending(1);
    let time = builder.build_virtual().unwrap();
    let told = Notes::new();
    let hook = told.clone();
    let twice = Periodic::new(|| ()).times(2).on_cancel(move || hook.add(()));
    let series = time.schedule_at_fixed_rate(secs(1), secs(1), twice).unwrap();
    assert!(time.schedule_once(secs(1), || ()).is_err());
    time.advance(secs(2));
    let _next = time.schedule_once(secs(1), || ()).unwrap();
    assert!(!series.is_cancelled());
    assert!(told.take().is_empty());
}

#[test]
fn a_run_that_breaks_ends_the_series_before_its_count_does() {
    let time = virtual_time();
    let mut left = 3;
    let run = move || {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let _series =
        time.schedule_at_fixed_rate(secs(1), secs(1), Periodic::new(run).times(10)).unwrap();
    assert_eq!(time.advance(secs(60)), 3);
}

#[test]
fn a_run_that_is_due_at_the_end_of_its_series_is_the_last() {
    let (time, notes) = (virtual_time(), Notes::new());
    let sale = Periodic::new(noting(&time, &notes)).until(time.now() + secs(10));
    let _sale = time.schedule_at_fixed_rate(secs(1), secs(3), sale).unwrap();
    time.advance(secs(60));
    assert_eq!(notes.take(), [1, 4, 7, 10]);
    assert_eq!(time.pending(), 0);
}

#[test]
fn what_is_due_before_the_end_and_late_runs_all_the_same() {
    let (time, notes) = (Arc::new(virtual_time()), Notes::new());
    let mut note = noting(&time, &notes);
    let clock = Arc::downgrade(&time);
    let mut first = true;
    let slow = move || {
        note();
        if std::mem::take(&mut first) {
            clock.upgrade().unwrap().advance(secs(20)); // the test runs this
        }
    };
    let by_hand = ByHand::default();
    let slow = Periodic::new(slow).until(time.now() + secs(4)).executor(by_hand.clone());
    let _series = time.schedule_at_fixed_rate(secs(1), secs(1), slow).unwrap();
    for _ in 0..10 {
        time.advance(secs(1));
        while by_hand.run_next() {}
    }
    assert_eq!(notes.take().len(), 4);
}

#[test]
fn a_series_that_cannot_run_is_refused_with_the_values_and_given_back() {
    let time = virtual_time();
    let refused = |periodic: Periodic<fn()>, initial: Duration| {
        let error = time.schedule_at_fixed_rate(initial, secs(5), periodic).unwrap_err();
        let (refusal, periodic) = error.into_parts();
        // It is as it was.
        let again = time.schedule_at_fixed_rate(initial, secs(5), periodic).unwrap_err();
        assert_eq!(again.refusal(), &refusal);
        (again.to_string(), refusal)
    };
    let nothing: fn() = || ();
    let new = || Periodic::new(nothing);
    let (text, refusal) = refused(new().times(0), secs(1));
    assert_eq!(refusal, Refusal::Times { given: 0 });
    assert_eq!(text, "times is 0, but a series has at least 1 run");
    let (text, refusal) = refused(new().until(time.now() + secs(3)), secs(10));
    assert_eq!(refusal, Refusal::EndsBefore { by: secs(7) });
    assert_eq!(text, "the series would end 7s before its first run is due");
    let (text, refusal) = refused(new().spread(secs(6)), secs(1));
    assert_eq!(refusal, Refusal::Period { given: secs(5), min: secs(6) });
    assert_eq!(text, "the period is 5s, but it must be at least 6s");
    assert_eq!((time.pending(), time.metrics().refused), (0, 6));
    // Who says when the next run is due has no period.
    let wide = Periodic::new(|| Repeat::Stop).spread(secs(3600));
    let _series = time.schedule_repeating(secs(1), wide).unwrap();
}

/// The whole milliseconds at which the runs of a series of a fixed rate of a second came.
#[test]
fn a_system_is_told_how_a_series_ended_when_its_captures_are_gone() {
    let time = virtual_time();
    let told = Notes::new();
    let note = |what| {
        let told = told.clone();
        move || told.add(what)
    };
    let observed = || {
        let captures = DropNote(told.clone());
        let run = move || _ = &captures;
        Periodic::new(run).times(2)
    };
    let observed = || observed().on_end(note("cancelled"), note("handed back"), note("over"));
    let _ended = time.schedule_at_fixed_rate(secs(1), secs(1), observed()).unwrap();
    time.advance(secs(10));
    assert_eq!(told.take(), ["dropped", "over"]);
    let cancelled = time.schedule_at_fixed_rate(secs(1), secs(1), observed()).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(told.take(), ["dropped", "cancelled"]);
    let panics = Periodic::new(|| -> () { panic!("in a run") }).times(1);
    let panics = panics.on_end(note("cancelled"), note("handed back"), note("over"));
    let _panics = time.schedule_at_fixed_rate(secs(1), secs(1), panics).unwrap();
    time.advance(secs(1));
    assert_eq!(told.len(), 0, "a panic is none of these");
    let _stopped = time.schedule_at_fixed_rate(secs(1), secs(1), observed()).unwrap();
    drop(time.stop());
    assert_eq!(told.take(), ["handed back", "dropped"]);
}

/// Says that it was dropped.
struct DropNote(Notes<&'static str>);

impl Drop for DropNote {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

fn spread_runs(over: Duration, seed: u64, missed: MissedTickBehavior) -> Vec<u128> {
    let (time, notes) = (virtual_time(), Notes::new());
    let (clock, start, note) = (time.handle(), time.now(), notes.clone());
    let task = Periodic::new(move || note.add((clock.now() - start).as_millis()));
    let task = task.spread(over).spread_seed(seed).missed_ticks(missed).times(200);
    let _series = time.schedule_at_fixed_rate(Duration::ZERO, secs(1), task).unwrap();
    time.advance(secs(1000));
    notes.take()
}

#[test]
fn spread_runs_are_later_than_their_rule_says_and_never_by_more_and_do_not_drift() {
    use MissedTickBehavior::{Burst, Delay, Skip};
    for missed in [Burst, Skip, Delay] {
        for over in [Duration::from_millis(10), Duration::from_millis(700), secs(1)] {
            let runs = spread_runs(over, 42, missed);
            assert_eq!(runs.len(), 200);
            let added = |(number, at): (usize, &u128)| at.checked_sub(1000 * number as u128);
            let added: Vec<_> = runs.iter().enumerate().map(added).collect();
            // (The clock of the test stands on whole ticks.)
            let within = |added: &Option<u128>| added.is_some_and(|it| it <= over.as_millis() + 1);
            assert!(added.iter().all(within), "{missed:?}, {over:?}: {added:?}");
            let low = added.iter().filter(|it| it.unwrap() * 2 < over.as_millis()).count();
            assert!((50..150).contains(&low), "{missed:?}, {over:?}: {low} of 200");
        }
    }
}

#[test]
fn a_run_that_is_spread_and_takes_its_time_is_not_taken_for_a_late_one() {
    use MissedTickBehavior::{Burst, Delay, Skip};
    for missed in [Burst, Skip, Delay] {
        let (time, notes) = (Arc::new(virtual_time()), Notes::new());
        let mut note = noting(&time, &notes);
        let clock = Arc::downgrade(&time);
        let takes_400_ms = move || {
            note();
            clock.upgrade().unwrap().advance(Duration::from_millis(400)); // the test runs this
        };
        let by_hand = ByHand::default();
        let task = Periodic::new(takes_400_ms).times(100).executor(by_hand.clone());
        let task = task.spread(secs(1)).spread_seed(7).missed_ticks(missed);
        let series = time.schedule_at_fixed_rate(Duration::ZERO, secs(1), task).unwrap();
        while series.is_pending() || by_hand.waiting() > 0 {
            time.advance(Duration::from_millis(1));
            while by_hand.run_next() {}
        }
        // One for each second, and none left out or put off.
        let last = notes.take().into_iter().next_back().unwrap();
        assert!((99..=101).contains(&last), "{missed:?}: the last of 100 came after {last} s");
    }
}

#[test]
fn a_seed_gives_the_same_times_again_and_without_one_two_series_differ() {
    let half = Duration::from_millis(500);
    let runs = |seed| spread_runs(half, seed, MissedTickBehavior::Burst);
    assert_eq!(runs(1), runs(1));
    assert_ne!(runs(1), runs(2));
    let (time, notes) = (virtual_time(), Notes::new());
    for series in 0..2 {
        let (clock, note) = (time.handle(), notes.clone());
        let task = Periodic::new(move || note.add((series, clock.now()))).spread(half).times(50);
        let _series = time.schedule_with_fixed_delay(secs(1), secs(1), task).unwrap();
    }
    time.advance(secs(1000));
    let notes = notes.take();
    let of = |series| notes.iter().filter(move |note| note.0 == series).map(|note| note.1);
    assert!(of(0).ne(of(1)));
}
