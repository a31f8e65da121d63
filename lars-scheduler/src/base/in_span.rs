//! Tasks that run in the `tracing` span in which they were scheduled.

use lars_base::in_span::CapturedSpan;

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
