//! Where a task runs: the choice that every kind of task offers.

use std::fmt;
use std::sync::Arc;

use crate::executor::Executor;

/// Where a task runs.
#[derive(Clone, Default)]
pub enum RunOn {
    /// On the executor that the scheduler was built with.
    #[default]
    Default,
    /// On the timer thread.
    Inline,
    /// On an executor of its own.
    Executor(Arc<dyn Executor>),
}

impl fmt::Debug for RunOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "Default",
            Self::Inline => "Inline",
            Self::Executor(_) => "Executor(..)",
        })
    }
}
