//! What a real PostgreSQL is needed for.
//!
//! The tests start one in a temporary directory. `cargo test` ignores them, because they take
//! minutes, and not every machine has a server; `ci/postgres.sh` runs them.

mod acknowledging;
mod actions;
mod clocks;
mod cluster;
mod conditions;
mod deploy;
mod ends;
mod failover;
mod given_up;
mod handover;
mod held;
mod locks;
mod looks;
mod meanwhile;
mod node;
mod opening;
mod plans;
mod proxy;
mod secrets;
mod server;
mod sql;
mod steps;

pub(crate) use self::server::server;
