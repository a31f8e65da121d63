//! The hook that each thread of a scheduler calls first.

use std::sync::Arc;

use lars_base::debug_fields;
use lars_base::panics::quietly;

/// A thread of a scheduler or a pool that has just started; see
/// [`Builder::on_thread_start`](crate::Builder::on_thread_start) and
/// [`PoolBuilder::on_thread_start`](crate::executor::PoolBuilder::on_thread_start).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ThreadStart<'a> {
    /// What it is for.
    pub kind: ThreadKind,
    /// Its name.
    pub name: &'a str,
}

/// What a thread of a scheduler is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadKind {
    /// It fires the timers, and runs inline tasks.
    Timer,
    /// It runs tasks of a pool.
    #[non_exhaustive]
    Pool {
        /// Its number among the threads of the pool, from zero on.
        number: usize,
    },
}

type StartHook = Arc<dyn Fn(&ThreadStart<'_>) + Send + Sync>;

/// The hook, if there is one.
#[derive(Clone, Default)]
pub(crate) struct OnThreadStart(pub(crate) Option<StartHook>);

impl OnThreadStart {
    /// The calling thread has started. A panic of the hook is contained.
    pub(crate) fn call(&self, kind: ThreadKind, name: &str) {
        if let Some(hook) = &self.0 {
            quietly(|| hook(&ThreadStart { kind, name }));
        }
    }
}

debug_fields!(|it: OnThreadStart| set: it.0.is_some());
