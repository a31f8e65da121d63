//! What the long examples share, and the pages that have code in them, compiled and run like every
//! other example; some need a feature. (Here because the pages lie outside of the published
//! packages.)

pub mod checks;
pub mod late;
#[cfg(feature = "postgres")]
pub mod nodes;
pub mod number;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod view;

#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/actors.md")]
    struct Actors;
    #[cfg(all(feature = "prometheus", feature = "top"))]
    #[doc = include_str!("../../docs/observability.md")]
    struct Observability;
    #[doc = include_str!("../../docs/how-to/request-timeouts.md")]
    struct RequestTimeouts;
    #[doc = include_str!("../../docs/how-to/idle-connections.md")]
    struct IdleConnections;
    #[doc = include_str!("../../docs/how-to/retries.md")]
    struct Retries;
    #[doc = include_str!("../../docs/how-to/periodic-refresh.md")]
    struct PeriodicRefresh;
    #[cfg(feature = "durable")]
    #[doc = include_str!("../../docs/how-to/cron-once.md")]
    struct CronOnce;
    #[cfg(feature = "durable")]
    #[doc = include_str!("../../docs/how-to/backups.md")]
    struct Backups;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../docs/durable.md")]
    struct Durable;
    #[cfg(feature = "sql")]
    #[doc = include_str!("../../docs/how-to/sql-transactions.md")]
    struct SqlTransactions;
    #[cfg(feature = "service")]
    #[doc = include_str!("../../docs/how-to/axum-service.md")]
    struct AxumService;
    #[doc = include_str!("../../docs/coming-from.md")]
    struct ComingFrom;
    #[doc = include_str!("../../docs/how-to/from-erlang.md")]
    struct FromErlang;
    #[doc = include_str!("../../docs/how-to/graceful-shutdown.md")]
    struct GracefulShutdown;
    #[doc = include_str!("../../docs/how-to/testing.md")]
    struct Testing;
    #[cfg(feature = "prometheus")]
    #[doc = include_str!("../../docs/how-to/metrics.md")]
    struct Metrics;
    #[doc = include_str!("../../docs/how-to/game-loop.md")]
    struct GameLoop;
}
