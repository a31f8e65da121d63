//! The audit of each second, its line, and the summary.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use examples::checks::verify;
use examples::late::Late;
use examples::view::Terminal;
use lars_scheduler::{Handle, Metrics};

use crate::books::Books;
use crate::memory::resident;
use crate::options::Options;

/// How long the workers are halted at most before the audit gives up for this second.
const HALT: Duration = Duration::from_millis(200);
/// After how long without an audit that adds up something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

#[derive(Debug)]
pub struct Monitor {
    books: Arc<Books>,
    timers: Handle,
    began: Instant,
    warm_up: Duration,
    last: (Instant, u64, Metrics),
    late: Late,
    terminal: Terminal,
    last_audit: Instant,
    audits: u64,
    /// After the warm-up: resident memory, and memory for timers.
    baseline: Option<(Option<u64>, u64)>,
    most: (u64, u64),
}

impl Monitor {
    pub fn new(options: &Options, timers: Handle, books: &Arc<Books>, terminal: Terminal) -> Self {
        let (now, metrics) = (Instant::now(), timers.metrics());
        Self {
            books: Arc::clone(books),
            began: now,
            warm_up: Duration::from_secs((options.seconds / 3).min(60)),
            late: Late::new(&metrics),
            last: (now, 0, metrics),
            terminal,
            last_audit: now,
            audits: 0,
            baseline: None,
            most: (0, 0),
            timers,
        }
    }

    /// What is to be done every second.
    pub fn second(&mut self) {
        let metrics = self.audit(HALT);
        self.look_at_memory(&metrics);
        let (before, steps_before, old) = &self.last;
        let steps = self.books.steps.load(Ordering::Relaxed);
        let now = Instant::now();
        let seconds = (now - *before).as_secs_f64();
        let rate = |more: u64| (more as f64 / seconds) as u64;
        let late = self.late.since(&metrics);
        if self.terminal.is_free() {
            println!(
                "{:>6} s {:>7} steps/s {:>7} fired/s {:>6} wake-ups/s {:>7} pending   \
             {late}   {} KiB of timers, {} MiB in all",
                self.began.elapsed().as_secs(),
                rate(steps - steps_before),
                rate(metrics.fired - old.fired),
                rate(metrics.wake_ups - old.wake_ups),
                metrics.pending,
                metrics.timer_memory >> 10,
                resident().map_or(0, |bytes| bytes / MIB),
            );
        }
        self.last = (now, steps, metrics);
    }

    /// Halts the workers and compares the books with the scheduler's, at an instant at which no
    /// task runs. There may be none within the limit; then the next second has another chance.
    fn audit(&mut self, limit: Duration) -> Metrics {
        let begin = Instant::now();
        let halted = self.books.gate.write().unwrap();
        let metrics = loop {
            let before = self.timers.metrics();
            let gone = get(&self.books.beats_gone) == get(&self.books.beats_ended);
            let pending = self.books.waiting() + self.books.beats();
            let runs = get(&self.books.ran) + get(&self.books.beat_runs);
            let after = self.timers.metrics();
            let quiet = (before.scheduled, before.fired) == (after.scheduled, after.fired);
            if quiet && gone && after.pending == pending {
                self.last_audit = Instant::now();
                self.audits += 1;
                self.compare(&after, runs);
                break after;
            }
            if begin.elapsed() > limit {
                if self.last_audit.elapsed() > PATIENCE {
                    let counts = counts(&after);
                    self.books.fault(format!("{pending} should be pending, but {counts}"));
                }
                break after;
            }
            thread::sleep(Duration::from_micros(100));
        };
        drop(halted);
        let (panicked, expected) = (metrics.panicked, self.books.panicked.load(Ordering::SeqCst));
        if panicked > expected || metrics.restarts > 0 || metrics.abandoned_by_executor > 0 {
            let counts = counts(&metrics);
            self.books.fault(format!("{expected} tasks should have panicked, but {counts}"));
        }
        metrics
    }

