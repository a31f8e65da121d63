//! The span that a thread is in, and a subscriber that panics about spans.
#![allow(dead_code)] // each file uses a part of it

use std::sync::Once;

use tracing::{Span, Subscriber, span, subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer};

/// The name of the span that the calling thread is in.
pub(crate) fn here() -> Option<&'static str> {
    Span::current().metadata().map(tracing::Metadata::name)
}

/// Spans of this process have names from now on.
pub(crate) fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| subscriber::set_global_default(Registry::default()).unwrap());
}

/// Panics when a span is entered, left or closed.
pub(crate) struct Hostile;

impl<S: Subscriber> Layer<S> for Hostile {
    fn on_enter(&self, _: &span::Id, _: Context<'_, S>) {
        panic!("expected by this test: enter");
    }
    fn on_exit(&self, _: &span::Id, _: Context<'_, S>) {
        panic!("expected by this test: exit");
    }
    fn on_close(&self, _: span::Id, _: Context<'_, S>) {
        panic!("expected by this test: close");
    }
}
