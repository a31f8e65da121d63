//! The counts of a system.

/// Counts of a system.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mini_actor::test_kit::TestKit;
///
/// let kit = TestKit::new("test")?;
/// let (first, second) = (kit.probe::<u32>("first"), kit.probe::<u32>("second"));
/// first.actor().tell(7)?;
/// second.actor().tell(8)?;
/// second.actor().kill(); // before it receives that
/// kit.settle();
/// let metrics = kit.metrics();
/// assert_eq!((metrics.alive, metrics.stopped), (1, 1));
/// assert_eq!((metrics.processed, metrics.dead_letters), (1, 1));
/// assert_eq!((metrics.panicked, metrics.restarts), (0, 0));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SystemMetrics {
    /// Actors that were spawned and have not stopped.
    pub alive: usize,
    /// Actors that have stopped.
    pub stopped: u64,
    /// Messages received, or being received, those of actors' own timers included. A message that
    /// was stashed counts once.
    pub processed: u64,
    /// Panics of actors that were contained. An escalated one counts once.
    pub panicked: u64,
    /// Actors restarted.
    pub restarts: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Messages whose handler ran for longer than
    /// [`Builder::slow_receive`](crate::Builder::slow_receive). If several ran between two readings
    /// of the clock, they count once.
    pub slow_receives: u64,
}
