//! Serves the metrics of a scheduler and of an actor system as Prometheus wants them: text over
//! plain HTTP. `examples/grafana/lars-scheduler.json` is a dashboard for them.
//!
//! Requests come in, and time out unless they are answered; most are. A sensor tells an actor what
//! it reads, and the actor checks it on the pool.
//!
//! ```text
//! cargo run --release -p examples --features prometheus --example prometheus -- \
//!     --listen 127.0.0.1:9898 --seconds 600
//! curl http://127.0.0.1:9898/metrics
//! ```
//!
//! At the end it asks itself for its metrics, and fails if one is missing that the dashboard shows.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use examples::checks::Problem;
use lars_bridges::metrics::MetricsReporter;
use lars_scheduler::Handle;
use metrics::{counter, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use mini_actor::{Actor, ActorSystem, Context};

const DASHBOARD: &str = include_str!("../grafana/lars-scheduler.json");

/// How late a task, or a message of a timer, has to be to say why.
const LATE: Duration = Duration::from_millis(5);

/// Serves the metrics of a scheduler and of actors, and checks that the dashboard's are there.
#[derive(Parser)]
struct Options {
    /// Where to serve `/metrics`; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How long to run.
    #[arg(long, default_value_t = 1)]
    seconds: u64,
}

fn main() -> Result<(), Problem> {
    let options = Options::parse();
    let recorder = PrometheusBuilder::new().build_recorder();
    let rendered = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;

    let system = ActorSystem::builder("plant").explain_late(LATE).build()?;
    let timers = system.scheduler().timers().clone();
    let metrics = Metrics {
        scheduler: Mutex::new(MetricsReporter::new(&timers, "plant")),
        system: Mutex::new(mini_actor::metrics::MetricsReporter::new(&system)),
        rendered,
    };
    let listener = TcpListener::bind(options.listen);
    let listener = listener.map_err(|error| format!("{}: {error}", options.listen))?;
    let address = listener.local_addr()?;
    println!("http://{address}/metrics");
    let metrics = Arc::new(metrics);
    // It ends with the process.
    thread::spawn(move || metrics.serve(&listener));

    let sensor = system.spawn("sensor", || Sensor { readings: 0 })?;
    let second = Duration::from_secs(1);
    let _sensor = system.scheduler().schedule_at_fixed_rate(
        Duration::ZERO,
        Duration::from_millis(10),
        &sensor,
        Reading,
    )?;
    let end = Instant::now() + second * u32::try_from(options.seconds)?;
    while Instant::now() < end {
        requests(&timers)?;
        thread::sleep(Duration::from_millis(5));
    }
    let text = fetch(address)?;
    let found = check(&text)?;
    system.close()?;
    println!("All {found} metrics of the dashboard are there.");
    Ok(())
}

/// A few requests that time out after 20 ms, unless they are answered. One in eight is not.
fn requests(timers: &Handle) -> Result<(), Box<dyn Error>> {
    for _ in 0..8 {
        let timeout = timers.schedule_once(Duration::from_millis(20), || {
            counter!("plant_timeouts_total").increment(1);
            thread::sleep(Duration::from_micros(fastrand::u64(..2_000))); // tidies up
        })?;
        if fastrand::u8(..8) > 0 {
            timeout.cancel();
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Reading;

struct Sensor {
    readings: u64,
}

impl Actor for Sensor {
    type Message = Reading;

    fn receive(&mut self, _: Reading, _: &mut Context<Self>) {
        self.readings += 1;
        gauge!("plant_readings").set(self.readings as f64);
    }
}

/// How long a peer may take, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is served.
struct Metrics {
    scheduler: Mutex<MetricsReporter>,
    system: Mutex<mini_actor::metrics::MetricsReporter>,
    rendered: PrometheusHandle,
}

impl Metrics {
    /// Answers one connection after another: there is one Prometheus, and it asks seldom.
    fn serve(&self, listener: &TcpListener) {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| self.answer(stream)) {
                eprintln!("prometheus: {error}");
            }
        }
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = BufReader::new(stream.try_clone()?.take(8 * 1024));
        let mut first = String::new();
        request.read_line(&mut first)?;
        // Its headers do not matter, but a peer that is still sending would see a reset.
        let mut line = String::new();
        while request.read_line(&mut line)? > 2 {
            line.clear();
        }
        let mut words = first.split_ascii_whitespace();
        let (status, text) = match (words.next(), words.next()) {
            (Some("GET"), Some("/metrics")) => ("200 OK", self.text()),
            _ => ("404 Not Found", "Try GET /metrics\n".to_owned()),
        };
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}",
            text.len()
        )
    }

    /// The metrics of this moment. The quantiles are those since somebody asked last.
    fn text(&self) -> String {
        if let Ok(mut scheduler) = self.scheduler.lock() {
            scheduler.report();
        }
        if let Ok(mut system) = self.system.lock() {
            system.report();
        }
        self.rendered.render()
    }
}

fn fetch(address: SocketAddr) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let (head, text) = response.split_once("\r\n\r\n").ok_or("no end of the headers")?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("the answer is {head}").into());
    }
    Ok(text.to_owned())
}

/// Whether each metric that the dashboard shows is among those that are served. How many that are.
fn check(text: &str) -> Result<usize, Box<dyn Error>> {
    let served: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let mut shown = BTreeSet::new();
    expressions(&serde_json::from_str(DASHBOARD)?, &mut |expression| {
        let names = expression.split(|c: char| !c.is_alphanumeric() && c != '_');
        let ours = |name: &&str| name.starts_with("lars_") || name.starts_with("mini_");
        shown.extend(names.filter(ours).map(str::to_owned));
    });
    let missing: Vec<_> = shown.iter().filter(|name| !served.contains(&***name)).collect();
    match (shown.len(), missing.as_slice()) {
        (0, _) => Err("the dashboard shows nothing".into()),
        (found, []) => Ok(found),
        (_, missing) => Err(format!("not served: {missing:?}").into()),
    }
}

/// Calls `f` for each query of a dashboard.
fn expressions(json: &serde_json::Value, f: &mut impl FnMut(&str)) {
    use serde_json::Value;
    match json {
        Value::Array(items) => items.iter().for_each(|item| expressions(item, f)),
        Value::Object(fields) => {
            if let Some(Value::String(expression)) = fields.get("expr") {
                f(expression);
            }
            fields.values().for_each(|field| expressions(field, f));
        }
        _ => {}
    }
}
