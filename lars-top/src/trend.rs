//! What happened between snapshots: rates, and how late timers were in the last seconds.
//!
//! A [`Trend`] is given one snapshot after the other. Times are in nanoseconds.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::snapshot::{Counts, Late, Snapshot, Spread};
use crate::text::span;

/// How far back it goes unless it is said.
const KEPT: Duration = Duration::from_secs(120);
pub(crate) const WINDOW: u64 = 10_000_000_000;
/// The most moments kept, however often snapshots come.
const MOST: usize = 1_200;

/// One moment, without what only the last snapshot needs.
#[derive(Debug)]
struct Point {
    taken: u64,
    counts: Counts,
    lateness: Spread,
    queue_time: Spread,
    /// Only if it may be asked for: it is large.
    late: Option<Late>,
    /// That of the actors; only if it may be asked for, too.
    late_messages: Option<Late>,
    /// That of durable runs; so, too.
    late_runs: Option<Late>,
    run_time: u64,
    /// Messages received by actors, and dead letters.
    messages: (u64, u64),
    /// What each thread got.
    threads: HashMap<u64, (u64, u64)>,
}

/// Rates a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Timers accepted.
    pub scheduled: f64,
    /// Timers that expired.
    pub fired: f64,
    /// Timers cancelled.
    pub cancelled: f64,
    /// Wake-ups of the timer thread.
    pub wake_ups: f64,
    /// Messages received by actors.
    pub messages: f64,
    /// Dead letters.
    pub dead_letters: f64,
    /// How many threads were busy with tasks.
    pub busy: f64,
    /// How many threads backpressure made wait.
    pub held_back: f64,
}

/// The time between a snapshot and the one before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// When the later one was [taken](Snapshot::taken).
    pub taken: u64,
    /// What happened a second.
    pub rates: Rates,
    /// How late timers were that were fired meanwhile.
    pub lateness: Spread,
}

/// The last snapshot, and what led to it: by default in the last two minutes, and at most 1,200
/// snapshots.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_top::Probe;
/// use lars_top::trend::Trend;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let (probe, mut trend) = (Probe::new(scheduler.handle()), Trend::default());
/// for _ in 0..2 {
///     trend.add(Box::new(probe.snapshot()));
/// }
/// assert_eq!((trend.rates().fired, trend.moments().count()), (0.0, 1));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Trend {
    kept: u64,
    last: Option<Box<Snapshot>>,
    points: VecDeque<Point>,
}

impl Default for Trend {
    fn default() -> Self {
        Self::keeping(KEPT)
    }
}

impl Trend {
    /// One that goes back so far.
    pub fn keeping(time: Duration) -> Self {
        let kept = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self { kept, last: None, points: VecDeque::new() }
    }

    /// Takes the next snapshot. One of another program, or another probe, begins anew.
    pub fn add(&mut self, snapshot: Box<Snapshot>) {
        let same = |last: &Snapshot| last.pid == snapshot.pid && last.taken < snapshot.taken;
        if !self.last.as_deref().is_some_and(same) {
            // Another program, or another probe.
            self.points.clear();
        }
        let actors = snapshot.actors.as_ref();
        let threads = snapshot.threads.iter();
        self.points.push_back(Point {
            taken: snapshot.taken,
            counts: snapshot.counts.clone(),
            lateness: snapshot.lateness.clone(),
            queue_time: snapshot.executor.queue_time.clone(),
            late: snapshot.late.clone(),
            late_messages: actors.and_then(|it| it.late.clone()),
            late_runs: snapshot.late_runs.clone(),
            run_time: snapshot.executor.run_time,
            messages: actors.map(|it| (it.processed, it.dead_letters)).unwrap_or_default(),
            threads: threads.map(|thread| (thread.id, (thread.ran, thread.waited))).collect(),
        });
        while self.points.len() > MOST
            || self
                .points
                .front()
                .is_some_and(|first| first.taken.saturating_add(self.kept) < snapshot.taken)
        {
            self.points.pop_front();
        }
        // An interval begins in the window, or with the snapshot before the last.
        let earlier = self.points.len().saturating_sub(2);
        for point in self.points.iter_mut().take(earlier) {
            if point.taken.saturating_add(WINDOW) < snapshot.taken {
                (point.late, point.late_messages, point.late_runs) = (None, None, None);
            }
        }
        self.last = Some(snapshot);
    }

    /// The last snapshot.
    pub fn last(&self) -> Option<&Snapshot> {
        self.last.as_deref()
    }

    /// Between the last two snapshots; zeros if there are not two yet.
    pub fn rates(&self) -> Rates {
        let points = self.points.len();
        match (points.checked_sub(2), points.checked_sub(1)) {
            (Some(before), Some(last)) => rates(&self.points[before], &self.points[last]),
            _ => Rates::default(),
        }
    }

