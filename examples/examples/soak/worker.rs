//! A worker: one thread with its connections.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use lars_scheduler::{Cancellable, Handle, Task};

use crate::beat::Beat;
use crate::books::{Books, Fate, LOST, RECEIPTS};
use crate::options::Options;

/// Steps between two looks at the gate and the clock.
const SLICE: u64 = 64;
/// Timers that are hours away, each.
const FAR: usize = 500;
const BATCH: usize = 40;

const IDLE: Duration = Duration::from_secs(3);

/// A timer and its receipt.
#[derive(Debug)]
struct Timer {
    receipt: usize,
    cancellable: Cancellable,
}

#[derive(Debug, Default)]
struct Connection {
    idle: Option<Timer>,
    request: Option<Timer>,
    beat: Option<Beat>,
}

#[derive(Debug)]
pub struct Worker {
    books: Arc<Books>,
    timers: Handle,
    random: Random,
    rate: u64,
    free: Vec<usize>,
    /// Receipts of timers that nobody holds a cancellable of any more.
    open: Vec<usize>,
    connections: Vec<Connection>,
    far: Vec<Timer>,
}

impl Worker {
    pub fn new(number: usize, options: &Options, timers: Handle, books: &Arc<Books>) -> Self {
        Self {
            books: Arc::clone(books),
            timers,
            random: Random(options.seed.wrapping_mul(0x9E37_79B9) + 1 + number as u64),
            rate: options.rate,
            free: (number * RECEIPTS..(number + 1) * RECEIPTS).collect(),
            open: Vec::new(),
            connections: (0..options.connections).map(|_| Connection::default()).collect(),
            far: Vec::new(),
        }
    }

    /// Works until it is told to end, no faster than it should.
    pub fn run(mut self) -> Self {
        let books = Arc::clone(&self.books);
        let began = books.now();
        let mut steps = 0_u64;
        while !books.has_ended() {
            {
                let _open = books.gate.read().unwrap();
                for _ in 0..SLICE {
                    self.step();
                }
                if steps.is_multiple_of(16 * SLICE) {
                    self.look_through_open();
                }
            }
            steps += SLICE;
            books.steps.fetch_add(SLICE, Ordering::Relaxed);
            let ahead = (steps as u128 * 1_000_000_000 / u128::from(self.rate)) as u64;
            let ahead = ahead.saturating_sub(books.now() - began);
            if ahead > 1_000_000 {
                thread::sleep(Duration::from_nanos(ahead));
            } else if ahead == 0 && steps.is_multiple_of(1 << 20) {
                thread::yield_now();
            }
        }
        self
    }

    fn step(&mut self) {
        match self.random.below(1000) {
            0..550 => self.request(),
            550..800 => self.traffic(),
            800..830 => self.hang_up(),
            830..990 => self.post(),
            990..993 => self.probe(),
            _ => self.plan(),
        }
    }

    /// A connection; some are busy, some nearly silent.
    fn any_connection(&mut self) -> usize {
        let share = self.random.below(1 << 16) as usize;
        // The square makes those in front busier.
        (((share * share) >> 16) * self.connections.len()) >> 16
    }

    fn micros(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(least + self.random.below(most - least))
    }

    fn once(&mut self, delay: Duration, inline: bool) -> Option<Timer> {
        let receipt = self.free.pop()?;
        let token = self.books.open(receipt, delay);
        let task = Task::new(move || token.run());
        let task = if inline { task.inline() } else { task };
        self.accept(receipt, delay, task)
    }

