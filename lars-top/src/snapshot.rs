//! What a program shows of itself: one value, made by a [`Probe`](crate::Probe), that can be sent.
//!
//! All times are in nanoseconds. Counts begin with the scheduler. So any number of readers can
//! compute rates and intervals from the differences between two snapshots.

mod late;

use serde::{Deserialize, Serialize};

pub use self::late::{Late, LateRow};

/// The version of [`Snapshot`]. A reader refuses others, and says so.
pub const VERSION: u32 = 1;

/// A program at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`VERSION`] of the program that made it.
    pub version: u32,
    /// The name of the program.
    pub program: String,
    /// The number of its process.
    pub pid: u32,
    /// When it was made: time since the probe was.
    pub taken: u64,
    /// The scheduler's counts.
    pub counts: Counts,
    /// How late timers were fired.
    pub lateness: Spread,
    /// Where tasks run.
    pub executor: Executor,
    /// What is pending. `None` until the first listing is complete.
    pub pending: Option<Pending>,
    /// The last tasks that were slow, the newest first, if the probe was given a
    /// [`SlowLog`](crate::SlowLog).
    pub slow: Vec<Slow>,
    /// How long tasks ran, by whose they are, those with most time first; if the scheduler
    /// [records](lars_scheduler::Builder::record_run_times) that.
    #[serde(default)] // programs of earlier releases do not say
    pub run_times: Vec<RunTime>,
    /// Why tasks began late, if the scheduler
    /// [explains](lars_scheduler::Builder::explain_late) that.
    #[serde(default)] // programs of earlier releases do not say
    pub late: Option<Late>,
    /// Why runs of durable timers began late, if the probe was given
    /// [their table](crate::Probe::late_runs), and the node explains that.
    #[serde(default)] // programs of earlier releases do not say
    pub late_runs: Option<Late>,
    /// Which threads backpressure made wait, those that waited for longest first.
    #[serde(default)] // programs of earlier releases do not say
    pub waits: Vec<ThreadWaits>,
    /// The actors, if the probe was given a system.
    pub actors: Option<Actors>,
    /// The threads of the process, the oldest first, at most 1,024; on Linux only.
    pub threads: Vec<Thread>,
    /// How many threads there are beside these.
    #[serde(default)] // programs of earlier releases do not say
    pub more_threads: u64,
}

/// The counts of a scheduler; see [`Metrics`](lars_scheduler::Metrics).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Timers accepted.
    pub scheduled: u64,
    /// Timers that expired.
    pub fired: u64,
    /// Timers cancelled.
    pub cancelled: u64,
    /// Timers handed back by a stop.
    pub handed_back: u64,
    /// Timers that wait.
    pub pending: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Calls that backpressure made wait.
    #[serde(default)] // programs of earlier releases do not say
    pub backpressure_waits: u64,
    /// For how long those calls waited, in all.
    #[serde(default)] // programs of earlier releases do not say
    pub backpressure_waited: u64,
    /// Panics contained.
    pub panicked: u64,
    /// Tasks that their executor rejected.
    pub rejected: u64,
    /// Tasks that their executor dropped.
    pub abandoned: u64,
    /// Tasks that ran for too long.
    pub slow: u64,
    /// How often the pool was stalled.
    pub pool_stalls: u64,
    /// Timers that were due and waited for room in the queue of the pool.
    #[serde(default)] // programs of earlier releases do not say
    pub held_for_pool: u64,
    /// Wake-ups of the timer thread.
    pub wake_ups: u64,
    /// Bytes held for timers.
    pub timer_memory: u64,
    /// The length of a tick.
    pub tick: u64,
    /// Whether the scheduler was stopped.
    pub stopped: bool,
}

/// What the threads of one name waited in their calls; see
/// [`ThreadWaits`](lars_scheduler::metrics::ThreadWaits).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadWaits {
    /// The name of the threads; empty if they have none.
    pub thread: String,
    /// How many of them wait now.
    pub waiting: u64,
    /// How often a call waited.
    pub waits: u64,
    /// For how long in all.
    pub waited: u64,
}

