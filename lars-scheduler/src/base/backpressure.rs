//! What becomes of a call for which the timer thread has no time.

/// What a scheduler does with a thread that schedules faster than the timer thread can fire.
///
/// Each thread has a share of what the timer thread gets done. Only a thread that has used up its
/// share is held back, and only while the timer thread is late or gives no sign of life. So a
/// thread that schedules little never notices that others flood the scheduler. docs/semantics.md
/// has the rule.
///
/// Futures and the runs of a repeat are never held back, nor is the timer thread itself. In virtual
/// time, and where an event loop turns the scheduler
/// ([`Builder::build_driver`](crate::Builder::build_driver)), nobody is.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::{Backpressure, LightArrayRevolverScheduler, Refusal};
/// use std::time::Duration;
///
/// let builder = LightArrayRevolverScheduler::builder();
/// let scheduler = builder.backpressure(Backpressure::Refuse).build()?;
/// match scheduler.schedule_once(Duration::from_secs(1), || println!("in time")) {
///     Ok(_timer) => {}
///     Err(refused) => match refused.into_parts() {
///         (Refusal::Overloaded, task) => task(), // or shed the load
///         (other, _) => return Err(other.into()),
///     },
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Backpressure {
    /// The call sleeps until its thread has earned its share again, for at most a second. Then it
    /// schedules.
    #[default]
    Wait,
    /// The call is refused with [`Refusal::Overloaded`](crate::Refusal::Overloaded), which gives
    /// the task back.
    Refuse,
    /// Nothing: lateness and memory grow with the load.
    Off,
}