    /// The times between its snapshots, the oldest first.
    pub fn moments(&self) -> impl Iterator<Item = Moment> + '_ {
        self.pairs().map(|(before, after)| Moment {
            taken: after.taken,
            rates: rates(before, after),
            lateness: after.lateness.since(&before.lateness),
        })
    }

    /// One of the rates, the oldest first.
    pub(crate) fn history(&self, of: impl Fn(&Rates) -> f64) -> Vec<u64> {
        self.pairs().map(|(before, after)| of(&rates(before, after)).round() as u64).collect()
    }

    fn pairs(&self) -> impl Iterator<Item = (&Point, &Point)> {
        self.points.iter().zip(self.points.iter().skip(1))
    }

    /// How late timers were that were fired in [recent](Self::recent) times.
    pub fn lateness(&self) -> Spread {
        self.of_recent(|point| &point.lateness)
    }

    /// How long tasks waited for a thread, in the same time.
    pub fn queue_time(&self) -> Spread {
        self.of_recent(|point| &point.queue_time)
    }

    /// Why tasks were late that began in the same time. `None` if the scheduler does not say, or
    /// before there are two snapshots.
    pub fn late(&self) -> Option<Late> {
        self.late_of(|point| point.late.as_ref())
    }

    /// Why timers' messages were late that were received in the same time. `None` if there are no
    /// actors, or if they do not say, or before there are two snapshots.
    pub fn late_messages(&self) -> Option<Late> {
        self.late_of(|point| point.late_messages.as_ref())
    }

    /// Why durable runs were late that began in the same time. `None` if no node says it, or before
    /// there are two snapshots.
    pub fn late_runs(&self) -> Option<Late> {
        self.late_of(|point| point.late_runs.as_ref())
    }

    fn late_of(&self, of: impl Fn(&Point) -> Option<&Late>) -> Option<Late> {
        let (first, last) = self.recent_points()?;
        Some(of(last)?.since(of(first?)?))
    }

    /// What that time is, for a title: ten seconds, or as long as there are snapshots. Without one
    /// of the last ten seconds, after a pause, it begins with the one before.
    pub fn recent(&self) -> String {
        match self.recent_points() {
            Some((Some(first), last)) => format!("last {}", span(last.taken - first.taken)),
            _ => "since the start".to_owned(),
        }
    }

    fn of_recent(&self, of: impl Fn(&Point) -> &Spread) -> Spread {
        match self.recent_points() {
            Some((Some(first), last)) => of(last).since(of(first)),
            Some((None, only)) => of(only).clone(),
            None => Spread::default(),
        }
    }

    /// The first and the last; no first if there is one only.
    fn recent_points(&self) -> Option<(Option<&Point>, &Point)> {
        let last = self.points.back()?;
        let earlier = self.points.len() - 1;
        let within = |point: &&Point| point.taken.saturating_add(WINDOW) >= last.taken;
        let first = self.points.iter().take(earlier).find(within);
        let first = first.or_else(|| self.points.get(earlier.checked_sub(1)?));
        Some((first, last))
    }

    /// The shares of the time between the last two snapshots in which a thread ran, and waited for
    /// a processor. `None` if it was not in both.
    pub fn shares(&self, thread: u64) -> Option<(f64, f64)> {
        let (before, last) = (self.points.len().checked_sub(2)?, self.points.back()?);
        let before = &self.points[before];
        let (ran, waited) = (before.threads.get(&thread)?, last.threads.get(&thread)?);
        let time = (last.taken - before.taken) as f64;
        let share = |more: u64, less: u64| more.saturating_sub(less) as f64 / time;
        Some((share(waited.0, ran.0), share(waited.1, ran.1)))
    }
}