/// The distribution of durations since the scheduler was built.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// The longest.
    pub max: u64,
    /// How many there are from each value up to the next: eight values for each power of two. Empty
    /// ones are left out.
    pub buckets: Vec<(u64, u64)>,
}

/// The scheduler's pool, and what tasks met on executors; see
/// [`PoolMetrics`](lars_scheduler::metrics::PoolMetrics).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Executor {
    /// The threads of the pool.
    pub threads: u64,
    /// Tasks that run on it.
    pub running: u64,
    /// Tasks that wait for a thread of it.
    pub queued: u64,
    /// How long tasks waited for a thread, on this pool or another executor.
    pub queue_time: Spread,
    /// How long all tasks together have run there.
    pub run_time: u64,
}

/// What is pending, by a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pending {
    /// How long ago the listing was complete.
    pub age: u64,
    /// How long it took.
    pub took: u64,
    /// How many timers it has.
    pub timers: u64,
    /// How many it could not look at.
    pub unseen: u64,
    /// Where in the wheel they are, from the lowest level up.
    pub levels: Vec<Level>,
    /// The timers by identity, the largest groups first.
    pub groups: Vec<Group>,
    /// How many smaller groups there are beside these.
    pub more_groups: u64,
    /// Those that are due next.
    pub next: Vec<Timer>,
}

/// A level of the wheel; see [`WheelLevel`](lars_scheduler::listing::WheelLevel).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Level {
    /// How much time a slot spans.
    pub span: u64,
    /// How many timers belong into each.
    pub slots: Vec<u64>,
    /// The slot of the present.
    pub hand: usize,
}

/// Timers of one name or type, from one place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Group {
    /// The name, or the type.
    pub label: String,
    /// The place of the call that scheduled them.
    pub place: String,
    /// How many.
    pub count: u64,
    /// How long until the first of them is due. `None` if never.
    pub first_due: Option<u64>,
}

/// One timer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timer {
    /// The name, or the type.
    pub label: String,
    /// The place of the call that scheduled it.
    pub place: String,
    /// Whether it belongs to a repeat.
    pub repeat: bool,
    /// How long until it is due. `None` if never.
    pub remaining: Option<u64>,
}

/// A task that ran for too long; see [`SlowTask`](lars_scheduler::hooks::SlowTask).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slow {
    /// How long ago it ended.
    pub age: u64,
    /// The name, or the type.
    pub label: String,
    /// The place of the call that scheduled it.
    pub place: String,
    /// Whether it ran on the timer thread, where it held up all others.
    pub on_timer_thread: bool,
    /// How late it began.
    pub lateness: u64,
    /// How long it ran.
    pub run_time: u64,
    /// How many other tasks may have been the slow one instead.
    pub others: u64,
}

/// How long tasks of one name or type, from one place, ran; see
/// [`RunTime`](lars_scheduler::metrics::RunTime).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunTime {
    /// The name, or the type.
    pub label: String,
    /// The place of the call that scheduled them.
    pub place: String,
    /// How many have run.
    pub runs: u64,
    /// How long all of them took together.
    pub total: u64,
    /// How long the longest took.
    pub longest: u64,
}

/// A system of actors.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Actors {
    /// The name of the system.
    pub system: String,
    /// Actors that live.
    pub alive: u64,
    /// Actors that have stopped.
    pub stopped: u64,
    /// Messages received.
    pub processed: u64,
    /// Panics contained.
    pub panicked: u64,
    /// Restarts.
    pub restarts: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Messages whose handler ran for too long.
    #[serde(default)] // programs of earlier releases do not say
    pub slow_receives: u64,
    /// The actors with the deepest mailboxes, the deepest first.
    pub busiest: Vec<Actor>,
    /// How long ago these were looked at.
    pub age: u64,
    /// The last dead letters, the newest first.
    pub letters: Vec<Letter>,
    /// Why timers' messages were received late, if the system
    /// [explains](mini_actor::Builder::explain_late) that.
    #[serde(default)] // programs of earlier releases do not say
    pub late: Option<Late>,
}

