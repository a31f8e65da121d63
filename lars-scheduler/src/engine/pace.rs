//! Backpressure: what the timer thread tells producers of its own pace, and what they tell each
//! other.
//!
//! Each lane has a *credit*, counted in entries that the timer thread will have to deal with. A
//! call uses one; a call that finds none left asks here what its lane is to get. So this is asked
//! once in many calls, and the words of the timer thread are read as rarely.
//!
//! ```text
//!   the timer thread is in time:    a whole credit
//!   it is late, or silent:          what the lane has earned since it was granted something last,
//!                                   at the *price*: the timer thread's time for an entry, times
//!                                   the lanes that have asked lately. If that is nothing, the
//!                                   caller waits, or is refused.
//! ```
//!
//! So lanes that ask get equal shares of what the timer thread really does, whatever tasks cost;
//! and a lane that asks rarely has earned its credit by the time it asks. The price rises with the
//! lateness, and with the silence, from what an entry costs up to [`DEAREST`] times that. So the
//! timer thread catches up, even where it gets less done than it has measured, because it waits for
//! a processor.
//!
//! *Silent* is a timer thread that is awake, or should be, and has not stored a heartbeat for
//! [`SILENCE`]: it waits for a processor, or is stuck in a task. Either way nothing is fired, and
//! what is accepted meanwhile will be late.
//!
//! All of these words are hints, and relaxed unless a comment says otherwise: nobody follows a
//! pointer because of them. A reader that sees an old value grants too much or too little, once.

use crossbeam_utils::CachePadded;

use crate::base::backpressure::Backpressure;
use crate::base::waits::Waits;
use crate::sync::{AtomicU64, Ordering};

/// The credit of a lane, in entries. A thread that schedules fifty timers a second needs twenty
/// seconds to use it up.
pub(crate) const CREDIT: u64 = 1_024;
/// The credit of a lane that never asks.
pub(crate) const ENDLESS: u64 = 1 << 62;
/// What lanes that ask while the timer thread is in time get, in all: some two milliseconds of its
/// work. So many threads together cannot outrun it by more than one can.
const IN_TIME: u64 = 8_192;
/// What one of them gets at least, so that it asks rarely.
const LEAST: u64 = 32;

/// The timer thread is late if a task begins this much later than it could have, in nanoseconds:
/// later than the end of its tick and the window of `coalesce`. (With twice this and more silence,
/// floods were 1.3 to 2 times as late, and no call was cheaper.)
pub(crate) const LATE: u64 = 1_000_000;
/// How many times the cost of an entry the price may be.
const DEAREST: u64 = 64;
/// For how long an awake timer thread gives no sign of life before it counts as silent, in
/// nanoseconds.
const SILENCE: u64 = 3_000_000;
/// For how long a lane that has asked counts as one of those that share, in nanoseconds.
const PERIOD: u64 = 20_000_000;

/// What an entry is taken to cost the timer thread before that is known, in nanoseconds.
const COST: u64 = 1_000;
/// The cost is measured anew after so long, in nanoseconds, or so many entries.
const SAMPLE: (u64, u64) = (250_000, 512);
/// For how long a sample counts, in nanoseconds of work: longer than the timer thread waits for a
/// processor on a busy machine, so that the cost contains its share of such waits.
const REMEMBERS: u64 = 50_000_000;
/// In a turn of a few entries, what takes time is the turn. Such a turn tells the cost of an entry
/// only if the timer thread is late.
const TELLS: u64 = 32;

/// The words, see the module's documentation.
#[derive(Debug)]
pub(crate) struct Pace {
    pub(crate) mode: Backpressure,
    told: CachePadded<Told>,
    asked: CachePadded<Asked>,
    /// Who waited.
    pub(crate) waits: Waits,
}

