//! What began late and why, in a table.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use crate::api::handle::Handle;
use crate::base::late::Cause;
use crate::base::late::parts::Who;
use crate::base::late::report::Sum;

/// What began late and why, by cause and culprit. From [`Handle::lateness`] for tasks.
///
/// The rows add up to [`total`](Self::total). Its `Display` is a table of the largest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lateness {
    /// How late something has to be to be in it. `None` if nobody watches.
    pub bound: Option<Duration>,
    /// How many began late by more than the bound.
    pub count: u64,
    /// How late all of them were together.
    pub total: Duration,
    /// How late the latest was, since the beginning.
    pub longest: Duration,
    /// What they waited for. The longest comes first.
    pub rows: Vec<LateRow>,
}

/// What those that were late waited for, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LateRow {
    /// Why.
    pub cause: Cause,
    /// Who was at fault, if it can be named.
    pub culprit: Option<Who>,
    /// For how many this is a reason, among others.
    pub count: u64,
    /// For how many it is the largest one. Over all rows they add up to [`Lateness::count`].
    pub mainly: u64,
    /// For how long, all of them together.
    pub time: Duration,
}

/// What those that were late waited for, for one cause, whoever was at fault. From
/// [`Lateness::by_cause`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LateCause {
    /// Why.
    pub cause: Cause,
    /// For how many it is the largest one. Over all causes they add up to [`Lateness::count`].
    pub mainly: u64,
    /// For how long, all of them together.
    pub time: Duration,
}

type Key = (Cause, Option<Who>);

impl LateRow {
    fn key(&self) -> Key {
        (self.cause, self.culprit.clone())
    }
}

impl Lateness {
    pub(crate) fn of(bound: u64, sum: Sum) -> Self {
        let mut rows: HashMap<Key, LateRow> = HashMap::new();
        for row in sum.rows {
            let (cause, culprit) = (row.cause, row.culprit.named());
            let new = LateRow { cause, culprit, count: 0, mainly: 0, time: Duration::ZERO };
            let all = rows.entry(new.key()).or_insert(new);
            all.count += row.count;
            all.mainly += row.mainly;
            all.time = all.time.saturating_add(Duration::from_nanos(row.time));
        }
        Self {
            bound: Some(Duration::from_nanos(bound)),
            count: sum.count,
            total: Duration::from_nanos(sum.time),
            longest: Duration::from_nanos(sum.longest),
            rows: sorted(rows.into_values().collect()),
        }
    }

    /// What has been late since `earlier`, which the same system gave before.
    pub fn since(&self, earlier: &Self) -> Self {
        let before: HashMap<Key, &LateRow> =
            earlier.rows.iter().map(|row| (row.key(), row)).collect();
        let grown = |row: &LateRow| {
            let mut row = row.clone();
            if let Some(before) = before.get(&row.key()) {
                row.count = row.count.saturating_sub(before.count);
                row.mainly = row.mainly.saturating_sub(before.mainly);
                row.time = row.time.saturating_sub(before.time);
            }
            row
        };
        let rows = self.rows.iter().map(grown).filter(|row| row.count > 0).collect();
        Self {
            bound: self.bound,
            count: self.count.saturating_sub(earlier.count),
            total: self.total.saturating_sub(earlier.total),
            longest: self.longest,
            rows: sorted(rows),
        }
    }

    /// The rows added up by cause, in the order in which [`Cause`] declares them. Those of `always`
    /// are in it even if they made nothing late, for counters that begin with zero. Empty if nobody
    /// watches.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use lars_scheduler::late::Cause;
    /// use std::time::Duration;
    ///
    /// let builder = LightArrayRevolverScheduler::builder();
    /// let scheduler = builder.explain_late(Duration::from_millis(5)).build()?;
    /// let late = scheduler.lateness();
    /// let causes = late.by_cause(&[Cause::InlineTask, Cause::PoolBusy]);
    /// for it in &causes {
    ///     println!("{} of {}: {}", it.mainly, late.count, it.cause.as_str());
    /// }
    /// assert_eq!(causes[0].cause, Cause::InlineTask);
    /// assert_eq!(causes.iter().map(|it| it.mainly).sum::<u64>(), late.count);
    /// assert_eq!(causes.iter().map(|it| it.time).sum::<Duration>(), late.total);
    /// # Ok(()) }
    /// ```
    pub fn by_cause(&self, always: &[Cause]) -> Vec<LateCause> {
        let always = always.iter().filter(|_| self.bound.is_some());
        let none = |cause| LateCause { cause, mainly: 0, time: Duration::ZERO };
        let mut causes: BTreeMap<_, _> = always.map(|&cause| (cause, none(cause))).collect();
        for row in &self.rows {
            let sum = causes.entry(row.cause).or_insert_with_key(|&cause| none(cause));
            sum.mainly += row.mainly;
            sum.time = sum.time.saturating_add(row.time);
        }
        causes.into_values().collect()
    }
}

fn sorted(mut rows: Vec<LateRow>) -> Vec<LateRow> {
    rows.sort_by(|one, other| other.time.cmp(&one.time).then_with(|| one.cause.cmp(&other.cause)));
    rows
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, total, longest, rows, .. } = self;
        writeln!(f, "{count} began late, {total:.1?} in all, the latest by {longest:.1?}")?;
        for row in rows.iter().take(10) {
            let percent = 100.0 * row.time.as_secs_f64() / total.as_secs_f64().max(f64::EPSILON);
            if percent < 0.05 {
                break; // those that follow are no larger
            }
            write!(f, "{percent:5.1} %  {}", row.cause.as_str())?;
            match &row.culprit {
                Some(culprit) => writeln!(f, ": {culprit}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

impl Handle {
    /// Why tasks began late, since the scheduler was built, by cause and culprit. Empty unless
    /// [`Builder::explain_late`](crate::Builder::explain_late) is on.
    ///
    /// For an interval, take [the difference](Lateness::since) of two. Takes no lock that is held
    /// for long.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    /// use std::time::Duration;
    ///
    /// let builder = LightArrayRevolverScheduler::builder();
    /// let scheduler = builder.explain_late(Duration::from_millis(5)).build()?;
    /// let an_hour_ago = scheduler.lateness();
    /// print!("{}", scheduler.lateness().since(&an_hour_ago));
    /// # Ok(()) }
    /// ```
    pub fn lateness(&self) -> Lateness {
        let late = self.core().reporter.late.as_ref();
        late.map(|late| Lateness::of(late.bound, late.record.all())).unwrap_or_default()
    }
}
