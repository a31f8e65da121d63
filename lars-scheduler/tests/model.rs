//! Random sequences of operations against a model that is a sorted map.
//!
//! The model knows one rule: a task runs at its deadline rounded up to the tick, or at once if its
//! delay is zero; among those of one instant the earlier deadline goes first, then the earlier call.
#![allow(clippy::disallowed_methods, missing_docs)]

mod common;

use std::collections::BTreeMap;
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

/// One timer of the model: in the map by (instant of the run, deadline, number).
type Key = (u128, u64, usize);

struct Model {
    tick: u64,
    now: u64,
    next_number: usize,
    /// What waits, with the delays of what it will schedule.
    waiting: BTreeMap<Key, Vec<Duration>>,
    keys: Vec<Key>,
    ran: Vec<usize>,
}

impl Model {
    fn schedule(&mut self, delays: &[Duration]) {
        let (delay, rest) = delays.split_first().expect("not empty");
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let deadline = self.now.saturating_add(nanos);
        let instant = match nanos {
            0 => u128::from(self.now),
            _ => u128::from(deadline).next_multiple_of(u128::from(self.tick)),
        };
        let key = (instant, deadline, self.next_number);
        self.next_number += 1;
        self.keys.push(key);
        self.waiting.insert(key, rest.to_vec());
    }

    fn cancel(&mut self, number: usize) -> bool {
        self.waiting.remove(&self.keys[number]).is_some()
    }

    fn advance(&mut self, target: u64) -> usize {
        let before = self.ran.len();
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 <= u128::from(target)
        {
            let ((instant, _, number), rest) = entry.remove_entry();
            self.now = instant as u64;
            self.ran.push(number);
            if !rest.is_empty() {
                self.schedule(&rest);
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
    fn rest(&self) -> Vec<usize> {
        let mut rest: Vec<_> = self.waiting.keys().copied().collect();
        rest.sort_by_key(|&(instant, deadline, number)| (deadline, instant, number));
        rest.into_iter().map(|(_, _, number)| number).collect()
    }
}

/// The real thing, with tasks that do what the model's do.
struct Real {
    time: VirtualTime,
    ran: Notes<usize>,
    timers: Notes<Cancellable>,
}

fn schedule(handle: &Handle, ran: &Notes<usize>, timers: &Notes<Cancellable>, delays: &[Duration]) {
    let (&delay, rest) = delays.split_first().expect("not empty");
    let number = timers.len();
    let (again, note, list) = (handle.clone(), ran.clone(), timers.clone());
    let rest = rest.to_vec();
    let run = move || {
        note.add(number);
        if !rest.is_empty() && !again.is_stopped() {
            schedule(&again, &note, &list, &rest);
        }
    };
    timers.add(handle.schedule_once(delay, run).unwrap());
}

fn check(tick: u64, wheel: usize, begin: u64, ops: &[Op]) -> Result<(), TestCaseError> {
    let time = ticked(ns(tick), wheel);
    time.advance(ns(begin));
    let now = begin.min(LAST);
    let mut real = Real { time, ran: Notes::new(), timers: Notes::new() };
    let mut model = Model {
        tick,
        now,
        next_number: 0,
        waiting: BTreeMap::new(),
        keys: Vec::new(),
        ran: Vec::new(),
    };
    for op in ops {
        match op {
            Op::Schedule(delays) => {
                schedule(&real.time, &real.ran, &real.timers, delays);
                model.schedule(delays);
            }
            Op::Cancel(number) => {
                let timers = real.timers.take();
                if !timers.is_empty() {
                    let number = number % timers.len();
                    let cancelled = timers[number].cancel();
                    prop_assert_eq!(cancelled, model.cancel(number), "cancel of {}", number);
                    prop_assert!(!timers[number].is_pending());
                }
                timers.into_iter().for_each(|timer| real.timers.add(timer));
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
        prop_assert_eq!(&real.ran.take(), &model.ran);
        model.ran.clear();
    }
    let rest = model.rest();
    let pending = real.time.stop().wait();
    prop_assert_eq!(pending.len(), rest.len());
    for task in pending {
        prop_assert!(task.run());
    }
    prop_assert_eq!(real.ran.take(), rest);
    let metrics = real.time.metrics();
    prop_assert_eq!(metrics.scheduled, model.next_number as u64);
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
