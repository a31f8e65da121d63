//! The peers, each as its documentation shows it.

mod apalis_postgres;
mod apalis_sqlite;
mod graphile_worker;
mod underway;

pub(crate) use self::apalis_postgres::ApalisPostgres;
pub(crate) use self::apalis_sqlite::ApalisSqlite;
pub(crate) use self::graphile_worker::GraphileWorker;
pub(crate) use self::underway::Underway;

use std::task::{Context, Poll};
use std::time::Duration;

use apalis_core::backend::ext::poll_strategy::{PollSnapshot, PollStrategy};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often they look for jobs that are due. Their defaults are a second or longer.
const POLL: Duration = Duration::from_millis(10);

/// When a worker of apalis looks for jobs. Its own interval may lose a wake-up: when it is over, it
/// begins again, and nobody is to be woken by that. If nothing is due just then, the worker sleeps
/// until its next heartbeat, 30 s later by default. This one goes on until somebody will be woken.
struct Every(Interval);

impl Every {
    fn new(pause: Duration) -> Self {
        let mut interval = interval(pause);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self(interval)
    }
}

impl PollStrategy for Every {
    fn poll_drive(&mut self, cx: &mut Context<'_>, _: &PollSnapshot) -> Poll<Option<()>> {
        let mut over = Poll::Pending;
        while self.0.poll_tick(cx).is_ready() {
            over = Poll::Ready(Some(()));
        }
        over
    }
}
