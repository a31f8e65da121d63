//! What closing a system does, and its report.

use std::fmt;
use std::time::Duration;

use crate::sync::Arc;

/// What [`ActorSystem::close`](crate::ActorSystem::close) does with messages that are scheduled and
/// not due, by [`Scheduler`](crate::Scheduler).
///
/// Periodic sends end in any case, and so do the actors' own timers and receive timeouts: those are
/// never sent before their time. A closure that was put on
/// [`Scheduler::timers`](crate::Scheduler::timers) is treated like a scheduled message if it is
/// marked with [`run_on_close`](lars_scheduler::Task::run_on_close) (a repeat that is marked runs
/// once more); others are dropped.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::{ActorSystem, ClosePolicy};
/// use std::time::Duration;
///
/// let policies = [ClosePolicy::SendPending, ClosePolicy::DropPending];
/// for (policy, received) in policies.into_iter().zip([Some(7), None]) {
///     let kit = ActorSystem::builder("test").close_policy(policy).build_virtual()?;
///     let probe = kit.probe::<u32>("probe");
///     let _ = kit.scheduler().schedule_once(Duration::from_secs(3600), probe.actor(), 7)?;
///     kit.close()?;
///     assert_eq!(probe.try_message(), received);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ClosePolicy {
    /// Sends them now, earliest deadline first.
    #[default]
    SendPending,
    /// Drops them.
    DropPending,
}

/// What closing a system did.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
/// use std::time::Duration;
///
/// let kit = TestKit::new("test")?;
/// let probe = kit.probe::<u32>("probe");
/// let minute = Duration::from_secs(60);
/// probe.actor().tell(1)?;
/// let _ = kit.scheduler().schedule_once(minute, probe.actor(), 2)?;
/// let _ = kit.scheduler().schedule_at_fixed_rate(minute, minute, probe.actor(), 3)?;
///
/// let report = kit.close()?;
/// assert!(report.is_complete());
/// assert_eq!((report.sent, report.dropped, report.repeats_ended), (1, 0, 1));
/// assert_eq!((report.received, report.undelivered, report.actors_stopped), (2, 0, 1));
/// println!("{report}");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Scheduled messages that were sent before their time.
    pub sent: usize,
    /// Scheduled messages that were dropped, because of the policy.
    pub dropped: usize,
    /// Periodic sends that ended.
    pub repeats_ended: usize,
    /// Other timers that ended: those of actors, also of those started when the scheduler had
    /// stopped already, and of questions, and closures.
    pub timers_ended: usize,
    /// Messages received since closing began, without those that were being received at that
    /// moment.
    pub received: u64,
    /// Messages that became dead letters since closing began.
    pub undelivered: u64,
    /// Actors that were alive when closing began and have stopped.
    pub actors_stopped: usize,
    /// The paths of those that have not, sorted.
    pub running: Vec<Arc<str>>,
    /// Threads of the system that have not ended, because of an actor, or of a closure or future
    /// that is running. (Those of pinned actors end with them and are not counted.)
    pub threads: usize,
    /// Whether the system's own scheduler has handed back its timers, and they have been seen to.
    /// False while a task occupies its thread, or while scheduled messages are still being sent.
    /// True if the system does not own the scheduler.
    pub scheduler_stopped: bool,
    /// Dead letters in the whole life of the system.
    pub dead_letters: u64,
}

impl CloseReport {
    /// Whether everything has stopped.
    pub fn is_complete(&self) -> bool {
        self.running.is_empty() && self.threads == 0 && self.scheduler_stopped
    }
}

impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, dropped, repeats_ended, timers_ended, received, undelivered, .. } = self;
        let (stopped, running, letters) =
            (self.actors_stopped, self.running.len(), self.dead_letters);
        write!(
            f,
            "scheduled messages sent: {sent}, dropped: {dropped}, repeats ended: {repeats_ended}, \
             timers ended: {timers_ended}; received: {received}, undelivered: {undelivered}; \
             actors stopped: {stopped}, running: {running}; dead letters: {letters}"
        )?;
        if self.threads > 0 {
            write!(f, "; threads running: {}", self.threads)?;
        }
        if !self.scheduler_stopped {
            f.write_str("; the scheduler has not stopped")?;
        }
        Ok(())
    }
}

/// The system was not closed completely in time. It accepts nothing more, and closing goes on by
/// itself.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::{Actor, ActorSystem, Context};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// struct Slow(mpsc::Receiver<()>);
///
/// impl Actor for Slow {
///     type Message = ();
///     fn receive(&mut self, (): (), _: &mut Context<Self>) {
///         let _ = self.0.recv();
///     }
/// }
///
/// let limit = Duration::from_millis(10);
/// let system = ActorSystem::builder("demo").shutdown_timeout(limit).build()?;
/// let (go_on, signal) = mpsc::channel();
/// system.spawn("slow", || Slow(signal))?.tell(())?;
/// let error = system.close().unwrap_err();
/// assert_eq!((error.limit, &*error.report.running[0]), (limit, "/slow"));
///
/// go_on.send(())?; // closing goes on, and can be waited for
/// assert!(system.close_within(Duration::from_secs(60)).is_complete());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not closed within {limit:?}: {report}")]
#[non_exhaustive]
pub struct CloseError {
    /// What has been done so far. The report of the next close includes it.
    pub report: CloseReport,
    /// How long it took.
    pub limit: Duration,
}
