//! [underway](https://crates.io/crates/underway): a queue, a task, and a worker with eight at a
//! time.
//!
//! A batch has one delay for all of its tasks, which the task itself states.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Span;
use sqlx_0_8::postgres::PgPoolOptions;
use sqlx_0_8::{PgPool, Postgres, Row, Transaction};
use underway::task::Result as TaskResult;
use underway::{Queue, Task, Worker};

use super::POLL;
use crate::AnyError;
use crate::peer::{Job, Peer, began};

#[derive(Clone)]
struct Numbered {
    delay: Span,
}

impl Task for Numbered {
    type Input = Job;
    type Output = ();

    async fn execute(&self, tx: Transaction<'_, Postgres>, job: Job) -> TaskResult<()> {
        began(job);
        tx.commit().await?;
        Ok(())
    }

    fn delay(&self) -> Span {
        self.delay
    }
}

#[derive(Clone)]
pub(crate) struct Underway {
    pool: PgPool,
    queue: Arc<Queue<Numbered>>,
}

/// A task that is due then.
fn due_at(due: SystemTime) -> Result<Numbered, AnyError> {
    let delay = due.duration_since(SystemTime::now()).unwrap_or_default();
    Ok(Numbered { delay: Span::new().microseconds(i64::try_from(delay.as_micros())?) })
}

impl Peer for Underway {
    async fn open(url: &str) -> Result<Self, AnyError> {
        let pool = PgPoolOptions::new().max_connections(30).connect(url).await?;
        underway::run_migrations(&pool).await?;
        let queue = Queue::builder().name("jobs").pool(pool.clone()).build().await?;
        Ok(Self { pool, queue: Arc::new(queue) })
    }

    async fn schedule(&self, job: Job, due: SystemTime) -> Result<(), AnyError> {
        self.queue.enqueue(&self.pool, &due_at(due)?, &job).await?;
        Ok(())
    }

    async fn schedule_batch(&self, jobs: Vec<Job>, due: SystemTime) -> Result<(), AnyError> {
        self.queue.enqueue_multi(&self.pool, &due_at(due)?, &jobs).await?;
        Ok(())
    }

    async fn work(&self) -> Result<(), AnyError> {
        let mut worker = Worker::new(Arc::clone(&self.queue), due_at(SystemTime::now())?);
        worker.set_concurrency_limit(8);
        let poll = Span::new().milliseconds(i64::try_from(POLL.as_millis())?);
        tokio::spawn(async move { worker.run_every(poll).await });
        Ok(())
    }

    async fn unfinished(&self) -> Result<u64, AnyError> {
        let sql = "SELECT count(*) FROM underway.task WHERE state <> 'succeeded'";
        let row = sqlx_0_8::query(sql).fetch_one(&self.pool).await?;
        Ok(row.try_get::<i64, _>(0)? as u64)
    }
}