fn rates(before: &Point, after: &Point) -> Rates {
    let seconds = (after.taken - before.taken).max(1) as f64 / 1e9;
    let rate = |of: fn(&Point) -> u64| of(after).saturating_sub(of(before)) as f64 / seconds;
    Rates {
        scheduled: rate(|point| point.counts.scheduled),
        fired: rate(|point| point.counts.fired),
        cancelled: rate(|point| point.counts.cancelled),
        wake_ups: rate(|point| point.counts.wake_ups),
        messages: rate(|point| point.messages.0),
        dead_letters: rate(|point| point.messages.1),
        busy: rate(|point| point.run_time) / 1e9,
        held_back: rate(|point| point.counts.backpressure_waited) / 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Actors, LateRow};

    fn at(taken: u64, fired: u64, pid: u32) -> Box<Snapshot> {
        let counts = Counts { fired, ..Counts::default() };
        let lateness = Spread::new(1_000, [(1_000, fired)].into_iter());
        Box::new(Snapshot {
            taken: taken * 1_000_000_000,
            counts,
            lateness,
            late: Some(late(fired)),
            late_runs: Some(late(3 * fired)),
            actors: Some(Actors { late: Some(late(2 * fired)), ..Actors::default() }),
            pid,
            ..Snapshot::default()
        })
    }

    /// Each that was fired was late, for a nanosecond.
    fn late(count: u64) -> Late {
        let row = LateRow { count, time: count, ..LateRow::default() };
        Late { count, total: count, rows: vec![row], ..Late::default() }
    }

    #[test]
    fn rates_are_of_the_time_that_has_really_passed() {
        let mut trend = Trend::default();
        assert_eq!(trend.rates(), Rates::default());
        trend.add(at(1, 100, 7));
        assert_eq!((trend.rates().fired, trend.lateness().count()), (0.0, 100));
        trend.add(at(3, 200, 7));
        assert_eq!((trend.rates().fired, trend.lateness().count()), (50.0, 100));
        for second in 4..300 {
            trend.add(at(second, second * 10 + 1_000, 7));
        }
        assert_eq!((trend.rates().fired, &*trend.recent()), (10.0, "last 10 s"));
        assert_eq!(trend.lateness().count(), 100);
        assert_eq!(trend.history(|rates| rates.fired).len(), 120);
        let moments: Vec<_> = trend.moments().collect();
        assert_eq!((moments.len(), moments[119].taken), (120, 299_000_000_000));
        assert!(moments.iter().all(|it| it.rates.fired == 10.0 && it.lateness.count() == 10));
    }

    #[test]
    fn the_time_of_the_lateness_is_what_it_is_said_to_be() {
        let mut trend = Trend::default();
        trend.add(at(1, 100, 7));
        assert_eq!((trend.lateness().count(), &*trend.recent()), (100, "since the start"));
        trend.add(at(4, 150, 7));
        assert_eq!((trend.lateness().count(), &*trend.recent()), (50, "last 3 s"));
        // A pause.
        trend.add(at(64, 1_150, 7));
        assert_eq!((trend.lateness().count(), &*trend.recent()), (1_000, "last 1 min 00 s"));
        trend.add(at(66, 1_160, 7));
        assert_eq!((trend.lateness().count(), &*trend.recent()), (10, "last 2 s"));
    }

    #[test]
    fn why_tasks_were_late_is_known_for_the_same_time_and_forgotten_before_it() {
        let mut trend = Trend::default();
        assert_eq!(trend.late(), None);
        // What there is since the start is in the snapshot.
        trend.add(at(1, 100, 7));
        assert_eq!([trend.late(), trend.late_messages(), trend.late_runs()], [None, None, None]);
        for (second, fired, recent) in
            [(4, 150, 50), (64, 1_150, 1_000), (66, 1_160, 10), (90, 1_190, 30)]
        {
            trend.add(at(second, fired, 7));
            assert_eq!(trend.late(), Some(late(recent)), "at {second} s");
            assert_eq!(trend.late().unwrap().count, trend.lateness().count());
            assert_eq!(trend.late_messages(), Some(late(2 * recent)), "at {second} s");
            assert_eq!(trend.late_runs(), Some(late(3 * recent)), "at {second} s");
        }
        for step in 0..100 {
            trend.add(at(91 + step, 1_200 + step, 7));
        }
        assert_eq!(trend.late(), Some(late(10)));
        let points = trend.points.iter();
        let late = |point: &Point| {
            [&point.late, &point.late_messages, &point.late_runs].map(Option::is_some)
        };
        let (kept, forgotten): (Vec<_>, Vec<_>) =
            points.map(late).partition(|has| *has == [true; 3]);
        assert_eq!(kept.len(), 11);
        assert!(forgotten.iter().all(|has| *has == [false; 3]), "{forgotten:?}");
        let without = Snapshot { late: None, late_runs: None, actors: None, ..*at(200, 5_000, 7) };
        trend.add(Box::new(without));
        assert_eq!([trend.late(), trend.late_messages(), trend.late_runs()], [None, None, None]);
    }

    #[test]
    fn another_process_begins_anew() {
        let mut trend = Trend::default();
        trend.add(at(5, 1_000_000, 7));
        trend.add(at(6, 10, 8));
        assert_eq!((trend.rates().fired, trend.last().unwrap().counts.fired), (0.0, 10));
        trend.add(at(1, 5, 8));
        assert_eq!(trend.history(|rates| rates.fired).len(), 0);
    }
}
