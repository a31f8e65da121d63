//! What may happen, and how bytes become it.

use std::sync::Arc;
use std::time::Duration;

use lars_scheduler::MissedTickBehavior;

/// The last instant that a clock shows.
pub(crate) const LAST: u64 = u64::MAX - 2;

/// How deep tasks schedule tasks.
const DEPTH: u32 = 3;
/// How many actions a sequence has at most, those of tasks included, so that none takes long.
const ACTIONS: u32 = 400;

/// What a task does when it runs, or a hook.
pub(crate) type Script = Arc<[Action]>;

#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// A one-shot, after a delay or at an instant that far ahead.
    Once {
        delay: Duration,
        at: bool,
        script: Script,
        hook: Option<Script>,
    },
    /// At an instant that has passed.
    Past {
        ago: Duration,
        script: Script,
    },
    Batch(Vec<(Duration, Script)>),
    /// A repeat that ends by itself after this many runs.
    Repeat {
        rule: Rule,
        initial: Duration,
        period: Duration,
        runs: u32,
        script: Script,
    },
    /// Cancels the nth timer so far, modulo their number.
    Cancel(usize),
    /// Moves the deadline of the nth, to a delay or to an instant.
    Reset {
        nth: usize,
        delay: Duration,
        at: bool,
    },
    /// Ends the script. (Nothing, outside of one.)
    Panic,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Delay,
    Rate(MissedTickBehavior),
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Do(Action),
    Advance(Duration),
    AdvanceToNext,
    RunUntilIdle(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) tick: u64,
    pub(crate) wheel: usize,
    pub(crate) max_pending: Option<usize>,
    /// How far time is when it begins.
    pub(crate) begin: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) settings: Settings,
    pub(crate) ops: Vec<Op>,
    /// Whether it ends with `close` rather than `stop`.
    pub(crate) close: bool,
}

impl Sequence {
    /// Any bytes are a sequence.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut bytes = Bytes { rest: bytes, actions: ACTIONS };
        let choice = bytes.next();
        let tick = [1, 1, 3, 10, 1 << 10, 1_000_000, 999_999_937, 3_600_000_000_000];
        let wheel = [2, 2, 4, 8, 64, 512, 2, 8];
        let settings = Settings {
            tick: tick[usize::from(choice % 8)],
            wheel: wheel[usize::from(choice / 8 % 8)],
            max_pending: (choice >= 192).then(|| 1 + usize::from(bytes.next() % 16)),
            begin: match bytes.next() % 4 {
                0 | 1 => 0,
                2 => bytes.magnitude().min(LAST),
                _ => LAST - bytes.magnitude().min(LAST),
            },
        };
        let close = choice & 64 != 0;
        let mut ops = Vec::new();
        while !bytes.rest.is_empty() && bytes.actions > 0 {
            ops.push(bytes.op());
        }
        Self { settings, ops, close }
    }
}

/// Reads what it needs; zeroes when there is nothing left.
struct Bytes<'a> {
    rest: &'a [u8],
    actions: u32,
}

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (&first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        first
    }

    /// Numbers of all magnitudes alike: three significant bytes, and a shift.
    fn magnitude(&mut self) -> u64 {
        let shift = u32::from(self.next()) % 65;
        let bits =
            u64::from_be_bytes([self.next(), self.next(), self.next(), 0x5A, 0xA5, 0x3C, 0, 1]);
        bits.checked_shr(shift).unwrap_or(0)
    }

    fn delay(&mut self) -> Duration {
        let choice = self.next();
        let nanos = Duration::from_nanos;
        match choice {
            0..=31 => Duration::ZERO,
            32..=39 => Duration::MAX,
            // Around ticks, so that deadlines meet.
            40..=79 => nanos(u64::from(choice - 40)),
            80..=119 => nanos(u64::from(choice - 80) * 1_000_000 + u64::from(self.next() % 3)),
            // Around the powers of two, where slots and levels begin.
            120..=183 => {
                nanos((1_u64 << (choice - 120)).wrapping_sub(1) + u64::from(self.next() % 3))
            }
            184..=199 => nanos(u64::from(choice - 183) * 999_999_937),
            _ => nanos(self.magnitude()),
        }
    }

    fn nth(&mut self) -> usize {
        usize::from(self.next())
    }

    fn op(&mut self) -> Op {
        match self.next() {
            choice @ 0..=159 => Op::Do(self.action(choice, DEPTH, true)),
            160..=207 => Op::Advance(Duration::from_nanos(self.magnitude())),
            208..=231 => Op::Advance(Duration::from_nanos(u64::from(self.next()) * 10_007)),
            232..=247 => Op::AdvanceToNext,
            _ => Op::RunUntilIdle(1 + usize::from(self.next())),
        }
    }

    fn script(&mut self, depth: u32, repeats: bool) -> Script {
        if depth == 0 {
            return Arc::new([]);
        }
        let length = match self.next() {
            0..=127 => 0,
            128..=207 => 1,
            208..=239 => 2,
            _ => 3,
        };
        (0..length)
            .map(|_| {
                let choice = self.next() % 160;
                self.action(choice, depth - 1, repeats)
            })
            .collect()
    }

    fn action(&mut self, choice: u8, depth: u32, repeats: bool) -> Action {
        self.actions = self.actions.saturating_sub(1);
        if self.actions == 0 {
            return Action::Cancel(0);
        }
        match choice {
            0..=49 => Action::Once {
                delay: self.delay(),
                at: choice.is_multiple_of(8),
                script: self.script(depth, repeats),
                hook: (choice % 8 == 1).then(|| self.script(depth, repeats)),
            },
            50..=53 => Action::Past { ago: self.delay(), script: self.script(depth, repeats) },
            54..=63 => Action::Batch(
                (0..self.next() % 8).map(|_| (self.delay(), self.script(depth, repeats))).collect(),
            ),
            64..=83 if repeats => Action::Repeat {
                rule: match choice % 4 {
                    0 => Rule::Delay,
                    1 => Rule::Rate(MissedTickBehavior::Burst),
                    2 => Rule::Rate(MissedTickBehavior::Skip),
                    _ => Rule::Rate(MissedTickBehavior::Delay),
                },
                initial: self.delay(),
                period: self.delay(),
                runs: 1 + u32::from(self.next() % 6),
                // Repeats that start repeats that start repeats would not come to an end.
                script: self.script(depth, false),
            },
            64..=113 => Action::Cancel(self.nth()),
            114..=153 => {
                Action::Reset { nth: self.nth(), delay: self.delay(), at: choice.is_multiple_of(8) }
            }
            154..=158 => Action::Panic,
            _ => match self.next() % 8 {
                0 => Action::Stop,
                _ => Action::Panic,
            },
        }
    }
}
