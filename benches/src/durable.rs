//! What the measurements of durable timers share, whatever keeps the timers.

mod jobs;
mod options;
mod peers;
mod plots;
mod rates;
mod report;
mod session;

pub use self::jobs::{HOUR, Job, PATIENCE, Seen, late, receive, runs_jobs, settle, steady};
pub use self::options::Options;
pub use self::rates::{rate, run_and_finish};
pub use self::report::{Late, Rate, Report};
pub use self::session::{Measured, RUN_AND_FINISH, Session};

/// Whatever goes wrong; a bench stops then.
pub type AnyError = Box<dyn std::error::Error>;
