//! What several of the test files need.
#![allow(dead_code)] // each file uses a part of it

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lars_scheduler::executor::{Rejected, Runnable};
use lars_scheduler::{Executor, Handle, LightArrayRevolverScheduler, Task, VirtualTime};

/// How long a test waits for what has to happen. It is no measure of lateness: it only ends a test
/// that would otherwise hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// `full`, or `small` under an interpreter that is a thousand times slower.
pub(crate) fn scaled(full: usize, small: usize) -> usize {
    if cfg!(miri) { small } else { full }
}

/// How many times as long as usual the long tests are to take.
pub(crate) fn stress() -> u32 {
    std::env::var("LARS_STRESS").map_or(1, |times| {
        times
            .parse()
            .unwrap_or_else(|_| panic!("LARS_STRESS is {times:?}, but it must be a number"))
    })
}

/// Virtual time with the default tick of 1 ns.
pub(crate) fn virtual_time() -> VirtualTime {
    LightArrayRevolverScheduler::builder().build_virtual().unwrap()
}

/// Virtual time with a tick and a wheel of the test's choice.
pub(crate) fn ticked(tick: Duration, wheel: usize) -> VirtualTime {
    LightArrayRevolverScheduler::builder()
        .tick_duration(tick)
        .ticks_per_wheel(wheel)
        .build_virtual()
        .unwrap()
}

/// A shared list of what happened, in order.
#[derive(Debug)]
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Notes<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    pub(crate) fn add(&self, note: T) {
        self.0.lock().unwrap().push(note);
    }

    /// Takes out what has been noted so far.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Says when it is dropped.
#[derive(Debug)]
pub(crate) struct Captive(Notes<&'static str>, &'static str);

impl Captive {
    pub(crate) fn new(notes: &Notes<&'static str>, farewell: &'static str) -> Self {
        Self(notes.clone(), farewell)
    }
}

impl Drop for Captive {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// An executor that keeps what it is given until the test runs it: a run can wait in a queue, and,
/// because the test may move the time from inside it, take as long as the test likes.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByHand(Arc<Mutex<VecDeque<Runnable>>>);

impl Executor for ByHand {
    fn execute(&self, task: Runnable) -> Result<(), Rejected> {
        self.0.lock().unwrap().push_back(task);
        Ok(())
    }
}

impl ByHand {
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Runs the oldest task, if there is one; says whether there was.
    pub(crate) fn run_next(&self) -> bool {
        let next = self.0.lock().unwrap().pop_front();
        next.map(Runnable::run).is_some()
    }

    /// Takes the oldest task out, if there is one.
    pub(crate) fn take_next(&self) -> Option<Runnable> {
        self.0.lock().unwrap().pop_front()
    }

    /// Drops all tasks unrun.
    pub(crate) fn abandon(&self) -> usize {
        let tasks = std::mem::take(&mut *self.0.lock().unwrap());
        tasks.len()
    }
}

/// A waker that counts.
#[derive(Debug, Default)]
pub(crate) struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self::default());
        (Arc::clone(&bell), Waker::from(bell))
    }

    /// How often it was woken.
    pub(crate) fn rung(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Like `assert_eq!` for lists that are too long to print: says where they first differ.
#[track_caller]
pub(crate) fn assert_same<T: PartialEq + Debug>(
    found: impl IntoIterator<Item = T>,
    expected: impl IntoIterator<Item = T>,
) {
    let found: Vec<_> = found.into_iter().collect();
    let expected: Vec<_> = expected.into_iter().collect();
    let same = found.iter().zip(&expected).take_while(|(one, other)| one == other).count();
    assert!(
        same == found.len() && same == expected.len(),
        "{} found and {} expected; the first difference is number {same}: {:?}, and not {:?}",
        found.len(),
        expected.len(),
        found.get(same),
        expected.get(same),
    );
}

/// Sets something up in real time that has to be ready before the lead has passed. An attempt that
/// was too slow returns `None`, and the next one gets twice as much time.
pub(crate) fn in_lead<T>(mut attempt: impl FnMut(Duration) -> Option<T>) -> T {
    let mut lead = ms(20);
    loop {
        if let Some(done) = attempt(lead) {
            return done;
        }
        lead *= 2;
    }
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "in vain waited for: {what}");
        thread::sleep(ms(1));
    }
}

/// Occupies the timer thread until the sender that this returns is dropped.
pub(crate) fn occupy(timers: &Handle) -> Sender<()> {
    let (release, hold) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    let task = Task::new(move || {
        entered.send(()).unwrap();
        let _ = hold.recv();
    });
    let _ = timers.schedule_once(Duration::ZERO, task.inline()).unwrap();
    inside.recv_timeout(PATIENCE).unwrap();
    release
}

/// Returns when the timer thread has dealt with what this thread scheduled and cancelled before.
pub(crate) fn settle(timers: &Handle) {
    let (done, wait) = mpsc::channel();
    let task = Task::new(move || done.send(()).unwrap()).inline();
    let _ = timers.schedule_once(Duration::ZERO, task).unwrap();
    wait.recv_timeout(PATIENCE).unwrap();
}

/// A small generator: the same numbers in every run.
#[derive(Debug, Clone)]
pub(crate) struct Xorshift(pub(crate) u64);

impl Xorshift {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number of up to this many bits, small and large ones alike.
    pub(crate) fn magnitude(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits);
        self.below(1 << bits)
    }
}