    fn accept<F: FnOnce() + Send + 'static>(
        &mut self,
        receipt: usize,
        delay: Duration,
        task: Task<F>,
    ) -> Option<Timer> {
        // Counted before: the task may run before the call returns.
        self.books.accepted.fetch_add(1, Ordering::SeqCst);
        match self.timers.schedule_once(delay, task) {
            Ok(cancellable) => Some(Timer { receipt, cancellable }),
            Err(error) => {
                self.books.fault(format!("a timer was refused: {error}"));
                None
            }
        }
    }

    /// Cancels a timer, and settles it if that was in time.
    fn end(&mut self, timer: Option<Timer>) {
        let Some(Timer { receipt, cancellable }) = timer else { return };
        if !cancellable.cancel() {
            self.open.push(receipt);
            return;
        }
        self.books.cancelled.fetch_add(1, Ordering::SeqCst);
        if self.books.fate(receipt) != Fate::Dropped {
            self.books.fault("a cancelled task was not dropped by the cancel".to_owned());
        }
        self.settle(receipt);
    }

    fn settle(&mut self, receipt: usize) {
        self.books.close(receipt);
        self.free.push(receipt);
    }

    /// The answer to the request under way arrives, or a request is sent, which has a timeout.
    fn request(&mut self) {
        let number = self.any_connection();
        self.open_connection(number);
        if let Some(request) = self.connections[number].request.take() {
            self.end(Some(request));
            return;
        }
        let limit = match self.random.below(4) {
            0 => self.micros(200, 10_000), // some of them too short
            _ => self.micros(50_000, 2_000_000),
        };
        self.connections[number].request = self.once(limit, true);
    }

    /// Something arrives: the idle timeout begins anew.
    fn traffic(&mut self) {
        let number = self.any_connection();
        self.open_connection(number);
        let delay = if self.random.below(16) == 0 {
            self.micros(0, 100_000) // "I am about to leave"
        } else {
            IDLE
        };
        if let Some(timer) = &self.connections[number].idle {
            self.books.move_bound(timer.receipt, delay, || timer.cancellable.reset(delay));
        }
    }

    /// Opens the connection if it is not, or if it was timed out.
    fn open_connection(&mut self, number: usize) {
        let idle = &self.connections[number].idle;
        if idle.as_ref().is_some_and(|timer| timer.cancellable.is_pending()) {
            return;
        }
        self.close_connection(number);
        self.connections[number].idle = self.once(IDLE, true);
        let every = self.micros(500_000, 5_000_000);
        let fixed_rate = self.random.below(2) == 0;
        match Beat::start(&self.books, &self.timers, every, fixed_rate) {
            Ok(beat) => self.connections[number].beat = Some(beat),
            Err(error) => self.books.fault(format!("a heartbeat was refused: {error}")),
        }
    }

    fn hang_up(&mut self) {
        let number = self.any_connection();
        self.close_connection(number);
    }

    fn close_connection(&mut self, number: usize) {
        let Connection { idle, request, beat } = std::mem::take(&mut self.connections[number]);
        self.end(idle);
        self.end(request);
        if let Some(beat) = beat {
            beat.end();
        }
    }

    /// Work for another thread, without a delay; now and then it panics.
    fn post(&mut self) {
        let timer = if self.random.below(4096) == 0 {
            let Some(receipt) = self.free.pop() else { return };
            let token = self.books.open(receipt, Duration::ZERO);
            let task = Task::new(move || {
                token.run();
                token.panic();
            });
            self.books.panicked.fetch_add(1, Ordering::SeqCst);
            self.accept(receipt, Duration::ZERO, task)
        } else {
            let inline = self.random.below(2) == 0;
            self.once(Duration::ZERO, inline)
        };
        if let Some(timer) = timer {
            self.open.push(timer.receipt);
        }
    }

    /// A batch of probes, half of which are called back.
    fn probe(&mut self) {
        if self.free.len() < BATCH {
            return;
        }
        let receipts = self.free.split_off(self.free.len() - BATCH);
        let batch: Vec<_> = receipts
            .iter()
            .map(|&receipt| {
                let delay = self.micros(0, 1_000_000);
                let token = self.books.open(receipt, delay);
                (delay, Task::new(move || token.run()).inline())
            })
            .collect();
        self.books.accepted.fetch_add(BATCH as u64, Ordering::SeqCst);
        match self.timers.schedule_batch(batch) {
            Ok(timers) => {
                for (index, (cancellable, receipt)) in timers.into_iter().zip(receipts).enumerate()
                {
                    if index % 2 == 0 {
                        self.end(Some(Timer { receipt, cancellable }));
                    } else {
                        self.open.push(receipt);
                    }
                }
            }
            Err(error) => self.books.fault(format!("a batch was refused: {error}")),
        }
    }

    /// Something hours away; the oldest such thing is called off.
    fn plan(&mut self) {
        if self.far.len() >= FAR {
            let index = self.random.below(FAR as u64) as usize;
            let timer = self.far.swap_remove(index);
            self.end(Some(timer));
        }
        let delay = Duration::from_secs(3600 + self.random.below(100_000_000));
        let timer = self.once(delay, true);
        self.far.extend(timer);
    }

    /// Settles what has run, and looks for what is lost.
    fn look_through_open(&mut self) {
        let now = self.books.now();
        let mut index = 0;
        while let Some(&receipt) = self.open.get(index) {
            match self.books.fate(receipt) {
                Fate::Ran => {
                    self.open.swap_remove(index);
                    self.settle(receipt);
                    continue;
                }
                Fate::Dropped => {
                    self.books.fault("a task was dropped and nobody cancelled it".to_owned());
                    self.open.swap_remove(index);
                    continue;
                }
                Fate::Out if self.books.bound(receipt) + LOST < now => {
                    self.books.fault("a timer is lost".to_owned());
                    self.open.swap_remove(index);
                    continue;
                }
                Fate::Out => index += 1,
            }
        }
    }

    /// After the scheduler has stopped and all tasks were dropped: settles everything. Returns how
    /// many timers had not run.
    pub fn settle_all(&mut self) -> u64 {
        for connection in std::mem::take(&mut self.connections) {
            self.open.extend(connection.idle.map(|timer| timer.receipt));
            self.open.extend(connection.request.map(|timer| timer.receipt));
        }
        self.open.extend(self.far.drain(..).map(|timer| timer.receipt));
        let mut unrun = 0;
        for receipt in std::mem::take(&mut self.open) {
            match self.books.fate(receipt) {
                Fate::Ran => {}
                Fate::Dropped => unrun += 1,
                Fate::Out => self.books.fault("a task is gone, and not dropped".to_owned()),
            }
        }
        unrun
    }
}

impl crate::books::Token {
    /// Panics without a message on the terminal.
    fn panic(&self) {
        resume_unwind(Box::new("a task of the soak panics"));
    }
}

/// Marsaglia's xorshift.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}
