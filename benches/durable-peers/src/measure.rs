//! The measurements, the same for each peer as for lars-durable.

use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use crate::AnyError;
use crate::peer::{Job, Peer, runs};

const HOUR: Duration = Duration::from_secs(3600);

/// The longest that the runs may take.
const PATIENCE: Duration = Duration::from_secs(45);

/// What was found, for whoever asked.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Found {
    /// So many a second.
    Rate(f64),
    /// How late each run began, in microseconds; early is negative. Runs that did not begin in
    /// time are left out.
    Late(Vec<i64>),
}

fn rate(count: u64, time: Duration) -> Found {
    Found::Rate(count as f64 / time.as_secs_f64())
}

/// Eight callers, each of which waits for its answer before it calls again.
async fn by_eight<P: Peer>(
    peer: &P,
    jobs: u64,
    due: impl Fn(Job) -> SystemTime + Clone + Send + Sync + 'static,
) -> Result<(), AnyError> {
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let (peer, due) = (peer.clone(), due.clone());
            tokio::spawn(async move {
                for job in (caller..jobs).step_by(8) {
                    peer.schedule(job, due(job)).await?;
                }
                Ok::<_, AnyError>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

async fn in_batches<P: Peer>(peer: &P, jobs: u64, due: SystemTime) -> Result<(), AnyError> {
    for first in (0..jobs).step_by(1_000) {
        peer.schedule_batch((first..jobs.min(first + 1_000)).collect(), due).await?;
    }
    Ok(())
}

pub(crate) async fn single<P: Peer>(peer: &P, count: u64) -> Result<Found, AnyError> {
    peer.schedule(count, SystemTime::now() + HOUR).await?;
    let begun = Instant::now();
    by_eight(peer, count, |_| SystemTime::now() + HOUR).await?;
    let found = rate(count, begun.elapsed());
    assert_eq!(peer.unfinished().await?, count + 1, "they are all there");
    Ok(found)
}

pub(crate) async fn batches<P: Peer>(peer: &P, count: u64) -> Result<Found, AnyError> {
    peer.schedule(count, SystemTime::now() + HOUR).await?;
    let begun = Instant::now();
    in_batches(peer, count, SystemTime::now() + HOUR).await?;
    let found = rate(count, begun.elapsed());
    assert_eq!(peer.unfinished().await?, count + 1, "they are all there");
    Ok(found)
}

/// The runs that have begun, until there are `count` of them or [`PATIENCE`] is over.
async fn receive(
    runs: &mut UnboundedReceiver<(Job, SystemTime)>,
    count: u64,
) -> Vec<(Job, SystemTime)> {
    let end = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    while (seen.len() as u64) < count {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(Some(run)) = timeout(left, runs.recv()).await else { break };
        seen.push(run);
    }
    seen
}

/// All due at once; fetched, run, and recorded as finished.
pub(crate) async fn run<P: Peer>(peer: &P, count: u64) -> Result<Found, AnyError> {
    let mut runs = runs();
    // On a whole second: some know no others.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let due = SystemTime::UNIX_EPOCH + Duration::from_secs(now + 10);
    in_batches(peer, count, due).await?;
    let left = due.duration_since(SystemTime::now());
    sleep(left.map_err(|_| "they are due before all are scheduled")?).await;
    let begun = Instant::now();
    peer.work().await?;
    receive(&mut runs, count).await;
    let mut left = peer.unfinished().await?;
    while left > 0 && begun.elapsed() < PATIENCE {
        sleep(Duration::from_millis(10)).await;
        left = peer.unfinished().await?;
    }
    Ok(rate(count - left, begun.elapsed()))
}

/// So many a second, beside those that are due in an hour.
pub(crate) async fn lateness<P: Peer>(
    peer: &P,
    each_second: u64,
    seconds: u64,
    pending: u64,
) -> Result<Found, AnyError> {
    let mut runs = runs();
    in_batches(peer, pending, SystemTime::now() + HOUR).await?;
    peer.work().await?;
    // As long as the slowest needs to schedule them.
    let first = SystemTime::now() + Duration::from_secs(15);
    let due = move |job: Job| first + Duration::from_micros(job * 1_000_000 / each_second);
    let count = each_second * seconds;
    by_eight(peer, count, due).await?;
    if SystemTime::now() > first {
        return Err("they are due before all are scheduled".into());
    }
    sleep(first.duration_since(SystemTime::now())?).await;
    let late = receive(&mut runs, count).await.into_iter().map(|(job, at)| {
        let early = |early: Duration| -(early.as_micros() as i64) - 1;
        match at.duration_since(due(job)) {
            Ok(late) => late.as_micros() as i64,
            Err(before) => early(before.duration()),
        }
    });
    Ok(Found::Late(late.collect()))
}
