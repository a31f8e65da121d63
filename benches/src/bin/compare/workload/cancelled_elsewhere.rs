//! W9: one thread schedules timers, and another one cancels them: a request is answered on a thread
//! that did not send it. They go over in batches, whose memory comes back, so that the way there is
//! not what is measured.

use std::sync::Barrier;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use benches::Xorshift;

use super::producers::{Cost, left_since};
use crate::callback::Recorder;
use crate::record::{Case, Outcome};
use crate::timers::{Producer, Timers};
use benches::process;

/// Handed over at once.
const BATCH: usize = 256;

/// Batches on the way.
const BATCHES: usize = 16;

/// When the other thread had cancelled all, when that had settled, and how many could not be.
struct Cancelled {
    end: Instant,
    settled: Instant,
    failed: u64,
}

pub(super) fn measure<T: Timers>(case: &Case, outcome: &mut Outcome) {
    let recorder = Recorder::count();
    let timers = T::start();
    let barrier = Barrier::new(2);
    let (full, to_cancel) = sync_channel::<Vec<T::Timer>>(BATCHES);
    let (empty, to_fill) = sync_channel(BATCHES);
    for _ in 0..BATCHES {
        empty.send(process::touched_vec(BATCH)).expect("there is room for them");
    }
    let (begin, cancelled, faults, left) = thread::scope(|scope| {
        let (timers, barrier) = (&timers, &barrier);
        let canceller = scope.spawn(move || {
            let mut producer = timers.producer();
            barrier.wait(); // everything is in place
            let cancelled = cancel_all(&mut producer, &to_cancel, &empty);
            barrier.wait(); // done
            barrier.wait(); // looked at, with both threads and what they own still there
            cancelled
        });
        let mut producer = timers.producer();
        let (memory, faults) = (process::resident(), process::page_faults());
        barrier.wait();
        let begin = Instant::now();
        schedule_all(&mut producer, case.n, recorder, &to_fill, full);
        barrier.wait();
        let faults = process::page_faults() - faults;
        let left = left_since(memory, case);
        barrier.wait();
        let cancelled = canceller.join().expect("the other thread does not panic");
        (begin, cancelled, faults, left)
    });
    let (wall, settled) = (cancelled.end - begin, cancelled.settled - begin);
    Cost { wall, settled, faults, left }.tell(case, outcome);
    let fired = recorder.calls();
    outcome.check(fired == 0, || format!("{fired} fired that were cancelled"));
    outcome.check(cancelled.failed == 0, || format!("{} cancels failed", cancelled.failed));
    if let Some(pending) = timers.pending() {
        outcome.check(pending == 0, || format!("{pending} still pending"));
    }
}

/// Hands over `n` timers, and hangs up.
fn schedule_all<P: Producer>(
    producer: &mut P,
    n: u64,
    recorder: &'static Recorder,
    to_fill: &Receiver<Vec<P::Timer>>,
    full: SyncSender<Vec<P::Timer>>,
) {
    let mut random = Xorshift::new(0);
    let mut left = n;
    while left > 0 {
        let mut batch = to_fill.recv().expect("the other thread is there until all is cancelled");
        let count = left.min(BATCH as u64);
        for _ in 0..count {
            batch.push(producer.schedule(random.far(), recorder.callback()));
        }
        full.send(batch).expect("the other thread is there until all is cancelled");
        left -= count;
    }
}

/// Cancels what comes, until the other end hangs up.
fn cancel_all<P: Producer>(
    producer: &mut P,
    to_cancel: &Receiver<Vec<P::Timer>>,
    empty: &SyncSender<Vec<P::Timer>>,
) -> Cancelled {
    let mut failed = 0;
    for mut batch in to_cancel {
        for timer in batch.drain(..) {
            failed += u64::from(!producer.cancel(timer));
        }
        // At the end the other thread needs no more of them.
        let _ = empty.send(batch);
    }
    let end = Instant::now();
    producer.settle();
    Cancelled { end, settled: Instant::now(), failed }
}
