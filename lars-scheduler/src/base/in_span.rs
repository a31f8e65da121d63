//! Tasks that run in the `tracing` span in which they were scheduled.
//!
//! A log subscriber is foreign code. If it panics when a span is looked up, entered, left or
//! closed, the task runs without the span, and nothing else happens.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tracing::Span;

use crate::base::panics::{contain, quietly};
use crate::base::raw_task::TaskBody;

/// A body, and the span around it.
pub(crate) struct InSpan<B> {
    span: CapturedSpan,
    pub(crate) body: B,
}

impl<B> InSpan<B> {
    /// A body that runs in the span that the calling thread is in.
    pub(crate) fn new(body: B) -> Self {
        Self { span: CapturedSpan::here(), body }
    }
}

impl<B: TaskBody> TaskBody for InSpan<B> {
    const CANCELLED_IS_DROPPED: bool = B::CANCELLED_IS_DROPPED;

    fn run(self) {
        let Self { span, body } = self;
        span.run(|| body.run());
    }

    fn run_here(self) {
        let Self { span, body } = self;
        span.run(|| body.run_here());
    }

    fn cancelled(self) {
        self.body.cancelled();
    }

    fn lost(self) {
        self.body.lost();
    }

    fn handed_back(&self) {
        self.body.handed_back();
    }

    fn known_as() -> &'static str {
        B::known_as()
    }
}

/// A span that was captured.
pub(crate) struct CapturedSpan(Option<Span>);

impl CapturedSpan {
    /// The span that the calling thread is in, if it is in one.
    pub(crate) fn here() -> Self {
        Self(contain(Span::current).ok())
    }

    /// Runs `code` in the span. A panic of the code passes through.
    pub(crate) fn run(&self, code: impl FnOnce()) {
        let Some(span) = &self.0 else { return code() };
        let entered = contain(|| span.enter()).ok();
        if entered.is_none() {
            // The subscriber may believe that it was.
            quietly(|| {
                let _ = span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
            });
        }
        // Unwind safety: the panic goes on below.
        let result = catch_unwind(AssertUnwindSafe(code));
        quietly(|| drop(entered));
        if let Err(payload) = result {
            resume_unwind(payload);
        }
    }
}

impl Drop for CapturedSpan {
    fn drop(&mut self) {
        quietly(|| drop(self.0.take()));
    }
}
