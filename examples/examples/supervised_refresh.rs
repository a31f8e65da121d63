//! A client that refreshes its copy of a registry while the registry becomes slow, fails, and
//! recovers.
//!
//! Refreshing is a supervised task. It runs every ten seconds and has three seconds for each run. A
//! run that takes longer doubles the interval, up to a minute, so that the clients do not finish
//! off a server in trouble. The runs are futures, polled by the thread that wakes them; nothing
//! waits for them. In virtual time all is over at once, and every run is compared with what
//! should have happened.
#![allow(clippy::disallowed_methods)]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use examples::checks::{Problem, verify};
use lars_jobs::supervised::{CancelToken, Counts, Outcome, RunReport, Supervision};
use lars_scheduler::{CancelOnDrop, Handle, Inline, LightArrayRevolverScheduler, Task};

const INTERVAL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(3);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
const WHOLE: Duration = Duration::from_secs(8 * 60);

/// How the server is: from when, how long an answer takes, and whether it is a good one.
const SERVER: [(u64, &str, Duration, bool); 4] = [
    (0, "well", Duration::from_millis(200), true),
    (60, "slow", Duration::from_secs(25), true),
    (250, "failing", Duration::from_millis(50), false),
    (380, "well again", Duration::from_millis(300), true),
];

/// A run as it was, or as it should be.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    began: Duration,
    took: Duration,
    outcome: &'static str,
    next_in: Duration,
}

/// A server that answers after a while, and counts those who told it that they wait no longer.
struct Server {
    timers: Handle,
    start: Instant,
    hung_up: AtomicU64,
}

fn main() -> Result<(), Problem> {
    let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    let start = time.now();
    let server = Arc::new(Server { timers: time.handle(), start, hung_up: AtomicU64::new(0) });

    let lines = Arc::new(Mutex::new(Vec::new()));
    let (log, clock) = (Arc::clone(&lines), time.handle());
    let on_settled = move |report: &RunReport| {
        log.lock().unwrap_or_else(PoisonError::into_inner).push(Line {
            began: clock.now() - start - report.took,
            took: report.took,
            outcome: name_of(&report.outcome),
            next_in: report.next_in.unwrap_or_default(),
        });
    };
    let asked = Arc::clone(&server);
    let refresh = Supervision::every(INTERVAL)
        .timeout(TIMEOUT)
        .max_interval(MAX_INTERVAL)
        .on_settled(on_settled)
        .build()?
        .start_future(&time, Inline, move |token| fetch(Arc::clone(&asked), token))?;

    time.advance(WHOLE);
    let counts = refresh.counts();
    let ended = refresh.cancel();

    let lines = std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
    print(&lines, &counts);
    let expected = what_should_happen();
    let timeouts = expected.iter().filter(|line| line.outcome == "timeout").count() as u64;
    let settled = counts.successes + counts.timeouts + counts.rejections + counts.failures;
    println!();
    verify(&[
        ("every run came when it should, and ended as it should", lines == expected),
        ("the interval went up to its bound, and back", {
            lines.iter().any(|line| line.next_in == MAX_INTERVAL) && counts.interval == INTERVAL
        }),
        ("every run is counted once", settled == counts.runs && settled == lines.len() as u64),
        ("every run that was given up hung up on the server", {
            server.hung_up.load(Ordering::Relaxed) == timeouts && counts.late_ends == timeouts
        }),
        ("after the end nothing is left", ended && time.pending() == 0),
    ])?;
    Ok(())
}

/// One refresh. When nobody waits for it any more it tells the server so, instead of leaving it to
/// its work.
async fn fetch(server: Arc<Server>, token: CancelToken) -> Result<(), &'static str> {
    let (_, _, latency, good) = server_at(server.timers.now() - server.start);
    let mut answer =
        Answer { deadline: server.timers.now() + latency, server: &server, timer: None };
    let mut given_up = pin!(token.cancelled());
    std::future::poll_fn(|context| {
        if Pin::new(&mut answer).poll(context).is_ready() {
            return Poll::Ready(if good { Ok(()) } else { Err("503") });
        }
        given_up.as_mut().poll(context).map(|()| {
            server.hung_up.fetch_add(1, Ordering::Relaxed);
            Err("given up")
        })
    })
    .await
}

/// The answer of the server, when its time has come.
struct Answer<'a> {
    server: &'a Server,
    deadline: Instant,
    timer: Option<CancelOnDrop>,
}

impl Future for Answer<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let timers = &self.server.timers;
        if timers.now() >= self.deadline {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let wake = Task::new(move || waker.wake()).inline();
        // Refused only when the scheduler has stopped; then nobody waits for the answer.
        let timer = timers.schedule_at(self.deadline, wake).ok();
        self.timer = timer.map(lars_scheduler::Cancellable::cancel_on_drop);
        Poll::Pending
    }
}

fn server_at(time: Duration) -> (u64, &'static str, Duration, bool) {
    let mut now = SERVER[0];
    for state in SERVER {
        if time >= Duration::from_secs(state.0) {
            now = state;
        }
    }
    now
}

/// The rule, written down once more without a scheduler.
fn what_should_happen() -> Vec<Line> {
    let mut lines = Vec::new();
    let mut interval = INTERVAL;
    let mut began = INTERVAL;
    loop {
        let (_, _, latency, good) = server_at(began);
        let (took, outcome) = match (latency < TIMEOUT, good) {
            (true, true) => (latency, "success"),
            (true, false) => (latency, "failure"),
            (false, _) => (TIMEOUT, "timeout"),
        };
        interval = match outcome {
            "success" => INTERVAL,
            "timeout" => (interval * 2).min(MAX_INTERVAL),
            _ => interval,
        };
        if began + took > WHOLE {
            return lines;
        }
        lines.push(Line { began, took, outcome, next_in: interval });
        began += took + interval;
    }
}

fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "success",
        Outcome::Timeout => "timeout",
        Outcome::Rejected => "rejected",
        Outcome::Failure(_) => "failure",
        _ => "panic",
    }
}

fn print(lines: &[Line], counts: &Counts) {
    println!(
        "A refresh every {INTERVAL:?}, given up after {TIMEOUT:?}, \
         backing off to {MAX_INTERVAL:?}:\n"
    );
    println!("  run   at        server       outcome   took      next in");
    for (number, line) in lines.iter().enumerate() {
        let (began, took) = (line.began.as_secs_f64(), line.took.as_secs_f64());
        let server = server_at(line.began).1;
        let next_in = line.next_in.as_secs();
        println!(
            "  {:>3} {began:>7.2} s   {server:<10}   {:<7} {took:>6.2} s   {next_in:>3} s  {}",
            number + 1,
            line.outcome,
            "▪".repeat(next_in as usize / 10),
        );
    }
    println!("\n  runs       {:>4}", counts.runs);
    println!("  successes  {:>4}", counts.successes);
    println!("  timeouts   {:>4}", counts.timeouts);
    println!("  failures   {:>4}", counts.failures);
    println!("  rejections {:>4}", counts.rejections);
}
