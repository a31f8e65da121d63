//! Timeouts, an idle connection, a heartbeat and a retry in async code: without a runtime, under
//! tokio, and in virtual time. The code is the same in all three.
//!
//! The first run needs nothing but a thread that polls. In the second, the same futures are a task
//! of a tokio runtime whose own timers are disabled. In the third nothing sleeps, and every figure
//! is exact.
//!
//! ```text
//! cargo run --release -p examples --features tokio --example async_timeouts
//! ```
#![allow(clippy::disallowed_methods)]

use std::fmt::Debug;
use std::future::{pending, poll_fn};
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

use examples::checks::Problem;
use futures::StreamExt;
use futures::future::join_all;
use futures::{FutureExt, select};
use lars_jobs::Jobs;
use lars_jobs::backoff::BackoffPolicy;
use lars_scheduler::future::TimeoutError;
use lars_scheduler::{Handle, LightArrayRevolverScheduler, MissedTickBehavior, Refusal};

const REQUESTS: usize = 10_000;
/// Each tenth request gets no answer.
const SILENT: usize = 10;
const LIMIT: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_millis(50);
const BEAT: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(10);

/// What happened.
#[derive(Debug)]
struct Story {
    answered: usize,
    timed_out: usize,
    /// How long after its limit the latest timeout was noticed.
    latest: Duration,
    /// For the timeouts, and how many of them were cancelled because the answer had come.
    timers: u64,
    cancelled: u64,
    /// From the last request to the end of the idle connection.
    idle_for: Duration,
    idle_timers: u64,
    /// When the ticks were due, in periods.
    beats: Vec<u128>,
    attempts: u32,
    retried_for: Duration,
    at_the_end: Result<(), Refusal>,
    took: Duration,
}

fn main() -> Result<(), Problem> {
    let scheduler = LightArrayRevolverScheduler::new()?;
    let timers = scheduler.handle();
    let clock = Instant::now();
    let alone = futures::executor::block_on(story(timers, move || drop(scheduler)))?;
    let alone = Story { took: clock.elapsed(), ..alone };

    let scheduler = LightArrayRevolverScheduler::new()?;
    let timers = scheduler.handle();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let clock = Instant::now();
    let on_tokio = tokio.block_on(tokio.spawn(story(timers, move || drop(scheduler))))??;
    let on_tokio = Story { took: clock.elapsed(), ..on_tokio };

    let time = LightArrayRevolverScheduler::builder().build_virtual()?;
    let clock = Instant::now();
    let ends = || drop(time.stop());
    let in_virtual_time = time.block_on(story(time.handle(), ends))??;
    let in_virtual_time = Story { took: clock.elapsed(), ..in_virtual_time };

    let stories = [&alone, &on_tokio, &in_virtual_time];
    println!("{:42}{:>14}{:>14}{:>14}", "", "no runtime", "tokio", "virtual time");
    row("requests with a limit of 250 ms: answered", stories, |story| story.answered);
    row("  timed out", stories, |story| story.timed_out);
    row("  the latest noticed after", stories, |story| story.latest);
    row("  timers made", stories, |story| story.timers);
    row("  cancelled, as the answer came", stories, |story| story.cancelled);
    row("a connection idle for 50 ms: closed after", stories, |story| story.idle_for);
    row("  timers made for 100 requests", stories, |story| story.idle_timers);
    row("a heartbeat, third one long: ticks", stories, |story| story.beats.clone());
    row("a retry that succeeds with attempt", stories, |story| story.attempts);
    row("  after pauses of 10, 20, 40 ms, in all", stories, |story| story.retried_for);
    row("a sleep of an hour, scheduler ended", stories, |story| match &story.at_the_end {
        Err(Refusal::Stopped) => "Stopped",
        _ => "?",
    });
    row("all of it took", stories, |story| story.took);

    for story in stories {
        check(story)?;
    }
    let exact = &in_virtual_time;
    if (exact.latest, exact.idle_for, exact.retried_for) != (Duration::ZERO, IDLE, 7 * PAUSE)
        || exact.timed_out != REQUESTS / SILENT
        || (exact.timers, exact.cancelled) != (REQUESTS as u64, exact.answered as u64)
    {
        return Err("virtual time was not exact".into());
    }
    println!("\nNothing was early, nothing was lost, and in virtual time everything was exact.");
    Ok(())
}

/// Everything, one after the other, on whatever executor polls it.
async fn story(timers: Handle, end: impl FnOnce()) -> Result<Story, Problem> {
    let before = timers.metrics();
    let outcomes = join_all((0..REQUESTS).map(|number| request(&timers, number))).await;
    let after = timers.metrics();
    let answered = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let late: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    let latest = late.iter().max().copied().flatten().ok_or("a timeout that is no timeout")?;

    let (idle_for, idle_timers) = idle_connection(&timers).await?;
    let beats = heartbeat(&timers).await?;
    let (attempts, retried_for) = connect(&timers).await?;

    // The sleep waits when the scheduler ends, and hears of it.
    let end = async {
        end();
        Ok(())
    };
    let (at_the_end, ended) = futures::join!(timers.sleep(Duration::from_secs(3600)), end);
    ended.map(|()| Story {
        answered,
        timed_out: late.len(),
        latest,
        timers: after.scheduled - before.scheduled,
        cancelled: after.cancelled - before.cancelled,
        idle_for,
        idle_timers,
        beats,
        attempts,
        retried_for,
        at_the_end,
        took: Duration::ZERO,
    })
}

