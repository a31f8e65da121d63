//! The books: one receipt for each timer that is out, and the totals.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// Receipts of one worker.
pub const RECEIPTS: usize = 1 << 16;
/// After how long past its deadline a timer counts as lost. No measure of lateness: a machine may
/// stand still.
pub const LOST: u64 = 120_000_000_000;
/// Faults beyond these are only counted.
const SHOWN: usize = 10;

const RAN: u64 = 1;
const DROPPED: u64 = 1 << 8;
const GENERATION: u32 = 32;

/// What became of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It has neither run nor been dropped, or is running.
    Out,
    Ran,
    /// Dropped unrun.
    Dropped,
}

#[derive(Debug, Default)]
struct Receipt {
    /// How often it ran, how often it was dropped, and for which timer the receipt is now.
    word: AtomicU64,
    /// Before this instant it must not run.
    bound: AtomicU64,
}

#[derive(Debug)]
pub struct Books {
    epoch: Instant,
    receipts: Vec<Receipt>,
    /// Held shared by workers while they work, exclusively by the audit.
    pub gate: RwLock<()>,
    ended: AtomicBool,
    pub steps: AtomicU64,
    pub accepted: AtomicU64,
    pub ran: AtomicU64,
    pub cancelled: AtomicU64,
    pub moved: AtomicU64,
    pub panicked: AtomicU64,
    pub beats_begun: AtomicU64,
    pub beats_ended: AtomicU64,
    /// Closures of heartbeats that were dropped.
    pub beats_gone: AtomicU64,
    pub beat_runs: AtomicU64,
    /// Schedulers that were started and ended beside.
    pub lives: AtomicU64,
    faults: AtomicU64,
    texts: Mutex<Vec<String>>,
}

impl Books {
    pub fn new(workers: usize) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            epoch: Instant::now(),
            receipts: (0..workers * RECEIPTS).map(|_| Receipt::default()).collect(),
            gate: RwLock::new(()),
            ended: AtomicBool::new(false),
            steps: zero(),
            accepted: zero(),
            ran: zero(),
            cancelled: zero(),
            moved: zero(),
            panicked: zero(),
            beats_begun: zero(),
            beats_ended: zero(),
            beats_gone: zero(),
            beat_runs: zero(),
            lives: zero(),
            faults: zero(),
            texts: Mutex::new(Vec::new()),
        }
    }

    /// Nanoseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Asks the workers to return.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Timers that should be pending. Exact while the workers are halted and no task runs.
    pub fn waiting(&self) -> u64 {
        let ended = self.ran.load(Ordering::SeqCst) + self.cancelled.load(Ordering::SeqCst);
        self.accepted.load(Ordering::SeqCst).wrapping_sub(ended)
    }

    /// Heartbeats that go on.
    pub fn beats(&self) -> u64 {
        self.beats_begun.load(Ordering::SeqCst) - self.beats_ended.load(Ordering::SeqCst)
    }

    pub fn fault(&self, text: String) {
        let mut texts = self.texts.lock().unwrap();
        if texts.len() < SHOWN {
            println!("  FAULT  {text}");
            texts.push(text);
        }
        self.faults.fetch_add(1, Ordering::SeqCst);
    }

    pub fn expect(&self, what: &str, found: u64, expected: u64) {
        if found != expected {
            self.fault(format!("{what}: {found} and not {expected}"));
        }
    }

    /// As `expect`, but it may take a while until both are the same.
    pub fn expect_soon(&self, what: &str, counts: impl Fn() -> (u64, u64)) {
        let begin = self.now();
        while self.now() - begin < LOST {
            let (found, expected) = counts();
            if found == expected {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let (found, expected) = counts();
        self.expect(what, found, expected);
    }

    pub fn beats_gone_and_begun(&self) -> (u64, u64) {
        (self.beats_gone.load(Ordering::SeqCst), self.beats_begun.load(Ordering::SeqCst))
    }

    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::SeqCst)
    }

    /// Opens a receipt that is not in use, for a timer that must not run for `delay`.
    pub fn open(self: &Arc<Self>, number: usize, delay: Duration) -> Token {
        let receipt = &self.receipts[number];
        receipt.bound.store(self.now() + delay.as_nanos() as u64, Ordering::SeqCst);
        let generation = (receipt.word.load(Ordering::SeqCst) >> GENERATION) as u32;
        Token { books: Arc::clone(self), number: number as u32, generation }
    }

    /// Moves the bound of a timer by `reset`, which says whether it moved the deadline.
    pub fn move_bound(&self, number: usize, delay: Duration, reset: impl FnOnce() -> bool) {
        let bound = &self.receipts[number].bound;
        let (old, new) = (bound.load(Ordering::SeqCst), self.now() + delay.as_nanos() as u64);
        // While the call is under way either may hold.
        bound.store(old.min(new), Ordering::SeqCst);
        if reset() {
            bound.store(new, Ordering::SeqCst);
            self.moved.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn bound(&self, number: usize) -> u64 {
        self.receipts[number].bound.load(Ordering::SeqCst)
    }

    /// What became of the timer of this receipt. Once it is not out any more, that is final.
    pub fn fate(&self, number: usize) -> Fate {
        let word = self.receipts[number].word.load(Ordering::SeqCst);
        match word & ((1 << GENERATION) - 1) {
            0 | RAN => Fate::Out,
            DROPPED => Fate::Dropped,
            marks if marks == RAN + DROPPED => Fate::Ran,
            marks => {
                self.fault(format!("the timer of receipt {number} has the marks {marks:#x}"));
                Fate::Ran
            }
        }
    }

    /// Makes the receipt one for another timer. What still has a token for the old one shows as a
    /// fault.
    pub fn close(&self, number: usize) {
        let word = &self.receipts[number].word;
        let generation = (word.load(Ordering::SeqCst) >> GENERATION) as u32;
        word.store(u64::from(generation.wrapping_add(1)) << GENERATION, Ordering::SeqCst);
    }
}

/// What a timer's task owns.
#[derive(Debug)]
pub struct Token {
    books: Arc<Books>,
    number: u32,
    generation: u32,
}

impl Token {
    /// The task.
    pub fn run(&self) {
        let now = self.books.now();
        let bound = self.books.bound(self.number as usize);
        if now < bound {
            self.books.fault(format!("a task ran {} ns early", bound - now));
        }
        self.mark(RAN);
        self.books.ran.fetch_add(1, Ordering::SeqCst);
    }

    fn mark(&self, mark: u64) {
        let word = self.books.receipts[self.number as usize].word.fetch_add(mark, Ordering::SeqCst);
        if (word >> GENERATION) as u32 != self.generation {
            let what = if mark == RAN { "ran" } else { "was dropped" };
            self.books.fault(format!("a task {what} after everything was known of it"));
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.mark(DROPPED);
    }
}
