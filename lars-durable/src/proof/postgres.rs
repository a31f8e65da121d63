//! What a real PostgreSQL is needed for.
//!
//! The tests start one in a temporary directory. Where there is none they say so and do nothing;
//! with `LARS_REQUIRE_POSTGRES=1`, which `ci/postgres.sh` sets, that is a failure.

mod cluster;
mod looks;
mod node;
mod opening;
mod proxy;
mod server;

pub(crate) use self::server::server;
