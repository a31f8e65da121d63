//! The hook that each thread of a system calls first.

use std::cell::Cell;
use std::ptr;

use crate::base::panics::guard;
use crate::sync::{Arc, thread_local};

/// A thread of a system that has just started; see
/// [`Builder::on_thread_start`](crate::Builder::on_thread_start).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ThreadStart<'a> {
    /// What it is for.
    pub kind: ThreadKind,
    /// Its name.
    pub name: &'a str,
}

/// What a thread of a system is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadKind {
    /// It fires the timers of the system's own scheduler.
    Timer,
    /// It runs actors.
    #[non_exhaustive]
    Actors {
        /// Its number among those that do, from zero on.
        number: usize,
    },
    /// It runs one [pinned](crate::Props::pinned) actor. Its name is that of the system, the
    /// actor's path, and `-0`.
    Pinned,
    /// It runs tasks of the system's own scheduler that an executor rejected.
    Pool,
}

impl From<lars_scheduler::hooks::ThreadKind> for ThreadKind {
    fn from(kind: lars_scheduler::hooks::ThreadKind) -> Self {
        match kind {
            lars_scheduler::hooks::ThreadKind::Timer => Self::Timer,
            _ => Self::Pool,
        }
    }
}

type StartHook = Arc<dyn Fn(&ThreadStart<'_>) + Send + Sync>;

thread_local! {
    /// The hook that runs on this thread; null if none does. (Only compared, never dereferenced.)
    static RUNNING: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// The hook, if there is one.
#[derive(Clone, Default)]
pub(crate) struct OnThreadStart(pub(crate) Option<StartHook>);

impl OnThreadStart {
    /// The calling thread has started. A panic of the hook is contained.
    pub(crate) fn call(&self, kind: ThreadKind, name: &str) {
        if let Some(hook) = &self.0 {
            RUNNING.with(|running| running.set(Arc::as_ptr(hook).cast()));
            guard("the hook on the start of a thread", || hook(&ThreadStart { kind, name }));
            RUNNING.with(|running| running.set(ptr::null()));
        }
    }

    /// Whether the hook runs on the calling thread. Meanwhile that thread does not do its own work.
    pub(crate) fn is_running(&self) -> bool {
        let running = RUNNING.with(Cell::get);
        self.0.as_ref().is_some_and(|hook| ptr::addr_eq(Arc::as_ptr(hook), running))
    }
}

show!([] OnThreadStart, "OnThreadStart", |it| set: it.0.is_some());
