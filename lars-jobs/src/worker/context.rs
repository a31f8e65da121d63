//! Context that travels with a task: captured where the task is scheduled, entered where it runs,
//! and left afterwards.

use std::any::Any;
use std::sync::Arc;

use lars_scheduler::extend::Systems;
use lars_scheduler::hooks::PanicIn;
use lars_scheduler::{Handle, TaskIdentity};

/// Captures context. One for each `WorkerBuilder::context`.
pub(super) trait Capture: Send + Sync {
    fn capture(&self) -> Box<dyn Captured>;
}

/// What was captured for one task.
pub(super) trait Captured: Send {
    /// Enters the context, which is left when the returned guard is dropped.
    fn enter(&self) -> Box<dyn Any>;
}

/// A context made of two closures.
pub(super) struct ContextHook<C, E> {
    pub(super) capture: C,
    pub(super) enter: Arc<E>,
}

struct Value<V, E> {
    value: V,
    enter: Arc<E>,
}

impl<V, G, C, E> Capture for ContextHook<C, E>
where
    V: Send + 'static,
    G: 'static,
    C: Fn() -> V + Send + Sync,
    E: Fn(&V) -> G + Send + Sync + 'static,
{
    fn capture(&self) -> Box<dyn Captured> {
        Box::new(Value { value: (self.capture)(), enter: Arc::clone(&self.enter) })
    }
}

impl<V, G, E> Captured for Value<V, E>
where
    V: Send,
    G: 'static,
    E: Fn(&V) -> G + Send + Sync,
{
    fn enter(&self) -> Box<dyn Any> {
        Box::new((self.enter)(&self.value))
    }
}

/// All that was captured for one task, and whose that is.
pub(super) struct Context {
    captured: Vec<Box<dyn Captured>>,
    pub(super) whose: TaskIdentity,
}

impl Context {
    /// Captures on the calling thread. A hook that panics is reported and left out.
    pub(super) fn capture(
        handle: &Handle,
        hooks: &[Box<dyn Capture>],
        whose: TaskIdentity,
    ) -> Self {
        let mut captured = Vec::new();
        for hook in hooks {
            handle.contain(whose, PanicIn::Task, || captured.push(hook.capture()));
        }
        Self { captured, whose }
    }

    /// Runs `code` in the context, and leaves that again in any case. True if `code` did not panic.
    pub(super) fn run(&self, handle: &Handle, code: impl FnOnce()) -> bool {
        let mut entered = Vec::new();
        for captured in &self.captured {
            handle.contain(self.whose, PanicIn::Task, || entered.push(captured.enter()));
        }
        let went_well = handle.contain(self.whose, PanicIn::Task, code);
        // The last one entered is the first one left.
        while let Some(guard) = entered.pop() {
            handle.contain(self.whose, PanicIn::Cleanup, || drop(guard));
        }
        went_well
    }
}
