//! Running something in the `tracing` span of another thread.
//!
//! A log subscriber is foreign code. If it panics when a span is looked up, entered, left or
//! closed, what was to run in the span runs without it, and nothing else happens.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use tracing::Span;

use crate::panics::{contain, quietly};

/// A span that was captured.
#[derive(Debug)]
pub struct CapturedSpan(Option<Span>);

impl CapturedSpan {
    /// The span that the calling thread is in, if it is in one.
    pub fn here() -> Self {
        Self(contain(Span::current).ok().filter(|span| !span.is_none()))
    }

    /// The span that the calling thread is in; `None` if it is in none.
    pub fn current() -> Option<Self> {
        let here = Self::here();
        here.0.is_some().then_some(here)
    }

    /// Runs `code` in the span. A panic of the code passes through.
    pub fn run<R>(&self, code: impl FnOnce() -> R) -> R {
        let entered = self.begin();
        // Unwind safety: the panic goes on below.
        let result = catch_unwind(AssertUnwindSafe(code));
        if entered {
            self.end();
        }
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Enters the span. `None` if that fails.
    pub fn enter(self: Arc<Self>) -> Option<InsideSpan> {
        self.begin().then(|| InsideSpan { span: self, _not_send: PhantomData })
    }

    /// Whether the span was entered, and is to be left.
    fn begin(&self) -> bool {
        let Some(span) = &self.0 else { return false };
        let enter = || {
            span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        };
        let entered = contain(enter).is_ok();
        if !entered {
            // The subscriber panicked, and may believe that the span was entered.
            self.end();
        }
        entered
    }

    fn end(&self) {
        if let Some(span) = &self.0 {
            quietly(|| {
                let _ = span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
            });
        }
    }
}

impl Drop for CapturedSpan {
    fn drop(&mut self) {
        quietly(|| drop(self.0.take()));
    }
}

/// While this exists, its thread is in a span.
#[derive(Debug)]
pub struct InsideSpan {
    span: Arc<CapturedSpan>,
    /// It is to be left by the thread that entered it.
    _not_send: PhantomData<*const ()>,
}

impl Drop for InsideSpan {
    fn drop(&mut self) {
        self.span.end();
    }
}
