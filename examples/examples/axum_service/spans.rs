//! Spans for OpenTelemetry. A service would send them with `opentelemetry-otlp`.

use std::sync::{Arc, Mutex};

use examples::checks::Problem;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing_subscriber::layer::SubscriberExt;

use crate::routes::locked;

/// The spans that have ended.
#[derive(Debug, Clone, Default)]
pub struct Spans(Arc<Mutex<Vec<SpanData>>>);

/// Has all spans of `tracing` recorded as OpenTelemetry's.
pub fn record() -> Result<Spans, Problem> {
    let spans = Spans::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    Ok(spans)
}

impl SpanExporter for Spans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        locked(&self.0).extend(batch);
        Ok(())
    }
}

impl Spans {
    /// Whether each order's timer ran as a part of the trace of its request.
    pub fn settled_in_order(&self) -> bool {
        let spans = locked(&self.0);
        let named = |name: &'static str| spans.iter().filter(move |span| span.name == name);
        let in_an_order = |settle: &SpanData| {
            named("order").any(|order| {
                order.span_context.span_id() == settle.parent_span_id
                    && order.span_context.trace_id() == settle.span_context.trace_id()
            })
        };
        named("settle").count() > 0 && named("settle").all(in_an_order)
    }
}
