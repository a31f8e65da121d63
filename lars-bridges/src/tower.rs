//! A time limit for the requests of a tower service.

use std::error::Error;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lars_scheduler::Handle;
use lars_scheduler::future::Timeout;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

type BoxError = Box<dyn Error + Send + Sync>;

/// A layer that limits the time of each request.
///
/// A request that takes too long is dropped, and fails with a
/// [`TimeoutError`](lars_scheduler::future::TimeoutError).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lars_scheduler::LightArrayRevolverScheduler;
/// use lars_scheduler::future::TimeoutError;
/// use lars_bridges::tower::TimeoutLayer;
/// use std::time::Duration;
/// use tower_layer::Layer;
/// use tower_service::Service;
/// # use std::{convert::Infallible, future, task::{Context, Poll}};
/// # struct Slow;
/// # impl Service<()> for Slow {
/// #     type Response = (); type Error = Infallible;
/// #     type Future = future::Pending<Result<(), Infallible>>;
/// #     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
/// #         Poll::Ready(Ok(()))
/// #     }
/// #     fn call(&mut self, (): ()) -> Self::Future { future::pending() }
/// # }
///
/// let time = LightArrayRevolverScheduler::builder().build_virtual()?;
/// let mut limited = TimeoutLayer::new(&time, Duration::from_secs(5)).layer(Slow);
/// let error = time.block_on(limited.call(()))?.unwrap_err();
/// assert_eq!(error.downcast_ref(), Some(&TimeoutError::Elapsed));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct TimeoutLayer {
    handle: Handle,
    limit: Duration,
    /// Of the call that made it: services schedule on its behalf.
    place: &'static Location<'static>,
}

impl TimeoutLayer {
    /// Limits each request to `limit`, counted from its call, by the timers of this scheduler.
    #[track_caller]
    pub fn new(handle: &Handle, limit: Duration) -> Self {
        Self { handle: handle.clone(), limit, place: Location::caller() }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = TimeoutService<S>;

    fn layer(&self, inner: S) -> TimeoutService<S> {
        TimeoutService { inner, layer: self.clone() }
    }
}

/// A service whose requests have a time limit. Made by [`TimeoutLayer`].
#[derive(Debug, Clone)]
pub struct TimeoutService<S> {
    inner: S,
    layer: TimeoutLayer,
}

impl<S, Request> Service<Request> for TimeoutService<S>
where
    S: Service<Request, Error: Into<BoxError>>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = LimitedRequest<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let TimeoutLayer { handle, limit, place } = &self.layer;
        let request = handle.timeout(*limit, self.inner.call(request));
        LimitedRequest { request: request.placed_at(place) }
    }
}

pin_project! {
    /// A request with a time limit. Made by [`TimeoutService`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct LimitedRequest<F> {
        #[pin]
        request: Timeout<F>,
    }
}

impl<F, Response, E> Future for LimitedRequest<F>
where
    F: Future<Output = Result<Response, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().request.poll(context)) {
            Ok(answer) => answer.map_err(Into::into),
            Err(late) => Err(late.into()),
        })
    }
}
