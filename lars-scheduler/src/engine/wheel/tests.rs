//! The wheel against a sorted map, from clocks at the beginning, in the middle and at the end of
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::base::identity::Label;
use crate::base::raw_task::RawTask;
use crate::base::tick::LAST_INSTANT;

/// What a test does with the wheel. Distances are in ticks.
#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    /// Unlinks the nth of the entries that wait.
    Unlink(usize),
    Advance(u64),
    /// Advances to what the wheel says is next.
    AdvanceToNext,
}

fn distance() -> impl Strategy<Value = u64> {
    // All orders of magnitude, and what lies around the borders of the levels.
    prop_oneof![
        0_u64..8,
        (0_u32..64, -2_i64..=2)
            .prop_map(|(bits, around)| (1_u64 << bits).wrapping_add_signed(around)),
        any::<u64>(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => distance().prop_map(Step::Insert),
        1 => (0_usize..64).prop_map(Step::Unlink),
        2 => distance().prop_map(Step::Advance),
        1 => Just(Step::AdvanceToNext),
    ]
}

fn start() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0_u64..5,
        Just(0x0fff_ffff_ffff_fff0),
        Just(u64::MAX / 2),
        (0_u64..5000).prop_map(|before| LAST_INSTANT - before),
        any::<u64>().prop_map(|start| start.min(LAST_INSTANT)),
    ]
}

/// The wheel and the map, side by side.
struct Both {
    wheel: Wheel,
    tick: Tick,
    /// By tick and then by the order in which they came: the entry's number.
    model: BTreeMap<(u64, usize), usize>,
    entries: Vec<*mut Entry>,
    now_tick: u64,
    last_tick: u64,
    budget: usize,
}

impl Both {
    fn new(tick_nanos: u64, size: usize, start: u64, budget: usize) -> Self {
        let tick = Tick::new(Duration::from_nanos(tick_nanos)).unwrap();
        Self {
            wheel: Wheel::new(tick, size, start),
            tick,
            model: BTreeMap::new(),
            entries: Vec::new(),
            now_tick: tick.reached_by(start),
            last_tick: tick.reached_by(LAST_INSTANT),
            budget,
        }
    }

    fn insert(&mut self, distance: u64) {
        let tick = self.now_tick.saturating_add(distance).min(self.tick.at_or_after(u64::MAX));
        let entry = Box::into_raw(Box::new(Entry::free(0)));
        let number = self.entries.len();
        self.entries.push(entry);
        let deadline = self.tick.start_of(tick);
        // SAFETY: the entry is new, and the wheel's alone until `drain` or the end.
        unsafe {
            (*entry).fill(deadline, |task| RawTask::write(task, || (), Label::default()));
            self.wheel.insert(entry);
        }
        // A deadline that has come is due in the next turn, whatever tick it was.
        let tick = self.tick.at_or_after(deadline).max(self.now_tick);
        self.model.insert((tick, number), number);
    }

    fn unlink(&mut self, nth: usize) {
        if self.model.is_empty() {
            return;
        }
        let key = *self.model.keys().nth(nth % self.model.len()).unwrap();
        let number = self.model.remove(&key).unwrap();
        // SAFETY: it waits, so it is in a list of the wheel.
        unsafe { self.wheel.unlink(self.entries[number]) };
    }

    fn advance(&mut self, distance: u64) -> Result<(), TestCaseError> {
        self.advance_with(distance, |_, _| ())
    }

    /// Advances, and calls `between` after each step that was not the last: that is where the
    /// driver takes in what was scheduled and cancelled meanwhile, and reads the clock again.
    fn advance_with(
        &mut self,
        distance: u64,
        mut between: impl FnMut(&mut Self, u64),
    ) -> Result<(), TestCaseError> {
        self.move_clock(distance);
        for round in 0.. {
            let mut budget = self.budget;
            let step = self.wheel.advance(self.now_tick, &mut budget);
            while let Some(entry) = self.wheel.pop_due() {
                let first = self.model.first_key_value().map(|(&key, &number)| (key, number));
                let Some(((tick, _), number)) = first else {
                    return Err(TestCaseError::fail("an entry came that the map does not have"));
                };
                prop_assert!(tick <= self.now_tick, "an entry came before its tick");
                prop_assert_eq!(entry, self.entries[number], "entries came in another order");
                self.model.pop_first();
            }
            if step == Advance::Reached {
                break;
            }
            between(self, round);
        }
        if let Some((&(tick, _), _)) = self.model.first_key_value() {
            prop_assert!(tick > self.now_tick, "an entry is late");
        }
        Ok(())
    }

    fn move_clock(&mut self, distance: u64) {
        self.now_tick = self.now_tick.saturating_add(distance).min(self.last_tick);
    }

    fn check_next(&mut self) -> Result<(), TestCaseError> {
        match (self.wheel.has_due(), self.wheel.next_tick(), self.model.first_key_value()) {
            (true, _, _) | (false, None, None) => Ok(()),
            (false, Some(next), Some((&(first, _), _))) => {
                prop_assert!(next <= first, "the wheel would oversleep");
                prop_assert!(next > self.now_tick, "the wheel would not sleep at all");
                Ok(())
            }
            (false, next, first) => {
                Err(TestCaseError::fail(format!("next is {next:?}, but the first is {first:?}")))
            }
        }
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        for &entry in &self.entries {
            // SAFETY: made by `insert`, and the wheel is not used any more. The tasks inside
            // capture nothing; they are taken out so that Miri sees boxes of nothing else dropped.
            unsafe {
                drop((*entry).take_task());
                drop(Box::from_raw(entry));
            }
        }
    }
}