/// One actor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Actor {
    /// Its path.
    pub path: String,
    /// Messages that wait.
    pub depth: u64,
    /// Messages received.
    pub processed: u64,
    /// Restarts.
    pub restarts: u64,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Letter {
    /// How long ago.
    pub age: u64,
    /// The path of the recipient.
    pub recipient: String,
    /// Its type.
    pub message: String,
    /// Why it was not received.
    pub reason: String,
}

/// A thread of the process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Its number in the system.
    pub id: u64,
    /// How long it has had a processor.
    pub ran: u64,
    /// How long it has waited for one, although it could have run.
    pub waited: u64,
}

/// The bucket of a duration.
fn bucket_of(nanos: u64) -> u64 {
    let shift = (61 - i64::from(nanos.leading_zeros())).max(0) as u32;
    let shift = shift.saturating_sub(1);
    (nanos >> shift) << shift
}

/// The value at which the bucket that begins here ends.
fn end_of(least: u64) -> u64 {
    let shift = (61 - i64::from(least.leading_zeros())).max(0) as u32;
    least.saturating_add(1 << shift.saturating_sub(1))
}

impl Spread {
    pub(crate) fn new(max: u64, values: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        // In the order of the values.
        for (value, count) in values {
            let least = bucket_of(value);
            match buckets.last_mut() {
                Some(last) if last.0 == least => last.1 += count,
                _ => buckets.push((least, count)),
            }
        }
        Self { max, buckets }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |all: u64, (_, count)| all.saturating_add(*count))
    }

    /// Those that came after an earlier snapshot was made. The maximum of an interval is that of
    /// its last bucket, or exact if it is a new one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |least: u64| {
            let found = earlier.buckets.binary_search_by_key(&least, |bucket| bucket.0);
            found.map_or(0, |found| earlier.buckets[found].1)
        };
        let more =
            self.buckets.iter().map(|&(least, all)| (least, all.saturating_sub(before(least))));
        let buckets: Vec<_> = more.filter(|(_, count)| *count > 0).collect();
        let max = match buckets.last() {
            None => 0,
            Some(_) if self.max > earlier.max => self.max,
            Some((least, _)) => end_of(*least).min(self.max),
        };
        Self { max, buckets }
    }

    /// The duration that a share of them does not exceed, from 0 to 1; to within an eighth. Zero if
    /// there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen: u64 = 0;
        for (least, count) in &self.buckets {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                return end_of(*least).min(self.max);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_an_eighth_wide_at_most() {
        let mut least = 0;
        for _ in 0..400 {
            assert_eq!(bucket_of(least), least);
            let end = end_of(least);
            assert_eq!(bucket_of(end - 1), least);
            assert!(end - least <= (least / 8).max(1), "{least} {end}");
            least = end;
        }
        assert_eq!(bucket_of(bucket_of(u64::MAX)), bucket_of(u64::MAX));
        assert_eq!(end_of(bucket_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn an_interval_has_what_came_in_it() {
        let first = Spread::new(900, [(10, 5), (800, 1)].into_iter());
        let second = Spread::new(900, [(10, 5), (100, 98), (400, 1), (800, 2)].into_iter());
        let interval = second.since(&first);
        assert_eq!(interval.count(), 100);
        assert!((100..=112).contains(&interval.quantile(0.5)), "{}", interval.quantile(0.5));
        assert!((400..=450).contains(&interval.quantile(0.99)), "{}", interval.quantile(0.99));
        assert!((800..=900).contains(&interval.max));
        let nothing = second.since(&second);
        assert_eq!((nothing.count(), nothing.max, nothing.quantile(0.5)), (0, 0, 0));
    }
}
