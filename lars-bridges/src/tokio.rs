//! Tasks on a tokio runtime, and tokio's tasks in virtual time.

mod executor;
mod virtual_time;

pub use self::executor::TokioExecutor;
pub use self::virtual_time::TokioInVirtualTime;
