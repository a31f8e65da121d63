//! [graphile_worker](https://crates.io/crates/graphile_worker), set as in its own benchmark
//! `perf_test`: 500 at a time, a local queue of 5,000, completions gathered for 5 ms.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker,
    WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

use super::POLL;
use crate::AnyError;
use crate::peer::{Job, Peer, began};

#[derive(Serialize, Deserialize)]
struct Numbered(Job);

impl TaskHandler for Numbered {
    const IDENTIFIER: &'static str = "job";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        began(self.0);
        Ok::<(), String>(())
    }
}

#[derive(Clone)]
pub(crate) struct GraphileWorker {
    worker: Arc<Worker>,
    utils: Arc<WorkerUtils>,
    pool: PgPool,
}

fn spec(due: SystemTime) -> JobSpec {
    JobSpec::builder().run_at(due).build()
}

impl Peer for GraphileWorker {
    async fn open(url: &str) -> Result<Self, AnyError> {
        let worker = WorkerOptions::default()
            .database_url(url)
            .max_pg_conn(10)
            .concurrency(500)
            .poll_interval(POLL)
            .complete_job_batch_delay(Duration::from_millis(5))
            .local_queue(LocalQueueConfig::default().with_size(5_000))
            .define_job::<Numbered>()
            .init()
            .await?;
        let utils = Arc::new(worker.create_utils());
        Ok(Self { worker: Arc::new(worker), utils, pool: PgPool::connect(url).await? })
    }

    async fn schedule(&self, job: Job, due: SystemTime) -> Result<(), AnyError> {
        self.utils.add_job(Numbered(job), spec(due)).await?;
        Ok(())
    }

    async fn schedule_batch(&self, jobs: Vec<Job>, due: SystemTime) -> Result<(), AnyError> {
        let jobs: Vec<RawJobSpec> = jobs
            .into_iter()
            .map(|job| RawJobSpec {
                identifier: Numbered::IDENTIFIER.into(),
                payload: job.into(),
                spec: spec(due),
            })
            .collect();
        self.utils.add_raw_jobs(&jobs).await?;
        Ok(())
    }

    async fn work(&self) -> Result<(), AnyError> {
        let worker = Arc::clone(&self.worker);
        tokio::spawn(async move { worker.run().await });
        Ok(())
    }

    async fn unfinished(&self) -> Result<u64, AnyError> {
        // What has succeeded is deleted.
        let sql = "SELECT count(*) FROM graphile_worker._private_jobs";
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&self.pool).await?;
        Ok(count as u64)
    }
}
