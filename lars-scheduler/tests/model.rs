//! Random sequences of operations against a model that is a sorted map.
//!
//! The model knows one rule: a task runs at its deadline rounded up to the tick, or at once if its
//! delay is zero; among those of one instant the earlier deadline goes first, then the earlier call.
//! (Where a deadline was moved, nothing is promised of its order among equal ones.)
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::{Notes, ns, scaled, ticked};
use lars_scheduler::{Cancellable, Handle, VirtualTime};
use proptest::prelude::*;

/// The last instant that a clock shows.
const LAST: u64 = u64::MAX - 2;

#[derive(Debug, Clone)]
enum Op {
    /// Schedules a task, which, when it runs, schedules the next of these delays.
    Schedule(Vec<Duration>),
    /// Cancels the nth timer scheduled so far, modulo their number.
    Cancel(usize),
    /// Moves the deadline of the nth.
    Reset(usize, Duration),
    Advance(Duration),
    AdvanceToNext,
}

/// Nanoseconds of all magnitudes alike.
fn magnitude() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift)
}

fn delay() -> impl Strategy<Value = Duration> {
    prop_oneof![
        2 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
        // Around the ticks of 10 ns and 1 ms, so that deadlines meet.
        4 => (0..40_u64).prop_map(ns),
        4 => (0..40_u64, 0..3_u64).prop_map(|(ms, more)| ns(ms * 1_000_000 + more)),
        8 => magnitude().prop_map(ns),
        // Around the powers of two, where slots and levels begin.
        4 => (0..64_u32, 0..3_u64).prop_map(|(bit, more)| ns((1_u64 << bit) - 1 + more)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => prop::collection::vec(delay(), 1..4).prop_map(Op::Schedule),
        3 => any::<usize>().prop_map(Op::Cancel),
        3 => (any::<usize>(), delay()).prop_map(|(nth, delay)| Op::Reset(nth, delay)),
        3 => magnitude().prop_map(|nanos| Op::Advance(ns(nanos))),
        2 => (0..3_000_000_u64).prop_map(|nanos| Op::Advance(ns(nanos))),
        2 => Just(Op::AdvanceToNext),
    ]
}

/// Where time begins: at its beginning, anywhere, or near its end.
fn begin() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        any::<u64>(),
        (any::<u64>(), 20..64_u32).prop_map(|(bits, shift)| LAST - (bits >> shift)),
    ]
}

/// Which timer it is: the number of the operation that scheduled the first of its chain, and its place in it.
type Id = (usize, usize);

/// Where a timer of the model stands: by the instant of its run, its deadline, the call.
type Key = (u128, u64, usize);

#[derive(Debug, Clone)]
struct Waiting {
    id: Id,
    /// What it will schedule.
    rest: Vec<Duration>,
    /// Its deadline was moved, or it came from one among whose equals there was such a one: nothing is known of
    /// its place among its own equals.
    placeless: bool,
}

/// What ran: the timer, and the group of equals in which its place is not known, if that is so.
type Run = (Id, Option<(u128, u64)>);

#[derive(Default)]
struct Model {
    tick: u64,
    now: u64,
    calls: usize,
    waiting: BTreeMap<Key, Waiting>,
    keys: BTreeMap<Id, Key>,
    ran: Vec<Run>,
    /// The last group in which places were not known.
    placeless: Option<(u128, u64)>,
}

impl Model {
    fn insert(&mut self, delay: Duration, timer: Waiting) {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let deadline = self.now.saturating_add(nanos);
        let instant = match nanos {
            0 => u128::from(self.now),
            _ => u128::from(deadline).next_multiple_of(u128::from(self.tick)),
        };
        let key = (instant, deadline, self.calls);
        self.calls += 1;
        self.keys.insert(timer.id, key);
        self.waiting.insert(key, timer);
    }

    fn schedule(&mut self, id: Id, delays: &[Duration], placeless: bool) {
        let (&delay, rest) = delays.split_first().expect("not empty");
        self.insert(delay, Waiting { id, rest: rest.to_vec(), placeless });
    }

    fn cancel(&mut self, id: Id) -> bool {
        self.waiting.remove(&self.keys[&id]).is_some()
    }

    fn reset(&mut self, id: Id, delay: Duration) -> bool {
        let timer = self.waiting.remove(&self.keys[&id]);
        timer.map(|timer| self.insert(delay, Waiting { placeless: true, ..timer })).is_some()
    }

    fn advance(&mut self, target: u64) -> usize {
        let before = self.ran.len();
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 <= u128::from(target)
        {
            let ((instant, deadline, _), timer) = entry.remove_entry();
            let group = (instant, deadline);
            let equals = (instant, deadline, 0)..=(instant, deadline, usize::MAX);
            if timer.placeless || self.waiting.range(equals).any(|(_, equal)| equal.placeless) {
                self.placeless = Some(group);
            }
            let placeless = self.placeless == Some(group);
            self.now = instant as u64;
            self.ran.push((timer.id, placeless.then_some(group)));
            if !timer.rest.is_empty() {
                self.schedule((timer.id.0, timer.id.1 + 1), &timer.rest, placeless);
            }
        }
        self.now = target;
        self.ran.len() - before
    }

    fn advance_to_next(&mut self) -> Option<Duration> {
        let (instant, ..) = *self.waiting.first_key_value()?.0;
        if instant > u128::from(LAST) {
            return None; // it never comes due
        }
        let before = self.now;
        self.advance(instant as u64);
        Some(ns(self.now - before))
    }

