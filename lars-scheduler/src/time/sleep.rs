//! A sleep without a result.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::instant::Instant;
use crate::{Refusal, future};

/// A future that is ready at an instant. Made by [`sleep`](super::sleep()) and
/// [`sleep_until`](super::sleep_until).
///
/// It is a [`future::Sleep`] of the default scheduler, with all of its promises, but without a
/// result. It is `Unpin`, so `&mut sleep` can be polled without pinning it.
///
/// # Panics
///
/// A poll panics if the scheduler can have no timer for it: see [the module](super#panics).
///
/// # Cancel safety
///
/// That of a [`future::Sleep`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep(future::Sleep);

impl Sleep {
    pub(super) fn new(sleep: future::Sleep) -> Self {
        Self(sleep)
    }

    /// When it is ready; some thirty years from now if that is later than what the platform's clock
    /// can express.
    pub fn deadline(&self) -> Instant {
        self.0.deadline().map_or_else(Instant::far_future, Instant::from_std)
    }

    /// Whether its time has come, whether or not a poll has seen it.
    pub fn is_elapsed(&self) -> bool {
        self.0.is_elapsed()
    }

    /// Moves the deadline, also of a sleep that was ready. The signature is tokio's: a sleep that
    /// is not pinned is moved by `Pin::new(&mut sleep).reset(deadline)`.
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.0.reset_at(deadline.into_std());
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|ended| ended.unwrap_or_else(|refusal| refused(&refusal, self.0.place())))
    }
}

/// A wait that can neither be ready nor go on.
#[cold]
pub(super) fn refused(refusal: &Refusal, place: &Location<'_>) -> ! {
    panic!("the default scheduler has no timer for the call at {place}: {refusal}")
}