    /// At a quiet instant: the runs, and what was cancelled.
    fn compare(&self, metrics: &Metrics, runs: u64) {
        // A heartbeat that was cancelled has ended in one of three ways: it waited for its time,
        // and its timer was cancelled; it waited for a thread, and its run, though fired, did
        // nothing; or it was running.
        let timers_of_beats = metrics.cancelled.wrapping_sub(get(&self.books.cancelled));
        let skipped = metrics.fired.wrapping_sub(runs);
        let ended = get(&self.books.beats_ended);
        if timers_of_beats > ended || skipped > ended - timers_of_beats {
            let counts = counts(metrics);
            self.books
                .fault(format!("{runs} tasks ran and {ended} heartbeats ended, but {counts}"));
        }
    }

    /// The audit that has to add up, after the workers have ended.
    pub fn audit_at_last(&mut self) {
        let before = self.audits;
        let metrics = self.audit(PATIENCE);
        if self.audits == before {
            self.books
                .fault(format!("at the end the books do not add up with {}", counts(&metrics)));
        }
        let expected = self.books.panicked.load(Ordering::SeqCst);
        self.books.expect("tasks that panicked", metrics.panicked, expected);
    }

    fn look_at_memory(&mut self, metrics: &Metrics) {
        let (all, timers) = (resident(), metrics.timer_memory as u64);
        self.most = (self.most.0.max(all.unwrap_or(0)), self.most.1.max(timers));
        if self.began.elapsed() < self.warm_up {
            return;
        }
        let (all_before, timers_before) = *self.baseline.get_or_insert((all, timers));
        if timers > timers_before + timers_before / 4 + 8 * MIB {
            self.books.fault(format!("memory for timers grew from {timers_before} to {timers}"));
        }
        if let (Some(before), Some(all)) = (all_before, all)
            && all > before + before / 4 + 32 * MIB
        {
            self.books.fault(format!("resident memory grew from {before} to {all} bytes"));
        }
    }

    /// Prints what was. An error if not all was well.
    pub fn summary(&self, handed_back: u64) -> Result<(), Box<dyn Error>> {
        let books = &self.books;
        let metrics = self.timers.metrics();
        println!("\nAfter {:.0?}:\n", self.began.elapsed());
        let runs = get(&books.ran) + get(&books.beat_runs);
        for (what, number) in [
            ("steps", get(&books.steps)),
            ("timers accepted, runs of heartbeats included", metrics.scheduled),
            ("  fired", metrics.fired),
            ("    ran", runs),
            // Heartbeats: they fire for a thread of the pool, and may end before it comes.
            ("    cancelled while it waited for a thread", metrics.fired.wrapping_sub(runs)),
            ("  cancelled", metrics.cancelled),
            ("  handed back at the end", handed_back),
            ("deadlines moved", get(&books.moved)),
            ("heartbeats", get(&books.beats_begun)),
            ("tasks that panicked", metrics.panicked),
            ("schedulers that lived beside", get(&books.lives)),
            ("audits that added up", self.audits),
        ] {
            println!("  {what:<46} {number:>14}");
        }
        let (all, timers) = self.baseline.unwrap_or_default();
        let all = all.unwrap_or(0);
        println!("  {:<46} {:>14}", "bytes for timers after the warm-up", timers);
        println!("  {:<46} {:>14}", "  at most", self.most.1);
        println!("  {:<46} {:>14}", "bytes resident after the warm-up", all);
        println!("  {:<46} {:>14}", "  at most", self.most.0);
        let lateness = &metrics.lateness;
        println!(
            "  late: half {:.1?}, 99 % {:.1?}, 99.9 % {:.1?}, at most {:.1?}\n",
            lateness.quantile(0.5),
            lateness.quantile(0.99),
            lateness.quantile(0.999),
            lateness.max,
        );
        let accounted = metrics.scheduled == metrics.fired + metrics.cancelled + handed_back;
        verify(&[
            ("every timer has fired, was cancelled or was handed back", accounted),
            (
                "nothing early, nothing twice, nothing lost, no memory that grows",
                books.faults() == 0,
            ),
        ])
    }
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::SeqCst)
}

/// The counts in short.
fn counts(metrics: &Metrics) -> String {
    format!(
        "{} were scheduled, {} fired, {} cancelled, {} handed back, {} are pending, \
         {} panicked; {} restarts, {} abandoned",
        metrics.scheduled,
        metrics.fired,
        metrics.cancelled,
        metrics.handed_back,
        metrics.pending,
        metrics.panicked,
        metrics.restarts,
        metrics.abandoned_by_executor,
    )
}
