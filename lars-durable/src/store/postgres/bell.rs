//! Notifications: nodes are told at once what their next sweep or renewal would find anyway.
//! Everything here may be lost; only latency depends on it.

use std::io;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client};

use super::connect::Messages;
use super::errors::Failure;
use super::session::open_client;
use super::{Place, runtime};
use crate::model::{BucketNo, TimerId};
use crate::store::{Bell, Ring, StartBell};

/// Timers that are near, from one node to the others.
type Near = Vec<(BucketNo, TimerId)>;

/// How long notifications are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(5);

/// The longest notification: the server's limit is 8,000 bytes.
const LONGEST: usize = 7_900;

/// How often the connection proves that it lives. Until then the sweeps find what it does not say.
const PROOF: Duration = Duration::from_secs(15);

/// How long it waits before it connects again.
const PAUSE: Duration = Duration::from_millis(500);

/// What is said when a bucket has no owner any more.
const FREE: &str = "free";

/// The way out. Dropping it ends the thread.
struct Wire(UnboundedSender<Near>);

/// How the bell of a database is started: on a thread of its own.
pub(crate) fn start_bell(place: Place) -> StartBell {
    Box::new(move |hear| {
        let (sender, receiver) = unbounded_channel();
        let runtime = runtime().map_err(io::Error::other)?;
        let thread = std::thread::Builder::new().name("lars-durable-bell".into());
        thread.spawn(move || runtime.block_on(ring(place, receiver, hear)))?;
        Ok(Box::new(Wire(sender)) as Box<dyn Bell>)
    })
}

impl Bell for Wire {
    fn near(&self, timers: Near) {
        // A thread that has ended belongs to a node that is ending.
        let _ = self.0.send(timers);
    }
}

async fn ring(place: Place, mut receiver: UnboundedReceiver<Near>, hear: impl Fn(Ring)) {
    loop {
        match connected(&place, &mut receiver, &hear).await {
            Ok(()) => return,
            Err(failure) => {
                let error = failure.into_reason();
                tracing::warn!(target: "lars_durable", %error, "notifications are down");
            }
        }
        tokio::time::sleep(PAUSE).await;
        // What was not sent meanwhile is found by the sweeps of the others.
        while let Ok(lost) = receiver.try_recv() {
            drop(lost);
        }
        if receiver.is_closed() {
            return;
        }
    }
}

/// Talks and listens until the node ends, or the connection.
async fn connected(
    place: &Place,
    receiver: &mut UnboundedReceiver<Near>,
    hear: &impl Fn(Ring),
) -> Result<(), Failure> {
    let (client, mut messages) = open_client(place).await?;
    let talk = listen(&client, place);
    let channel = while_hearing(talk, &mut messages, place, hear).await?;
    // What was said while nobody listened is lost.
    hear(Ring::Deaf);
    let mut proof = tokio::time::interval(PROOF);
    proof.reset();
    loop {
        tokio::select! {
            timers = receiver.recv() => {
                let Some(timers) = timers else { return Ok(()) };
                let talk = tell(&client, &channel, timers, receiver);
                while_hearing(talk, &mut messages, place, hear).await?;
            }
            message = messages.next() => heard(message, hear)?,
            _ = proof.tick() => {
                while_hearing(prove(&client), &mut messages, place, hear).await?;
            }
        }
    }
}

async fn listen(client: &Client, place: &Place) -> Result<String, Failure> {
    let row = client.query_one("SELECT lars.channel($1)", &[&&*place.group]).await?;
    let channel: String = row.get(0);
    // It is "lars_" and hexadecimal digits.
    client.batch_execute(&format!("LISTEN {channel}")).await?;
    Ok(channel)
}

async fn prove(client: &Client) -> Result<(), Failure> {
    Ok(client.batch_execute("").await?)
}

/// Sends `first`, and what gathers meanwhile.
async fn tell(
    client: &Client,
    channel: &str,
    first: Near,
    receiver: &mut UnboundedReceiver<Near>,
) -> Result<(), Failure> {
    tokio::time::sleep(GATHER).await;
    let mut timers = first;
    while let Ok(more) = receiver.try_recv() {
        timers.extend(more);
    }
    for payload in payloads(&timers) {
        client.query("SELECT pg_catalog.pg_notify($1, $2)", &[&channel, &payload]).await?;
    }
    Ok(())
}

/// Carries `talk` out, and reads the connection meanwhile, without which `talk` would not end.
async fn while_hearing<T>(
    talk: impl Future<Output = Result<T, Failure>>,
    messages: &mut Messages,
    place: &Place,
    hear: &impl Fn(Ring),
) -> Result<T, Failure> {
    let limit = tokio::time::sleep(place.limit);
    tokio::pin!(talk, limit);
    loop {
        tokio::select! {
            done = &mut talk => return done,
            message = messages.next() => heard(message, hear)?,
            () = &mut limit => return Err(Failure::late(place.limit)),
        }
    }
}

fn heard(
    message: Option<Result<AsyncMessage, tokio_postgres::Error>>,
    hear: &impl Fn(Ring),
) -> Result<(), Failure> {
    match message {
        Some(Ok(AsyncMessage::Notification(notification))) => {
            #[cfg(test)]
            if crate::failpoint::is_deaf() {
                return Ok(());
            }
            match notification.payload() {
                FREE => hear(Ring::Free),
                payload => hear(Ring::Near(timers_of(payload))),
            }
            Ok(())
        }
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(error.into()),
        None => Err(Failure::unfit("the server closed the connection")),
    }
}

/// As `bucket:id,bucket:id`.
fn payloads(timers: &[(BucketNo, TimerId)]) -> Vec<String> {
    let mut payloads = vec![String::new()];
    for (bucket, id) in timers {
        let one = format!("{bucket}:{id}");
        let last = payloads.last_mut().expect("it begins with one");
        if last.len() + one.len() + 1 > LONGEST {
            payloads.push(one);
        } else {
            if !last.is_empty() {
                last.push(',');
            }
            last.push_str(&one);
        }
    }
    payloads
}

/// Ignores what it cannot read.
fn timers_of(payload: &str) -> Near {
    let pairs = payload.split(',').filter_map(|pair| pair.split_once(':'));
    pairs.filter_map(|(bucket, id)| Some((bucket.parse().ok()?, id.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_notification_is_split_and_read_back() {
        let timers: Near = (0..5_000).map(|id| (7, id * 1_000_000_007)).collect();
        let payloads = payloads(&timers);
        assert!(payloads.len() > 1);
        assert!(payloads.iter().all(|payload| payload.len() <= LONGEST));
        let read: Near = payloads.iter().flat_map(|payload| timers_of(payload)).collect();
        assert_eq!(read, timers);
        assert!(timers_of("nonsense,1:x,:").is_empty());
    }
}
