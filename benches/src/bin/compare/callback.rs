//! What a timer does when it fires: as little as it can, and never the same for one peer and more
//! for another.

#[cfg(feature = "peers")]
mod waker;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::histogram::Histogram;

/// In a burst the clock is read at one call in this many: often enough to find early ones, and too
/// seldom to be measured.
const SAMPLE: u64 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Only counts.
    Count,
    /// Counts, and reads the clock at the first, the last, and now and then between.
    Burst,
    /// Writes down how late each one is.
    Lateness,
    /// Counts how late each one is, for as many as come.
    Spread,
    /// Computes for so long.
    Slow(Duration),
}

/// Where callbacks leave what they saw.
#[derive(Debug)]
pub(crate) struct Recorder {
    mode: Mode,
    /// How many make it complete.
    expected: u64,
    epoch: Instant,
    /// The moment at which a burst is due.
    due: AtomicU64,
    count: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    /// Which call of a burst is the last of 99 in 100, and when it came. As all are due at one
    /// moment, that is the 99th percentile.
    ninety_ninth: u64,
    p99: AtomicU64,
    early: AtomicU64,
    lateness: Vec<AtomicI64>,
    spread: Option<Histogram>,
    complete: Mutex<bool>,
    on_complete: Condvar,
}

impl Recorder {
    fn new(mode: Mode, expected: u64) -> &'static Self {
        // Written, so that its pages are there before anything is measured.
        let slots = if mode == Mode::Lateness { expected } else { 0 };
        let lateness = (0..slots).map(|_| AtomicI64::new(i64::MIN)).collect();
        Box::leak(Box::new(Self {
            mode,
            expected,
            epoch: Instant::now(),
            due: AtomicU64::new(0),
            count: AtomicU64::new(0),
            first: AtomicU64::new(0),
            last: AtomicU64::new(0),
            ninety_ninth: expected - expected / 100,
            p99: AtomicU64::new(0),
            early: AtomicU64::new(0),
            lateness,
            spread: (mode == Mode::Spread).then(Histogram::new),
            complete: Mutex::new(false),
            on_complete: Condvar::new(),
        }))
    }

    /// Counts calls. For timers that are not to fire, and for periodic ones.
    pub(crate) fn count() -> &'static Self {
        Self::new(Mode::Count, 0)
    }

    /// Waits for `expected` calls, all due at the moment that is set.
    pub(crate) fn burst(expected: u64) -> &'static Self {
        Self::new(Mode::Burst, expected)
    }

    /// Writes down the lateness of `expected` calls.
    pub(crate) fn lateness(expected: u64) -> &'static Self {
        Self::new(Mode::Lateness, expected)
    }

    /// Counts latenesses in a histogram, of as many calls as come. Nothing else is written by a
    /// call.
    pub(crate) fn spread() -> &'static Self {
        Self::new(Mode::Spread, 0)
    }

    /// One call, which computes for as long as `takes` says. When it begins and ends is kept as the
    /// first and the last.
    pub(crate) fn slow(takes: Duration) -> &'static Self {
        Self::new(Mode::Slow(takes), 1)
    }

    /// What is counted, if this is one of [`spread`](Self::spread).
    pub(crate) fn histogram(&self) -> Option<&Histogram> {
        self.spread.as_ref()
    }

    /// A callback whose deadline does not matter.
    pub(crate) fn callback(&'static self) -> Callback {
        Callback { to: self, due: 0 }
    }

    /// Sets the moment at which a burst is due.
    pub(crate) fn set_due(&self, deadline: Instant) {
        self.due.store(self.nanos(deadline), Ordering::Relaxed);
    }

    /// A callback that is due at `deadline`, for latenesses.
    pub(crate) fn due_at(&'static self, deadline: Instant) -> Callback {
        self.due_at_nanos(self.nanos(deadline))
    }

    /// The same, in the recorder's time.
    pub(crate) fn due_at_nanos(&'static self, due: u64) -> Callback {
        Callback { to: self, due }
    }

    /// The recorder's time, in nanoseconds.
    pub(crate) fn nanos(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }

    /// How often it was called.
    pub(crate) fn calls(&self) -> u64 {
        self.spread.as_ref().map_or_else(|| self.count.load(Ordering::Acquire), Histogram::count)
    }

    /// When the first and the last call came, in the recorder's nanoseconds. For a burst.
    pub(crate) fn first_and_last(&self) -> (u64, u64) {
        (self.first.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed))
    }

    /// When the last of 99 in 100 calls came. For a burst.
    pub(crate) fn p99(&self) -> u64 {
        self.p99.load(Ordering::Relaxed)
    }

    /// How many were early; for a burst a multiple of the sampling distance.
    pub(crate) fn early(&self) -> u64 {
        match self.mode {
            Mode::Count | Mode::Slow(_) => 0,
            Mode::Spread => self.spread.as_ref().map_or(0, Histogram::early),
            Mode::Burst => self.early.load(Ordering::Relaxed),
            Mode::Lateness => self.sorted().iter().filter(|&&nanos| nanos < 0).count() as u64,
        }
    }

    /// All latenesses in nanoseconds, ascending; early ones are negative.
    pub(crate) fn sorted(&self) -> Vec<i64> {
        let calls = self.calls().min(self.expected) as usize;
        let mut all: Vec<i64> =
            self.lateness[..calls].iter().map(|nanos| nanos.load(Ordering::Relaxed)).collect();
        all.sort_unstable();
        all
    }

    /// Waits until all expected calls came; says whether they did.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let complete = self.complete.lock().expect("nothing panics with the lock held");
        let (complete, _) = self
            .on_complete
            .wait_timeout_while(complete, limit, |complete| !*complete)
            .expect("nothing panics with the lock held");
        *complete
    }

    #[inline]
    fn call(&self, due: u64) {
        if let Some(spread) = &self.spread {
            spread.record(self.nanos(Instant::now()) as i64 - due as i64);
            return;
        }
        let number = self.count.fetch_add(1, Ordering::AcqRel);
        match self.mode {
            Mode::Count | Mode::Spread => return,
            Mode::Burst => {
                let calls = number + 1;
                if number.is_multiple_of(SAMPLE)
                    || calls == self.expected
                    || calls == self.ninety_ninth
                {
                    self.sample(number);
                }
            }
            Mode::Slow(takes) => self.compute(takes),
            Mode::Lateness => {
                let now = self.nanos(Instant::now());
                if let Some(slot) = self.lateness.get(number as usize) {
                    slot.store(now as i64 - due as i64, Ordering::Relaxed);
                }
            }
        }
        if number + 1 == self.expected {
            self.complete();
        }
    }

    #[cold]
    fn sample(&self, number: u64) {
        let now = self.nanos(Instant::now());
        if number == 0 {
            self.first.store(now, Ordering::Relaxed);
        }
        if number + 1 == self.expected {
            self.last.store(now, Ordering::Relaxed);
        }
        if number + 1 == self.ninety_ninth {
            self.p99.store(now, Ordering::Relaxed);
        }
        if now < self.due.load(Ordering::Relaxed) && number.is_multiple_of(SAMPLE) {
            self.early.fetch_add(SAMPLE.min(self.expected - number), Ordering::Relaxed);
        }
    }

    /// Keeps a processor busy, as a task does that computes. (One that sleeps would leave the
    /// processor to the others.)
    #[cold]
    fn compute(&self, takes: Duration) {
        let begin = Instant::now();
        self.first.store(self.nanos(begin), Ordering::Relaxed);
        while begin.elapsed() < takes {}
        self.last.store(self.nanos(Instant::now()), Ordering::Relaxed);
    }

    #[cold]
    fn complete(&self) {
        *self.complete.lock().expect("nothing panics with the lock held") = true;
        self.on_complete.notify_all();
    }
}

/// What is scheduled: 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Callback {
    to: &'static Recorder,
    due: u64,
}

impl Callback {
    /// Fires.
    #[inline]
    pub(crate) fn call(self) {
        self.to.call(self.due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_burst_it_is_known_when_99_of_100_had_come() {
        let recorder = Recorder::burst(300);
        let call = |count| (0..count).for_each(|_| recorder.callback().call());
        call(296);
        assert_eq!(recorder.p99(), 0);
        call(1);
        let p99 = recorder.p99();
        assert!(p99 > 0);
        call(3);
        assert_eq!(recorder.p99(), p99);
        assert!(p99 <= recorder.first_and_last().1);
    }

    #[test]
    fn a_slow_call_takes_as_long_as_it_says_and_is_complete_then() {
        let takes = Duration::from_millis(1);
        let recorder = Recorder::slow(takes);
        recorder.callback().call();
        assert!(recorder.wait(Duration::ZERO));
        let (begin, end) = recorder.first_and_last();
        assert!(u128::from(end - begin) >= takes.as_nanos());
    }
}
