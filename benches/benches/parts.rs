//! What the scheduler is made of, each part alone: the intake and the wheel.
#![allow(clippy::disallowed_methods, missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use benches::{Xorshift, together};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lars_scheduler::bench::{Intake, Wheel};

const MILLISECOND: Duration = Duration::from_millis(1);
/// Fits the caches, so that a push is measured and not the memory.
const ENTRIES: usize = 4_096;

/// A push alone: all producers into one intake, which a scheduler avoids by its lanes.
fn intake_push(c: &mut Criterion) {
    let mut group = c.benchmark_group("intake_push");
    for producers in [1, 2, 4] {
        group.bench_function(BenchmarkId::from_parameter(producers), |b| {
            let each = ENTRIES / producers as usize;
            let mut intake = Intake::new(producers as usize, each);
            b.iter_custom(|count| {
                let rounds = count.div_ceil(ENTRIES as u64);
                let mut total = Duration::ZERO;
                for _ in 0..rounds {
                    total += together(producers, |producer| intake.produce(producer as usize));
                    assert_eq!(intake.consume(), ENTRIES);
                }
                total.mul_f64(count as f64 / (rounds * ENTRIES as u64) as f64)
            });
        });
    }
    group.finish();
}

/// What the driver pays to pop them.
fn intake_pop(c: &mut Criterion) {
    let mut group = c.benchmark_group("intake_pop");
    group.throughput(Throughput::Elements(ENTRIES as u64));
    group.bench_function(BenchmarkId::from_parameter(ENTRIES), |b| {
        let mut intake = Intake::new(1, ENTRIES);
        b.iter_custom(|count| {
            let mut total = Duration::ZERO;
            for _ in 0..count {
                intake.produce(0);
                let start = Instant::now();
                let popped = intake.consume();
                total += start.elapsed();
                assert_eq!(popped, ENTRIES);
            }
            total
        });
    });
    group.finish();
}

fn wheel() -> Wheel {
    Wheel::new(MILLISECOND, 512, ENTRIES)
}

/// Into the array (within 512 ms), onto the first level above it, and far out.
fn wheel_insert(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel_insert");
    group.throughput(Throughput::Elements(ENTRIES as u64));
    for (name, from, to) in
        [("array", 1, 500), ("first_level", 1_000, 15_000), ("hours", 3_600_000, 36_000_000)]
    {
        group.bench_function(name, |b| {
            let mut random = Xorshift::new(0);
            let deadlines: Vec<_> = (0..ENTRIES)
                .map(|_| Duration::from_millis(from + random.number() % (to - from)))
                .collect();
            let insert = |mut wheel: Wheel| {
                for &deadline in &deadlines {
                    wheel.insert(deadline);
                }
                wheel
            };
            b.iter_batched(wheel, insert, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// One slot of the first level, moved down into the array without anything coming due.
fn wheel_cascade(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel_cascade");
    group.throughput(Throughput::Elements(ENTRIES as u64));
    group.bench_function(BenchmarkId::from_parameter(ENTRIES), |b| {
        let filled = || {
            let mut wheel = wheel();
            // A slot of the first level spans half of the array: this one begins at tick 1,024.
            (0..ENTRIES).for_each(|number| {
                wheel.insert(Duration::from_millis(1_025 + number as u64 % 255));
            });
            wheel
        };
        let cascade = |mut wheel: Wheel| {
            assert_eq!(wheel.advance(Duration::from_millis(1_024)), 0);
            wheel
        };
        b.iter_batched(filled, cascade, BatchSize::PerIteration);
    });
    group.finish();
}

/// Timers that come due, all in one slot and one in each; and a step of the clock at which nothing
/// does.
fn wheel_expire(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel_expire");
    group.throughput(Throughput::Elements(ENTRIES as u64));
    for (name, spread) in [("one_slot", 1), ("all_slots", 500)] {
        group.bench_function(name, |b| {
            let filled = || {
                let mut wheel = wheel();
                for number in 0..ENTRIES as u64 {
                    wheel.insert(Duration::from_millis(1 + number % spread));
                }
                wheel
            };
            let expire = |mut wheel: Wheel| {
                assert_eq!(wheel.advance(Duration::from_millis(500)), ENTRIES);
                wheel
            };
            b.iter_batched(filled, expire, BatchSize::PerIteration);
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("empty_tick", |b| {
        let mut wheel = wheel();
        wheel.insert(Duration::from_secs(1_000_000_000));
        let mut now = Duration::ZERO;
        b.iter(|| {
            now += MILLISECOND;
            black_box(wheel.advance(now))
        });
    });
    group.finish();
}

criterion_group!(benches, intake_push, intake_pop, wheel_insert, wheel_cascade, wheel_expire);
criterion_main!(benches);