/// Written by the timer thread.
#[derive(Debug)]
struct Told {
    /// What an entry costs a producer, in nanoseconds; 0 while the timer thread is in time.
    price: AtomicU64,
    /// What an entry costs the timer thread.
    cost: AtomicU64,
    /// Heartbeats. (A count: it need not read the clock to give a sign of life.)
    beats: AtomicU64,
}

/// Written by producers that have used up their credit.
#[derive(Debug)]
struct Asked {
    /// How many lanes have asked in this period and in the one before.
    lanes: AtomicU64,
    /// The heartbeat that was seen last, and when it was first seen.
    beat: AtomicU64,
    beat_seen_at: AtomicU64,
}

impl Pace {
    pub(crate) fn new(mode: Backpressure) -> Self {
        let zero = || AtomicU64::new(0);
        let told = Told { price: zero(), cost: AtomicU64::new(COST), beats: zero() };
        let asked = Asked { lanes: zero(), beat: zero(), beat_seen_at: zero() };
        let (told, asked) = (CachePadded::new(told), CachePadded::new(asked));
        Self { mode, told, asked, waits: Waits::new() }
    }

    /// The credit that a lane begins with.
    pub(crate) fn credit(mode: Backpressure) -> u64 {
        if mode == Backpressure::Off { ENDLESS } else { CREDIT }
    }

    /// What an entry costs a producer now, in nanoseconds; `None` while the timer thread is in
    /// time. `is_up` says whether that thread is awake, or should be.
    pub(crate) fn price(&self, now: u64, is_up: bool) -> Option<u64> {
        let Told { price, cost, .. } = &*self.told;
        let told = price.load(Ordering::Relaxed);
        let silence = if is_up { self.silence(now) } else { 0 };
        if silence <= SILENCE {
            return (told > 0).then_some(told);
        }
        let cost = cost.load(Ordering::Relaxed);
        // Each of the two ends at `DEAREST` times the cost, and so does their sum.
        Some((told + price_of(cost, silence)).min(cost * DEAREST))
    }

    /// How long ago the last heartbeat was seen first, in nanoseconds. (It may be older: the timer
    /// thread may have slept until then.)
    fn silence(&self, now: u64) -> u64 {
        let Asked { beat, beat_seen_at, .. } = &*self.asked;
        let last = self.told.beats.load(Ordering::Relaxed);
        // Acquire: pairs with the store below, so that the instant is that of this heartbeat or of
        // a later one.
        if beat.load(Ordering::Acquire) == last {
            return now.saturating_sub(beat_seen_at.load(Ordering::Relaxed));
        }
        beat_seen_at.store(now, Ordering::Relaxed);
        beat.store(last, Ordering::Release);
        0
    }

    /// Counts a lane that asks, unless it has in this period; `asked_in` is the lane's note of
    /// that. Returns how many lanes share.
    pub(crate) fn sharers(&self, asked_in: &AtomicU64, now: u64) -> u64 {
        let period = (now / PERIOD + 1) & u64::from(u32::MAX);
        let word = &self.asked.lanes;
        let mut seen = word.load(Ordering::Relaxed);
        let (mut of_this, mut of_last) = Self::in_period(seen, period);
        if asked_in.swap(period, Ordering::Relaxed) != period {
            loop {
                of_this = (of_this + 1).min(u64::from(u16::MAX));
                let new = period << 32 | of_last << 16 | of_this;
                match word.compare_exchange_weak(seen, new, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(other) => seen = other,
                }
                (of_this, of_last) = Self::in_period(seen, period);
            }
        }
        of_this.max(of_last).max(1)
    }

    /// How many lanes have asked in this period and in the one before, by the word.
    fn in_period(word: u64, period: u64) -> (u64, u64) {
        let (of, of_last, of_this) = (word >> 32, word >> 16 & 0xffff, word & 0xffff);
        match period.wrapping_sub(of) {
            0 => (of_this, of_last),
            1 => (0, of_this),
            _ => (0, 0),
        }
    }

