//! The wheel alone, against a sorted map. Its steps are cut short by a budget, as the driver does
//! it: between them timers come and go while a slot has been moved down in part.
#![no_main]

use std::collections::BTreeMap;
use std::time::Duration;

use lars_scheduler::bench::Wheel;
use lars_scheduler_fuzz::count;
use libfuzzer_sys::fuzz_target;

const CAPACITY: usize = 512;
const LAST: u64 = u64::MAX - 2;

struct Timer {
    tick: u64,
    deadline: u64,
    /// In the order of the calls.
    call: u64,
}

struct Test<'a> {
    wheel: Wheel,
    tick: u64,
    /// By number.
    timers: BTreeMap<usize, Timer>,
    /// What is in the wheel, by tick.
    by_tick: BTreeMap<(u64, u64), usize>,
    /// All ticks up to this one have been visited, if not more.
    reached: u64,
    /// Nothing was visited beyond that.
    exact: bool,
    /// How far the wheel was to go. That never becomes less, as time does not.
    goal: u64,
    calls: u64,
    /// Insertions, removals, and steps.
    operations: u64,
    bytes: std::iter::Copied<std::slice::Iter<'a, u8>>,
}

impl Test<'_> {
    fn byte(&mut self) -> u8 {
        self.bytes.next().unwrap_or(0)
    }

    fn magnitude(&mut self) -> u64 {
        let shift = u32::from(self.byte() % 65);
        let bytes = [self.byte(), self.byte(), self.byte(), 0x99, 0x66, 0x5A, 0xA5, 1];
        u64::from_be_bytes(bytes).checked_shr(shift).unwrap_or(0)
    }

    fn insert(&mut self, ahead: u64) {
        if self.timers.len() == CAPACITY {
            return;
        }
        self.calls += 1;
        self.operations += 1;
        let deadline = (self.reached * self.tick).saturating_add(ahead);
        let number = self.wheel.insert(Duration::from_nanos(deadline));
        let tick = deadline.div_ceil(self.tick);
        self.by_tick.insert((tick, self.calls), number);
        let timer = Timer { tick, deadline, call: self.calls };
        assert!(self.timers.insert(number, timer).is_none(), "two timers have one entry");
    }

    fn remove(&mut self, nth: usize) {
        if self.timers.is_empty() {
            return;
        }
        self.operations += 1;
        let number = *self.timers.keys().nth(nth % self.timers.len()).expect("there are more");
        let timer = self.timers.remove(&number).expect("it is there");
        self.by_tick.remove(&(timer.tick, timer.call));
        // SAFETY: it is in the wheel.
        unsafe { self.wheel.remove(number) };
    }

    /// Goes to `target` in steps, as many as it is allowed.
    fn advance(&mut self, target: u64, steps: u64, budget: usize) {
        let before = self.reached;
        let target = target.max(self.goal);
        self.goal = target;
        for _ in 0..steps {
            self.operations += 1;
            let reached =
                self.wheel.step(Duration::from_nanos(target.saturating_mul(self.tick)), budget);
            // The ticks visited so far, and where equal deadlines are.
            let mut visited = self.reached;
            let mut equal: BTreeMap<u64, u64> = BTreeMap::new();
            while let Some(number) = self.wheel.pop_due() {
                let timer = self.timers.remove(&number).expect("a timer came due twice");
                self.by_tick.remove(&(timer.tick, timer.call));
                assert!(timer.tick <= target, "early: tick {} at {target}", timer.tick);
                let first = self.by_tick.first_key_value();
                assert!(
                    first.is_none_or(
                        |((tick, _), _)| *tick >= timer.tick.min(self.reached) || !self.exact
                    ),
                    "tick {} came before tick {first:?}",
                    timer.tick
                );
                visited = visited.max(timer.tick);
                let last = equal.insert(timer.deadline, timer.call);
                assert!(last.is_none_or(|call| call < timer.call), "equal deadlines out of order");
            }
            if visited > self.reached {
                // A step visits one tick that has timers, and all of it.
                let first = self.by_tick.first_key_value();
                assert!(
                    first.is_none_or(|((tick, _), _)| *tick >= visited),
                    "{first:?} was passed"
                );
            }
            self.reached = visited;
            self.exact = false;
            if reached {
                self.reached = target;
                self.exact = true;
                break;
            }
        }
        assert!(self.reached >= before);
        self.check();
    }

    fn check(&mut self) {
        let first = self.by_tick.first_key_value().map(|(key, _)| key.0);
        assert!(
            !self.exact || first.is_none_or(|tick| tick > self.reached),
            "tick {first:?} was missed at {}",
            self.reached
        );
        let next = self.wheel.next_wake_up();
        let due = first.map(|tick| Duration::from_nanos(tick.saturating_mul(self.tick)));
        match (next, due) {
            (None, None) => {}
            (Some(next), Some(due)) => assert!(next <= due, "would wake at {next:?} for {due:?}"),
            (None, Some(due)) => panic!("would never wake for {due:?}"),
            // A wake-up for what was removed meanwhile.
            (Some(_), None) => panic!("would wake up for nothing"),
        }
    }

    fn op(&mut self) {
        match self.byte() {
            0..=19 => self.insert(0),
            20..=59 => {
                let ahead = u64::from(self.byte());
                self.insert(ahead);
            }
            60..=109 => {
                let ahead = self.magnitude();
                self.insert(ahead);
            }
            choice @ 110..=129 => {
                // Many of one deadline, which have to be moved down one by one.
                let ahead = self.magnitude();
                for _ in 0..choice - 108 {
                    self.insert(ahead);
                }
            }
            130..=159 => {
                let nth = usize::from(self.byte());
                self.remove(nth);
            }
            160..=199 => {
                let target = self.reached.saturating_add(u64::from(self.byte()));
                self.advance(target.min(LAST / self.tick), u64::MAX, usize::MAX);
            }
            choice => {
                let target = self.reached.saturating_add(self.magnitude()).min(LAST / self.tick);
                let (steps, budget) = match choice {
                    200..=215 => (u64::MAX, usize::MAX),
                    216..=231 => (u64::MAX, 1 + usize::from(self.byte() % 8)),
                    _ => (1 + u64::from(self.byte() % 8), usize::from(self.byte() % 8)),
                };
                self.advance(target, steps, budget);
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let tick = [1, 3, 1_000, 1_000_000, 3_600_000_000_000][usize::from(choice % 5)];
    let size = [2, 4, 16, 512][usize::from(choice / 5 % 4)];
    let mut test = Test {
        wheel: Wheel::new(Duration::from_nanos(tick), size, CAPACITY),
        tick,
        timers: BTreeMap::new(),
        by_tick: BTreeMap::new(),
        reached: 0,
        exact: true,
        goal: 0,
        calls: 0,
        operations: 0,
        bytes: rest.iter().copied(),
    };
    while test.bytes.len() > 0 {
        test.op();
    }
    // Everything that can come due does.
    test.advance(LAST / tick, u64::MAX, usize::MAX);
    count(test.operations);
});
