//! Tasks that run in the `tracing` span in which they were scheduled.

use lars_base::in_span::CapturedSpan;

use crate::base::identity::Label;
use crate::base::raw_task::{KnownAs, RawTask, TaskBody};

/// A task, and the span around it. (Not its body: so there is one such type, and not one for each
/// type of body, which would all have to be compiled.)
pub(crate) struct InSpan {
    pub(crate) task: RawTask,
    span: CapturedSpan,
}

impl InSpan {
    /// A task that runs in the span that the calling thread is in.
    pub(crate) fn new(task: RawTask) -> Self {
        Self { task, span: CapturedSpan::here() }
    }

    /// A task of this body in that span, known by the type of the body.
    pub(crate) fn around<B: TaskBody>(body: B) -> RawTask {
        let task = RawTask::new(body, Label::default());
        RawTask::new_as(Self::new(task), KnownAs::a::<B>(), Label::default())
    }
}

impl TaskBody for InSpan {
    fn run(self) {
        let Self { task, span } = self;
        span.run(|| task.run());
    }

    fn run_here(self) {
        let Self { task, span } = self;
        span.run(|| task.run_here());
    }

    fn cancelled(self) {
        self.task.cancelled();
    }

    // Lost when dropped, as its task is.

    fn handed_back(&self) {
        self.task.handed_back();
    }
}
