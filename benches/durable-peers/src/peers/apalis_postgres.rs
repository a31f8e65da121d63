//! [apalis-postgres](https://crates.io/crates/apalis-postgres), set as in its example `basic`:
//! batches of 100, no locking by job.
//!
//! It counts time in whole seconds, so jobs may begin up to a second early.

use std::time::SystemTime;

use apalis_core::backend::TaskSink;
use apalis_core::backend::ext::BackendExt;
use apalis_core::backend::ext::poll_strategy::Strategy;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::worker::builder::WorkerBuilder;
use apalis_core::worker::ext::parallelize::ParallelizeExt;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use futures::stream;

use super::{Every, POLL};
use crate::AnyError;
use crate::peer::{Job, Peer, began};

#[derive(Clone)]
pub(crate) struct ApalisPostgres {
    storage: PostgresStorage<Job>,
}

impl Peer for ApalisPostgres {
    async fn open(url: &str) -> Result<Self, AnyError> {
        let pool = PgPool::connect(url).await?;
        PostgresStorage::setup(&pool).await?;
        let config = Config::default().queue("jobs").batch_size(100).lock_tasks(false);
        Ok(Self { storage: PostgresStorage::new(&pool).with_config(config) })
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
        let sql = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";
        let count: i64 = sqlx::query_scalar(sql).fetch_one(self.storage.pool()).await?;
        Ok(count as u64)
    }
}