    /// What one of so many lanes gets while the timer thread is in time.
    pub(crate) fn whole_credit(sharers: u64) -> u64 {
        (IN_TIME / sharers).clamp(LEAST, CREDIT)
    }
}

/// What an entry of this cost costs a producer while the timer thread is so late, or silent.
fn price_of(cost: u64, late: u64) -> u64 {
    // (The cost is below 2^32, and so is the other factor: 64 ms.)
    cost * late.min(DEAREST * LATE) / LATE
}

/// The timer thread's side: measures what an entry costs, and tells the price.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Whether producers can rely on being told: the driver is turned in time.
    tells: bool,
    /// Entries that were fired, or found cancelled, since the sample began.
    pub(crate) met: u64,
    /// Entries that were taken in since then. (What comes through a channel is met later as well.
    /// So the larger of the two counts is how many were dealt with.)
    pub(crate) taken_in: u64,
    /// When the sample began; `None` after a pause.
    since: Option<u64>,
    /// The last reading of the clock.
    now: u64,
    /// For how long the timer thread has worked lately, in nanoseconds, and on how many entries.
    worked: (u64, u64),
    cost: u64,
    late: u64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            tells: false,
            met: 0,
            taken_in: 0,
            since: None,
            now: 0,
            worked: (0, 0),
            cost: COST,
            late: 0,
        }
    }

    pub(crate) fn begin_to_tell(&mut self) {
        self.tells = true;
    }

    pub(crate) fn tells(&self) -> bool {
        self.tells
    }

    /// Whether the clock has been read since the last heartbeat.
    #[inline]
    pub(crate) fn has_passed(&self, now: u64) -> bool {
        self.tells && now > self.now
    }

    /// How late the timer thread was at the last heartbeat.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// A sign of life: the clock shows `now`, and the task that begins now is so late.
    #[inline(never)]
    pub(crate) fn beat(&mut self, now: u64, late: u64, pace: &Pace) {
        if !self.tells {
            return;
        }
        (self.now, self.late) = (now, late);
        self.sample(now);
        Self::count_beat(pace);
        let price = match late {
            0..=LATE => 0,
            _ => price_of(self.cost, late),
        };
        let told = &pace.told;
        // Only what has changed is stored: producers read the line.
        for (word, value) in [(&told.price, price), (&told.cost, self.cost)] {
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    /// Measures the cost of an entry, if it is time to.
    fn sample(&mut self, now: u64) {
        let dealt_with = self.met.max(self.taken_in);
        let took = now.saturating_sub(*self.since.get_or_insert(now));
        if took < SAMPLE.0 && (took == 0 || dealt_with < SAMPLE.1) {
            return;
        }
        if dealt_with >= TELLS || dealt_with > 0 && self.late > LATE {
            // What is old fades; half of it is left after the longest wait.
            let fades = |old: u64| old - old / (REMEMBERS / took.clamp(1, REMEMBERS / 2));
            let (time, entries) = (fades(self.worked.0) + took, fades(self.worked.1) + dealt_with);
            self.worked = (time, entries);
            // If tasks take longer than before, this is known at once.
            self.cost = (time / entries).max(took / dealt_with).clamp(1, u64::from(u32::MAX));
        }
        (self.since, self.met, self.taken_in) = (Some(now), 0, 0);
    }

    /// The timer thread is about to sleep.
    pub(crate) fn pause(&mut self, pace: &Pace) {
        if self.tells {
            (self.since, self.met, self.taken_in) = (None, 0, 0);
            // A producer that finds it awake after this does not take the sleep for silence.
            Self::count_beat(pace);
        }
    }

    fn count_beat(pace: &Pace) {
        // No read-modify-write: there is one writer.
        let beats = pace.told.beats.load(Ordering::Relaxed);
        pace.told.beats.store(beats.wrapping_add(1), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(lars_loom, lars_shuttle))))]
mod tests;
