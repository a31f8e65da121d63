//! A process that is stopped for a while, as by a debugger, with systems at work. The test runs
//! itself again as a child, which knows by an environment variable.

use crate::common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use common::{Notes, eventually, ms};
use lars_jobs::delay_queue::DelayQueue;
use lars_jobs::wall_clock::{MissedRuns, WallClockScheduler, WallClockTimer};
use lars_jobs::worker::{Worker, WorkerTask};
use lars_scheduler::{Handle, LightArrayRevolverScheduler, MissedTickBehavior};

const NAME: &str = "systems_of_a_process_that_was_stopped_are_never_early_and_lose_nothing";
const CHILD: &str = "LARS_STOPPED_CHILD";
const STOP: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_millis(50);
const ITEMS: u32 = 60;

fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: the process is a child of this one that was not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
}

#[test]
fn systems_of_a_process_that_was_stopped_are_never_early_and_lose_nothing() {
    if std::env::var_os(CHILD).is_some() {
        return at_work();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("stopped::{NAME}"), "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.trim_end().ends_with("ready") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child ended before that");
    }
    signal(&child, libc::SIGSTOP);
    thread::sleep(STOP);
    signal(&child, libc::SIGCONT);
    drop(child.stdin.take()); // it may look
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", said.chars().take(2_000).collect::<String>());
}

/// What the child does.
fn at_work() {
    let scheduler = LightArrayRevolverScheduler::new().unwrap();
    let worker = Worker::new(&scheduler);
    let burst = Rate::start(&scheduler, &worker, MissedTickBehavior::Burst);
    let skip = Rate::start(&scheduler, &worker, MissedTickBehavior::Skip);
    let every = Occurrences::start(&scheduler, MissedRuns::Burst);
    let once = Occurrences::start(&scheduler, MissedRuns::Once);
    let queue = DelayQueue::new();
    let first = Instant::now() + 4 * PERIOD;
    for number in (0..ITEMS).rev() {
        let due = first + ms(20) * number;
        queue.put_at((number, due), due).unwrap();
    }
    let taken = thread::spawn(move || {
        let taken = (0..ITEMS).map(|_| queue.take().unwrap());
        taken.map(|(number, due)| (number, Instant::now() >= due)).collect::<Vec<_>>()
    });
    println!("ready");
    std::io::stdin().read_to_string(&mut String::new()).unwrap();

    let (skipped, burst) = (skip.end(), burst.end_when_caught_up());
    assert_fewer_by_what_was_missed(skipped, burst);
    let (once, every) = (once.end(), every.end_when_caught_up());
    assert_fewer_by_what_was_missed(once, every);
    let taken = taken.join().unwrap();
    assert!(taken.iter().all(|(_, in_time)| *in_time), "none early");
    assert!(taken.iter().map(|(number, _)| *number).eq(0..ITEMS), "once each, and in order");
    assert_eq!(scheduler.metrics().restarts, 0);
}

/// (The run before the stop and the one after it may both be within the time of the stop.)
fn assert_fewer_by_what_was_missed(some: usize, all: usize) {
    let missed = (STOP.as_millis() / PERIOD.as_millis()) as usize;
    assert!(some + missed <= all + 3, "{some} of {all} ran, and {missed} were missed");
}

/// A worker's fixed rate.
struct Rate {
    task: WorkerTask,
    runs: Notes<Instant>,
    first: Instant,
}

impl Rate {
    fn start(timers: &Handle, worker: &Worker, missed: MissedTickBehavior) -> Self {
        let (runs, first) = (Notes::new(), timers.now() + PERIOD);
        let note = runs.clone();
        let worker = worker.clone().missed_ticks(missed);
        let run = move || note.add(Instant::now());
        let task = worker.schedule_at_fixed_rate(first, PERIOD, run).unwrap();
        Self { task, runs, first }
    }

    /// Ends it, and says how often it ran.
    fn end(self) -> usize {
        assert!(self.task.cancel());
        self.runs.len()
    }

    /// Ends it when it has made up for all that was missed until now.
    fn end_when_caught_up(self) -> usize {
        let passed = 1 + (self.first.elapsed().as_millis() / PERIOD.as_millis()) as usize;
        eventually("all runs", || self.runs.len() >= passed);
        let due = (0..).map(|nth| self.first + PERIOD * nth);
        let runs = self.runs.take();
        assert!(runs.iter().zip(due).all(|(at, due)| *at >= due), "none early");
        runs.len() + self.end()
    }
}

/// A series on the wall clock.
struct Occurrences {
    timer: WallClockTimer,
    runs: Notes<()>,
    begun: u128,
}

impl Occurrences {
    fn start(timers: &Handle, missed: MissedRuns) -> Self {
        let runs = Notes::new();
        let note = runs.clone();
        let wall = WallClockScheduler::new(timers.clone()).missed_runs(missed);
        let each_period = |after: SystemTime| {
            let next = (periods_until(after) + 1) * PERIOD.as_millis();
            Some(SystemTime::UNIX_EPOCH + ms(next as u64))
        };
        let timer = wall.schedule_by_calendar(each_period, move || note.add(())).unwrap();
        Self { timer, runs, begun: periods_until(SystemTime::now()) }
    }

    fn end(self) -> usize {
        assert!(self.timer.cancel());
        self.runs.len()
    }

    fn end_when_caught_up(self) -> usize {
        let passed = periods_until(SystemTime::now()).saturating_sub(self.begun) as usize;
        eventually("all occurrences", || self.runs.len() >= passed);
        self.end()
    }
}

fn periods_until(instant: SystemTime) -> u128 {
    instant.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() / PERIOD.as_millis()
}
