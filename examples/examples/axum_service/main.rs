//! A shop behind axum: time limits, reminders that survive a deploy, health without a query for
//! each probe, Prometheus, spans that timers keep, and SIGTERM with Kubernetes' grace.
//!
//! ```text
//! cargo run --release -p examples --features service --example axum_service -- \
//!     --listen 127.0.0.1:8080
//! curl -X POST http://127.0.0.1:8080/orders/17; curl http://127.0.0.1:8080/orders/17
//! ```
//!
//! Without `--listen` it is its own client, checks what it promises, and sends itself SIGTERM.
#![allow(clippy::disallowed_methods)]

mod client;
mod health;
mod routes;
mod spans;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use clap::Parser;
use examples::checks::{Problem, verify};
use futures::channel::oneshot;
use futures::future::select;
use humantime::parse_duration;
use lars_durable::{Durable, Fired, Payload};
use lars_scheduler::{ClosePolicy, Handle, LightArrayRevolverScheduler};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use self::health::Health;
use self::routes::{Metrics, Shop};
use self::spans::Spans;

/// A service with time limits, reminders, probes and metrics, which ends well at SIGTERM. Without
/// `--listen` it is its own client, and checks itself.
#[derive(Debug, Clone, Parser)]
struct Options {
    /// Where to serve, until SIGTERM.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// The file of the reminders.
    #[arg(long)]
    file: Option<PathBuf>,
    /// How long requests still come after SIGTERM: until all proxies know that this one leaves.
    #[arg(long, default_value = "100ms", value_parser = parse_duration)]
    drain: Duration,
    /// When everything has to be over after SIGTERM: less than `terminationGracePeriodSeconds`.
    #[arg(long, default_value = "25s", value_parser = parse_duration)]
    grace: Duration,
}

/// What an order's reminder knows. It is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Remind {
    order: u32,
}

impl Payload for Remind {
    const NAME: &'static str = "remind";
}

fn main() -> Result<(), Problem> {
    let options = Options::parse();
    let own = std::env::temp_dir().join(format!("axum-service-{}.db", std::process::id()));
    let file = options.file.clone().unwrap_or(own);
    let spans = spans::record()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    let outcome = runtime.block_on(run(&options, &file));
    let checks = match outcome? {
        Some(checks) => checks,
        None => return Ok(()), // it served
    };
    let checks = [checks, after_the_end(&file, &spans)?].concat();
    if options.file.is_none() {
        std::fs::remove_file(&file)?;
    }
    Ok(verify(&checks)?)
}

type Checks = Vec<(&'static str, bool)>;

/// From the start to the end after SIGTERM. With what its client found, if it is its own.
async fn run(options: &Options, file: &Path) -> Result<Option<Checks>, Problem> {
    let scheduler = LightArrayRevolverScheduler::builder()
        .capture_spans(true) // a timer's task is in the span of the request that scheduled it
        .close_policy(ClosePolicy::RunMarked)
        .build()?;
    let timers = scheduler.handle();
    let reminded: Arc<Mutex<Vec<u32>>> = Arc::default();
    let durable = Durable::sqlite(file).handle({
        let reminded = Arc::clone(&reminded);
        move |fired: &Fired<Remind>| routes::locked(&reminded).push(fired.payload().order)
    });
    let durable = durable.start()?;
    let health = Arc::new(Health::default());
    let metrics = Arc::new(Metrics::install(&timers, &durable)?);
    let shop = Shop {
        timers: timers.clone(),
        reminders: durable.timers(),
        health: Arc::clone(&health),
        metrics,
        reminded,
    };

    let mut terminate = signal(SignalKind::terminate())?;
    let listen = options.listen.unwrap_or(([127, 0, 0, 1], 0).into());
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("{listen}: {error}"))?;
    let address = listener.local_addr()?;
    println!("http://{address}");
    let client = options.listen.is_none().then(|| thread::spawn(move || client::checks(address)));

    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, routes::router(shop)).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let server = tokio::spawn(server.into_future());
    {
        let looking = pin!(health.keep_looking(&timers, &durable));
        select(pin!(terminate.recv()), looking).await;
    }
    leave(options, &timers, &health, stop, server).await?;
    // The rest of the grace is for runs. Those that need longer are repeated in the next life.
    durable.close_within(options.grace / 2)?;
    scheduler.close()?;
    client.map(|client| client.join().map_err(|_| "the client panicked")?).transpose()
}

/// SIGTERM came. Kubernetes takes the pod out of its endpoints at the same time, and not before:
/// for a moment requests still come.
async fn leave(
    options: &Options,
    timers: &Handle,
    health: &Health,
    stop: oneshot::Sender<()>,
    mut server: tokio::task::JoinHandle<std::io::Result<()>>,
) -> Result<(), Problem> {
    let deadline = timers.now() + options.grace / 2;
    health.leave(); // the readiness probe fails from now on
    timers.sleep(options.drain).await?;
    let _ = stop.send(()); // no new connections; requests that are under way are answered
    match timers.timeout_at(deadline, &mut server).await {
        Ok(served) => served??,
        Err(_) => server.abort(), // whoever is still connected is cut off
    }
    Ok(())
}

/// What is left when the service has ended.
fn after_the_end(file: &Path, spans: &Spans) -> Result<Checks, Problem> {
    let next_life = Durable::sqlite(file).handle(|_: &Fired<Remind>| ()).start()?;
    let later = next_life.timers().get("order-18").wait()?;
    next_life.close()?;
    Ok(vec![
        ("a reminder that is not due yet waits for the next life", later.is_some()),
        ("a timer's task is a span of the request that scheduled it", spans.settled_in_order()),
    ])
}
