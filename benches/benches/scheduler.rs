//! The scheduler's hot paths. Each measurement checks what it did.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use benches::{Xorshift, together};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lars_scheduler::LightArrayRevolverScheduler;

fn scheduler() -> LightArrayRevolverScheduler {
    LightArrayRevolverScheduler::builder().inline().build().expect("the defaults are in range")
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
                        let _ = scheduler
                            .schedule_once(random.far(), || {
                                black_box(());
                            })
                            .expect("the scheduler is running");
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

/// A ring of 10,000 request time-outs: each step cancels the oldest and schedules a new one.
fn request_timeouts(c: &mut Criterion) {
    c.bench_function("request_timeouts/10000", |b| {
        let scheduler = scheduler();
        let timeout = || {
            scheduler
                .schedule_once(Duration::from_secs(30), || {
                    black_box(());
                })
                .expect("the scheduler is running")
        };
        let mut ring: VecDeque<_> = (0..10_000).map(|_| timeout()).collect();
        b.iter(|| {
            let oldest = ring.pop_front().expect("the ring is full");
            assert!(oldest.cancel());
            ring.push_back(timeout());
        });
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
                    let start = std::time::Instant::now();
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

criterion_group!(benches, schedule, schedule_and_cancel, request_timeouts, turn);
criterion_main!(benches);
