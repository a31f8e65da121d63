//! Timers for hyper.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::hyper::rt::{Sleep, Timer};

use lars_scheduler::Handle;
use lars_scheduler::future::Sleep as OurSleep;

/// Timers for hyper. Pass it to the `timer` methods of hyper's builders.
///
/// Hyper's sleeps have no result. If the scheduler refuses one, because it has stopped or is full,
/// that sleep never ends. So hyper has no timeout then, rather than one before its time.
///
/// A connection's sleep is moved in place, nearer as well as further out.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use hyper::rt::Timer;
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_bridges::hyper::HyperTimer;
/// use std::time::Duration;
///
/// let scheduler = LightArrayRevolverScheduler::new()?;
/// let timer = HyperTimer::new(&scheduler);
/// // hyper::server::conn::http1::Builder::new().timer(timer.clone()).header_read_timeout(…)
/// futures::executor::block_on(timer.sleep(Duration::from_millis(2)));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct HyperTimer {
    handle: Handle,
    /// Of the call that made it: hyper schedules on its behalf.
    place: &'static Location<'static>,
}

impl HyperTimer {
    /// Timers of this scheduler.
    #[track_caller]
    pub fn new(handle: &Handle) -> Self {
        Self { handle: handle.clone(), place: Location::caller() }
    }
}

impl Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(WithoutResult(self.handle.sleep(duration).placed_at(self.place)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(WithoutResult(self.handle.sleep_until(deadline).placed_at(self.place)))
    }

    fn now(&self) -> Instant {
        self.handle.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<WithoutResult>() {
            Some(mut ours) => ours.0.reset_at(new_deadline),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

struct WithoutResult(OurSleep);

impl Sleep for WithoutResult {}

impl Future for WithoutResult {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match Pin::new(&mut self.0).poll(context) {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            // A refused sleep never ends.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}
