//! What is known of all that was late: by cause and culprit, for a table, a hook and the log.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::Cause;
use super::parts::{Culprit, Part, Parts, Who, portion};
use crate::base::tick::Tick;
use crate::sync::{AtomicU64, Mutex, Ordering, thread_slot};
use lars_base::debug_fields;
use lars_base::panics::quietly;

/// In so many parts, so that threads that run tasks rarely meet.
const PARTS: usize = 16;
/// How many rows a part has at most. What comes after that has no culprit.
const ROWS: usize = 1024;
/// How long after a line in the log the next one may come, in nanoseconds.
const PAUSE: u64 = 1_000_000_000;

/// A part of a lateness: a cause, who was at fault, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateShare {
    /// Why.
    pub cause: Cause,
    /// Who was at fault, if it can be named.
    pub culprit: Option<Who>,
    /// For how long.
    pub time: Duration,
}

/// What began late, as told to the hook of [`Builder::on_late`](crate::Builder::on_late).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Late<'a> {
    /// Who began late.
    pub who: &'a Who,
    /// How much later it began than is promised. For a task: after its deadline, rounded up to a
    /// tick, and [`Builder::coalesce`](crate::Builder::coalesce).
    pub lateness: Duration,
    /// For how many it stands: those that were late by the same reading of the clock, or, where
    /// much is late, within a quarter of the bound.
    pub count: u64,
    /// Why. They add up to the lateness; the largest comes first.
    pub shares: &'a [LateShare],
}

impl Late<'_> {
    /// The three largest shares, for a line of the log.
    pub fn because(&self) -> impl fmt::Display {
        Shares(self.shares)
    }
}

pub(crate) type LateHook = Box<dyn Fn(&Late<'_>) + Send + Sync>;

/// What was late for one reason.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) cause: Cause,
    pub(crate) culprit: Culprit,
    pub(crate) count: u64,
    /// For how many it was the largest part.
    pub(crate) mainly: u64,
    /// In nanoseconds.
    pub(crate) time: u64,
}

/// What the culprit of a row is told by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Task(usize, usize),
    Who(Who),
    Nobody,
}

impl From<&Culprit> for Key {
    fn from(culprit: &Culprit) -> Self {
        match culprit {
            Culprit::Task(whose) => {
                let (table, place) = whose.key();
                Self::Task(table, place)
            }
            Culprit::Who(who) => Self::Who(who.clone()),
            Culprit::Nobody => Self::Nobody,
        }
    }
}

#[derive(Debug, Default)]
struct Sums {
    count: u64,
    time: u64,
    longest: u64,
    rows: HashMap<(Cause, Key), Row>,
}

/// All sums of one scheduler.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) time: u64,
    pub(crate) longest: u64,
    /// One cause and culprit may come several times.
    pub(crate) rows: Vec<Row>,
}

/// What was late in one system, by cause and culprit.
pub(crate) struct Record {
    parts: [CachePadded<Mutex<Sums>>; PARTS],
    /// Writes a line to the log.
    log: fn(&Late<'_>),
    pub(crate) hook: Option<LateHook>,
    /// When the log may have its next line.
    log_at: AtomicU64,
}

/// From when on a task of one scheduler is late, and what is known of those that were.
pub(crate) struct Lateness {
    /// How much later than promised a task may begin before it is late, in nanoseconds.
    pub(crate) bound: u64,
    tick: Tick,
    coalesce: u64,
    pub(crate) record: Record,
}

debug_fields!(|it: Lateness| bound: it.bound);

/// What began late by the same reading of the clock, or for the same reasons soon after it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) who: Culprit,
    /// How late the one was that is explained, in nanoseconds, and why.
    pub(crate) late: u64,
    pub(crate) parts: Parts,
    pub(crate) count: u64,
    /// How late all of them were together.
    pub(crate) time: u64,
    /// How late the latest was.
    pub(crate) longest: u64,
}

impl Found {
    /// What was late for so many nanoseconds, and why: to be counted.
    pub(crate) fn explained(who: Culprit, late: u64, parts: Parts) -> Self {
        Self { who, late, parts, count: 0, time: 0, longest: 0 }
    }

    /// The same, counted.
    pub(crate) fn new(who: Culprit, late: u64, parts: Parts) -> Self {
        let mut new = Self::explained(who, late, parts);
        new.add(1, late, late);
        new
    }

    /// Counts so many that it explains, late by so much together, and by at most so much.
    fn add(&mut self, count: u64, time: u64, longest: u64) {
        self.count += count;
        self.time = self.time.saturating_add(time);
        self.longest = self.longest.max(longest);
    }
}

impl Lateness {
    pub(crate) fn new(bound: u64, tick: Tick, coalesce: u64, hook: Option<LateHook>) -> Self {
        Self { bound, tick, coalesce, record: Record::new(log, hook) }
    }

    /// The least difference between a deadline and its task's begin with which that may be late.
    pub(crate) fn limit(&self) -> u64 {
        self.bound.saturating_add(self.coalesce)
    }

    /// By when a task of this deadline should begin.
    pub(crate) fn promised(&self, deadline: u64) -> u64 {
        self.end_of_tick(deadline).saturating_add(self.coalesce)
    }

    fn end_of_tick(&self, deadline: u64) -> u64 {
        self.tick.start_of(self.tick.at_or_after(deadline))
    }

