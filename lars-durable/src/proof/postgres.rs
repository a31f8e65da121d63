//! What a real PostgreSQL is needed for.
//!
//! The tests start one in a temporary directory. Where there is none they say so and do nothing;
//! with `LARS_REQUIRE_POSTGRES=1`, which `ci/postgres.sh` sets, that is a failure.

mod acknowledging;
mod actions;
mod clocks;
mod cluster;
mod conditions;
mod deploy;
mod ends;
mod failover;
mod given_up;
#[cfg(feature = "actors")]
mod handover;
mod held;
mod looks;
mod node;
mod opening;
mod plans;
mod proxy;
#[cfg(feature = "__tls")]
mod secrets;
mod server;
mod sql;

pub(crate) use self::server::server;