/// One request. Fails with the time from its limit until it noticed; none if it failed in another
/// way.
async fn request(timers: &Handle, number: usize) -> Result<usize, Option<Duration>> {
    let begin = timers.now();
    let answer = async {
        if number.is_multiple_of(SILENT) {
            pending::<()>().await;
        }
        yield_once().await;
        number
    };
    match timers.timeout(LIMIT, answer).await {
        Ok(answer) => Ok(answer),
        // An error if it was early.
        Err(TimeoutError::Elapsed) => Err((timers.now() - begin).checked_sub(LIMIT)),
        Err(_) => Err(None),
    }
}

/// What waiting for the network is to an executor.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Serves a hundred requests, and closes when none has come for a while. Each request moves the one
/// timer.
async fn idle_connection(timers: &Handle) -> Result<(Duration, u64), Problem> {
    let (sender, mut requests) = futures::channel::mpsc::unbounded();
    let before = timers.metrics().scheduled;
    let mut idle = timers.sleep(IDLE);
    let mut last = timers.now();
    let client = async {
        for number in 0..100 {
            sender.unbounded_send(number)?;
            yield_once().await;
        }
        Ok::<_, Problem>(())
    };
    let mut client = Box::pin(client.fuse());
    loop {
        select! {
            done = client => done?,
            _request = requests.select_next_some() => {
                last = timers.now();
                idle.reset(IDLE);
            }
            over = idle => {
                over?;
                return Ok((timers.now() - last, timers.metrics().scheduled - before));
            }
        }
    }
}

/// Six beats, of which the third takes more than two periods. What was missed is left out.
async fn heartbeat(timers: &Handle) -> Result<Vec<u128>, Problem> {
    let start = timers.now();
    let mut ticks = timers.interval_at(start, BEAT)?.missed_ticks(MissedTickBehavior::Skip);
    let mut beats = Vec::new();
    for number in 1..=6 {
        let due = ticks.tick().await?;
        if timers.now() < due {
            return Err("a tick was early".into());
        }
        beats.push((due - start).as_nanos() / BEAT.as_nanos());
        if number == 3 {
            timers.sleep(BEAT.mul_f64(2.5)).await?;
        }
    }
    Ok(beats)
}

/// Connects to a server that comes up with the fourth attempt.
async fn connect(timers: &Handle) -> Result<(u32, Duration), Problem> {
    let policy = BackoffPolicy::builder().initial(PAUSE).max_attempts(10).build()?;
    let start = timers.now();
    let mut attempts = 0;
    let connection =
        timers.retry(policy, || {
            attempts += 1;
            let up = attempts == 4;
            async move {
                if up { Ok(()) } else { Err(io::Error::from(io::ErrorKind::ConnectionRefused)) }
            }
        });
    connection.await?;
    Ok((attempts, timers.now() - start))
}

/// One line of the table.
fn row<T: Debug>(name: &str, stories: [&Story; 3], value: impl Fn(&Story) -> T) {
    let values = stories.map(|story| format!("{:.1?}", value(story)).replace(['"', ' '], ""));
    println!("{name:42}{:>14}{:>14}{:>14}", values[0], values[1], values[2]);
}

/// The promises, in real time as in virtual time.
fn check(story: &Story) -> Result<(), Problem> {
    // If the machine stands still for the limit, a request may time out before it is polled, even
    // the first time, and a timer may fire although the answer came.
    let requests =
        story.answered + story.timed_out == REQUESTS && story.timed_out >= REQUESTS / SILENT;
    let timers = story.timers <= REQUESTS as u64 && story.cancelled <= story.answered as u64;
    let idle = story.idle_for >= IDLE && story.idle_timers == 1;
    let beats = story.beats.is_sorted_by(|one, next| one < next) && story.beats.len() == 6;
    let skipped = story.beats[4] >= story.beats[2] + 3;
    let retried = story.attempts == 4 && story.retried_for >= 7 * PAUSE;
    let ended = story.at_the_end == Err(Refusal::Stopped);
    for (held, promise) in [
        (requests, "each request is answered or timed out"),
        (timers, "there is at most one timer for each request"),
        (idle, "an idle connection is closed after its time, by one timer"),
        (beats, "each beat comes once"),
        (skipped, "missed beats are left out"),
        (retried, "a retry keeps its pauses"),
        (ended, "a sleep hears of the end of its scheduler"),
    ] {
        if !held {
            return Err(format!("broken: {promise}, in {story:?}").into());
        }
    }
    Ok(())
}
