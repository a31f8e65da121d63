//! [apalis-sqlite](https://crates.io/crates/apalis-sqlite), set as apalis-postgres is.
//!
//! Its setup turns flushing off; that is taken back, so that everybody flushes.

use std::time::SystemTime;

use apalis_core::backend::TaskSink;
use apalis_core::backend::ext::BackendExt;
use apalis_core::backend::ext::poll_strategy::Strategy;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::worker::builder::WorkerBuilder;
use apalis_core::worker::ext::parallelize::ParallelizeExt;
use apalis_sqlite::{Config, SqlitePoolOptions, SqliteStorage};
use futures::stream;

use super::{Every, POLL};
use crate::AnyError;
use crate::peer::{Job, Peer, began};

#[derive(Clone)]
pub(crate) struct ApalisSqlite {
    storage: SqliteStorage<Job>,
}

impl Peer for ApalisSqlite {
    async fn open(url: &str) -> Result<Self, AnyError> {
        // SQLite has one writer.
        let pool = SqlitePoolOptions::new().max_connections(1).connect(url).await?;
        SqliteStorage::setup(&pool).await?;
        sqlx::query("PRAGMA synchronous = FULL").execute(&pool).await?;
        let config = Config::default().queue("jobs").batch_size(100).lock_tasks(false);
        Ok(Self { storage: SqliteStorage::new(&pool).with_config(config) })
    }

    async fn schedule(&self, job: Job, due: SystemTime) -> Result<(), AnyError> {
        let task = TaskBuilder::new(job).run_at_time(due).build();
        Ok(self.storage.clone().push_task(task).await?)
    }

    async fn schedule_batch(&self, jobs: Vec<Job>, due: SystemTime) -> Result<(), AnyError> {
        let tasks = jobs.into_iter().map(|job| TaskBuilder::new(job).run_at_time(due).build());
        Ok(self.storage.clone().push_all(&mut stream::iter(tasks)).await?)
    }

    async fn work(&self) -> Result<(), AnyError> {
        let strategy = Strategy::new().apply(Every::new(POLL));
        let worker = WorkerBuilder::new("worker")
            .backend(self.storage.clone().poll_with_strategy(strategy))
            .parallelize(tokio::spawn)
            .build(|job: Job| async move { began(job) });
        tokio::spawn(worker.run());
        Ok(())
    }

    async fn unfinished(&self) -> Result<u64, AnyError> {
        let sql = "SELECT count(*) FROM Jobs WHERE status <> 'Done'";
        let count: i64 = sqlx::query_scalar(sql).fetch_one(self.storage.pool()).await?;
        Ok(count as u64)
    }
}
