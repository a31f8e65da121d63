//! How long tasks ran, by whose they are.

use std::collections::HashMap;
use std::time::Duration;

use crate::api::handle::Handle;
use crate::base::identity::TaskIdentity;

/// How long the tasks of one identity have run so far. From [`Handle::run_times`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunTime {
    /// Whose they are.
    pub identity: TaskIdentity,
    /// How many runs have ended.
    pub runs: u64,
    /// How long all of them took together, in real time.
    pub total: Duration,
    /// How long the longest took.
    pub longest: Duration,
}

impl Handle {
    /// How long tasks have run, by whose they are, since the scheduler was built. Those that took
    /// most time together come first. Empty unless
    /// [`Builder::record_run_times`](crate::Builder::record_run_times) is on.
    ///
    /// A task that runs now is not in it. Takes no lock that is held for long.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::{LightArrayRevolverScheduler, Task};
    /// use std::{thread, time::Duration};
    ///
    /// let scheduler = LightArrayRevolverScheduler::builder().record_run_times(true).build()?;
    /// let reindex = || Task::new(|| thread::sleep(Duration::from_millis(2))).named("reindex");
    /// for _ in 0..3 {
    ///     let _ = scheduler.schedule_once(Duration::ZERO, reindex())?;
    ///     let _ = scheduler.schedule_once(Duration::ZERO, || println!("fast"))?;
    /// }
    /// while scheduler.run_times().iter().map(|it| it.runs).sum::<u64>() < 6 {
    ///     thread::yield_now();
    /// }
    /// let times = scheduler.run_times();
    /// let reindex = times.iter().find(|it| it.identity.name() == Some("reindex")).unwrap();
    /// assert_eq!(reindex.runs, 3);
    /// assert!(reindex.longest >= Duration::from_millis(2));
    /// # Ok(()) }
    /// ```
    pub fn run_times(&self) -> Vec<RunTime> {
        let recorded = self.core().reporter.times.as_ref().map(|times| times.all());
        let mut found: HashMap<TaskIdentity, RunTime> = HashMap::new();
        for ran in recorded.unwrap_or_default() {
            let identity = ran.whose.identity();
            let none = Duration::ZERO;
            let new = RunTime { identity, runs: 0, total: none, longest: none };
            let all = found.entry(identity).or_insert(new);
            all.runs += ran.runs;
            all.total = all.total.saturating_add(Duration::from_nanos(ran.total));
            all.longest = all.longest.max(Duration::from_nanos(ran.longest));
        }
        let mut times: Vec<RunTime> = found.into_values().collect();
        times.sort_by_key(|it| std::cmp::Reverse((it.total, it.runs)));
        times
    }
}
