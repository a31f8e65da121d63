//! Shutting down: what each close policy does with pending tasks, and how `stop` hands them back.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use examples::checks::{Problem, ensure};
use lars_scheduler::{ClosePolicy, Handle, LightArrayRevolverScheduler, Refusal, Task};

/// What has been run, in that order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A task that notes its name.
    fn task(&self, name: &'static str) -> impl FnMut() + Send + 'static {
        let log = self.clone();
        move || log.note(name)
    }
}

fn main() -> Result<(), Problem> {
    policies()?;
    handed_back()?;
    println!("Every task was run, cancelled, dropped by choice, or given back.");
    Ok(())
}

/// Leaves five timers pending, one of them cancelled.
fn fill(timers: &Handle, log: &Log) -> Result<(), Box<dyn Error>> {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    // Scheduled in no order; they are dealt with in the order of their deadlines.
    let _ = timers.schedule_once(minutes(30), log.task("send the digest"))?;
    let flush = Task::new(log.task("flush the journal")).run_on_close();
    let _ = timers.schedule_once(minutes(10), flush)?;
    let _ = timers.schedule_once(minutes(20), log.task("refresh the cache"))?;
    let _ = timers.schedule_at_fixed_rate(minutes(5), minutes(5), log.task("heartbeat"))?;
    let retry = timers.schedule_once(minutes(1), log.task("retry"))?;
    ensure(retry.cancel(), "a retry in a minute could not be cancelled")
}

fn policies() -> Result<(), Box<dyn Error>> {
    let log = Log::default();
    let expected: [(ClosePolicy, &str, &[&str]); 3] = [
        (
            ClosePolicy::RunPending,
            "all one-shots, the earliest first",
            &["flush the journal", "refresh the cache", "send the digest"],
        ),
        (ClosePolicy::RunMarked, "only the marked ones", &["flush the journal"]),
        (ClosePolicy::RunNone, "none", &[]),
    ];
    for (policy, says, runs) in expected {
        let scheduler = LightArrayRevolverScheduler::builder().close_policy(policy).build()?;
        fill(&scheduler, &log)?;
        let report = scheduler.close()?;
        let ran = log.take();
        println!("{policy:?}: {says}");
        println!("  {report}");
        for name in &ran {
            println!("  ran: {name}");
        }
        println!();
        ensure(ran == runs, "the policy ran something else")?;
        ensure(
            (report.ran, report.dropped, report.repeats_ended) == (runs.len(), 3 - runs.len(), 1),
            "the report tells something else",
        )?;
        account(&scheduler)?;
    }
    Ok(())
}

/// `stop` decides nothing: the tasks are the caller's.
fn handed_back() -> Result<(), Box<dyn Error>> {
    let log = Log::default();
    let scheduler = LightArrayRevolverScheduler::new()?;
    fill(&scheduler, &log)?;

    println!("stop(): the pending tasks come back");
    let now = Instant::now();
    let mut one_shots = 0;
    for task in scheduler.stop().wait() {
        let due = task.due().map_or_else(
            || "at no time".to_owned(),
            |due| format!("in {:>2.0?} min", due.duration_since(now).as_secs_f64() / 60.0),
        );
        let (kind, fate) = match (task.is_repeat(), task.runs_on_close()) {
            (true, _) => ("repeat", "dropped"),
            (false, true) => ("marked one-shot", "run now"),
            (false, false) => ("one-shot", "dropped here; a service might save it"),
        };
        println!("  due {due}: {kind}, {fate}");
        one_shots += usize::from(!task.is_repeat());
        if task.runs_on_close() {
            ensure(task.run(), "the task panicked")?;
        }
    }
    ensure(one_shots == 3, "not all one-shots came back")?;
    ensure(log.take() == ["flush the journal"], "something else has run")?;

    // Too late: the task is given back with the error.
    let Err(refused) = scheduler.schedule_once(Duration::ZERO, log.task("too late")) else {
        return Err("a stopped scheduler accepted a task".into());
    };
    println!("  a late task is refused: {refused}\n");
    ensure(*refused.refusal() == Refusal::Stopped, "refused for another reason")?;
    let mut late = refused.into_task();
    late();
    ensure(log.take() == ["too late"], "another task was given back")?;

    let again = scheduler.close()?;
    ensure(again.ran == 0, "a close after the stop found something to run")?;
    account(&scheduler)
}

/// Every timer that was accepted has one of the ends.
fn account(timers: &Handle) -> Result<(), Box<dyn Error>> {
    let m = timers.metrics();
    ensure(
        m.scheduled == m.fired + m.cancelled + m.handed_back && m.pending == 0,
        "the timers do not add up",
    )
}
