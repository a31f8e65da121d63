//! Which threads backpressure has made wait.

use std::time::Duration;

use crate::api::handle::Handle;

/// How backpressure has made the threads of one name wait, since the scheduler was built. From
/// [`Handle::waits`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadWaits {
    /// The name of the threads. `None` for those without one, and for those whose names came after
    /// 256 others.
    pub thread: Option<String>,
    /// How many of them wait now.
    pub waiting: u64,
    /// How often a call has waited.
    pub waits: u64,
    /// For how long those calls waited that have ended.
    pub waited: Duration,
}

impl Handle {
    /// Which threads had to wait in their calls, because the timer thread was late and they had
    /// used up their shares ([`Backpressure::Wait`](crate::Backpressure::Wait)). Those that waited
    /// for longest come first. Threads of one name are one row, and threads that never waited are
    /// not in it.
    ///
    /// The sums of all rows are [`Metrics::backpressure_waits`] and
    /// [`Metrics::backpressure_waited`]. A call may ask on any thread. It takes a lock that is held
    /// for some microseconds at most, and that no thread takes when it fires timers.
    ///
    /// [`Metrics::backpressure_waits`]: crate::Metrics::backpressure_waits
    /// [`Metrics::backpressure_waited`]: crate::Metrics::backpressure_waited
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lars_scheduler::LightArrayRevolverScheduler;
    ///
    /// let scheduler = LightArrayRevolverScheduler::new()?;
    /// assert!(scheduler.waits().is_empty(), "nobody has waited");
    /// for it in scheduler.waits().iter().take(10) {
    ///     let thread = it.thread.as_deref().unwrap_or("(without a name)");
    ///     println!("{thread}: {} waits, {:?} in all", it.waits, it.waited);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn waits(&self) -> Vec<ThreadWaits> {
        let all = self.core().pace.waits.all().into_iter();
        let mut all: Vec<_> = all
            .map(|(name, it)| ThreadWaits {
                thread: (!name.is_empty()).then_some(name),
                waiting: it.waiting,
                waits: it.waits,
                waited: Duration::from_nanos(it.waited),
            })
            .collect();
        all.sort_by(|one, other| {
            let key = |it: &ThreadWaits| (it.waited, it.waits);
            key(other).cmp(&key(one)).then_with(|| one.thread.cmp(&other.thread))
        });
        all
    }
}
