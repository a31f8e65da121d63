//! Why something is late, with every instant known: the time of these tests is shorter than what
//! lies between two looks at the machine.

use super::{ByHand, Options, TICK};
use crate::late::{Cause, LateCause, Lateness, Who};
use crate::sync::Arc;
use crate::{Cancellable, Task};
use std::thread;
use std::time::Duration;

/// How late something has to be.
const BOUND: u64 = 1_000;

fn explaining() -> ByHand {
    let mut new = ByHand::of(Options { explain: Some(BOUND), ..Options::default() });
    new.driver.is_turned_in_time();
    new
}

/// Schedules a task that takes so long.
fn takes(it: &ByHand, at: u64, name: &'static str, nanos: u64) -> Cancellable {
    let clock = it.clock.clone();
    let task = Task::new(move || clock.set(clock.now() + nanos)).named(name);
    it.handle.schedule_once(Duration::from_nanos(at), task).unwrap()
}

/// A task is late, because one of this name ran.
fn late_because_of(it: &mut ByHand, name: &'static str) {
    let begin = it.clock.now();
    let _ = takes(it, TICK, name, 10_000);
    let _ = takes(it, 2 * TICK, "late", 5);
    it.turn(begin + 2 * TICK);
    it.turn(it.clock.now() + TICK);
}

/// The rows of the table: causes, names, and nanoseconds for each.
fn rows(it: &mut ByHand) -> Vec<(Cause, Option<&'static str>, u128)> {
    // What ran last is told at the next look.
    it.turn(it.clock.now());
    let all = it.handle.lateness();
    let sum: Duration = all.rows.iter().map(|row| row.time).sum();
    assert_eq!(sum, all.total, "{all}");
    assert_eq!(all.rows.iter().map(|row| row.mainly).sum::<u64>(), all.count, "{all}");
    assert_eq!(all.bound, Some(Duration::from_nanos(BOUND)));
    let row = |row: &crate::late::LateRow| {
        let name = row.culprit.as_ref().and_then(|who| who.task()?.name());
        (row.cause, name, row.time.as_nanos())
    };
    all.rows.iter().map(row).collect()
}

#[test]
fn what_is_punctual_leaves_nothing_in_the_table() {
    let mut it = explaining();
    for number in 1..50 {
        let _ = takes(&it, number * TICK, "short", 5);
        it.turn(number * TICK);
    }
    assert_eq!(rows(&mut it), []);
}

#[test]
fn a_task_behind_a_long_one_is_late_by_what_that_took() {
    let mut it = explaining();
    let _ = takes(&it, TICK, "long", 50_000);
    let _ = takes(&it, 2 * TICK, "late", 5);
    it.turn(TICK);
    it.turn(it.clock.now());
    // It should have begun at the second tick, and the long task began at the first.
    let late = u128::from(50_000 - TICK);
    assert_eq!(rows(&mut it), [(Cause::InlineTask, Some("long"), late)]);
    assert_eq!(it.handle.lateness().count, 1);
}

#[test]
fn a_task_behind_many_short_ones_is_late_by_all_of_them() {
    let mut it = explaining();
    for _ in 0..200 {
        let _ = takes(&it, TICK, "short", 50);
    }
    let _ = takes(&it, TICK, "last", 5);
    it.turn(TICK);
    let rows = rows(&mut it);
    // (Under Miri the same type has many addresses, and so more names than a piece tells apart.)
    let is_right = |row: &(Cause, Option<&str>, u128)| {
        row.0 == Cause::TasksBefore && (row.1 == Some("short") || cfg!(miri) && row.1.is_none())
    };
    assert!(rows.iter().all(is_right), "{rows:?}");
    assert!(it.handle.lateness().longest >= Duration::from_nanos(200 * 50 - 32 * 50));
}

#[test]
fn a_sleep_that_lasts_too_long_is_no_task_s_fault() {
    let mut it = explaining();
    let _ = takes(&it, TICK, "first", 5);
    it.turn(TICK);
    let _ = takes(&it, 2 * TICK, "late", 5);
    let slept_from = it.clock.now();
    it.driver.pause();
    it.clock.set(40_000);
    it.driver.slept(slept_from, 2 * TICK);
    it.turn(40_000);
    // It was due two ticks after the first, which ended in the middle of the second.
    let late = u128::from(40_000 - 4 * TICK);
    let rows = rows(&mut it);
    let [(cause, None, nanos)] = rows[..] else { panic!("{rows:?}") };
    // (Without Linux nobody knows.)
    assert!(matches!(cause, Cause::Overslept | Cause::Unknown), "{cause:?}");
    assert_eq!(nanos, late);
}

