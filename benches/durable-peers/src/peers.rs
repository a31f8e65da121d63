//! The peers, each as its documentation shows it.

mod apalis_postgres;
mod apalis_sqlite;
mod graphile_worker;
mod underway;

pub(crate) use self::apalis_postgres::ApalisPostgres;
pub(crate) use self::apalis_sqlite::ApalisSqlite;
pub(crate) use self::graphile_worker::GraphileWorker;
pub(crate) use self::underway::Underway;

use std::time::Duration;

/// How often they look for jobs that are due. Their defaults are a second or longer.
const POLL: Duration = Duration::from_millis(10);
