//! The scheduler's hot paths. Each measurement checks what it did.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use benches::{Xorshift, together};
use criterion::{
    BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use lars_scheduler::{Cancellable, LightArrayRevolverScheduler};

fn scheduler() -> LightArrayRevolverScheduler {
    LightArrayRevolverScheduler::builder().inline().build().expect("the defaults are in range")
}

/// A timer that does nothing, and that nobody waits for.
fn far(scheduler: &LightArrayRevolverScheduler, delay: Duration) -> Cancellable {
    scheduler
        .schedule_once(delay, || {
            black_box(());
        })
        .expect("the scheduler is running")
}

/// Schedule timers that do not fire, and keep them: by number of producers.
fn schedule(c: &mut Criterion) {
    let mut group = c.benchmark_group("schedule");
    for producers in [1, 2, 4] {
        group.bench_function(BenchmarkId::from_parameter(producers), |b| {
            b.iter_custom(|count| {
                let scheduler = scheduler();
                let each = count.div_ceil(producers);
                let time = together(producers, |thread| {
                    let mut random = Xorshift::new(thread);
                    for _ in 0..each {
                        let _ = far(&scheduler, random.far());
                    }
                });
                assert_eq!(scheduler.pending(), each * producers);
                time
            });
        });
    }
    group.finish();
}

/// Schedule one timer 30 s ahead and cancel it at once: by number of producers.
fn schedule_and_cancel(c: &mut Criterion) {
    let mut group = c.benchmark_group("schedule_and_cancel");
    for producers in [1, 2, 4] {
        group.bench_function(BenchmarkId::from_parameter(producers), |b| {
            let scheduler = scheduler();
            b.iter_custom(|count| {
                let each = count.div_ceil(producers);
                let time = together(producers, |thread| {
                    for number in 0..each {
                        let timer = scheduler
                            .schedule_once(Duration::from_secs(30), move || {
                                black_box((thread, number));
                            })
                            .expect("the scheduler is running");
                        assert!(timer.cancel());
                    }
                });
                assert_eq!(scheduler.pending(), 0);
                time
            });
        });
    }
    group.finish();
}

/// Cancel timers that have been taken in and placed: by number of threads that do.
fn cancel(c: &mut Criterion) {
    let mut group = c.benchmark_group("cancel");
    for threads in [1, 2, 4] {
        group.bench_function(BenchmarkId::from_parameter(threads), |b| {
            let scheduler = scheduler();
            b.iter_custom(|count| {
                let each = count.div_ceil(threads);
                let mut random = Xorshift::new(0);
                let kept: Vec<_> = (0..threads)
                    .map(|_| {
                        let timers = (0..each).map(|_| far(&scheduler, random.far()));
                        Mutex::new(timers.collect::<Vec<_>>())
                    })
                    .collect();
                let time = together(threads, |thread| {
                    let mut timers = kept[thread as usize].lock().expect("nobody panics");
                    for timer in timers.drain(..) {
                        assert!(timer.cancel());
                    }
                });
                assert_eq!(scheduler.pending(), 0);
                time
            });
        });
    }
    group.finish();
}

/// A ring of 10,000 request timeouts: each step cancels the oldest and schedules a new one.
fn request_timeouts(c: &mut Criterion) {
    c.bench_function("request_timeouts/10000", |b| {
        let scheduler = scheduler();
        let timeout = || far(&scheduler, Duration::from_secs(30));
        let mut ring: VecDeque<_> = (0..10_000).map(|_| timeout()).collect();
        b.iter(|| {
            let oldest = ring.pop_front().expect("the ring is full");
            assert!(oldest.cancel());
            ring.push_back(timeout());
        });
        assert_eq!(scheduler.pending(), 10_000);
    });
}

/// 10,000 idle timeouts: each step moves one of them to 30 s from now.
fn reset(c: &mut Criterion) {
    c.bench_function("reset/10000", |b| {
        let scheduler = scheduler();
        let timeout = Duration::from_secs(30);
        let timers: Vec<_> = (0..10_000).map(|_| far(&scheduler, timeout)).collect();
        let mut turn = timers.iter().cycle();
        b.iter(|| assert!(turn.next().expect("there are timers").reset(timeout)));
        assert_eq!(scheduler.pending(), 10_000);
    });
}

/// Everything from the call to the run, in virtual time: take in, place, cascade, fire.
fn turn(c: &mut Criterion) {
    const TIMERS: u64 = 100_000;
    let mut group = c.benchmark_group("turn");
    group.throughput(Throughput::Elements(TIMERS)).sample_size(20);
    for (name, spread) in [("one_moment", 1), ("one_second", 1_000), ("one_hour", 3_600_000)] {
        group.bench_function(name, |b| {
            b.iter_custom(|count| {
                let mut total = Duration::ZERO;
                for _ in 0..count {
                    let time = LightArrayRevolverScheduler::builder()
                        .tick_duration(Duration::from_millis(1))
                        .build_virtual()
                        .expect("the settings are in range");
                    let fired = Arc::new(AtomicU64::new(0));
                    let mut random = Xorshift::new(0);
                    for _ in 0..TIMERS {
                        let fired = Arc::clone(&fired);
                        let delay = Duration::from_millis(1 + random.number() % spread);
                        let _ = time
                            .schedule_once(delay, move || {
                                fired.fetch_add(1, Ordering::Relaxed);
                            })
                            .expect("the scheduler is running");
                    }
                    let start = Instant::now();
                    time.advance(Duration::from_secs(3_600));
                    total += start.elapsed();
                    assert_eq!(fired.load(Ordering::Relaxed), TIMERS);
                }
                total
            });
        });
    }
    group.finish();
}

/// A timer from the call to the run in virtual time, while the cancellables of `kept` fired timers
/// are held: each new one takes the place of the oldest.
fn kept_cancellables(c: &mut Criterion) {
    let mut group = c.benchmark_group("kept_cancellables");
    for kept in [1_000, 100_000, 1_000_000] {
        group.bench_function(BenchmarkId::from_parameter(kept), |b| {
            let time = LightArrayRevolverScheduler::builder()
                .inline()
                .build_virtual()
                .expect("the defaults are in range");
            let short = Duration::from_micros(1);
            let mut ring: Vec<Option<Cancellable>> = (0..kept).map(|_| None).collect();
            let mut next = 0;
            let mut step = || {
                ring[next % kept] = Some(
                    time.schedule_once(short, || {
                        black_box(());
                    })
                    .expect("it is running"),
                );
                next += 1;
                if next % 1000 == 0 {
                    assert_eq!(time.advance(short), 1000);
                }
            };
            (0..2 * kept).for_each(|_| step());
            b.iter(step);
        });
    }
    group.finish();
}

/// A movement of virtual time by one tick in which nothing is due: over an empty wheel, and over a
/// full one. The latter is mostly the search for the next deadline, through all timers of the first
/// slot; the timer thread makes do with the slot's beginning.
fn virtual_tick(c: &mut Criterion) {
    const DAY: u64 = 24 * 3_600;
    let mut group = c.benchmark_group("virtual_tick");
    for pending in [0, 1_000_000] {
        group.bench_function(BenchmarkId::from_parameter(pending), |b| {
            let time = LightArrayRevolverScheduler::builder()
                .tick_duration(Duration::from_millis(1))
                .build_virtual()
                .expect("the settings are in range");
            let mut random = Xorshift::new(0);
            for _ in 0..pending {
                // Further than any number of iterations gets.
                let delay = Duration::from_secs(DAY * 30 + random.number() % (DAY * 365));
                let _ = time.schedule_once(delay, || ()).expect("the scheduler is running");
            }
            b.iter(|| assert_eq!(time.advance(Duration::from_millis(1)), 0));
            assert_eq!(time.pending(), pending);
        });
    }
    group.finish();
}

/// Many timers that are due at one moment, on the timer thread: from that moment to the last.
fn burst(c: &mut Criterion) {
    const TIMERS: u64 = 100_000;
    const LEAD: Duration = Duration::from_millis(100);
    let mut group = c.benchmark_group("burst");
    group.throughput(Throughput::Elements(TIMERS)).sample_size(10);
    // Most of the time is spent before the burst, where it is not measured: few iterations have to
    // do.
    group.sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_millis(50));
    group.bench_function(BenchmarkId::from_parameter(TIMERS), |b| {
        let scheduler = scheduler();
        b.iter_custom(|count| {
            let mut total = Duration::ZERO;
            for _ in 0..count {
                let (done, wait) = channel();
                let left = Arc::new(AtomicU64::new(TIMERS));
                let due = Instant::now() + LEAD;
                for _ in 0..TIMERS {
                    let (left, done) = (Arc::clone(&left), done.clone());
                    let task = move || {
                        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                            let _ = done.send(Instant::now());
                        }
                    };
                    let _ = scheduler.schedule_at(due, task).expect("the scheduler is running");
                }
                // On a machine that is busy, scheduling may take longer than the lead.
                let begin = due.max(Instant::now());
                let last = wait.recv().expect("all of them run");
                assert!(last >= due);
                total += last.saturating_duration_since(begin);
            }
            total
        });
    });
    group.finish();
}

criterion_group!(
    benches,
    schedule,
    cancel,
    schedule_and_cancel,
    request_timeouts,
    reset,
    virtual_tick,
    turn,
    kept_cancellables,
    burst
);
criterion_main!(benches);