    /// Counts those that were late of tasks that began `now`: each of them `after` its deadline by
    /// so many nanoseconds.
    pub(crate) fn count(&self, now: u64, after: impl Iterator<Item = u64>, found: &mut Found) {
        let limit = self.limit();
        let (mut count, mut time, mut longest) = (0, 0_u64, 0);
        // Those that follow each other are often of one tick.
        let mut end = 0;
        for nanos in after.filter(|&nanos| nanos > limit) {
            let deadline = now - nanos;
            if deadline > end || end - deadline >= self.tick.nanos() {
                end = self.end_of_tick(deadline);
            }
            let late = now.saturating_sub(end.saturating_add(self.coalesce));
            if late > self.bound {
                count += 1;
                time = time.saturating_add(late);
                longest = longest.max(late);
            }
        }
        found.add(count, time, longest);
    }
}

impl Record {
    pub(crate) fn new(log: fn(&Late<'_>), hook: Option<LateHook>) -> Self {
        Self { parts: Default::default(), log, hook, log_at: AtomicU64::new(0) }
    }

    /// Adds to the sums what was found, and says so.
    #[cold]
    pub(crate) fn add(&self, found: &Found, now: u64) {
        let mut sums = self.parts[thread_slot() % PARTS].lock();
        sums.count += found.count;
        sums.time = sums.time.saturating_add(found.time);
        sums.longest = sums.longest.max(found.longest);
        let parts = &found.parts.0;
        let largest = (0..parts.len()).max_by_key(|&place| parts[place].nanos);
        let mut left = found.time;
        for (place, part) in parts.iter().enumerate() {
            let mut key = (part.cause, Key::from(&part.culprit));
            let mut culprit = part.culprit.clone();
            if sums.rows.len() >= ROWS && !sums.rows.contains_key(&key) {
                (key.1, culprit) = (Key::Nobody, Culprit::Nobody);
            }
            let new = Row { cause: part.cause, culprit, count: 0, mainly: 0, time: 0 };
            let row = sums.rows.entry(key).or_insert(new);
            row.count += found.count;
            row.mainly += if largest == Some(place) { found.count } else { 0 };
            // Each of them counts with its own lateness, in the proportions of the first. What
            // rounding leaves goes to the last, so that the rows add up.
            let own = match place + 1 == parts.len() {
                true => left,
                false => portion(part.nanos, found.time, found.late).min(left),
            };
            row.time = row.time.saturating_add(own);
            left -= own;
        }
        drop(sums);
        self.tell(found, now);
    }

    fn tell(&self, found: &Found, now: u64) {
        // Relaxed: at worst two threads write a line each.
        let logs = self.log_at.load(Ordering::Relaxed) <= now;
        if !logs && self.hook.is_none() {
            return;
        }
        let Some(who) = found.who.named() else { return };
        let lateness = Duration::from_nanos(found.late);
        let mut shares: Vec<_> = found.parts.0.iter().map(Part::share).collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.time));
        let late = Late { who: &who, lateness, count: found.count, shares: &shares };
        if logs {
            self.log_at.store(now.saturating_add(PAUSE), Ordering::Relaxed);
            quietly(|| (self.log)(&late));
        }
        if let Some(hook) = &self.hook {
            quietly(|| hook(&late));
        }
    }

    pub(crate) fn all(&self) -> Sum {
        let mut all = Sum::default();
        for part in &self.parts {
            let part = part.lock();
            all.count += part.count;
            all.time = all.time.saturating_add(part.time);
            all.longest = all.longest.max(part.longest);
            all.rows.extend(part.rows.values().cloned());
        }
        all
    }

    /// The last reference to the scheduler may be dropped where a panic would do harm.
    pub(crate) fn drop_hook(&mut self) {
        quietly(|| drop(self.hook.take()));
    }
}

/// For tasks.
fn log(late: &Late<'_>) {
    let Late { who, lateness, count, .. } = late;
    let because = late.because();
    tracing::warn!(target: "lars_scheduler", %who, ?lateness, count, %because, "began late");
}

impl Part {
    fn share(&self) -> LateShare {
        let (cause, culprit) = (self.cause, self.culprit.named());
        LateShare { cause, culprit, time: Duration::from_nanos(self.nanos) }
    }
}

impl Culprit {
    pub(crate) fn named(&self) -> Option<Who> {
        match self {
            Self::Task(whose) => Some(Who::Task(whose.identity())),
            Self::Who(who) => Some(who.clone()),
            Self::Nobody => None,
        }
    }
}

/// The largest shares, for a line of the log.
struct Shares<'a>(&'a [LateShare]);

impl fmt::Display for Shares<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, share) in self.0.iter().take(3).enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{:.1?}: {}", share.time, share.cause.as_str())?;
            if let Some(culprit) = &share.culprit {
                write!(f, " ({culprit})")?;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(lars_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_late_task_counts_from_the_end_of_its_own_tick_and_the_window() {
        const NOW: u64 = 1_000_000;
        let tick = Tick::new(Duration::from_nanos(1_000)).unwrap();
        let late = Lateness::new(5_000, tick, 300, None);
        // Of one tick, of others before and after it, on its ends, and some that are not late.
        let deadlines = [
            400_100, 400_999, 401_000, 400_000, 900_000, 7, 0, 993_700, 993_701, 994_000, 994_001,
            994_701, NOW,
        ];
        let promised = deadlines.map(|at| NOW.saturating_sub(late.promised(at)));
        let expected: Vec<_> = promised.into_iter().filter(|&by| by > 5_000).collect();
        assert_eq!(expected.len(), 10);
        let mut found = Found::explained(Culprit::Nobody, 1, Parts::default());
        late.count(NOW, deadlines.into_iter().map(|at| NOW - at), &mut found);
        assert_eq!(found.count, expected.len() as u64);
        assert_eq!(found.time, expected.iter().sum());
        assert_eq!(found.longest, NOW - 300);
    }
}