/// `LARS_STRESS=100` tries a hundred times as many.
fn cases() -> ProptestConfig {
    let times = std::env::var("LARS_STRESS").map_or(1, |times| times.parse().expect("a number"));
    ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 700 * times },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_wheel_gives_back_what_a_sorted_map_gives_back_in_the_same_order(
        start in start(),
        tick in prop_oneof![Just(1_u64), Just(10), Just(1_000_000), Just(3_600_000_000_000)],
        size in prop_oneof![Just(2_usize), Just(4), Just(64), Just(512)],
        budget in prop_oneof![Just(1_usize), Just(3), Just(4096)],
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 30 } else { 120 }),
    ) {
        let mut both = Both::new(tick, size, start, budget);
        for step in steps {
            match step {
                Step::Insert(distance) => both.insert(distance),
                Step::Unlink(nth) => both.unlink(nth),
                Step::Advance(distance) => both.advance(distance)?,
                Step::AdvanceToNext => {
                    if !both.wheel.has_due() && let Some(next) = both.wheel.next_tick() {
                        both.advance(next - both.now_tick)?;
                    }
                }
            }
            both.check_next()?;
        }
        let mut left = 0;
        while both.wheel.pop_any().is_some() {
            left += 1;
        }
        prop_assert_eq!(left, both.model.len());
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_happens_between_the_steps_of_a_cascade_changes_neither_order_nor_completeness(
        start in start(),
        tick in prop_oneof![Just(1_u64), Just(10), Just(1_000_000)],
        size in prop_oneof![Just(2_usize), Just(4), Just(8), Just(64), Just(512)],
        budget in prop_oneof![Just(1_usize), Just(2), Just(3), Just(7)],
        bursts in prop::collection::vec(
            (distance(), 1_usize..8, 0_u64..3, any::<bool>(), 1_u64..6),
            1..if cfg!(miri) { 6 } else { 40 },
        ),
    ) {
        let mut both = Both::new(tick, size, start, budget);
        for (distance, many, apart, to_next, stir) in bursts {
            for number in 0..many as u64 {
                both.insert(distance.saturating_add(number * apart));
            }
            let distance = match both.wheel.next_tick() {
                Some(next) if to_next => next.saturating_sub(both.now_tick),
                _ => distance / 2,
            };
            both.advance_with(distance, |both, round| {
                if round > 200 {
                    return;
                }
                if round % 3 == 0 {
                    (0..stir).for_each(|nth| both.unlink((nth + round) as usize));
                }
                if round % 5 == 0 {
                    both.insert(stir * round % 1000);
                }
                if round % 4 == 0 {
                    both.move_clock(stir);
                }
            })?;
            both.check_next()?;
        }
    }
}

#[test]
fn a_slot_whose_rest_is_cancelled_while_it_is_cascaded_holds_nothing_back() {
    let mut both = Both::new(1, 512, 0, 40);
    for _ in 0..50 {
        both.insert(700);
    }
    // The clock is late, so the entries that have been moved down are overdue when the others go.
    both.advance_with(800, |both, round| {
        if round == 0 {
            (0..10).for_each(|_| both.unlink(40));
        }
    })
    .unwrap();
    assert!(both.model.is_empty());
    assert_eq!(both.wheel.next_tick(), None);
}

#[test]
fn an_early_cascade_keeps_order_and_loses_nothing() {
    // So many in one coarse slot that its cascade begins before its first tick, in small steps,
    // with new entries of the same tick arriving all the time.
    let many = if cfg!(miri) { 120 } else { 20_000 };
    let mut both = Both::new(1000, 512, 0, 37);
    for number in 0..many {
        both.insert(40_000 + number % 3);
    }
    let first = 40_000 >> 13 << 13;
    // (In tests a slot of three entries is begun early; that takes less patience with Miri.)
    if !cfg!(miri) {
        assert!(both.wheel.next_tick().unwrap() < first, "the cascade begins early");
    }
    while !both.model.is_empty() {
        if both.model.len().is_multiple_of(5) && both.now_tick < 40_000 {
            both.insert(40_001 - both.now_tick);
        }
        let next = both.wheel.next_tick().unwrap();
        both.advance(next - both.now_tick).unwrap();
        both.check_next().unwrap();
    }
    assert!(both.now_tick <= 40_002);
}

#[test]
fn a_jump_over_centuries_visits_no_empty_tick() {
    // It would take forever if it did.
    let mut both = Both::new(1, 512, 0, 4096);
    both.insert(u64::MAX / 2);
    both.advance(u64::MAX / 2 - 1).unwrap();
    assert_eq!(both.model.len(), 1);
    both.advance(1).unwrap();
    assert!(both.model.is_empty());
}

#[test]
fn the_end_of_time_is_never_reached() {
    let mut both = Both::new(1, 512, LAST_INSTANT - 5, 4096);
    both.insert(u64::MAX);
    both.advance(u64::MAX).unwrap();
    assert_eq!(both.model.len(), 1);
}
