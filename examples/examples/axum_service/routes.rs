//! What the service answers.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use examples::checks::Problem;
use lars_bridges::metrics::MetricsReporter;
use lars_bridges::tower::TimeoutLayer;
use lars_durable::{Durable, Timers};
use lars_scheduler::Handle;
use lars_scheduler::future::TimeoutError;
use metrics::gauge;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing::{Instrument, info_span};

use crate::Remind;
use crate::health::Health;

/// What the handlers share.
#[derive(Clone)]
pub struct Shop {
    pub timers: Handle,
    pub reminders: Timers,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub reminded: Arc<Mutex<Vec<u32>>>,
}

/// How long a request may take.
const LIMIT: Duration = Duration::from_secs(60);
/// For the one that never ends.
const SHORT: Duration = Duration::from_millis(50);

pub fn router(shop: Shop) -> Router {
    // A layer that fails needs one that makes an answer of it.
    let limit = |limit| (HandleErrorLayer::new(too_late), TimeoutLayer::new(&shop.timers, limit));
    let work = Router::new()
        .route("/orders/{order}", post(take_order).get(was_reminded))
        .route("/last", get(until_it_leaves))
        .layer(limit(LIMIT));
    Router::new()
        .merge(work)
        .route("/never", get(pending::<()>).layer(limit(SHORT)))
        // Whether to restart it. An outage of the store is no reason: a restart mends none.
        .route("/livez", get(async || "ok"))
        // Whether to send requests here.
        .route("/readyz", get(ready))
        .route("/metrics", get(async |State(shop): State<Shop>| shop.metrics.text()))
        .with_state(shop)
}

async fn too_late(error: axum::BoxError) -> StatusCode {
    match error.downcast_ref() {
        Some(TimeoutError::Elapsed) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::SERVICE_UNAVAILABLE, // the scheduler has stopped
    }
}

/// Reminds of odd orders soon, and of even ones in an hour. Asked again, it changes nothing: the
/// key is the order's.
async fn take_order(State(shop): State<Shop>, Path(order): Path<u32>) -> StatusCode {
    let span = info_span!("order", order);
    let work = async {
        let delay = if order % 2 == 1 { SHORT } else { Duration::from_secs(3_600) };
        let reminder = shop.reminders.schedule_once(delay, Remind { order });
        // The answer says that it is on the disk.
        if reminder.key(format!("order-{order}")).submit().await.is_err() {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        // This one may be lost in a crash. It runs in the span of the request.
        let settle = || drop(info_span!("settle").entered());
        match shop.timers.schedule_once(SHORT, settle) {
            Ok(_) => StatusCode::ACCEPTED,
            Err(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    };
    work.instrument(span).await
}

async fn was_reminded(State(shop): State<Shop>, Path(order): Path<u32>) -> &'static str {
    if locked(&shop.reminded).contains(&order) { "reminded" } else { "waiting" }
}

/// A request that is under way when SIGTERM comes. It says what a readiness probe hears then.
async fn until_it_leaves(State(shop): State<Shop>) -> String {
    gauge!("shop_last_requests").set(1.0);
    while !shop.health.is_leaving() {
        if shop.timers.sleep(Duration::from_millis(5)).await.is_err() {
            break;
        }
    }
    ready(State(shop)).await.1
}

async fn ready(State(shop): State<Shop>) -> (StatusCode, String) {
    match shop.health.ready() {
        Ok(seen) => (StatusCode::OK, seen),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why.to_owned()),
    }
}

/// What Prometheus reads.
pub struct Metrics {
    scheduler: Mutex<MetricsReporter>,
    durable: Mutex<lars_durable::MetricsReporter>,
    rendered: PrometheusHandle,
}

impl Metrics {
    pub fn install(timers: &Handle, durable: &Durable) -> Result<Self, Problem> {
        let recorder = PrometheusBuilder::new().build_recorder();
        let rendered = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
        Ok(Self {
            scheduler: Mutex::new(MetricsReporter::new(timers, "shop")),
            durable: Mutex::new(lars_durable::MetricsReporter::new(durable)),
            rendered,
        })
    }

    /// From memory: no query.
    fn text(&self) -> String {
        locked(&self.scheduler).report();
        locked(&self.durable).report();
        self.rendered.render()
    }
}

/// Whoever panicked with the lock left nothing half done.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
