//! W17: what futures cost that wait for time: the processor time of making, moving and polling
//! them. None of the sleeps comes due, as most do not.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::producers::share;
use crate::record::{Case, Outcome};
use crate::sleeps::{Access, Sleeps};
use crate::timers::TIMEOUT;
use benches::process;

/// What is measured one after the other, by the names of the figures.
const STEPS: [&str; 4] = ["ns", "reset_ns", "poll_ns", "tick_ns"];

const PERIOD: Duration = Duration::from_nanos(100);
/// All ticks are due for longer than any timer rounds.
const OVERDUE: Duration = Duration::from_secs(2);

/// A waker like that of a task.
struct Bell(AtomicU64);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) fn measure<S: Sleeps>(case: &Case, outcome: &mut Outcome) {
    let sleeps = S::start();
    let threads = usize::try_from(case.producers).expect("there are few threads");
    let barrier = Barrier::new(threads + 1);
    let (times, done) = thread::scope(|scope| {
        let (sleeps, barrier) = (&sleeps, &barrier);
        let threads: Vec<_> = (0..case.producers)
            .map(|number| {
                let n = share(case.n, case.producers, number);
                scope.spawn(move || work(&sleeps.access(), n, barrier))
            })
            .collect();
        let times = STEPS.map(|_| {
            barrier.wait(); // all are ready
            let begin = process::cpu_time();
            barrier.wait(); // all are done
            process::cpu_time() - begin
        });
        let done = threads.into_iter().map(|it| it.join().expect("it does not panic"));
        (times, done.collect::<Vec<_>>())
    });
    let n = case.n as f64;
    let has_ticks = done.iter().all(|done| done.ticks.is_some());
    for (name, time) in STEPS.into_iter().zip(times) {
        if name != "tick_ns" || has_ticks {
            outcome.set(name, time.as_nanos() as f64 / n);
        }
    }
    let ready: u64 = done.iter().map(|done| done.ready).sum();
    outcome.check(ready == 0, || format!("{ready} polls found a sleep over that was not"));
    let ticks: u64 = done.iter().filter_map(|done| done.ticks).sum();
    outcome.check(!has_ticks || ticks == case.n, || format!("{ticks} ticks of {}", case.n));
    let woken: u64 = done.iter().map(|done| done.woken).sum();
    outcome.check(woken == 0, || format!("{woken} wake-ups, and nothing came due"));
}

struct Done {
    /// How often a sleep was ready that is not due.
    ready: u64,
    /// How often the task was woken, while nothing was due.
    woken: u64,
    /// How many ticks there were.
    ticks: Option<u64>,
}

fn work<A: Access>(access: &A, n: u64, barrier: &Barrier) -> Done {
    let bell = Arc::new(Bell(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&bell));
    let context = &mut Context::from_waker(&waker);
    // What the first use of a thread costs is not the question.
    (0..1_000.min(n)).for_each(|_| access.make_poll_drop(TIMEOUT, context));
    let mut ready = 0;
    timed(barrier, || (0..n).for_each(|_| access.make_poll_drop(TIMEOUT, context)));

    let mut sleep = access.sleep(TIMEOUT);
    let mut poll = |sleep: Pin<&mut A::Sleep>, context: &mut Context<'_>| {
        ready += u64::from(access.poll(sleep, context));
    };
    poll(sleep.as_mut(), context);
    timed(barrier, || {
        for _ in 0..n {
            access.reset(sleep.as_mut(), TIMEOUT);
            poll(sleep.as_mut(), context);
        }
    });
    timed(barrier, || (0..n).for_each(|_| poll(sleep.as_mut(), context)));
    drop(sleep);
    let woken = bell.0.load(Ordering::Relaxed);

    let periods = u32::try_from(n).expect("there are fewer ticks");
    let mut interval = access.interval(OVERDUE + PERIOD * periods, PERIOD);
    let mut ticks = interval.as_ref().map(|_| 0);
    timed(barrier, || {
        if let (Some(interval), Some(ticks)) = (&mut interval, &mut ticks) {
            (0..n).for_each(|_| *ticks += u64::from(access.tick(interval, context)));
        }
    });
    Done { ready, woken, ticks }
}

fn timed(barrier: &Barrier, work: impl FnOnce()) {
    barrier.wait();
    work();
    barrier.wait();
}