    /// What `stop` hands back: the earliest deadline first; among equal ones those that do not wait
    /// for the tick, then by call.
    fn rest(&self) -> Vec<Run> {
        let mut rest: Vec<_> = self.waiting.iter().collect();
        rest.sort_by_key(|&(&(instant, deadline, call), _)| (deadline, instant, call));
        let unknown: BTreeSet<u64> =
            rest.iter().filter(|(_, timer)| timer.placeless).map(|(key, _)| key.1).collect();
        // Equal deadlines are one group here, whenever they would have run.
        let group = |deadline| unknown.contains(&deadline).then_some((0, deadline));
        rest.into_iter().map(|(key, timer)| (timer.id, group(key.1))).collect()
    }
}

/// Whether these ran as they should have; within groups without known places in any order.
fn same(ran: &[Id], model: &[Run]) -> bool {
    let sorted = |ids: &mut dyn Iterator<Item = Id>| -> Vec<Id> {
        let mut ids: Vec<_> = ids.collect();
        ids.sort_unstable();
        ids
    };
    let mut at = 0;
    ran.len() == model.len()
        && model.chunk_by(|a, b| a.1.is_some() && a.1 == b.1).all(|group| {
            let part = &ran[at..at + group.len()];
            at += group.len();
            sorted(&mut part.iter().copied()) == sorted(&mut group.iter().map(|run| run.0))
        })
}

/// The real thing, with tasks that do what the model's do.
struct Real {
    time: VirtualTime,
    ran: Notes<Id>,
    timers: Notes<(Id, Cancellable)>,
}

fn schedule(
    handle: &Handle,
    ran: &Notes<Id>,
    timers: &Notes<(Id, Cancellable)>,
    id: Id,
    delays: &[Duration],
) {
    let (&delay, rest) = delays.split_first().expect("not empty");
    let (again, note, list) = (handle.clone(), ran.clone(), timers.clone());
    let rest = rest.to_vec();
    let run = move || {
        note.add(id);
        if !rest.is_empty() && !again.is_stopped() {
            schedule(&again, &note, &list, (id.0, id.1 + 1), &rest);
        }
    };
    timers.add((id, handle.schedule_once(delay, run).unwrap()));
}

impl Real {
    /// Calls `f` with the nth timer, if there is any.
    fn with_nth<R>(&self, nth: usize, f: impl FnOnce(Id, &Cancellable) -> R) -> Option<R> {
        let mut timers = self.timers.take();
        timers.sort_by_key(|timer| timer.0);
        let result = (!timers.is_empty()).then(|| {
            let (id, timer) = &timers[nth % timers.len()];
            f(*id, timer)
        });
        timers.into_iter().for_each(|timer| self.timers.add(timer));
        result
    }
}

fn check(tick: u64, wheel: usize, begin: u64, ops: &[Op]) -> Result<(), TestCaseError> {
    let time = ticked(ns(tick), wheel);
    time.advance(ns(begin));
    let now = begin.min(LAST);
    let mut real = Real { time, ran: Notes::new(), timers: Notes::new() };
    let mut model = Model { tick, now, ..Model::default() };
    for (number, op) in ops.iter().enumerate() {
        match op {
            Op::Schedule(delays) => {
                schedule(&real.time, &real.ran, &real.timers, (number, 0), delays);
                model.schedule((number, 0), delays, false);
            }
            Op::Cancel(nth) => {
                real.with_nth(*nth, |id, timer| {
                    prop_assert_eq!(timer.cancel(), model.cancel(id), "cancel of {:?}", id);
                    prop_assert!(!timer.is_pending());
                    Ok(())
                })
                .transpose()?;
            }
            Op::Reset(nth, delay) => {
                real.with_nth(*nth, |id, timer| {
                    prop_assert_eq!(timer.reset(*delay), model.reset(id, *delay), "{:?}", id);
                    Ok(())
                })
                .transpose()?;
            }
            Op::Advance(duration) => {
                let fired = real.time.advance(*duration);
                let nanos = duration.as_nanos() as u64;
                let target = model.now.saturating_add(nanos).min(LAST);
                prop_assert_eq!(fired, model.advance(target));
            }
            Op::AdvanceToNext => {
                prop_assert_eq!(real.time.advance_to_next(), model.advance_to_next());
            }
        }
        prop_assert_eq!(real.time.elapsed(), ns(model.now));
        prop_assert_eq!(real.time.pending(), model.waiting.len() as u64);
        let ran = real.ran.take();
        prop_assert!(same(&ran, &model.ran), "{:?} ran and not {:?}", ran, model.ran);
        model.ran.clear();
    }
    let rest = model.rest();
    let pending = real.time.stop().wait();
    prop_assert_eq!(pending.len(), rest.len());
    for task in pending {
        prop_assert!(task.run());
    }
    let ran = real.ran.take();
    prop_assert!(same(&ran, &rest), "{:?} were handed back and not {:?}", ran, rest);
    let metrics = real.time.metrics();
    prop_assert_eq!(metrics.scheduled, model.keys.len() as u64);
    prop_assert_eq!((metrics.pending, metrics.panicked), (0, 0));
    real.timers = Notes::new();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: scaled(1_500, 10) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_sequence_of_operations_runs_what_a_sorted_map_would_run_and_in_that_order(
        tick in prop::sample::select(vec![1, 10, 1_000_000_u64]),
        wheel in prop::sample::select(vec![2, 8, 512_usize]),
        begin in begin(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        check(tick, wheel, begin, &ops)?;
    }
}
