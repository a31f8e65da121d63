//! What may happen to a queue, and how bytes become it.

use std::time::Duration;

/// The last instant that a clock shows.
pub(crate) const LAST: u64 = u64::MAX - 2;

/// How many operations a sequence has at most, so that none takes long.
const OPS: usize = 400;

/// The queue's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Its scheduler's.
    Schedulers,
    /// One of its own. It keeps pace with the scheduler's, except where it jumps.
    Own,
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Put(Duration),
    /// At an instant so far ahead.
    PutAt(Duration),
    /// At an instant that has passed.
    PutPast(Duration),
    Poll,
    /// Without waiting: with a limit of zero.
    PollTimeout,
    /// Where that does not block.
    Take,
    Drain,
    DrainUpTo(usize),
    TakeAll,
    /// The nth key so far, modulo their number: also of items that are gone, and of another queue.
    Remove(usize),
    Remaining(usize),
    Advance(Duration),
    /// To the first deadline, or to a nanosecond before it.
    AdvanceToFirst {
        before: bool,
    },
    /// A clock of its own jumps, and says so.
    Jump(Duration),
    /// A future, or a stream.
    Consumer {
        stream: bool,
    },
    PollConsumer(usize),
    DropConsumer(usize),
    Close,
    /// Another timer begins or ceases to take a place in the scheduler.
    OtherTimer,
    Stop,
}

#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) clock: Clock,
    pub(crate) tick: Duration,
    /// Whether the scheduler has room for one timer only.
    pub(crate) one_timer: bool,
    pub(crate) ops: Vec<Op>,
    /// Whether what is left is taken out in the end, rather than dropped with the queue.
    pub(crate) take_all: bool,
}

impl Sequence {
    /// Any bytes are a sequence.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut bytes = Bytes(bytes);
        let choice = bytes.next();
        let mut ops = Vec::new();
        while !bytes.0.is_empty() && ops.len() < OPS {
            ops.push(bytes.op());
        }
        Self {
            clock: if choice & 1 == 0 { Clock::Schedulers } else { Clock::Own },
            tick: Duration::from_nanos(if choice & 2 == 0 { 1 } else { 1_000_000 }),
            one_timer: choice & 4 != 0,
            take_all: choice & 8 == 0,
            ops,
        }
    }
}

/// Reads what it needs; zeroes when there is nothing left.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn nth(&mut self) -> usize {
        usize::from(self.next())
    }

    fn duration(&mut self) -> Duration {
        let choice = self.next();
        let nanos = Duration::from_nanos;
        match choice {
            0..=31 => Duration::ZERO,
            32..=39 => Duration::MAX,
            // Beyond all clocks here, but not beyond what one could show.
            40..=43 => Duration::from_secs(1 << 60),
            // Few values, so that deadlines meet.
            44..=127 => nanos(u64::from(choice % 16)),
            128..=191 => nanos((1 << (choice - 128)) + u64::from(self.next() % 3)),
            192..=207 => nanos(u64::from(choice) * 365 * 86_400 * 1_000_000_000 / 128),
            _ => nanos(u64::from_be_bytes([0, 0, 0, 0, 0, self.next(), self.next(), self.next()])),
        }
    }

    fn op(&mut self) -> Op {
        match self.next() {
            0..=59 => Op::Put(self.duration()),
            60..=79 => Op::PutAt(self.duration()),
            80..=89 => Op::PutPast(self.duration()),
            90..=109 => Op::Poll,
            110..=114 => Op::PollTimeout,
            115..=119 => Op::Take,
            120..=124 => Op::Drain,
            125..=129 => Op::DrainUpTo(self.nth() % 4),
            130 => Op::TakeAll,
            131..=154 => Op::Remove(self.nth()),
            155..=159 => Op::Remaining(self.nth()),
            160..=174 => Op::Advance(self.duration()),
            choice @ 175..=194 => Op::AdvanceToFirst { before: choice % 4 == 0 },
            195..=199 => Op::Jump(self.duration()),
            choice @ 200..=211 => Op::Consumer { stream: choice % 3 == 0 },
            212..=237 => Op::PollConsumer(self.nth()),
            238..=247 => Op::DropConsumer(self.nth()),
            248..=253 => Op::OtherTimer,
            254 => Op::Close,
            _ => Op::Stop,
        }
    }
}