#[test]
fn what_a_thread_keeps_behind_its_gate_is_late_because_of_that_thread() {
    let it = Arc::new(crate::sync::Mutex::new(explaining()));
    let other = Arc::clone(&it);
    let thread = thread::Builder::new().name("interrupted".to_owned()).spawn(move || {
        let own = other.lock();
        let _ = takes(&own, TICK, "behind the gate", 5);
        let handle = own.handle.clone();
        drop(own);
        let lanes = &handle.core().arena.lanes;
        let gate = lanes.of_this_thread().lane.gate();
        assert!(gate.enter());
        {
            let mut own = other.lock();
            for now in [TICK, 2 * TICK, 30_000] {
                assert_eq!(own.turn(now), 0, "at {now}");
            }
        }
        gate.leave();
    });
    thread.unwrap().join().unwrap();
    let mut it = it.lock();
    assert_eq!(it.turn(30_000), 1);
    let rows = rows(&mut it);
    let [(cause, None, nanos)] = rows[..] else { panic!("{rows:?}") };
    assert_eq!((cause, nanos), (Cause::Gate, u128::from(30_000 - TICK)));
    let thread = it.handle.lateness().rows[0].culprit.clone();
    assert_eq!(thread, Some(Who::Thread("interrupted".into())));
}

#[test]
fn an_event_loop_that_does_something_else_makes_timers_late() {
    let mut it = explaining();
    let _ = takes(&it, TICK, "late", 5);
    it.driver.leaves();
    it.clock.set(20_000);
    it.driver.begins_again();
    it.turn(20_000);
    let late = u128::from(20_000 - TICK);
    assert_eq!(rows(&mut it), [(Cause::EventLoop, None, late)]);
}

#[test]
fn the_difference_of_two_tables_has_what_came_between_them() {
    let mut it = explaining();
    late_because_of(&mut it, "one");
    let _ = rows(&mut it);
    let earlier = it.handle.lateness();
    late_because_of(&mut it, "other");
    let _ = rows(&mut it);
    let since = it.handle.lateness().since(&earlier);
    assert_eq!((since.bound, since.count), (earlier.bound, 1));
    assert_eq!(since.rows.iter().map(|row| row.mainly).sum::<u64>(), 1);
    let names: Vec<_> =
        since.rows.iter().filter_map(|row| row.culprit.as_ref()?.task()?.name()).collect();
    assert_eq!(names, ["other"]);
    assert_eq!(since.since(&since).rows, []);
}

#[test]
fn the_sums_by_cause_have_all_culprits_of_each_and_the_causes_that_are_asked_for() {
    let mut it = explaining();
    let always = [Cause::Unknown, Cause::Gate];
    let sums = it.handle.lateness().by_cause(&always);
    let nothing = |cause| LateCause { cause, mainly: 0, time: Duration::ZERO };
    assert_eq!(sums, [Cause::Gate, Cause::Unknown].map(nothing));
    assert_eq!(Lateness::default().by_cause(&always), []);
    for name in ["one", "other"] {
        late_because_of(&mut it, name);
    }
    let of_one_cause = rows(&mut it).iter().filter(|row| row.0 == Cause::InlineTask).count();
    assert_eq!(of_one_cause, 2);
    let late = it.handle.lateness();
    let sums = late.by_cause(&always);
    assert!(sums.contains(&nothing(Cause::Gate)), "{sums:?}");
    assert!(sums.is_sorted_by(|one, other| one.cause < other.cause), "{sums:?}");
    assert_eq!(sums.iter().map(|sum| sum.mainly).sum::<u64>(), late.count);
    assert_eq!(sums.iter().map(|sum| sum.time).sum::<Duration>(), late.total);
    let rows = late.rows.iter().filter(|row| row.cause == Cause::InlineTask);
    let time = rows.map(|row| row.time).sum();
    assert!(sums.contains(&LateCause { cause: Cause::InlineTask, mainly: 2, time }), "{sums:?}");
}
